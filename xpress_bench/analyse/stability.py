"""Was the machine quiet? Flags on timing; they warn, and no cell is ever removed for one.

Residual: log latency less the median log latency of the same (prompt, seed, turn, arm), all seeds together at
temperature 0.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from operator import attrgetter
from statistics import fmean

import numpy as np
from scipy import stats

from xpress_bench.analyse.groups import Codes, Floats, medians, numbered, quantiles
from xpress_bench.analyse.intervals import Interval, Measure, mean_interval
from xpress_bench.analyse.reduce import Cells, Unit, per_prompt
from xpress_bench.records import Cell

OUTLIER_SIGMAS = 10  # on a robust scale, as in hyperfine
OUTLIER_SHARE = 0.02  # above it the run is unstable
SPREAD_WARN, SPREAD_VOID = 0.10, 0.25  # repeat IQR over median, as in torch.utils.benchmark
TREND, TREND_P = 0.1, 0.01  # both needed: among thousands of cells a correlation of 0.03 has a tiny p and means nothing
LEAST = 10  # cells of a trend: scipy gives p = 0 to any three that happen to stand in order
COARSE = 1e-3  # a relative spread below this is the clock's, not the machine's


@dataclass(frozen=True, slots=True)
class Trend:
    """Spearman's rank correlation of the residuals with a place."""

    correlation: float
    p: float

    @property
    def found(self) -> bool:
        return self.p < TREND_P and abs(self.correlation) >= TREND


@dataclass(frozen=True, slots=True)
class Stability:
    """`outliers` of `timed` cells; `spread`: median over units of repeat IQR / median, None with one repeat.

    `wide` and `void` count units whose spread is above 10 % and 25 %. `first_repeat`: mean log ratio of the first
    repeat over the rest. `drift`: with the place of a request in its launch, `order`: with the place of its arm among
    the others; None for fewer than 10 requests, or with nothing repeated. `flags`: one sentence for each thing that is
    wrong, empty when the machine was quiet.
    """

    timed: int
    outliers: int
    spread: float | None
    wide: int
    void: int
    first_repeat: Measure
    drift: Trend | None
    order: Trend | None
    flags: tuple[str, ...]

    @property
    def quiet(self) -> bool:
        """Few outliers and repeats that agree."""
        return self.outliers <= OUTLIER_SHARE * self.timed and (self.spread or 0.0) <= SPREAD_WARN


def stability(cells: Sequence[Cell]) -> Stability:
    """Stability of all usable cells of one condition, given in journal order."""
    cells = _timed(cells)
    unit_of, units = cells.units
    arm_of, arms = numbered(map(attrgetter("arm"), cells))
    group_of = unit_of * len(arms) + arm_of  # its cells are repeats
    pools, pooled = numbered(unit[1:] for unit in units)  # of all launches
    pool_of = pools[unit_of] * len(arms) + arm_of
    logs = np.log(cells.latency_s)
    residuals = logs - medians(logs, pool_of, len(pooled) * len(arms))[pool_of]
    low, middle, high = quantiles(cells.latency_s, group_of, len(units) * len(arms), 4)
    spreads = ((high - low) / middle)[np.bincount(group_of, minlength=len(middle)) > 1]
    outliers = _outliers(arm_of, residuals)
    drift, order = _trend(_places(cells), residuals), _trend(cells.column("order"), residuals)
    first = _first_repeat(cells.latency_s, group_of, [unit for unit in units for _ in arms])
    spread = float(np.median(spreads)) if len(spreads) else None
    wide, void = int((spreads > SPREAD_WARN).sum()), int((spreads > SPREAD_VOID).sum())
    flags = (
        _outlier_flag(outliers, len(cells)),
        f"repeats vary by more than 25 % in {void} of {len(spreads)} units" if void else None,
        f"repeats vary by {spread:.0%} of their median" if spread and spread > SPREAD_WARN else None,
        _trend_flag("latency drifts over the run", drift),
        _trend_flag("latency depends on the order of arms", order),
        _first_repeat_flag(first),
    )
    told = tuple(flag for flag in flags if flag)
    return Stability(len(cells), outliers, spread, wide, void, first, drift, order, told)


def first_repeat(cells: Sequence[Cell]) -> Measure:
    """`Stability.first_repeat` of the cells of one arm."""
    cells = _timed(cells)
    return _first_repeat(cells.latency_s, *cells.units)


def _timed(cells: Sequence[Cell]) -> Cells:
    cells = Cells.of(cells)
    return cells.where(~np.isnan(cells.latency_s))


def _outliers(arm_of: Codes, residuals: Floats) -> int:
    # One scale for each arm: the spread of three repeats alone is far too noisy to call one of them an outlier.
    count = 0
    for arm in np.unique(arm_of):
        own = residuals[arm_of == arm]
        scale = max(float(stats.median_abs_deviation(own, scale="normal")), COARSE)
        count += int((np.abs(own) > OUTLIER_SIGMAS * scale).sum())
    return count


def _outlier_flag(outliers: int, timed_cells: int) -> str | None:
    return f"{outliers} of {timed_cells} latencies are outliers" if outliers > OUTLIER_SHARE * timed_cells else None


def _places(cells: Sequence[Cell]) -> Floats:
    """Of each cell the number of cells before it in its launch."""
    counts: defaultdict[int, count[int]] = defaultdict(count)
    return np.array([next(counts[cell.launch]) for cell in cells], dtype=np.float64)


def _trend(place: Floats, residuals: Floats) -> Trend | None:
    if len(place) < LEAST or np.ptp(place) == 0 or np.ptp(residuals) == 0:
        return None
    rank = stats.spearmanr(place, residuals)
    return Trend(float(rank.statistic), float(rank.pvalue))


def _trend_flag(what: str, trend: Trend | None) -> str | None:
    return f"{what} (rank correlation {trend.correlation:+.2f})" if trend and trend.found else None


def _first_repeat(latencies_s: Floats, group_of: Codes, units: Sequence[Unit]) -> Measure:
    """`units`: of each group."""
    groups, first = np.unique(group_of, return_index=True)
    later = np.delete(np.arange(len(group_of)), first)
    ratios: defaultdict[Unit, list[float]] = defaultdict(list)
    repeated = np.unique(group_of[later])
    first_s = dict(zip(groups.tolist(), latencies_s[first].tolist(), strict=True))
    rest_s = medians(latencies_s[later], group_of[later], len(units))
    for group in repeated.tolist():
        ratios[units[group]].append(math.log(first_s[group] / rest_s[group]))
    return mean_interval(list(per_prompt({unit: fmean(values) for unit, values in ratios.items()}).values()))


def _first_repeat_flag(first: Measure) -> str | None:
    if isinstance(first, Interval) and first.low > np.log1p(0.01):
        return f"first repeats are {np.expm1(first.estimate):.0%} slower than the rest: raise warmup"
    return None
