"""Several values of one setting against each other, and what may be said of them after looking.

All pairs are compared, so that a value picked because it looks best is still covered: each interval has the level
1 - 0.05 / pairs (Bonferroni), and all together 95 %.

What is timed is timed in rounds. Processes differ, by more than prompts do on a busy machine, and what a value's rounds
differ by goes into every interval (Satterthwaite 1946).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from statistics import variance
from typing import TypeVar

from scipy import stats

from xpress_bench.analyse.compare import NOISE_BAND
from xpress_bench.analyse.intervals import ALPHA, Interval, Measure, Unknown, ratio_interval

T = TypeVar("T")
Logs = Sequence[float] | Unknown  # one log ratio per prompt


@dataclass(frozen=True, slots=True)
class Spread:
    """Variance of the difference of two values, each a mean over rounds, that comes from rounds; degrees of freedom."""

    variance: float
    df: int


EXACT = Spread(0.0, 0)  # of counts, which are the same in every process


def between_rounds(rounds: Sequence[Sequence[float]]) -> Spread | Unknown:
    """From what each value reached in each round, pooled over values."""
    df = sum(len(one) - 1 for one in rounds)
    if df < 1:
        return Unknown("every value was run once, and what processes differ by is not known; add --rounds 2")
    pooled = sum(variance(one) * (len(one) - 1) for one in rounds if len(one) > 1) / df
    return Spread(2 * pooled / min(map(len, rounds)), df)


@dataclass(frozen=True, slots=True)
class Contest:
    """`ratios[a, b]`: how many times better a is than b. `values` in their order, the cheapest first.

    `means`: what each has reached, as a logarithm.
    """

    values: tuple[str, ...]
    means: Mapping[str, float]
    ratios: Mapping[tuple[str, str], Measure]

    def better(self, a: str, b: str) -> bool:
        """Whether a is shown to be better than b, and by more than makes no practical difference."""
        ratio = self.ratios.get((a, b))
        return isinstance(ratio, Interval) and ratio.low > 1 and ratio.estimate >= 1 + NOISE_BAND

    @property
    def best(self) -> str:
        """The one with the highest estimate."""
        return max(self.values, key=self.means.__getitem__)

    @property
    def undecided(self) -> tuple[str, ...]:
        """Those that no other is shown to be better than: any of them may be the best."""
        return tuple(one for one in self.values if not any(self.better(other, one) for other in self.values))

    @property
    def knee(self) -> str:
        """The smallest value that no larger one is shown to be better than."""
        return self._knee(self.values)

    @property
    def separates(self) -> bool:
        """Whether any value is shown to be better than another."""
        return any(self.better(a, b) for a, b in self.ratios)

    def recommended(self, base: str, ordered: bool = True) -> str:
        """The base, unless others are shown to be better: of those the knee, or the best where they have no order."""
        above = [value for value in self.values if self.better(value, base)]
        if not above:
            return base
        return self._knee(above) if ordered else max(above, key=self.means.__getitem__)

    def _knee(self, values: Sequence[str]) -> str:
        return next(one for at, one in enumerate(values) if not any(self.better(larger, one) for larger in values[at:]))


def contest(
    values: Mapping[str, T], mean: Callable[[T], float], logs: Callable[[T, T], Logs], spread: Spread | Unknown = EXACT
) -> Contest:
    """`mean` of a value is a logarithm; `logs(a, b)` has log(a / b) of each prompt. `spread`: between rounds."""
    pairs = len(values) * (len(values) - 1) // 2
    ratios = {(a, b): simultaneous(logs(values[a], values[b]), pairs, spread) for a, b in permutations(values, 2)}
    return Contest(tuple(values), {name: mean(value) for name, value in values.items()}, ratios)


def simultaneous(logs: Logs, comparisons: int, spread: Spread | Unknown = EXACT) -> Measure:
    """Geometric mean of ratios with an interval that holds together with those of as many `comparisons`."""
    found = logs if isinstance(logs, Unknown) else ratio_interval(logs)
    if isinstance(found, Unknown):
        return found
    if isinstance(spread, Unknown):
        return Unknown(spread.reason, found.estimate)
    centre, df = math.log(found.estimate), found.n - 1
    own = ((math.log(found.high) - centre) / stats.t(df).ppf(1 - ALPHA / 2)) ** 2
    total = own + spread.variance
    if total == 0:  # without spread there is nothing to widen
        return found
    df = total**2 / (own**2 / df + (spread.variance**2 / spread.df if spread.df else 0.0))
    half = math.sqrt(total) * stats.t(df).ppf(1 - ALPHA / 2 / comparisons)
    method = found.method + (" and rounds" if spread.df else "")
    method += "" if comparisons == 1 else f", {comparisons} comparisons"
    return replace(found, low=math.exp(centre - half), high=math.exp(centre + half), method=method)
