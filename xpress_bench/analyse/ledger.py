"""What refinement did to each draft token, what that gained, and where blocks break.

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
from operator import le

import numpy as np
from numpy.typing import NDArray

from xpress_bench.analyse.intervals import Interval, Measure, Unknown, clustered_ratio_interval, mean_interval
from xpress_bench.records import Arm, Cell

KINDS = ("kept_right", "repaired", "broken", "changed", "kept_wrong", "unjudged", "extended", "cut")
_ROW = {kind: row for row, kind in enumerate(KINDS)}
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
    """gain: accepted drafts per step less those the raw drafts would have had. gain_per_ms: the same per refiner ms."""

    slots: tuple[Slot, ...]
    gain: Measure
    gain_per_ms: Measure


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
    per_ms: Measure = Unknown("the refiner's time is that of a whole batch")
    if all(cell.batch is None for cell in cells):
        per_ms = signed_ratio(gains, [one.refine_s * 1e3 for one in tallies.values()])  # nothing was timed: Unknown
    return Ledger(_slots(list(tallies.values())), signed_ratio(gains, steps), per_ms)


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
            if leading(step.after, step.said) != step.accepted:
                return Unknown(f"the accepted drafts of {cell.prompt} are not those of its output")
            _add(tally, step)
    return dict(found)


def _recorded(cell: Cell) -> bool:
    steps = cell.steps
    after = steps.refined or steps.drafts
    before, lengths = list(map(len, steps.drafts)), list(map(len, after))
    # The path that was followed in a tree may end before the longest that it has.
    whole = all(map(le, lengths, steps.offered)) if steps.nodes else lengths == list(steps.offered)
    return before == lengths and whole and len(cell.ids) == 1 + sum(steps.committed)


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
    raw = leading(step.before, step.said)
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


def leading(tokens: Sequence[int], said: Sequence[int]) -> int:
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
        right_before=share_of(per_prompt("kept_right", "broken"), judged),
        right_after=share_of(per_prompt("kept_right", "repaired"), judged),
        net=signed_ratio(net, [one.steps for one in tallies]),
    )


def share_of(parts: Sequence[float], wholes: Sequence[float]) -> Measure:
    """`clustered_ratio_interval` of parts that are inside their wholes: the upper end is cut at 1."""
    share = clustered_ratio_interval(parts, wholes)
    return replace(share, high=min(share.high, 1.0)) if isinstance(share, Interval) else share


def signed_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Measure:
    """`clustered_ratio_interval` for numerators of either sign: the same pseudo-values, and no end is cut at 0."""
    k, n = np.asarray(numerators, dtype=np.float64), np.asarray(denominators, dtype=np.float64)
    if n.sum() == 0:
        return Unknown("nothing to divide by")
    ratio = k.sum() / n.sum()
    mean = mean_interval((ratio + (k - ratio * n) / n.mean()).tolist())
    return replace(mean, method="clustered t") if isinstance(mean, Interval) and mean.method == "t" else mean
