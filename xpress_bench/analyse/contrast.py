"""One way of generating against another, on the requests that both ran: two arms of a run, or an arm in two runs.

Each side is reduced to one value per prompt; then prompts pair, and they are the unit of inference.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean

import numpy as np

from xpress_bench.analyse.compare import SpeedUp
from xpress_bench.analyse.intervals import (
    Measure,
    Unknown,
    clustered_ratio_interval,
    exact_lower_bound,
    mean_interval,
    median_interval,
    ratio_interval,
)
from xpress_bench.analyse.matching import Matched, Side, flat, match
from xpress_bench.analyse.parity import score_difference
from xpress_bench.analyse.power import spread
from xpress_bench.analyse.reduce import (
    Selection,
    Unit,
    by_batch,
    group_by_prompt,
    pair,
    per_prompt,
    prompt_latencies,
    unit_latencies,
)
from xpress_bench.analyse.score import Scorable, prompt_scores
from xpress_bench.analyse.similarity import Likeness, likeness
from xpress_bench.records import Cell, Condition, Memory, first_difference
from xpress_bench.tally import Tally


@dataclass(frozen=True, slots=True)
class Contrast:
    """A quantity on both sides, and what changed from `base` to `arm`: a difference or a ratio, as its owner says."""

    base: Measure
    arm: Measure
    change: Measure


@dataclass(frozen=True, slots=True)
class Comparison:
    """`arm` against `base` under one condition. Every figure is from the paired requests of `prompts` prompts alone.

    base, arm: what a report calls the sides: A and B, or the two arms. name: the arm's own name.
    latency_s: medians over prompts; change: how many times faster, geometric mean of paired ratios.
    total_time: seconds of base over seconds of arm. log_ratio_sd: spread of the log ratios between prompts.
    within: the test inside one run; None between two, where drift of the machine is in no p-value.
    over_direct: speed-up over the direct arm of the same run; change: ratio of the two; None inside one run.
    tokens_per_step, draft_accept_rate: pooled over steps; change: difference of pseudo-values, prompt by prompt.
    identical: share of prompts with the same ids. first_divergence: median token index where they are not.
    score: 0 to 1; change: difference. score_sd: its spread between prompts.
    """

    condition: Condition
    base: str
    arm: str
    name: str
    prompts: int
    latency_s: Contrast
    total_time: Measure
    log_ratio_sd: float | Unknown
    within: SpeedUp | None
    over_direct: Contrast | None
    tokens_per_step: Contrast
    tokens_per_step_ratio: Measure
    draft_accept_rate: Contrast
    identical: Measure
    first_divergence: Measure
    likeness: Likeness
    score: Contrast
    score_sd: float | Unknown
    memory: tuple[Memory | Unknown, Memory | Unknown]
    unpaired: Mapping[str, tuple[str, ...]]


def contrast(
    base: Side,
    arm: Side,
    items: Mapping[str, Scorable],
    scorers: Mapping[str, str] | None,
    within: SpeedUp | None = None,
    untimed: Unknown | None = None,
) -> Comparison:
    """Everything about one pair of sides. `untimed`: why their latencies may not be compared, None if they may."""
    matched = match(base, arm, pool_launches=within is None)
    sides = flat(matched.base), flat(matched.arm)
    timed = matched if base.selection.rows == 1 else match(base, arm, within is None, Selection.timed)
    faster, total, logs = _speed(timed, untimed)
    steps, ratio = _counted(*sides, lambda tally: (tally.committed, tally.steps), "no verify step was taken")
    rate, _ = _counted(*sides, lambda tally: (tally.accepted, tally.offered), "no draft token was offered")
    scored, score_sd = _scores(*sides, items, scorers)
    medians = [median_interval(list(prompt_latencies(by_batch(cells)).values())) for cells in sides]
    return Comparison(
        base.selection.condition,
        base.label,
        arm.label,
        name=arm.arm,
        prompts=len({unit[1] for unit in matched.base}),
        latency_s=Contrast(medians[0], medians[1], faster),
        total_time=total,
        log_ratio_sd=untimed or spread(logs),
        within=within,
        over_direct=None if within else _over_direct(base, arm, timed, untimed),
        tokens_per_step=steps,
        tokens_per_step_ratio=ratio,
        draft_accept_rate=rate,
        identical=_identical(matched, base.selection.condition),
        first_divergence=_first_divergence(matched),
        likeness=likeness(matched.base, matched.arm, base.selection.condition),
        score=scored,
        score_sd=score_sd,
        memory=(base.memory, arm.memory),
        unpaired=matched.unpaired,
    )


def _speed(matched: Matched, untimed: Unknown | None) -> tuple[Measure, Measure, list[float]]:
    """How many times faster by prompt, by total time, and the log ratio of each prompt."""
    if untimed:
        return untimed, untimed, []
    launches = [_launches(side) for side in (matched.base, matched.arm)]
    timed = [unit for unit in matched.base if unit in launches[0] and unit in launches[1]]
    latencies_s = [{unit: side[unit] for unit in timed} for side in launches]
    logs = [{unit: fmean(map(math.log, values)) for unit, values in side.items()} for side in latencies_s]
    means_s = [{unit: fmean(values) for unit, values in side.items()} for side in latencies_s]
    ratios = list(per_prompt({unit: logs[0][unit] - logs[1][unit] for unit in timed}).values())
    base_s, arm_s = ([sum(requests) for requests in group_by_prompt(side).values()] for side in means_s)
    return ratio_interval(ratios), clustered_ratio_interval(base_s, arm_s), ratios


def _launches(side: Mapping[Unit, list[Cell]]) -> Mapping[Unit, list[float]]:
    """Seconds of each key, one value per launch, of all that was timed."""
    found: defaultdict[Unit, list[float]] = defaultdict(list)
    for unit, latency_s in unit_latencies(flat(side)).items():
        found[unit if unit in side else (0, *unit[1:])].append(latency_s)  # the keys of pooled launches begin with 0
    return found


def _over_direct(base: Side, arm: Side, timed: Matched, untimed: Unknown | None) -> Contrast | None:
    """Speed-up of each side over the direct arm beside it: what slows a whole session down cancels out."""
    if base.direct is None or arm.direct is None or base.arm == base.direct:
        return None
    logs = [
        pair(side.selection.timed(direct), flat(cells)).log_ratios()
        for side, direct, cells in ((base, base.direct, timed.base), (arm, arm.direct, timed.arm))
    ]
    both = [prompt for prompt in logs[0] if prompt in logs[1]]
    ours, theirs = (ratio_interval([side[prompt] for prompt in both]) for side in logs)
    return Contrast(ours, theirs, untimed or ratio_interval([logs[1][prompt] - logs[0][prompt] for prompt in both]))


def _counted(
    base: Sequence[Cell], arm: Sequence[Cell], count: Callable[[Tally], tuple[int, int]], nothing: str
) -> tuple[Contrast, Measure]:
    """A ratio of counts on both sides, their difference and their quotient by pseudo-values (statistics C.3)."""
    sums = [_sums(cells, count) for cells in (base, arm)]
    prompts = [prompt for prompt in sums[0] if sums[0][prompt][1] and sums[1].get(prompt, (0, 0))[1]]
    if not prompts:
        return Contrast(*[Unknown(nothing)] * 3), Unknown(nothing)
    counts = [np.array([side[prompt] for prompt in prompts], dtype=np.float64).T for side in sums]
    pooled = [float(k.sum() / n.sum()) for k, n in counts]
    errors = [(k - ratio * n) / n.mean() for (k, n), ratio in zip(counts, pooled, strict=True)]
    differences = pooled[1] - pooled[0] + errors[1] - errors[0]
    differences[np.abs(differences) < 1e-12 * max(pooled)] = 0.0  # rounding, as where one side has more repeats
    difference = mean_interval(differences.tolist())
    ours, theirs = (clustered_ratio_interval(k.tolist(), n.tolist()) for k, n in counts)
    if not all(pooled):
        return Contrast(ours, theirs, difference), Unknown("nothing to divide by")
    logs = [math.log(ratio) + error / ratio for ratio, error in zip(pooled, errors, strict=True)]
    return Contrast(ours, theirs, difference), ratio_interval((logs[1] - logs[0]).tolist())


def _sums(cells: Sequence[Cell], count: Callable[[Tally], tuple[int, int]]) -> dict[str, tuple[int, int]]:
    sums: dict[str, tuple[int, int]] = {}
    for cell in cells:
        (k, n), (more_k, more_n) = sums.get(cell.prompt, (0, 0)), count(cell.tally)
        sums[cell.prompt] = k + more_k, n + more_n
    return sums


def _identical(matched: Matched, condition: Condition) -> Measure:
    if condition.verifier == "rejection":
        return Unknown("ids are not comparable under rejection sampling")
    prompts = {unit[1] for unit in matched.base}
    unequal = {unit[1] for unit in matched.base if len(set.union(*_outputs(matched, unit))) > 1}
    return exact_lower_bound(len(prompts) - len(unequal), len(prompts))


def _outputs(matched: Matched, unit: Unit) -> list[set[Sequence[object]]]:
    """What each side said: ids, or texts where a server gave no ids."""
    sides = matched.base[unit], matched.arm[unit]
    by_text = any(cell.counts and not cell.ids for side in sides for cell in side)
    return [{cell.text if by_text else cell.ids for cell in side} for side in sides]


def _first_divergence(matched: Matched) -> Measure:
    """Median over the prompts that differ of the first token index at which a pair of outputs does."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for unit in matched.base:
        for ours, theirs in product(*_outputs(matched, unit)):
            at = first_difference(ours, theirs)
            if at is not None:
                places[unit[1]].append(at)
    return median_interval([min(found) for found in places.values()]) if places else Unknown("no output differs")


def _scores(
    base: Sequence[Cell], arm: Sequence[Cell], items: Mapping[str, Scorable], scorers: Mapping[str, str] | None
) -> tuple[Contrast, float | Unknown]:
    """Task score on both sides and its difference, and the spread of that difference between prompts."""
    found = {"base": prompt_scores(base, items, scorers), "arm": prompt_scores(arm, items, scorers)}
    both = [prompt for prompt in found["base"] if prompt in found["arm"]]
    if not both:
        none = Unknown(
            "no prompt has a reference that could be scored" if items else "the suite's items are not at hand"
        )
        return Contrast(none, none, none), none
    ours, theirs = (mean_interval([found[name][prompt] for prompt in both]) for name in ("base", "arm"))
    sd = spread([found["arm"][prompt] - found["base"][prompt] for prompt in both])
    return Contrast(ours, theirs, score_difference(found, "arm", "base")), sd
