"""Intervals: every estimate comes with one, or with the reason why it has none.

Each estimator takes one value per prompt: prompts are the unit of inference, cells inside them are not independent.
All levels are 95 %. A NaN or infinite input raises ValueError; data too few or constant never reach scipy, which
answers them with NaN or with p = 0. Quantiles and tails of Student's t and of the binomial come from scipy.special: its
test objects take twenty times as long, and a site of a thousand runs has a million of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

ALPHA = 0.05
Values = Sequence[float] | NDArray[np.float64]
_ORDER_STATISTICS_FROM = 6  # below it even the full range of the values covers the median in less than 95 % of samples


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its 95 % interval, the method that gave it and the number of values (prompts) behind it."""

    estimate: float
    low: float
    high: float
    method: str
    n: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """No interval, and why; `estimate` is the point value where there is one, e.g. of a single prompt."""

    reason: str
    estimate: float | None = None


Measure = Interval | Unknown


def median_interval(values: Sequence[float]) -> Measure:
    """Median of one value per prompt, in their unit.

    Interpolated order statistics (Hettmansperger and Sheather 1986). Below six values the interval is their range and
    the method states the coverage that a range has, 1 - 2^(1-n).
    """
    data = _finite(values)
    short = _too_few(data)
    if short:
        return short
    estimate, n = float(np.median(data)), len(data)
    if _constant(data):
        return Interval(estimate, estimate, estimate, "constant data", n)
    if n < _ORDER_STATISTICS_FROM:
        coverage = 1 - 2.0 ** (1 - n)
        return Interval(estimate, float(data.min()), float(data.max()), f"range, covers {coverage:.0%}", n)
    return Interval(estimate, *_order_statistics(np.sort(data)), "order statistics", n)


def _order_statistics(ordered: NDArray[np.float64]) -> tuple[float, float]:
    """Ends of the median's interval of at least six ordered values, numbered from 1.

    The k-th value from below and from above cover it with 1 - 2 P(B < k), B binomial (n, 1/2). The two k whose coverage
    lies next to the wanted one, above and below, are interpolated.
    """
    n = len(ordered)

    def coverage(k: int) -> float:
        return 1 - 2 * float(special.bdtr(k - 1, n, 0.5))

    k = int(special.bdtrik(ALPHA / 2, n, 0.5)) + 2  # at most one above the last that covers enough
    while coverage(k) < 1 - ALPHA:
        k -= 1
    part = (coverage(k) - (1 - ALPHA)) / (coverage(k) - coverage(k + 1))
    share = (n - k) * part / (k + (n - 2 * k) * part)
    low = share * ordered[k] + (1 - share) * ordered[k - 1]
    high = share * ordered[n - k - 1] + (1 - share) * ordered[n - k]
    return float(low), float(high)


def mean_interval(values: Sequence[float]) -> Measure:
    """Mean of one value per prompt, with Student's t interval."""
    data = _finite(values)
    short = _too_few(data)
    if short:
        return short
    estimate = float(data.mean())
    if _constant(data):
        return Interval(estimate, estimate, estimate, "constant data", len(data))
    half = float(special.stdtrit(len(data) - 1, 1 - ALPHA / 2)) * _standard_error(data)
    return Interval(estimate, estimate - half, estimate + half, "t", len(data))


def ratio_interval(log_ratios: Sequence[float]) -> Measure:
    """Geometric mean of paired ratios from one log ratio per prompt, exp of the t interval (Fleming, Wallace 1986)."""
    mean = mean_interval(log_ratios)
    if isinstance(mean, Unknown):
        return Unknown(mean.reason, None if mean.estimate is None else math.exp(mean.estimate))
    method = "paired t on logs" if mean.method == "t" else mean.method
    return Interval(math.exp(mean.estimate), math.exp(mean.low), math.exp(mean.high), method, mean.n)


def clustered_ratio_interval(numerators: Sequence[float], denominators: Sequence[float]) -> Measure:
    """Sum of numerators over sum of denominators, clustered by prompt; both are >= 0, one entry per prompt.

    Linearisation (Cochran 1977): pseudo-values r + (k - r n) / mean(n) have mean r and take a t interval. Its lower
    end is cut at 0, which no ratio of counts or times can pass.
    """
    k, n = _finite(numerators), _finite(denominators)
    if len(k) != len(n):
        raise ValueError(f"{len(k)} numerators for {len(n)} denominators")
    if n.sum() == 0:
        return Unknown("nothing to divide by")
    ratio = k.sum() / n.sum()
    mean = mean_interval(ratio + (k - ratio * n) / n.mean())
    if isinstance(mean, Unknown):
        return Unknown(mean.reason, float(ratio))
    method = "clustered t" if mean.method == "t" else mean.method
    return Interval(float(ratio), max(mean.low, 0.0), mean.high, method, mean.n)


def totals_ratio_interval(above: Sequence[Values], below: Sequence[Values]) -> Measure:
    """Product of the totals of `above` over the product of those of `below`, clustered by prompt.

    Every member holds one value >= 0 per prompt. Linearisation of the logarithm (delta method): pseudo-values
    log r + sum(x / mean x - 1) over `above` less the same over `below` have mean log r and take a t interval.
    """
    over, under = ([_finite(values) for values in side] for side in (above, below))
    if any(not values.sum() > 0 for values in (*over, *under)):
        return Unknown("a total is 0")
    log_ratio = sum(math.log(x.sum()) for x in over) - sum(math.log(x.sum()) for x in under)
    shifts = sum(x / x.mean() - 1 for x in over) - sum(x / x.mean() - 1 for x in under)
    found = ratio_interval(log_ratio + shifts)
    if isinstance(found, Interval) and found.method == "paired t on logs":
        return replace(found, method="clustered t on logs")
    return found


def exact_lower_bound(successes: int, n: int) -> Measure:
    """Share of successes with its one-sided 95 % lower bound (Clopper and Pearson 1934); the upper end is 1."""
    if n == 0:
        return Unknown("nothing was compared")
    bound = float(special.betaincinv(successes, n - successes + 1, ALPHA)) if successes else 0.0
    return Interval(successes / n, bound, 1.0, "exact, one-sided", n)


def paired_p_value(log_ratios: Sequence[float]) -> float | None:
    """Two-sided p of "the mean log ratio is 0" by the paired t test; None below two prompts.

    Constant ratios have no spread to test against; the sign test answers for them.
    """
    data = _finite(log_ratios)
    if len(data) < 2:
        return None
    if not _constant(data):
        return 2 * float(special.stdtr(len(data) - 1, -abs(float(data.mean())) / _standard_error(data)))
    if abs(data[0]) <= _rounding(data):
        return 1.0
    return float(stats.binomtest(len(data), len(data)).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm-adjusted p-values (Holm 1979), in the order given."""
    p = _finite(p_values)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return [float(value) for value in adjusted]


def benjamini_yekutieli(p_values: Sequence[float]) -> list[float]:
    """False-discovery adjusted p-values under any dependence (Benjamini and Yekutieli 2001), in the order given."""
    p = _finite(p_values)
    return [float(value) for value in stats.false_discovery_control(p, method="by")] if len(p) else []


def _finite(values: Sequence[float] | NDArray[Any]) -> NDArray[np.float64]:
    data = np.asarray(values, dtype=np.float64)
    if not np.isfinite(data).all():
        raise ValueError(f"{np.count_nonzero(~np.isfinite(data))} of {len(data)} values are NaN or infinite")
    return data


def _too_few(data: NDArray[np.float64]) -> Unknown | None:
    if len(data) == 0:
        return Unknown("no values")
    return Unknown("n < 2", float(data[0])) if len(data) == 1 else None


def _standard_error(data: NDArray[np.float64]) -> float:
    return float(data.std(ddof=1)) / math.sqrt(len(data))


def _constant(data: NDArray[np.float64]) -> bool:
    return bool(np.ptp(data) <= _rounding(data))


def _rounding(data: NDArray[np.float64]) -> float:
    # Equal ratios of different latencies differ in their last bits; scipy then warns or returns noise.
    return 1e-12 * max(1.0, float(np.abs(data).max()))
