"""Where the time of an arm goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xpress_bench.analyse.intervals import Unknown
from xpress_bench.analyse.reduce import Cells
from xpress_bench.records import Cell

UNRELIABLE_FROM = 0.05  # share of the latency that the parts may miss before the split is called unreliable


@dataclass(frozen=True, slots=True)
class Stages:
    """Seconds per verify step, pooled over requests; the five parts add up to the latency per step if `reliable`."""

    steps: int
    prefill_s: float
    draft_s: float
    refine_s: float
    verify_s: float
    rest_s: float
    reliable: bool

    @property
    def step_s(self) -> float:
        """Draft, refine and verify of one step: what the stages cost without prefill and harness."""
        return self.draft_s + self.refine_s + self.verify_s


def stages(cells: Sequence[Cell]) -> Stages | Unknown:
    """Stage times of one arm; Unknown without verify steps or without stage times."""
    cells = Cells.of(cells)
    timed = ~np.isnan(cells.latency_s + cells.tallied("verify_s"))
    steps = int(cells.tallied("steps")[timed].sum())
    if not steps:
        return Unknown("no verify step was timed")
    parts = {name: float(np.nansum(cells.column(name)[timed])) for name in ("prefill_s", "rest_s")}
    parts |= {name: float(cells.tallied(name)[timed].sum()) for name in ("draft_s", "refine_s", "verify_s")}
    latency_s = float(cells.latency_s[timed].sum())
    reliable = abs(sum(parts.values()) - latency_s) <= UNRELIABLE_FROM * latency_s
    return Stages(steps, reliable=reliable, **{name: value / steps for name, value in parts.items()})
