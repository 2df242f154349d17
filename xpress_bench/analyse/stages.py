"""Where the time of an arm goes, and how much of what its stages promise is delivered."""

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


def efficiency(direct: Sequence[Cell], arm: Sequence[Cell], split: Stages | Unknown) -> float | Unknown:
    """Measured over predicted speed-up, each from pooled seconds per output token.

    Predicted: direct's decoding seconds per token times tokens per step, over seconds of draft, refine and verify per
    step (Leviathan et al. 2023 with measured costs). Below 1 the rest is lost to prefill and to work between stages.
    """
    if isinstance(split, Unknown):
        return split
    base, ours = Cells.of(direct), Cells.of(arm)
    (base_tokens, base_s), (our_tokens, our_s) = _timed(base), _timed(ours)
    decode_s = base_s - float(np.nansum(base.column("prefill_s")[~np.isnan(base.latency_s)]))
    per_step = float(ours.tallied("committed")[~np.isnan(ours.latency_s)].sum()) / split.steps
    if not base_tokens or not our_tokens or not split.step_s or decode_s <= 0:
        return Unknown("no decoding time to compare with")
    predicted = decode_s / base_tokens * per_step / split.step_s
    return (base_s / base_tokens) / (our_s / our_tokens) / predicted


def _timed(cells: Cells) -> tuple[float, float]:
    """Output ids and seconds of the requests that were timed."""
    timed = ~np.isnan(cells.latency_s)
    return float(cells.tokens[timed].sum()), float(cells.latency_s[timed].sum())
