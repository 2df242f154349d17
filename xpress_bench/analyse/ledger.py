"""What refinement did to each draft token, what that gained, where blocks break, and how long a draft pays.

Draft slots count from 1, as slot 0 is the anchor's. Step t starts after the prompt's token and all that earlier steps
committed, so slot k of its draft stands against one id of the output. Two judgements follow, and they differ:

* at the position: a token is right if the output holds that id at its absolute position, whatever stands before it. It
  covers every slot up to the end of the output, and says nothing of acceptance (metrics.md 2.2, item 7).
* on the path: the leading run of right tokens. Under `greedy` and `coupled` it is what the target would have accepted
  of the raw draft, up to rounding, since both take the target's own token of each position.

All steps count, repeats included. Under `rejection` the target draws afresh, and ids say nothing of another draft.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from xpress_bench.analyse.acceptance import acceptance
from xpress_bench.analyse.intervals import Interval, Measure, Unknown, clustered_ratio_interval, mean_interval
from xpress_bench.analyse.stages import stages
from xpress_bench.records import Arm, Cell

STAGES = ("draft", "refine", "verify", "rest", "prefill")
KINDS = ("kept_right", "repaired", "broken", "changed", "kept_wrong", "unjudged", "extended", "cut")
_ROW = {kind: row for row, kind in enumerate(KINDS)}
NO_PASSES = Unknown("the journal holds the block before and after refinement, not after each pass")
NO_CONFIDENCE = Unknown("the journal holds no confidence of the drafter or the refiner for a slot")
Counts = NDArray[np.int64]  # [len(KINDS), slots]


@dataclass(frozen=True, slots=True)
class Slot:
    """One draft slot over all steps that offered it.

    At the position: kept_right, repaired (wrong to right), broken (right to wrong), changed (wrong to another wrong),
    kept_wrong; unjudged tokens lie behind the end of the output. right_before, right_after: share of the judged.
    On the path: extended counts steps whose raw draft broke here and whose refined block did not, cut the reverse;
    net: (extended - cut) per verify step.
    """

    slot: int
    kept_right: int
    repaired: int
    broken: int
    changed: int
    kept_wrong: int
    unjudged: int
    extended: int
    cut: int
    right_before: Measure
    right_after: Measure
    net: Measure


@dataclass(frozen=True, slots=True)
class Ledger:
    """gain: accepted drafts per step less those the raw drafts would have had. gain_per_ms: the same per refiner ms.

    passes, confidence: which passes mattered and how well confidence is calibrated; no journal of this schema says.
    """

    slots: tuple[Slot, ...]
    gain: Measure
    gain_per_ms: Measure
    passes: Measure = NO_PASSES
    confidence: Measure = NO_CONFIDENCE


@dataclass(frozen=True, slots=True)
class Truncation:
    """How blocks ended. broke[k - 1]: steps that refused slot k first; whole: all drafts accepted; stopped: cut by a
    stop id inside the accepted drafts; empty: steps that had no room for a draft.
    """

    broke: tuple[int, ...]
    whole: int
    stopped: int
    empty: int


@dataclass(frozen=True, slots=True)
class Knee:
    """Where the speed that the cost model predicts is highest: `drafts` offered, `gain` times today's speed.

    A last slot pays from an acceptance of `break_even` on; `last` is what it has.
    """

    drafts: int
    gain: float
    break_even: float
    last: Measure


@dataclass(frozen=True, slots=True)
class _Step:
    before: tuple[int, ...]
    after: tuple[int, ...]
    said: tuple[int, ...]  # the output ids at these positions, fewer where the output ends
    accepted: int


@dataclass(slots=True)
class _Tally:
    counts: Counts
    steps: int = 0
    gain: int = 0
    refine_s: float = 0.0


def ledger(arm: Arm, cells: Sequence[Cell]) -> Ledger | Unknown:
    """The ledger of one arm under one condition; Unknown with the reason where its journal cannot tell."""
    if arm.refiner is None:
        return Unknown("the arm has no refiner")
    tallies = _tallies(cells)
    if isinstance(tallies, Unknown):
        return tallies
    gains, steps = [one.gain for one in tallies.values()], [one.steps for one in tallies.values()]
    per_ms = _signed_ratio(gains, [one.refine_s * 1e3 for one in tallies.values()])  # nothing was timed: Unknown
    return Ledger(_slots(list(tallies.values())), _signed_ratio(gains, steps), per_ms)


def right_by_slot(cells: Sequence[Cell]) -> tuple[Measure, ...] | Unknown:
    """Share of raw draft tokens that are right at their position, whatever stands before them; slot 1 first."""
    tallies = _tallies(cells)
    if isinstance(tallies, Unknown):
        return tallies
    return tuple(slot.right_before for slot in _slots(list(tallies.values())))


def truncation(cells: Sequence[Cell]) -> Truncation | Unknown:
    """Where the blocks of one arm ended, under any verifier."""
    steps = [(p, a, c) for cell in cells for p, a, c in _counts(cell)]
    if not steps:
        return Unknown("no verify step was taken")
    broke = [0] * max(offered for offered, *_ in steps)
    whole = stopped = empty = 0
    for offered, accepted, committed in steps:
        if offered == 0:
            empty += 1
        elif accepted == offered:
            whole += 1
        elif committed == accepted:  # without the target's own token: a stop id ended the output before it
            stopped += 1
        else:
            broke[accepted] += 1
    return Truncation(tuple(broke), whole, stopped, empty)


def knee(cells: Sequence[Cell], direct: Sequence[Cell]) -> Knee | Unknown:
    """The best number of drafts at the acceptance and the stage times of one arm.

    Cost model: verifying takes direct generation's time for one token and grows linearly to the measured time for the
    drafts offered; drafting, refining and the rest cost the same for every block size.
    """
    split, marginal = stages(cells), acceptance(cells).accept_marginal_step
    decode_s = sum((cell.latency_s or 0.0) - (cell.prefill_s or 0.0) for cell in direct)
    tokens = sum(max(len(cell.ids) - 1, 0) for cell in direct)  # the first comes with the prompt
    if isinstance(split, Unknown) or not split.step_s or not tokens or not marginal:
        return Unknown("verify steps or direct generation were not timed")
    offered = sum(sum(cell.steps.offered) for cell in cells) / sum(len(cell.steps.offered) for cell in cells)
    slot_s = max(split.verify_s - decode_s / tokens, 0.0) / offered
    fixed_s = split.step_s + split.rest_s - slot_s * offered
    per_step = accumulate((share.estimate or 0.0 for share in marginal), initial=1.0)
    speeds = [count / (fixed_s + slot_s * drafts) for drafts, count in enumerate(per_step)]
    best = max(range(1, len(speeds)), key=speeds.__getitem__)
    return Knee(best, speeds[best] / speeds[-1], slot_s * speeds[-1], marginal[-1])


def stage_shares(cells: Sequence[Cell]) -> dict[str, Measure]:
    """Share of the latency that each of STAGES takes; empty where they were not timed or do not add up to it."""
    if isinstance(split := stages(cells), Unknown) or not split.reliable:
        return {}
    per_prompt: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * (len(STAGES) + 1))
    for cell in cells:
        if cell.latency_s and cell.steps.verify_s:
            parts = [sum(getattr(cell.steps, f"{stage}_s")) for stage in STAGES[:3]]
            parts += [cell.rest_s or 0.0, cell.prefill_s or 0.0, cell.latency_s]
            per_prompt[cell.prompt] = [a + b for a, b in zip(per_prompt[cell.prompt], parts, strict=True)]
    columns = list(zip(*per_prompt.values(), strict=True))
    return {stage: _share(column, columns[-1]) for stage, column in zip(STAGES, columns, strict=False)}


def _counts(cell: Cell) -> Iterator[tuple[int, int, int]]:
    return zip(cell.steps.offered, cell.steps.accepted, cell.steps.committed, strict=True)


def _tallies(cells: Sequence[Cell]) -> Mapping[str, _Tally] | Unknown:
    """Counts per prompt."""
    if not any(cell.steps.committed for cell in cells):
        return Unknown("no verify step was taken")
    if any(cell.condition.verifier == "rejection" for cell in cells):
        return Unknown("ids are not comparable under rejection sampling: the target draws afresh for another draft")
    silent = sum(not _recorded(cell) for cell in cells)
    if silent:
        return Unknown(f"{silent} of {len(cells)} requests do not record their drafts")
    slots = max(max(cell.steps.offered, default=0) for cell in cells)
    found: defaultdict[str, _Tally] = defaultdict(lambda: _Tally(np.zeros((len(KINDS), slots), dtype=np.int64)))
    for cell in cells:
        tally = found[cell.prompt]
        tally.refine_s += sum(cell.steps.refine_s)
        for step in _walk(cell):
            if _leading(step.after, step.said) != step.accepted:
                return Unknown(f"the accepted drafts of {cell.prompt} are not those of its output")
            _add(tally, step)
    return dict(found)


def _recorded(cell: Cell) -> bool:
    steps = cell.steps
    after = steps.refined or steps.drafts
    lengths = tuple(map(len, steps.drafts)), tuple(map(len, after))
    return lengths == (steps.offered, steps.offered) and len(cell.ids) == 1 + sum(steps.committed)


def _walk(cell: Cell) -> Iterator[_Step]:
    at, steps = 1, cell.steps  # the first id comes from the prompt pass and belongs to no step
    after_of = steps.refined or steps.drafts
    for before, after, accepted, committed in zip(steps.drafts, after_of, steps.accepted, steps.committed, strict=True):
        yield _Step(before, after, cell.ids[at : at + len(before)], accepted)
        at += committed


def _add(tally: _Tally, step: _Step) -> None:
    for slot, (before, after) in enumerate(zip(step.before, step.after, strict=True)):
        said = step.said[slot] if slot < len(step.said) else None
        tally.counts[_ROW[_kind(before, after, said)], slot] += 1
    raw = _leading(step.before, step.said)
    if raw < step.accepted:
        tally.counts[_ROW["extended"], raw] += 1
    elif step.accepted < raw:
        tally.counts[_ROW["cut"], step.accepted] += 1
    tally.steps += 1
    tally.gain += step.accepted - raw


def _kind(before: int, after: int, said: int | None) -> str:
    if said is None:
        return "unjudged"
    if before == said:
        return "kept_right" if after == said else "broken"
    if after == said:
        return "repaired"
    return "kept_wrong" if after == before else "changed"


def _leading(tokens: Sequence[int], said: Sequence[int]) -> int:
    """Length of the leading run on which both agree."""
    agree = 0
    while agree < min(len(tokens), len(said)) and tokens[agree] == said[agree]:
        agree += 1
    return agree


def _slots(tallies: Sequence[_Tally]) -> tuple[Slot, ...]:
    return tuple(_slot(tallies, at) for at in range(tallies[0].counts.shape[1]))


def _slot(tallies: Sequence[_Tally], at: int) -> Slot:
    def per_prompt(*kinds: str) -> list[int]:
        rows = [_ROW[kind] for kind in kinds]
        return [int(one.counts[rows, at].sum()) for one in tallies]

    judged = per_prompt("kept_right", "repaired", "broken", "changed", "kept_wrong")
    net = [longer - shorter for longer, shorter in zip(per_prompt("extended"), per_prompt("cut"), strict=True)]
    return Slot(
        at + 1,
        kept_right=sum(per_prompt("kept_right")),
        repaired=sum(per_prompt("repaired")),
        broken=sum(per_prompt("broken")),
        changed=sum(per_prompt("changed")),
        kept_wrong=sum(per_prompt("kept_wrong")),
        unjudged=sum(per_prompt("unjudged")),
        extended=sum(per_prompt("extended")),
        cut=sum(per_prompt("cut")),
        right_before=_share(per_prompt("kept_right", "broken"), judged),
        right_after=_share(per_prompt("kept_right", "repaired"), judged),
        net=_signed_ratio(net, [one.steps for one in tallies]),
    )


def _share(parts: Sequence[float], wholes: Sequence[float]) -> Measure:
    share = clustered_ratio_interval(parts, wholes)
    return replace(share, high=min(share.high, 1.0)) if isinstance(share, Interval) else share


def _signed_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Measure:
    """`clustered_ratio_interval` for numerators of either sign: the same pseudo-values, and no end is cut at 0."""
    k, n = np.asarray(numerators, dtype=np.float64), np.asarray(denominators, dtype=np.float64)
    if n.sum() == 0:
        return Unknown("nothing to divide by")
    ratio = k.sum() / n.sum()
    mean = mean_interval((ratio + (k - ratio * n) / n.mean()).tolist())
    return replace(mean, method="clustered t") if isinstance(mean, Interval) and mean.method == "t" else mean
