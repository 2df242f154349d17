"""Every acceptance metric and speed-up that anybody reports, from one trace, each under a name of its own.

Names and formulas are those of `metrics.md` 2.8; T steps, p offered, a accepted, c committed, N output ids. What is
summed here is what the journal holds: `accepted` is cut at a stop id, and nothing is offered beyond the limit. Where
another system counts past those, `publish.report_as` says so instead of guessing.

A suffix tells how requests are averaged, because the three ways differ:

_step    sum over sum, over all steps of all requests; clustered by prompt
_prompt  plain mean of one ratio per prompt
_suite   plain mean over categories of the mean of one ratio per prompt, as the reports over SPEED-Bench do it
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from xpress_bench.analyse.acceptance import at_most_one
from xpress_bench.analyse.compare import speed_ups
from xpress_bench.analyse.intervals import ALPHA, Interval, Measure, Unknown, clustered_ratio_interval, mean_interval
from xpress_bench.analyse.reduce import Selection, Unit, per_prompt, unit_of
from xpress_bench.records import Cell

NO_STEP = "no verify step was taken"
Counts = NDArray[np.int64]  # one entry per prompt


@dataclass(frozen=True, slots=True)
class Definition:
    """A ratio of two counts of a request. `share`: it cannot pass 1. `nothing`: why it is unknown when `below` is 0."""

    above: Callable[[Cell], int]
    below: Callable[[Cell], int]
    share: bool = False
    nothing: str = "no draft token was offered"


def _steps(cell: Cell) -> int:
    return len(cell.steps.committed)


def _accepted(cell: Cell) -> int:
    return sum(cell.steps.accepted)


def _offered(cell: Cell) -> int:
    return sum(cell.steps.offered)


def _committed(cell: Cell) -> int:
    return sum(cell.steps.committed)


def _output(cell: Cell) -> int:
    return len(cell.ids)


def _forwards(cell: Cell) -> int:
    # The prompt's own forward gives the first id; direct generation then takes one for each further id.
    return 1 + (_steps(cell) or _output(cell) - 1)


def chunks(cell: Cell) -> Counter[int]:
    """How many forwards gave so many output ids, the prompt's included, the stop id not; empty chunks are left out."""
    tally = cell.steps.tally
    found = Counter({1: 1 if tally.steps else max(1, _output(cell))})
    for (_, _, committed, _), steps in tally.rounds:
        found[committed] += steps
    if cell.stop_reason == "eos":
        last = tally.last or 1
        found.update({last: -1, last - 1: 1})
    del found[0]
    return +found


# From requests with a verify step, so these are unknown for direct generation.
OF_STEPS = {
    "accepted_drafts_per_step": Definition(_accepted, _steps),
    "tokens_per_step_nominal": Definition(lambda cell: _accepted(cell) + _steps(cell), _steps),
    "tokens_per_step_committed": Definition(_committed, _steps),  # the headline
    "tokens_per_verify_incl_prefill": Definition(_output, _steps),
    "draft_accept_rate": Definition(_accepted, _offered, share=True),
    "slot_utilisation": Definition(
        lambda cell: _accepted(cell) + _steps(cell), lambda cell: _offered(cell) + _steps(cell), share=True
    ),
    "drafted_share_of_output": Definition(_accepted, _output, share=True),
}
# From every request: direct generation has exactly 1 of each.
OF_REQUESTS = {
    "chunk_mean_specdec_bench": Definition(
        lambda cell: sum(chunks(cell).elements()),
        lambda cell: chunks(cell).total(),
        nothing="nothing but a stop id was output",
    ),
    "tokens_per_target_forward": Definition(_output, _forwards, nothing="no request was answered"),
}


def of_position(position: int) -> dict[str, Definition]:
    """What is known of draft `position`, from 1.

    accept_marginal: steps that accepted at least so many, of all steps. accept_conditional: of those that accepted one
    less. accept_offered: of those that offered so many. position_match: blocks as they were offered, after refining,
    whose token there is the one that the output has there, whatever came before it in the block; places behind the end
    of the output are left out, nobody knows what the target would have said there.
    """

    def reached(cell: Cell) -> int:
        return sum(accepted >= position for accepted in cell.steps.accepted)

    def before(cell: Cell) -> int:
        return sum(accepted >= position - 1 for accepted in cell.steps.accepted)

    def offered(cell: Cell) -> int:
        return sum(count >= position for count in cell.steps.offered)

    def judged(cell: Cell) -> int:
        return len(_matches(cell, position))

    def right(cell: Cell) -> int:
        return sum(_matches(cell, position))

    return {
        "accept_marginal": Definition(reached, _steps, share=True),
        "accept_conditional": Definition(reached, before, share=True, nothing="no step accepted the draft before it"),
        "accept_offered": Definition(reached, offered, share=True, nothing="no step offered so many drafts"),
        "position_match": Definition(right, judged, share=True, nothing="no offered token is at hand there"),
    }


def _matches(cell: Cell, position: int) -> list[bool]:
    """Per step that has a token at this draft position, within the output: is it the output's?"""
    found, at = [], position  # the first step drafts from output index 1: index 0 came from the prompt's forward
    for block, committed in zip(cell.steps.refined or cell.steps.drafts, cell.steps.committed, strict=False):
        if position <= len(block) and at < len(cell.ids):
            found.append(block[position - 1] == cell.ids[at])
        at += committed
    return found


def metrics(cells: Sequence[Cell], categories: Mapping[str, str] | None = None) -> dict[str, Measure]:
    """Every acceptance metric of one arm under one condition by its name, as in `accept_marginal_step[1]`.

    `categories`: prompt -> category; without it all of `_suite` are Unknown. A metric without a denominator is Unknown
    with a reason, e.g. all of direct generation but the two that hold for it.
    """
    stepped = [cell for cell in cells if cell.steps.committed]
    longest = max((max(cell.steps.offered) for cell in stepped), default=0)
    found = _measured(OF_STEPS, stepped, categories, NO_STEP) | _measured(OF_REQUESTS, cells, categories)
    for position in range(1, longest + 1):
        found |= _measured(of_position(position), stepped, categories, place=f"[{position}]")
    return found


def _measured(
    definitions: Mapping[str, Definition],
    cells: Sequence[Cell],
    categories: Mapping[str, str] | None,
    empty: str | None = None,
    place: str = "",
) -> dict[str, Measure]:
    found: dict[str, Measure] = {}
    for name, one in definitions.items():
        above, below = _per_prompt(cells, one.above), _per_prompt(cells, one.below)
        ratios = {prompt: above[prompt] / count for prompt, count in below.items() if count}
        if ratios:
            pooled = clustered_ratio_interval(list(above.values()), list(below.values()))
            values = pooled, mean_interval(list(ratios.values())), mean_of_categories(ratios, categories)
        else:
            values = (Unknown(one.nothing if cells else empty or one.nothing),) * 3
        for suffix, measure in zip(("_step", "_prompt", "_suite"), values, strict=True):
            found[f"{name}{suffix}{place}"] = at_most_one(measure) if one.share else measure
    return found


def _per_prompt(cells: Sequence[Cell], count: Callable[[Cell], int]) -> dict[str, int]:
    counts: defaultdict[str, int] = defaultdict(int)
    for cell in cells:
        counts[cell.prompt] += count(cell)
    return counts


def mean_of_categories(values: Mapping[str, float], categories: Mapping[str, str] | None) -> Measure:
    """Mean of the means of categories, equal weights; t interval of a stratified sample (Cochran 1977, chapter 5)."""
    if categories is None:
        return Unknown("the categories of the prompts are not at hand")
    groups: defaultdict[str, list[float]] = defaultdict(list)
    for prompt, value in values.items():
        if prompt not in categories:
            return Unknown(f"prompt {prompt} has no category")
        groups[categories[prompt]].append(value)
    estimate = fmean(map(fmean, groups.values()))
    lone = [name for name, group in groups.items() if len(group) == 1]
    if lone:
        return Unknown(f"n < 2 in category {lone[0]}", estimate)
    error = math.sqrt(sum(np.var(group, ddof=1) / len(group) for group in groups.values())) / len(groups)
    half_width = float(stats.t.ppf(1 - ALPHA / 2, len(values) - len(groups))) * error
    method = "stratified t" if half_width > 0 else "constant data"
    return Interval(estimate, estimate - half_width, estimate + half_width, method, len(values))


def speedups(selection: Selection, arm: str, base: str) -> dict[str, Measure]:
    """How many times faster `arm` is than `base` by every rule in use; from the requests that both answered.

    speedup_median_paired, speedup_gmean_paired: of the latency ratios, prompt by prompt. speedup_total_time: all
    seconds over all seconds. speedup_mean_tps: mean over prompts of ids per second of a whole request, over base's.
    speedup_mean_tpot: mean over prompts of `tpot_s`, base over arm.
    """
    paired = speed_ups(selection, (base, arm))[0]
    sides = [selection.timed(name) for name in (base, arm)]
    base_tps, arm_tps = _by_prompt([_rates(cells) for cells in sides])
    base_tpot, arm_tpot = _by_prompt([_unit_medians(cells, tpot_s) for cells in sides])
    return {
        "speedup_median_paired": paired.median_paired,
        "speedup_gmean_paired": paired.gmean_paired,
        "speedup_total_time": paired.total_time,
        "speedup_mean_tps": clustered_ratio_interval(arm_tps, base_tps),
        "speedup_mean_tpot": clustered_ratio_interval(base_tpot, arm_tpot),
    }


def tpot_s(cell: Cell) -> float | None:
    """Seconds after the first output id was there, over all ids as DFlash divides them; None if not timed."""
    if not cell.latency_s or cell.ttft_s is None or not cell.ids:
        return None
    return (cell.latency_s - cell.ttft_s) / len(cell.ids)


def _rates(cells: Sequence[Cell]) -> dict[Unit, float]:
    seconds = _unit_medians(cells, lambda cell: cell.latency_s or None)
    ids = _unit_medians(cells, lambda cell: float(len(cell.ids)))
    return {unit: ids[unit] / time_s for unit, time_s in seconds.items()}


def _unit_medians(cells: Sequence[Cell], value: Callable[[Cell], float | None]) -> dict[Unit, float]:
    grouped: defaultdict[Unit, list[float]] = defaultdict(list)
    for cell in cells:
        measured = value(cell)
        if measured is not None:
            grouped[unit_of(cell)].append(measured)
    return {unit: median(values) for unit, values in grouped.items()}


def _by_prompt(sides: Sequence[Mapping[Unit, float]]) -> list[list[float]]:
    shared = sorted(sides[0].keys() & sides[1].keys())
    return [list(per_prompt({unit: side[unit] for unit in shared}).values()) for side in sides]
