"""Fake load runs, made from lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import runs

from xpress_bench.load_records import Asked, Load, Mark, Plan, Policy, Stage, Unit
from xpress_bench.records import Arm

STAGE = Stage("2 clients", clients=2, seconds=40.0)
ARMS = (Arm("direct", None, None, None, None, None), Arm("draft", "dflash", None, 8, 1, None))


def asked(index: int = 0, arrival_s: float = 0.0, latency_s: float = 1.0, **changes: Any) -> Asked:
    """A request that was started at once, got a token after half its time and one more at its end."""
    plain = Asked(
        stage=STAGE.name,
        arm="direct",
        repeat=0,
        index=index,
        prompt=f"p{index}",
        seed=0,
        status="ok",
        arrival_s=arrival_s,
        ended_s=arrival_s + latency_s,
        attempts=1,
        started_s=arrival_s,
        first_s=arrival_s + latency_s / 2,
        tokens=2,
        gaps_s=(latency_s / 2,),
        delivered=(1, 1),
        output=f"ids:{index}",
    )
    return replace(plain, **changes)


def steady(count: int = 40, every_s: float = 1.0, latency_s: float = 1.0, **changes: Any) -> list[Asked]:
    """So many requests, one each `every_s`."""
    return [asked(index, every_s * index, latency_s, **changes) for index in range(count)]


def load(units: Mapping[Unit, Sequence[Asked]], marks: Mapping[Unit, Mark] | None = None, **changes: Any) -> Load:
    """A load run of these units; each has ended, unless it has another mark."""
    ended = {
        unit: Mark(*unit, "ended", "2026-01-31T12:00:00+00:00", asked=len(requests)) for unit, requests in units.items()
    }
    moved = {
        unit: tuple(replace(one, stage=unit[0], arm=unit[1], repeat=unit[2]) for one in requests)
        for unit, requests in units.items()
    }
    plan = Plan((STAGE,), 1 + max((unit[2] for unit in units), default=0), Policy(30.0, rows=4))
    header = replace(runs.run(runs.study()).header, arms=ARMS)
    return Load(Path("runs/l1"), replace(plan, **changes), header, ended | dict(marks or {}), moved)
