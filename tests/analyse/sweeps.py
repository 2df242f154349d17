"""Fake sweeps for tests: a folder with a plan and the journals of its jobs, without a model or a clock."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from runs import ARMS, grid, run, steps

from xpress_bench.analyse.sweep_plan import ENDED, JOBS, PLAN, Plan
from xpress_bench.journals import to_line
from xpress_bench.records import JOURNAL, Run


def plan(
    factors: Mapping[str, tuple[str, ...]], base: Mapping[str, str], grid: bool = False, counts: bool = False
) -> Plan:
    return Plan(("--suite", "qa"), "a" * 64, dict(base), dict(factors), grid, counts, rounds=1 if counts else 2)


def begin(folder: Path, made: Plan) -> Path:
    (folder / JOBS).mkdir(parents=True)
    (folder / PLAN).write_text(json.dumps(asdict(made)), encoding="utf-8")
    return folder


def job(folder: Path, name: str, measured: Run | None = None, ended: str | None = "") -> None:
    """One job, twice the same: its journal if it wrote one, and how it ended."""
    for round_ in (name, f"{name}-round-2"):
        one_run(folder, round_, measured, ended)


def one_run(folder: Path, name: str, measured: Run | None, ended: str | None = "") -> None:
    """One of them."""
    if measured:
        (folder / name).mkdir()
        records = (measured.header, *measured.cells, *([measured.footer] if measured.footer else []))
        (folder / name / JOURNAL).write_text("".join(f"{to_line(one)}\n" for one in records), encoding="utf-8")
    if ended is not None:
        (folder / JOBS / f"{name}.{ENDED}").write_text(ended, encoding="utf-8")


def timed(speed: float, seed: int, slowness: float = 1.0, sd: float = 0.01, prompts: int = 32) -> Run:
    """refine is `speed` times as fast as direct, give or take `sd`, on a machine that is as slow as `slowness`."""
    noise = np.random.default_rng(seed).normal(0, sd, size=(2, prompts))
    arms = {"direct": 1.0, "refine": speed}
    cells = grid(
        lambda arm, p: slowness * (1 + p) * math.exp(noise[list(arms).index(arm), p]) / arms[arm], prompts, arms
    )
    cells = [replace(one, steps=steps([2, 1, 0], offered=4)) if one.arm == "refine" else one for one in cells]
    return run(cells, arms=(ARMS[0], ARMS[2]))


def counted(accepted: Mapping[str, list[int]], offered: int = 7) -> Run:
    """Nothing timed; per prompt what each verify step accepted."""
    cells = [
        replace(one, latency_s=None, steps=steps(accepted[one.prompt], offered) if one.arm == "refine" else one.steps)
        for one in grid(lambda arm, p: 1.0, len(accepted), ("direct", "refine"))
    ]
    return run(cells, arms=(ARMS[0], ARMS[2]))
