"""Fake runs for the tests of analysis: a journal made from lists, without a model or a clock."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from xpress_bench.records import Arm, Cell, Condition, Footer, Header, Memory, Replay, Run, Skipped, Steps

GREEDY = Condition(0.0, "greedy")
COUPLED = Condition(0.7, "coupled")
COMPLETE = Footer(cells=0, errors=0, complete=True, seconds=1.0)
REJECTION = Condition(0.7, "rejection")
ARMS = (
    Arm("direct", None, None, None, None, None),
    Arm("draft", "dflash", None, 8, 1, None),
    Arm("refine", "dflash", "xpress", 8, 1, 4),
)
SPEED = {"direct": 1.0, "draft": 1.25, "refine": 2.0}


@dataclass(frozen=True)
class Item:
    id: str
    references: tuple[str, ...] = ()
    answer_type: str = "exact"
    category: str = "qa"


def cell(arm: str, prompt: str = "p0", latency_s: float | None = 1.0, **changes: Any) -> Cell:
    plain = Cell(
        launch=0,
        prompt=prompt,
        seed=0,
        arm=arm,
        repeat=0,
        order=0,
        condition=GREEDY,
        prompt_tokens=3,
        prompt_sha256=prompt,
        ids=(1, 2, 3),
        text="x",
        stop_reason="eos",
        latency_s=latency_s,
    )
    return replace(plain, **changes)


def failed(arm: str, prompt: str = "p0", error: str = "CUDA out of memory", **changes: Any) -> Cell:
    return cell(arm, prompt, None, ids=(), text="", stop_reason=None, error=error, **changes)


def steps(accepted: Sequence[int], offered: Sequence[int] | int = 7, committed: Sequence[int] | None = None) -> Steps:
    """Verify steps; committed is accepted + 1 unless given."""
    return Steps(
        offered=tuple([offered] * len(accepted) if isinstance(offered, int) else offered),
        accepted=tuple(accepted),
        committed=tuple(committed if committed is not None else [a + 1 for a in accepted]),
    )


def grid(
    latency_s: Callable[[str, int], float],
    prompts: int = 32,
    arms: Iterable[str] = ("direct", "draft", "refine"),
    seeds: int = 1,
    repeats: int = 1,
    **changes: Any,
) -> list[Cell]:
    """A full design; `latency_s(arm, prompt index)` is the time of every repeat."""
    design = itertools.product(range(prompts), range(seeds), range(repeats), enumerate(arms))
    return [
        cell(arm, f"p{p}", latency_s(arm, p), seed=seed, repeat=repeat, order=order, **changes)
        for p, seed, repeat, (order, arm) in design
    ]


def study() -> list[Cell]:
    """32 prompts on which draft is 1.25 and refine twice as fast as direct, give or take 1 %."""
    noise = np.random.default_rng(7).normal(0, 0.01, size=(len(SPEED), 32))
    return grid(lambda arm, p: (1 + p) * math.exp(noise[list(SPEED).index(arm), p]) / SPEED[arm])


def exact_study() -> list[Cell]:
    """The same without noise, three repeats, and verify steps that accept 2, 1 and 0 of 4 drafts."""
    cells = grid(lambda arm, p: (1 + p) / SPEED[arm], repeats=3)
    return [replace(c, steps=steps([2, 1, 0], offered=4)) if c.arm != "direct" else c for c in cells]


def run(
    cells: Sequence[Cell],
    *,
    memory: Sequence[Memory] = (),
    replays: Sequence[Replay] = (),
    footer: Footer | None = COMPLETE,
    arms: Sequence[Arm] = ARMS,
    suite: dict[str, Any] | None = None,
    skipped: Sequence[Skipped] = (),
) -> Run:
    """A journal around cells; arms, seeds, repeats and launches are those that occur in them."""
    prompts = tuple(dict.fromkeys(c.prompt for c in cells))
    present = {c.arm for c in cells}
    header = Header(
        run="r1",
        created_utc="2026-01-31T12:00:00Z",
        argv=(),
        settings={
            "seeds": sorted({c.seed for c in cells}),
            "repeats": len({c.repeat for c in cells}),
            "launches": len({c.launch for c in cells}),
            "threads": 2,
            "suite": "qa",
            "target": {"name": "embedded"},
            "drafter": {"name": "dflash"},
            "refiner": {"name": "xpress"},
        },
        settings_sha256="0" * 64,
        suite={"name": "qa", "sha256": "3f9a12" + "0" * 58, "items": len(prompts), "selected": len(prompts)}
        | {"parity_margin": 0.02, "scorers": {}}
        | (suite or {}),
        target={"name": "embedded", "parameters": 7_100_000, "dtype": "float32", "device": "cpu"},
        arms=tuple(arm for arm in arms if arm.name in present),
        conditions=tuple(dict.fromkeys(c.condition for c in cells)),
        prompts=prompts,
        skipped=tuple(skipped),
        versions={"xpress-bench": "0.1.0"},
        git={},
        machine={},
        profile="quick",
        in_process=False,
    )
    return Run(header, tuple(cells), tuple(memory), tuple(replays), footer, Path("runs/r1"))


def figures(summary):
    """All that a summary can be asked for."""
    of_arms = ("requests", "latency_s", "tokens_per_s", "tokens_per_step", "acceptance", "stages", "cost")
    asked = (*of_arms, "memory", "parity", "score")
    return [
        (of.condition, of.speed_ups, of.stability, [[getattr(one, name) for name in asked] for one in of.arms])
        for of in summary.conditions
    ]
