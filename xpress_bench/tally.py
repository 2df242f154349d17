"""The verify steps of one request as sums: all that a report needs of them, however many they were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Annotated, Literal, NamedTuple

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0, le=2**16)]  # tokens of one verify step; no block is longer
Source = Literal["request", "counters", "both"]  # what came with an answer, or a server's counters
Whole = Annotated[int, msgspec.Meta(ge=0)]
Round = tuple[int, int, int, int | None]  # offered, accepted, committed, matched of one step, as in `records.Steps`


class Tally(NamedTuple):
    """rounds: every kind of step that occurred with the number of such steps, in order of first occurrence.

    steps: their number. offered, accepted, committed: sums over them. last: committed by the last one, 0 without any.
    Times are seconds of all steps; verify_s is None where the stages were not timed.
    """

    rounds: tuple[tuple[Round, int], ...] = ()
    steps: int = 0
    offered: int = 0
    accepted: int = 0
    committed: int = 0
    last: int = 0
    draft_s: float = 0.0
    refine_s: float = 0.0
    verify_s: float | None = None

    @property
    def tally(self) -> Tally:
        """Itself, for it stands in for `Steps` where a run was read without its traces."""
        return self

    @property
    def longest(self) -> int:
        """Most draft tokens that one step offered."""
        return max((offered for (offered, *_), _ in self.rounds), default=0)

    def timed(self, draft_s: Sequence[float], refine_s: Sequence[float], verify_s: Sequence[float]) -> Tally:
        """The same with the times of its steps, in seconds."""
        times = sum(draft_s), sum(refine_s), sum(verify_s) if verify_s else None
        return Tally._make((*self[:6], *times))


def counted(offered: Sequence[int], accepted: Sequence[int], committed: Sequence[int], matched: Sequence[int]) -> Tally:
    """The tally of steps, without times, from one entry per step and field; `matched` may be empty. Else ValueError."""
    steps = zip(offered, accepted, committed, matched or repeat(None, len(committed)), strict=True)
    rounds = tuple(Counter(steps).items())
    last = committed[-1] if committed else 0
    return Tally(rounds, len(committed), sum(offered), sum(accepted), sum(committed), last)


@dataclass(frozen=True, slots=True)
class Steps:
    """The verify steps of one request, one entry per step and field. All are empty for the direct arm.

    offered: draft tokens sent to the target (anchor not counted). accepted: of those, the leading run the target agrees
    with, cut at a stop id or the limit. committed: tokens really added, the target's own token included.
    matched: that leading run before it is cut at a stop id, which some systems count; empty in older journals.
    drafts, refined: the ids offered before and after refinement (refined is empty without a refiner).
    passes: refinement passes really made, fewer than asked for where they settled early; empty without a refiner.
    Times are seconds per step, in a batch those of the whole batch: they stand in each of its rows.

    Of several candidates all of this is of the chain that was verified. Of a tree, offered is the longest path that it
    may have, as a chain of the same block offers; drafts and refined are the path that was followed, on along its
    longest continuation, and may be shorter; a token that the tree put beside the candidates stands in both. nodes: the
    tokens of the tree, all sent to the target; empty for chains. Merging candidates is part of verify_s.
    """

    offered: tuple[Count, ...] = ()
    accepted: tuple[Count, ...] = ()
    committed: tuple[Count, ...] = ()
    drafts: tuple[tuple[int, ...], ...] = ()
    refined: tuple[tuple[int, ...], ...] = ()
    draft_s: tuple[float, ...] = ()
    refine_s: tuple[float, ...] = ()
    verify_s: tuple[float, ...] = ()
    matched: tuple[Count, ...] = ()
    passes: tuple[Count, ...] = ()
    nodes: tuple[Count, ...] = ()

    @property
    def tally(self) -> Tally:
        """The steps as sums. ValueError where a field of counts has not one entry per step."""
        counts = counted(self.offered, self.accepted, self.committed, self.matched)
        return counts.timed(self.draft_s, self.refine_s, self.verify_s)


@dataclass(frozen=True, slots=True)
class Counts:
    """What a server tells of one request, in place of `Steps`: it runs the steps, and nobody sees them.

    tokens: output tokens, a stop id that the server counted included. by: whether that is the number of ids it gave, or
    what its usage says.
    drafts: verify steps in which something was drafted. offered, accepted: draft tokens over the whole request, as the
    server counts them, which may be before a stop id cuts them. reached[i - 1]: steps that accepted at least i drafts.
    cached: prompt tokens that the server did not compute, having them from an earlier request.
    None is what it does not tell; `reason` says why nothing is known of its speculation, `source` where it is known
    from: the answer itself, the server's counters, or both, which agree. Neither stands in direct generation.
    """

    tokens: Whole
    by: Literal["ids", "usage"]
    drafts: Whole | None = None
    offered: Whole | None = None
    accepted: Whole | None = None
    reached: tuple[Whole, ...] = ()
    cached: Whole | None = None
    source: Source | None = None
    reason: str | None = None

    @property
    def tally(self) -> Tally:
        """The steps as sums, those without a draft included; none where nothing is known of them.

        The prompt's forward gives the first token. Each further one is the target's own, one per step, or an accepted
        draft: so steps are what accepted drafts leave over, and at least those that had a draft. `rounds` tells apart
        by accepted drafts only, where the server does: `offered` is there the most that any step accepted.
        """
        if self.drafts is None and self.accepted is None:
            return Tally()
        committed = max(0, self.tokens - 1)
        steps = max(self.drafts or 0, 0 if self.accepted is None else committed - self.accepted)
        accepted = committed - steps if self.accepted is None else self.accepted
        exact = [at_least - more for at_least, more in pairwise((*self.reached, 0))]
        longest = len(self.reached)
        rounds = tuple(((longest, size, size + 1, None), count) for size, count in enumerate(exact, start=1) if count)
        return Tally(rounds, steps, self.offered or 0, max(0, accepted), committed)
