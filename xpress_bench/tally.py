"""The verify steps of one request as sums: all that a report needs of them, however many they were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import repeat
from typing import NamedTuple

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
