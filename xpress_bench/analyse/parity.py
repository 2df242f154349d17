"""Does an arm say what direct generation says? Shown, refuted or not shown; never taken for granted.

Ids of the same (launch, prompt, turn, seed) under the same condition are compared; the prompt is the unit, and all its
pairs must agree. A difference that the replay calls a tie or near-tie is rounding, reported apart from agreement. Under
`rejection` sampling arms draw different noise, so ids say nothing: the law is tested in the test-suite and the run is
judged by task score, non-inferior by the suite's declared margin.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from xpress_bench.analyse.intervals import (
    Interval,
    Measure,
    Unknown,
    exact_lower_bound,
    mean_interval,
    median_interval,
)
from xpress_bench.analyse.reduce import Selection, unit_of
from xpress_bench.records import Cell, Condition, Replay, first_difference

Outcome = Literal["shown", "refuted", "not shown"]
Verdict = Literal["tie", "near_tie", "real"]
Pair = tuple[Cell | None, Cell | None]  # arm, direct
Place = tuple[str, int, int, int]  # prompt, seed (0 at temperature 0), turn, position
_SEVERITY: tuple[Verdict | None, ...] = ("tie", "near_tie", None, "real")


@dataclass(frozen=True, slots=True)
class Divergence:
    """The worst difference of a prompt: where a pair first differs, and what the replay says of that place.

    A token is None where that side had already stopped. `verdict` is None when no replay judged the place. `gap` and
    `tolerance` are in logits.
    """

    prompt: str
    seed: int
    position: int
    arm_token: int | None
    direct_token: int | None
    verdict: Verdict | None
    gap: float | None
    tolerance: float | None


@dataclass(frozen=True, slots=True)
class Parity:
    """Agreement of one arm with direct generation.

    reason: completes the sentence "output ...".
    identical: share of prompts with the same ids, exact lower bound.
    explained: the same, with differences at ties and near-ties let pass.
    failed: prompts with a pair that failed, is empty or lacks a side; they never count as agreement.
    first_divergence: median token index over the prompts that differ.
    noise_floor: share of prompts on which direct agrees with its own repeats.
    score_difference: mean over prompts of the arm's score less direct's.
    """

    outcome: Outcome
    reason: str
    prompts: int
    identical: Measure
    explained: Measure
    divergences: tuple[Divergence, ...]
    failed: tuple[str, ...]
    first_divergence: Measure
    noise_floor: Measure
    score_difference: Measure


def parity(
    selection: Selection,
    arm: str,
    direct: str,
    replays: Iterable[Replay],
    scores: Mapping[str, Mapping[str, float]],
    margin: float | None,
) -> Parity:
    """Parity of `arm` with `direct`. `scores`: arm -> prompt -> task score; `margin`: the loss of score allowed."""
    prompts = _pairs(selection, arm, direct)
    failed = tuple(prompt for prompt, pairs in prompts.items() if not all(_complete(*pair) for pair in pairs))
    difference = score_difference(scores, arm, direct)
    comparable = selection.condition.verifier != "rejection"
    places = _divergences(prompts, _judged(replays, arm, selection.condition)) if comparable else ()
    outcome, reason = _by_ids(len(prompts), places, failed) if comparable else _by_score(difference, margin, failed)
    unequal = {place.prompt for place in places}.union(failed)
    unexplained = {place.prompt for place in places if place.verdict in (None, "real")}.union(failed)
    apart = Unknown("ids are not comparable under rejection sampling")
    return Parity(
        outcome,
        reason,
        prompts=len(prompts),
        identical=exact_lower_bound(len(prompts) - len(unequal), len(prompts)) if comparable else apart,
        explained=exact_lower_bound(len(prompts) - len(unexplained), len(prompts)) if comparable else apart,
        divergences=places,
        failed=failed,
        first_divergence=median_interval([place.position for place in places]),
        noise_floor=noise_floor(selection.of(direct)),
        score_difference=difference,
    )


def score_difference(scores: Mapping[str, Mapping[str, float]], arm: str, direct: str) -> Measure:
    """Mean over prompts of the score of `arm` less that of `direct`.

    Where no score changed there is no spread to estimate; the bound is then what that many unchanged prompts exclude.
    """
    ours, theirs = scores.get(arm, {}), scores.get(direct, {})
    differences = [ours[prompt] - theirs[prompt] for prompt in ours if prompt in theirs]
    if not differences:
        return Unknown("no prompt has a reference")
    if any(differences):
        return mean_interval(differences)
    share = exact_lower_bound(len(differences), len(differences))
    assert isinstance(share, Interval)
    return Interval(0.0, share.low - 1, 1 - share.low, "exact, no score changed", share.n)


def noise_floor(direct: Iterable[Cell]) -> Measure:
    """Share of prompts on which direct generation repeats its own ids, over those it ran at least twice."""
    groups: defaultdict[tuple[str, int, int], list[tuple[int, ...]]] = defaultdict(list)
    for cell in direct:
        groups[unit_of(cell)[1:]].append(cell.ids)
    repeated = {key: ids for key, ids in groups.items() if len(ids) > 1}
    if not repeated:
        return Unknown("direct ran once per prompt")
    unsteady = {prompt for (prompt, *_), ids in repeated.items() if len(set(ids)) > 1}
    prompts = {prompt for prompt, *_ in repeated}
    return exact_lower_bound(len(prompts) - len(unsteady), len(prompts))


def _pairs(selection: Selection, arm: str, direct: str) -> dict[str, list[Pair]]:
    sides = [
        {(c.launch, c.prompt, c.turn, c.seed, c.repeat): c for c in selection.every(name)} for name in (arm, direct)
    ]
    prompts: defaultdict[str, list[Pair]] = defaultdict(list)
    for key in sorted(sides[0].keys() | sides[1].keys()):
        prompts[key[1]].append((sides[0].get(key), sides[1].get(key)))
    return dict(prompts)


def _complete(ours: Cell | None, theirs: Cell | None) -> bool:
    return all(
        cell is not None and cell.ids and not cell.error and cell.stop_reason != "short" for cell in (ours, theirs)
    )


def _judged(replays: Iterable[Replay], arm: str, condition: Condition) -> dict[Place, Replay]:
    own = [one for one in replays if one.arm == arm and one.condition == condition]
    return {(one.prompt, one.seed if condition.temperature > 0 else 0, one.turn, one.position): one for one in own}


def _divergences(prompts: Mapping[str, list[Pair]], judged: Mapping[Place, Replay]) -> tuple[Divergence, ...]:
    found = []
    for pairs in prompts.values():
        both = [(ours, theirs) for ours, theirs in pairs if ours and theirs and ours.ids and theirs.ids]
        places = [_divergence(ours, theirs, judged) for ours, theirs in both if ours.ids != theirs.ids]
        found += sorted(places, key=lambda place: _SEVERITY.index(place.verdict))[-1:]
    return tuple(found)


def _divergence(ours: Cell, theirs: Cell, judged: Mapping[Place, Replay]) -> Divergence:
    at = first_difference(ours.ids, theirs.ids)
    assert at is not None
    replay = judged.get((*unit_of(ours)[1:], at))
    return Divergence(
        prompt=ours.prompt,
        seed=ours.seed,
        position=at,
        arm_token=ours.ids[at] if at < len(ours.ids) else None,
        direct_token=theirs.ids[at] if at < len(theirs.ids) else None,
        verdict=replay.verdict if replay else None,
        gap=replay.gap if replay else None,
        tolerance=replay.tolerance if replay else None,
    )


def _by_ids(prompts: int, places: Sequence[Divergence], failed: Sequence[str]) -> tuple[Outcome, str]:
    real = sum(place.verdict == "real" for place in places)
    unjudged = sum(place.verdict is None for place in places)
    if real:
        return "refuted", f"differs on {real} of {prompts} prompts beyond rounding"
    if unjudged:
        return "not shown", f"differs on {unjudged} of {prompts} prompts, and no replay says why"
    if failed or not prompts:
        return (
            "not shown",
            f"not shown to be the same: {len(failed)} of {prompts} prompts failed, are empty or lack a side",
        )
    if places:
        return "shown", f"differs on {len(places)} of {prompts} prompts, only at ties of the target's logits"
    return "shown", f"identical on {prompts} of {prompts} prompts"


def _by_score(difference: Measure, margin: float | None, failed: Sequence[str]) -> tuple[Outcome, str]:
    if isinstance(difference, Unknown):
        return "not shown", f"not shown to be as good: ids say nothing under rejection sampling, {difference.reason}"
    if margin is None:
        return "not shown", "not shown to be as good: the suite declares no parity margin"
    if difference.high < -margin:
        return "refuted", f"worse: the task score is lower by more than the margin {margin:g}"
    if failed:
        return "not shown", f"not shown to be as good: {len(failed)} prompts failed, are empty or lack a side"
    if difference.low > -margin:
        return "shown", f"as good: the task score is not lower by the margin {margin:g}"
    return (
        "not shown",
        f"not shown to be as good: {difference.n} prompts cannot exclude a task score lower by {margin:g}",
    )
