"""Intervals of one stage of load, whose requests are not independent: who comes behind a long one waits for it.

Values come in the order of time and are cut into ten blocks of it. How much more the blocks differ than independent
values would is the design effect: of n dependent values n / effect independent ones say as much. Where blocks are no
longer than what hangs together, no such interval holds, and there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from xpress_bench.analyse.intervals import ALPHA, Interval, Measure, Unknown, mean_interval

BLOCKS = 10
FEWEST = 3 * BLOCKS  # requests: three in each block
Deliveries = tuple[Sequence[float], Sequence[float]]  # when, in seconds, and how much


def share_interval(hits: Sequence[bool]) -> Measure:
    """Share of hits, one per request in order of time, by the exact interval of as many independent ones.

    Korn and Graubard (1998): Clopper and Pearson's interval at the effective size n / effect, which also allows for the
    effect being estimated from ten blocks.
    """
    data = np.asarray(hits, dtype=np.float64)
    if len(data) < FEWEST:
        return _few(len(data), float(data.mean()) if len(data) else None)
    share = float(data.mean())
    low, high = _exact(share, effective_size(data))
    return Interval(share, low, high, "exact at the effective size", len(data))


def quantile_interval(values: Sequence[float], q: float) -> Measure:
    """Quantile q of one value per request, in order of time.

    Woodruff (1952): the interval of the share of values that are at most the estimate, taken back to values by their
    order. Unknown where so few values have no order statistic that is above the quantile, or below, often enough.
    """
    data = np.asarray(values, dtype=np.float64)
    if len(data) < FEWEST:
        return _few(len(data), float(np.quantile(data, q)) if len(data) else None)
    estimate = float(np.quantile(data, q))
    size = effective_size((data <= estimate).astype(np.float64))
    need = needed(q)
    if size < need:
        return Unknown(f"p{100 * q:g} needs {need} independent requests, and these {len(data)} are worth {size:.0f}")
    low, high = _exact(q, size)
    ends = np.quantile(data, low, method="lower"), np.quantile(data, high, method="higher")
    return Interval(estimate, float(ends[0]), float(ends[1]), "order statistics at the effective size", len(data))


def rate_interval(runs: Sequence[Deliveries], seconds: float, longest_s: float) -> Measure:
    """What came per second, over runs of `seconds` each: mean of ten blocks of time of each, t interval.

    Batch means (Law and Carson 1979). `longest_s`: what hangs together, as a request; blocks must be longer.
    """
    edges = np.linspace(0.0, seconds, BLOCKS + 1)
    counts = [np.histogram(times_s, edges, weights=weights)[0] for times_s, weights in runs]
    rates = np.concatenate(counts) / (seconds / BLOCKS)
    if seconds / BLOCKS < longest_s:
        return Unknown("a tenth of the stage is shorter than a request", float(rates.mean()))
    found = mean_interval(rates.tolist())
    return found if isinstance(found, Unknown) else replace(found, low=max(found.low, 0.0), method=_named(found.method))


def effective_size(values: NDArray[np.float64]) -> float:
    """How many independent values say as much of their mean as these, `FEWEST` at least, in order of time."""
    n, spread = len(values), float(values.var())
    if spread == 0:
        return float(n)
    means = [block.mean() for block in np.array_split(values, BLOCKS)]
    effect = float(np.var(means, ddof=1)) / BLOCKS / (spread / n)
    sure, blocks = stats.t.ppf(1 - ALPHA / 2, [n - 1, BLOCKS - 1])
    return float(n / max(1.0, effect) * (sure / blocks) ** 2)


def needed(q: float) -> int:
    """Fewest independent values that bound quantile q on both sides: the largest, or least, must not miss it too often.

    q^n <= 2.5 % (David and Nagaraja 2003, section 7.1).
    """
    return int(np.ceil(np.log(ALPHA / 2) / np.log(max(q, 1 - q))))


def _named(method: str) -> str:
    return "t over blocks of time" if method == "t" else method


def _exact(share: float, size: float) -> tuple[float, float]:
    hits = share * size
    low = 0.0 if hits <= 0 else float(stats.beta.ppf(ALPHA / 2, hits, size - hits + 1))
    high = 1.0 if hits >= size else float(stats.beta.ppf(1 - ALPHA / 2, hits + 1, size - hits))
    return low, high


def _few(n: int, estimate: float | None) -> Unknown:
    return Unknown(f"n < {FEWEST}" if n else "no request", estimate)
