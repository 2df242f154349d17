"""Where the time of an arm goes, and how much of what its stages promise is delivered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xpress_bench.analyse.intervals import Unknown
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
    timed = [cell for cell in cells if cell.latency_s and cell.steps.verify_s]
    steps = sum(len(cell.steps.committed) for cell in timed)
    if not steps:
        return Unknown("no verify step was timed")
    parts = {
        "prefill_s": sum(cell.prefill_s or 0.0 for cell in timed),
        "draft_s": sum(sum(cell.steps.draft_s) for cell in timed),
        "refine_s": sum(sum(cell.steps.refine_s) for cell in timed),
        "verify_s": sum(sum(cell.steps.verify_s) for cell in timed),
        "rest_s": sum(cell.rest_s or 0.0 for cell in timed),
    }
    latency_s = sum(cell.latency_s or 0.0 for cell in timed)
    reliable = abs(sum(parts.values()) - latency_s) <= UNRELIABLE_FROM * latency_s
    return Stages(steps, reliable=reliable, **{name: value / steps for name, value in parts.items()})


def efficiency(direct: Sequence[Cell], arm: Sequence[Cell], split: Stages | Unknown) -> float | Unknown:
    """Measured over predicted speed-up, each from pooled seconds per output token.

    Predicted: direct's decoding seconds per token times tokens per step, over seconds of draft, refine and verify per
    step (Leviathan et al. 2023 with measured costs). Below 1 the rest is lost to prefill and to work between stages.
    """
    if isinstance(split, Unknown):
        return split
    base, ours = _timed(direct), _timed(arm)
    base_tokens, base_s = _tokens(base), sum(cell.latency_s or 0.0 for cell in base)
    our_tokens, our_s = _tokens(ours), sum(cell.latency_s or 0.0 for cell in ours)
    decode_s = base_s - sum(cell.prefill_s or 0.0 for cell in base)
    per_step = sum(sum(cell.steps.committed) for cell in ours) / split.steps
    if not base_tokens or not our_tokens or not split.step_s or decode_s <= 0:
        return Unknown("no decoding time to compare with")
    predicted = decode_s / base_tokens * per_step / split.step_s
    return (base_s / base_tokens) / (our_s / our_tokens) / predicted


def _timed(cells: Sequence[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell.latency_s]


def _tokens(cells: Sequence[Cell]) -> int:
    return sum(len(cell.ids) for cell in cells)
