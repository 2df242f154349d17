"""What a verify step costs and what it must bring: the cost model of speculative decoding, from measured times.

A step that takes c times as long as a step of another arm, and commits t times as many tokens, makes decoding t / c
times as fast (Leviathan et al. 2023, with measured costs in place of assumed ones). Direct generation commits one token
in a step, so the c of an arm over direct is the number of tokens per step at which it breaks even.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from xpress_bench.analyse.groups import Floats
from xpress_bench.analyse.intervals import Interval, Measure, Unknown, totals_ratio_interval
from xpress_bench.analyse.reduce import Cells, by_batch
from xpress_bench.errors import UsageError
from xpress_bench.records import Cell, Header


@dataclass(frozen=True, slots=True)
class Cost:
    """An arm against its base on the prompts that both were timed on; intervals are over prompts.

    step_ratio: time of the arm's step over that of the base's, c above.
    break_even_tokens_per_step: of the arm, at which both decode as fast: c times the base's tokens per step.
    predicted_speed_up: of whole requests, by seconds per output token in prefill and stages alone.
    refine_free_speed_up, draft_free_speed_up: the same, had that stage of the arm taken no time and changed nothing.
    efficiency: measured over predicted speed-up. Below 1, the rest is lost between the stages.
    """

    step_ratio: Measure
    break_even_tokens_per_step: Measure
    predicted_speed_up: Measure
    refine_free_speed_up: Measure
    draft_free_speed_up: Measure
    efficiency: Measure

    def decoding_speed_up(self, tokens_per_step: float) -> Measure:
        """How much faster than direct generation, the base, the arm would decode at so many tokens per step."""
        at = self.break_even_tokens_per_step
        if isinstance(at, Interval):
            estimate, low, high = (tokens_per_step / value for value in (at.estimate, at.high, at.low))
            return Interval(estimate, low, high, at.method, at.n)
        return Unknown(at.reason, at.estimate and tokens_per_step / at.estimate)


@dataclass(frozen=True, slots=True)
class _Sums:
    """Of one arm, an entry per prompt. A step of direct generation is one forward after the prompt's."""

    ids: Floats
    tokens: Floats  # ids but the first, which comes from the prompt
    steps: Floats
    latency_s: Floats
    draft_s: Floats
    refine_s: Floats
    stages_s: Floats
    staged_s: Floats  # with prefill


def random_weights(header: Header) -> bool:
    """Whether only the costs of a run mean anything."""
    return header.settings.get("weights") == "random"


def refuse_random(header: Header) -> None:
    """UsageError for a run of which only the costs mean anything."""
    if random_weights(header):
        raise UsageError(
            f"run {header.run!r} has random weights: only what its steps cost means anything; "
            "see `xpress-bench report RUN`, or measure with trained weights"
        )


def cost(base: Sequence[Cell], arm: Sequence[Cell]) -> Cost | Unknown:
    """The model of one arm over another, which may be direct generation; Unknown without times to compare."""
    sides = [_timed(base), _timed(arm)]
    if not sides[1].tallied("steps").any():
        return Unknown("no verify step was timed")
    known = [set(compress(one.prompts[1], one.per_prompt(one.latency_s) > 0)) for one in sides]
    shared = sorted(known[0] & known[1])
    if not shared:
        return Unknown("no prompt was timed on both sides")
    theirs, ours = (_sums(cells, shared) for cells in sides)

    def speed_up(base_s: Floats, arm_s: Floats) -> Measure:
        return totals_ratio_interval([base_s, ours.ids], [theirs.ids, arm_s])

    return Cost(
        step_ratio=totals_ratio_interval([ours.stages_s, theirs.steps], [ours.steps, theirs.stages_s]),
        break_even_tokens_per_step=totals_ratio_interval([ours.stages_s, theirs.tokens], [ours.steps, theirs.stages_s]),
        predicted_speed_up=speed_up(theirs.staged_s, ours.staged_s),
        refine_free_speed_up=speed_up(theirs.staged_s, ours.staged_s - ours.refine_s),
        draft_free_speed_up=speed_up(theirs.staged_s, ours.staged_s - ours.draft_s),
        efficiency=totals_ratio_interval([theirs.latency_s, ours.staged_s], [theirs.staged_s, ours.latency_s]),
    )


def step_s(cells: Sequence[Cell]) -> Measure:
    """Seconds of the stages of one step; of direct generation, of one token after the first."""
    timed = _timed(cells)
    sums = _sums(timed, timed.prompts[1])
    return totals_ratio_interval([sums.stages_s], [sums.steps])


def _timed(cells: Sequence[Cell]) -> Cells:
    """Requests whose latency, prefill and stages were timed."""
    cells = by_batch(cells)
    stages_s = np.where(cells.tallied("steps") > 0, cells.tallied("verify_s"), 0.0)
    timed = ~np.isnan(cells.latency_s + cells.column("prefill_s") + stages_s)
    return cells if timed.all() else cells.where(timed)  # what a selection has worked out, it would work out again


def _sums(cells: Cells, prompts: Sequence[str]) -> _Sums:
    place = {name: at for at, name in enumerate(cells.prompts[1])}
    kept = [place[name] for name in prompts]

    def total(column: Floats) -> Floats:
        return cells.per_prompt(column)[kept]

    ids, tokens, steps = total(cells.tokens), total(cells.tokens - 1), total(cells.tallied("steps"))
    latency_s, prefill_s = total(cells.latency_s), total(cells.column("prefill_s"))
    draft_s, refine_s, verify_s = (total(cells.tallied(f"{stage}_s")) for stage in ("draft", "refine", "verify"))
    stages_s = draft_s + refine_s + verify_s
    if not steps.any():
        steps, stages_s = tokens, latency_s - prefill_s
    return _Sums(ids, tokens, steps, latency_s, draft_s, refine_s, stages_s, prefill_s + stages_s)
