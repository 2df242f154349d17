"""Charts of a submission's page, as places in a box: the template draws them from plain shapes.

matplotlib takes a second for the plots of one submission, and a site has a thousand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, groupby

from xpress_bench.publish.standings import Entry, Row

BAR = 200  # units of length of a bar's box
WIDEST = 100.0  # speed-up that is drawn, and slow-down: one wild interval must not squeeze all others
TICKS = (1, 1.5, 2, 3, 5, 10, 20, 50, 100, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)  # the first that fit are drawn
APART = 20  # units between two ticks, at least
POSITIONS = 32  # drafts of a step that are drawn


@dataclass(frozen=True, slots=True)
class Axis:
    """A logarithmic scale for speed-ups that holds 1 and all that is drawn on it."""

    low: float
    high: float

    @classmethod
    def of(cls, ratios: Iterable[float]) -> Axis:
        ends = [1.0, *map(_drawn, ratios)]
        return cls(min(ends) / 1.05, max(ends) * 1.05)

    def at(self, ratio: float) -> int:
        """The place of a ratio in a bar's box."""
        return round(BAR * math.log(_drawn(ratio) / self.low) / math.log(self.high / self.low))

    @property
    def ticks(self) -> list[tuple[int, str]]:
        """Places of round numbers, none too close to another."""
        found: dict[int, str] = {}
        for tick in TICKS:
            if self.low <= tick <= self.high and all(abs(self.at(tick) - place) >= APART for place in found):
                found[self.at(tick)] = f"{tick:g}"
        return sorted(found.items())


def _drawn(ratio: float) -> float:
    return min(max(ratio, 1 / WIDEST), WIDEST)


@dataclass(frozen=True, slots=True)
class Charts:
    """Rows under one condition, and an axis that holds their speed-ups of every prompt."""

    condition: str
    rows: tuple[Row, ...]

    @property
    def axis(self) -> Axis:
        spans = chain.from_iterable(row.span for row in self.rows if row.span)
        return Axis.of(chain(spans, *map(self.ratios, self.rows)))

    def ratios(self, row: Row) -> list[float]:
        """Speed-up of each prompt."""
        return [math.exp(log) for log in row.logs.values()]

    @property
    def positions(self) -> int:
        return min(max((len(row.accepted) for row in self.rows), default=0), POSITIONS)

    @property
    def stages(self) -> tuple[str, ...]:
        """Their names, in the order of every row that has them."""
        return next((tuple(row.stages_ms) for row in self.rows if row.stages_ms), ())

    @property
    def longest_ms(self) -> float:
        """Of the verify steps of all rows."""
        return max(sum(row.stages_ms.values()) for row in self.rows)


def charts_of(entry: Entry) -> list[Charts]:
    """The charts of every condition, in the order of its rows."""
    groups = groupby(entry.rows, key=lambda row: row.board.condition)
    return [Charts(condition, tuple(rows)) for condition, rows in groups]
