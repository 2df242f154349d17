"""Runs to submit: journals as the tool writes them, of a suite of 32 prompts, without a model or a clock."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from runs import ARMS, GREEDY, cell, steps

from xpress_bench.journals import Record, to_line
from xpress_bench.measure.schedule import schedule
from xpress_bench.publish import checks
from xpress_bench.publish.bundle import Declaration
from xpress_bench.publish.checks.submission import Submission, headline
from xpress_bench.records import JOURNAL, Cell, Footer, Header, Launch, Memory, Replay, Run
from xpress_bench.suites import Item, Suite

SUITE = Suite("qa", "1.0.0", "3f9a12" + "0" * 58, tuple(Item(f"p{p}", "?", category=f"c{p % 2}") for p in range(32)))
STOP = 2
GIT = {"commit": "a" * 40, "dirty": False, "reason": None}
SPEED = {"direct": 1.0, "draft": 1.25, "refine": 2.0}
NAMES = tuple(SPEED)
# Readings around a launch that had two CPUs for itself: 10 busy seconds of its own and 10 idle ones.
BEFORE = dict.fromkeys(("cpu_busy_s", "cpu_idle_s", "cpu_stolen_s", "own_cpu_s"), 0.0)
AFTER = BEFORE | {"cpu_busy_s": 10.0, "cpu_idle_s": 10.0, "own_cpu_s": 10.0}
BOARD = {"gpu_throttle_reasons": [], "gpu_foreign_processes": 0}


def header(**changes: object) -> Header:
    plain = Header(
        run="2026-01-31T12-00-00Z-qa-7c1f",
        created_utc="2026-01-31T12:00:00+00:00",
        argv=("--suite", "qa", "profile=paper"),
        settings={"suite": "qa", "seeds": [0], "repeats": 2, "launches": 5, "batch_size": 1, "threads": 2}
        | {part: {"name": part} for part in ("target", "drafter", "refiner")}
        | {"limit": None, "turns": None, "max_new_tokens": None},
        settings_sha256="0" * 64,
        suite={"name": SUITE.name, "version": "1.0.0", "sha256": SUITE.sha256, "items": 32, "selected": 32}
        | {"parity_margin": None, "scorers": {}, "report_by": "category"},
        target={"name": "embedded", "parameters": 7_100_000, "dtype": "float32", "device": "cpu"}
        | {"stop_ids": [STOP], "weights_sha256": "b" * 64},
        arms=ARMS,
        conditions=(GREEDY,),
        prompts=tuple(item.id for item in SUITE.items),
        skipped=(),
        versions={"xpress-bench": "0.1.0"},
        git=GIT,
        machine={"hard": {"cpu_model": "Some CPU", "torch_threads": 2}, "soft": {"host": "c0ffee"}, "reasons": {}},
        profile="paper",
        in_process=False,
    )
    return replace(plain, **changes)


def records(head: Header | None = None, speed: dict[str, float] = SPEED, seed: int = 0) -> list[Record]:
    """A run whose arms are so many times faster than direct, give or take 1 %, as its header asks for it."""
    head, noise = head or header(), np.random.default_rng(seed)
    found: list[Record] = [head]
    names = [arm.name for arm in head.arms]
    board = BOARD if head.target["device"].startswith("cuda") else {}
    for launch in range(head.settings["launches"]):
        machine = {**head.machine, "git": head.git, "before": BEFORE | board}
        found.append(Launch(launch, "started", head.created_utc, 0, machine))
        prompts = [(prompt, 1) for prompt in head.prompts]
        for slot in schedule(names, head.conditions, prompts, head.settings["seeds"], head.settings["repeats"], launch):
            one = answer(slot.arm, slot.prompt, launch=launch, repeat=slot.repeat, order=slot.order, seed=slot.seed)
            latency_s = math.exp(noise.normal(0, 0.01)) / speed[slot.arm]
            found.append(replace(one, condition=slot.condition, latency_s=latency_s, ttft_s=latency_s / 10))
        found.append(Launch(launch, "ended", head.created_utc, 0, {"after": AFTER | board}))
    found += [Memory(name, "process_peak_rss", 432 * 2**20, device_uuid="GPU-1") for name in names]
    return [*found, Footer(sum(isinstance(one, Cell) for one in found), 0, True, 1.0)]


def answer(arm: str, prompt: str, **changes: object) -> Cell:
    """Eight ids and the stop id; by verify steps that accept 2 of 3, 2 of 3 and 1 of 1 drafts, unless direct."""
    own = {} if arm == "direct" else {"steps": steps([2, 2, 1], offered=[3, 3, 1])}
    return cell(arm, prompt, ids=(5, 6, 7, 8, 9, 10, 11, 12, STOP), **own, **changes)


def write(folder: Path, lines: list[Record] | None = None) -> Path:
    """A run folder with this journal."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / JOURNAL).write_text("".join(to_line(one) + "\n" for one in lines or records()), encoding="utf-8")
    return folder


def run_of(lines: list[Record]) -> Run:
    """The same as it is read back."""
    of = {kind: tuple(one for one in lines if isinstance(one, kind)) for kind in (Cell, Memory, Replay, Launch, Footer)}
    footer = of[Footer][-1] if of[Footer] else None
    return Run(lines[0], of[Cell], of[Memory], of[Replay], footer, Path("runs/r1"), launches=of[Launch])


def submission(lines: list[Record]) -> Submission:
    """A submission that declares what its journal gives, if that can be computed."""
    one = Submission(run_of(lines), Declaration("ours", None, None, "0.1.0", (), {}))
    try:
        return replace(one, declaration=replace(one.declaration, headline=headline(one.summary)))
    except Exception:  # a test breaks a journal in this way on purpose
        return one


def use_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `SUITE` be the one suite of the package."""
    monkeypatch.setattr(checks.submission, "known_suites", lambda: {(SUITE.name, SUITE.sha256): SUITE})
