"""Does an arm say what direct generation says? Shown, refuted or not shown; never taken for granted.

Ids of the same (launch, prompt, turn, seed) under the same condition are compared, and texts where a server gives no
ids; the prompt is the unit, and all its pairs must agree. A difference that the replay calls a tie or near-tie is
rounding, reported apart from agreement. Under `rejection` sampling arms draw different noise, so ids say nothing: the
run is judged by task score, non-inferior by the suite's declared margin, and refuted where traced drafts have not the
law that the rule relies on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np

from xpress_bench.analyse.groups import numbered
from xpress_bench.analyse.intervals import (
    Interval,
    Measure,
    Unknown,
    exact_lower_bound,
    mean_interval,
    median_interval,
)
from xpress_bench.analyse.law import NO_LAW, DraftLaw
from xpress_bench.analyse.reduce import Cells, Key, Selection, unit_of
from xpress_bench.records import Cell, Condition, Replay, first_difference

Outcome = Literal["shown", "refuted", "not shown"]
Verdict = Literal["tie", "near_tie", "real"]
Place = tuple[str, int, int, int]  # prompt, seed (0 at temperature 0), turn, position
_SEVERITY: tuple[Verdict | None, ...] = ("tie", "near_tie", None, "real")


@dataclass(frozen=True, slots=True)
class Divergence:
    """The worst difference of a prompt: where a pair first differs, and what the replay says of that place.

    A token is None where that side had already stopped. Of texts, position and tokens are characters. `verdict` is None
    when no replay judged the place. `gap` and `tolerance` are in logits.
    """

    prompt: str
    seed: int
    position: int
    arm_token: int | str | None
    direct_token: int | str | None
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
    first_divergence: median token index over the prompts that differ, of texts the character.
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
    law: DraftLaw | Unknown = NO_LAW,
) -> Parity:
    """Parity of `arm` with `direct`. `scores`: arm -> prompt -> task score; `margin`: the loss of score allowed.

    `law`: whether drafts are drawn from the law that `rejection` is told, without which its output has another one.
    """
    ours, theirs = selection.keyed(arm), selection.keyed(direct)
    prompts = dict.fromkeys(prompt for _, prompt in sorted({key[:2] for key in chain(ours, theirs)}))
    lone = {prompt for _, prompt, *_ in ours.keys() ^ theirs.keys()}
    bad = lone.union(_incomplete(ours.values()), _incomplete(theirs.values()))
    failed = tuple(prompt for prompt in prompts if prompt in bad)
    difference = score_difference(scores, arm, direct)
    comparable = selection.condition.verifier != "rejection"
    worst = _divergences(ours, theirs, _judged(replays, arm, selection.condition)) if comparable else {}
    places = tuple(worst[prompt] for prompt in prompts if prompt in worst)
    outcome, reason = (
        _by_ids(len(prompts), places, failed) if comparable else _by_score(difference, margin, failed, law)
    )
    if comparable and any(cell.counts and not cell.ids for cell in chain(ours.values(), theirs.values())):
        reason += ", by text: a server gives no ids"
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
    cells = Cells.of(direct)
    codes, units = cells.units
    pools, keys = numbered(unit[1:] for unit in units)
    pool_of = pools[codes]
    prompts = {keys[pool][0] for pool in np.flatnonzero(np.bincount(pool_of) > 1).tolist()}
    if not prompts:
        return Unknown("direct ran once per prompt")
    first: dict[int, tuple[int, ...] | str] = {}
    outputs = ((pool, cell.ids or cell.output) for pool, cell in zip(pool_of.tolist(), cells, strict=True))
    unsteady = {keys[pool][0] for pool, output in outputs if first.setdefault(pool, output) != output}
    return exact_lower_bound(len(prompts) - len(unsteady), len(prompts))


def _incomplete(cells: Iterable[Cell]) -> Iterator[str]:
    return (cell.prompt for cell in cells if not (cell.ids or cell.tokens) or cell.error or cell.stop_reason == "short")


def _judged(replays: Iterable[Replay], arm: str, condition: Condition) -> dict[Place, Replay]:
    own = [one for one in replays if one.arm == arm and one.condition == condition]
    return {(one.prompt, one.seed if condition.temperature > 0 else 0, one.turn, one.position): one for one in own}


def _divergences(
    ours: Mapping[Key, Cell], theirs: Mapping[Key, Cell], judged: Mapping[Place, Replay]
) -> dict[str, Divergence]:
    """The worst difference of each prompt that has one, the last of those that are as bad."""
    worst: dict[str, Divergence] = {}
    # The same ids settle nearly every pair of a large run; where a server gave none, texts are looked at.
    open_ = (key for key, cell in ours.items() if key in theirs and (cell.counts or cell.ids != theirs[key].ids))
    both = (key for key in open_ if ours[key].tokens and theirs[key].tokens)
    answered = ((key, *_outputs(ours[key], theirs[key])) for key in both)
    for key in sorted(key for key, mine, direct in answered if mine != direct):
        place = _divergence(ours[key], theirs[key], judged)
        severity = _SEVERITY.index(place.verdict)
        if place.prompt not in worst or severity >= _SEVERITY.index(worst[place.prompt].verdict):
            worst[place.prompt] = place
    return worst


def _outputs(ours: Cell, theirs: Cell) -> tuple[Sequence[int | str], Sequence[int | str]]:
    """What two requests are compared by: ids, or texts where one side has no ids."""
    return (ours.ids, theirs.ids) if ours.ids and theirs.ids else (ours.text, theirs.text)


def _divergence(ours: Cell, theirs: Cell, judged: Mapping[Place, Replay]) -> Divergence:
    mine, direct = _outputs(ours, theirs)
    at = first_difference(mine, direct)
    assert at is not None
    replay = judged.get((*unit_of(ours)[1:], at))
    return Divergence(
        prompt=ours.prompt,
        seed=ours.seed,
        position=at,
        arm_token=mine[at] if at < len(mine) else None,
        direct_token=direct[at] if at < len(direct) else None,
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


def _by_score(
    difference: Measure, margin: float | None, failed: Sequence[str], law: DraftLaw | Unknown
) -> tuple[Outcome, str]:
    if isinstance(law, DraftLaw) and law.refuted:
        return "refuted", "has not the target's law: its drafts are not drawn from the law that they are verified with"
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
