"""How much of each draft the target keeps, from the verify steps of one arm.

Names and formulas are those of `metrics.md` 2.8: T steps, p offered, a accepted, c committed. Suffix `_step` pools all
steps (clustered by prompt); `_prompt` is the
plain mean of one ratio per prompt. The two differ, so neither goes without its suffix.

Every step counts, the last one too, also when a stop id or the limit cut it: `accepted` is cut there and `committed`
is what was really added, so the headline never promises tokens that nobody got. (Leaving that step out instead, as
some do, would leave short answers with no step at all.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from xpress_bench.analyse.groups import numbered
from xpress_bench.analyse.intervals import Interval, Measure, Unknown, clustered_ratio_interval, mean_interval
from xpress_bench.analyse.reduce import Cells
from xpress_bench.records import Cell, Counts

Sums = NDArray[np.int64]  # one entry per prompt
SUMS = ("steps", "offered", "accepted", "committed")  # of a tally


@dataclass(frozen=True, slots=True)
class Acceptance:
    """All are Unknown with a reason when no verify step was taken, as in the direct arm, or none is known.

    tokens_per_step_committed: sum c / T, the headline, the target's own token included. tokens_per_step_nominal:
    1 + sum a / T. accepted_drafts_per_step: sum a / T. draft_accept_rate: sum a / sum p.
    accept_marginal_step[i - 1]: share of steps that accepted at least i drafts, i from 1 to the longest draft.
    """

    steps: int
    tokens_per_step_committed_step: Measure
    tokens_per_step_committed_prompt: Measure
    tokens_per_step_nominal_step: Measure
    tokens_per_step_nominal_prompt: Measure
    accepted_drafts_per_step_step: Measure
    accepted_drafts_per_step_prompt: Measure
    draft_accept_rate_step: Measure
    draft_accept_rate_prompt: Measure
    accept_marginal_step: tuple[Measure, ...]


def acceptance(cells: Iterable[Cell]) -> Acceptance:
    """Acceptance of one arm under one condition; how its cells are grouped within a prompt changes nothing."""
    cells = Cells.of(cells)
    sums = np.array([cells.per_prompt(cells.tallied(name)) for name in SUMS], dtype=np.int64)
    stepped = sums[0] > 0
    steps, offered, accepted, committed = sums[:, stepped]
    served = [cell.counts for cell in cells if cell.counts]
    found = Acceptance(
        steps=int(steps.sum()),
        tokens_per_step_committed_step=_pooled(committed, steps),
        tokens_per_step_committed_prompt=_mean_of_prompts(committed, steps),
        tokens_per_step_nominal_step=_pooled(steps + accepted, steps),
        tokens_per_step_nominal_prompt=_mean_of_prompts(steps + accepted, steps),
        accepted_drafts_per_step_step=_pooled(accepted, steps),
        accepted_drafts_per_step_prompt=_mean_of_prompts(accepted, steps),
        draft_accept_rate_step=at_most_one(_pooled(accepted, offered)),
        draft_accept_rate_prompt=at_most_one(_mean_of_prompts(accepted, offered)),
        accept_marginal_step=_marginal(_reached(cells)[:, stepped], steps),
    )
    return _as_far_as_told(found, served) if served else found


def tokens_per_step(cells: Iterable[Cell]) -> Measure:
    """`tokens_per_step_committed_step` alone, which is what most tables show."""
    cells = Cells.of(cells)
    if any(cell.counts for cell in cells):
        return acceptance(cells).tokens_per_step_committed_step
    steps, committed = (cells.per_prompt(cells.tallied(name)).astype(np.int64) for name in ("steps", "committed"))
    return _pooled(committed[steps > 0], steps[steps > 0])


def _as_far_as_told(found: Acceptance, served: Sequence[Counts]) -> Acceptance:
    """What was worked out of the counts of servers, less what some of them do not tell."""
    known = [one for one in served if one.tally.steps]
    if not known:
        reason = Unknown(next((one.reason for one in served if one.reason), "no verify step was taken"))
        return Acceptance(0, *(reason,) * 8, accept_marginal_step=())
    if any(one.offered is None for one in known):
        unknown = Unknown("the server does not tell how many tokens it drafted")
        found = replace(found, draft_accept_rate_step=unknown, draft_accept_rate_prompt=unknown)
    if any(one.tally.accepted and not one.reached for one in known):
        found = replace(found, accept_marginal_step=(Unknown("the server does not tell acceptance by position"),))
    return found


def _pooled(numerators: Sums, denominators: Sums) -> Measure:
    if denominators.sum() == 0:
        return Unknown(_nothing(denominators))
    return clustered_ratio_interval(numerators.tolist(), denominators.tolist())


def _mean_of_prompts(numerators: Sums, denominators: Sums) -> Measure:
    some = denominators > 0  # a prompt that was offered nothing has no rate; it is not a rate of 0
    if not some.any():
        return Unknown(_nothing(denominators))
    return mean_interval((numerators[some] / denominators[some]).tolist())


def _nothing(denominators: Sums) -> str:
    return "no draft token was offered" if len(denominators) else "no verify step was taken"


def _reached(cells: Cells) -> Sums:
    """[n - 1, prompt]: steps that accepted at least n drafts, n from 1 to the longest offer."""
    prompt_of, prompts = cells.prompts
    rounds_of, rounds = numbered(tally.rounds for tally in cells.tallies)  # of few kinds, for repeats take equal steps
    pairs, counts = np.unique(prompt_of * len(rounds) + rounds_of, return_counts=True)
    longest = max((offered for one in rounds for (offered, *_), _ in one), default=0)
    found = np.zeros((longest + 1, len(prompts)), dtype=np.int64)
    for pair, requests in zip(pairs.tolist(), counts.tolist(), strict=True):
        prompt, kind = divmod(pair, len(rounds))
        for (_, accepted, *_), steps in rounds[kind]:
            found[min(accepted, longest), prompt] += steps * requests
    return found[::-1].cumsum(axis=0)[::-1][1:]


def _marginal(reached: Sums, steps: Sums) -> tuple[Measure, ...]:
    return tuple(at_most_one(_pooled(row, steps)) for row in reached)


def at_most_one(share: Measure) -> Measure:
    """A share with its interval cut to what a share can be."""
    return replace(share, high=min(share.high, 1.0), low=max(share.low, 0.0)) if isinstance(share, Interval) else share
