"""Was the machine quiet? Flags on timing; they warn, and no cell is ever removed for one.

Residual: log latency less the median log latency of the same (prompt, seed, turn, arm), all seeds together at
temperature 0.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, quantiles

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from xpress_bench.analyse.intervals import Interval, Measure, mean_interval
from xpress_bench.analyse.reduce import Unit, per_prompt, timed, unit_of
from xpress_bench.records import Cell

OUTLIER_SIGMAS = 10  # on a robust scale, as in hyperfine
OUTLIER_SHARE = 0.02  # above it the run is unstable
SPREAD_WARN, SPREAD_VOID = 0.10, 0.25  # repeat IQR over median, as in torch.utils.benchmark
TREND, TREND_P = 0.1, 0.01  # both needed: among thousands of cells a correlation of 0.03 has a tiny p and means nothing
COARSE = 1e-3  # a relative spread below this is the clock's, not the machine's
Floats = NDArray[np.float64]
Groups = defaultdict[tuple[Unit, str], list[float]]  # latencies in seconds of the repeats of a unit and arm


@dataclass(frozen=True, slots=True)
class Stability:
    """`outliers` of `timed` cells; `spread`: median over units of repeat IQR / median, None with one repeat.

    `wide` and `void` count units whose spread is above 10 % and 25 %. `first_repeat`: mean log ratio of the first
    repeat over the rest. `flags`: one sentence for each thing that is wrong, empty when the machine was quiet.
    """

    timed: int
    outliers: int
    spread: float | None
    wide: int
    void: int
    first_repeat: Measure
    flags: tuple[str, ...]

    @property
    def quiet(self) -> bool:
        """Few outliers and repeats that agree."""
        return self.outliers <= OUTLIER_SHARE * self.timed and (self.spread or 0.0) <= SPREAD_WARN


def stability(cells: Sequence[Cell]) -> Stability:
    """Stability of all usable cells of one condition, given in journal order."""
    rows = timed(cells)
    groups: Groups = defaultdict(list)
    for cell, latency_s in rows:
        groups[unit_of(cell), cell.arm].append(latency_s)
    spreads = np.array([_spread(values) for values in groups.values() if len(values) > 1])
    residuals = _residuals(rows)
    outliers = _outliers([cell.arm for cell, _ in rows], residuals)
    first = _first_repeat(groups)
    spread = float(np.median(spreads)) if len(spreads) else None
    wide, void = int((spreads > SPREAD_WARN).sum()), int((spreads > SPREAD_VOID).sum())
    flags = (
        _outlier_flag(outliers, len(rows)),
        f"repeats vary by more than 25 % in {void} of {len(spreads)} units" if void else None,
        f"repeats vary by {spread:.0%} of their median" if spread and spread > SPREAD_WARN else None,
        _trend_flag("latency drifts over the run", np.array(_places(rows), dtype=np.float64), residuals),
        _trend_flag("latency depends on the order of arms", np.array([float(c.order) for c, _ in rows]), residuals),
        _first_repeat_flag(first),
    )
    return Stability(len(rows), outliers, spread, wide, void, first, tuple(flag for flag in flags if flag))


def _spread(values: Sequence[float]) -> float:
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return (high - low) / middle


def _residuals(rows: Sequence[tuple[Cell, float]]) -> Floats:
    groups: defaultdict[tuple[str, int, int, str], list[int]] = defaultdict(list)
    for at, (cell, _) in enumerate(rows):
        groups[*unit_of(cell)[1:], cell.arm].append(at)
    logs = np.log([latency_s for _, latency_s in rows])
    for members in groups.values():
        logs[members] -= np.median(logs[members])
    return logs


def _outliers(arms: Sequence[str], residuals: Floats) -> int:
    # One scale for each arm: the spread of three repeats alone is far too noisy to call one of them an outlier.
    count = 0
    for arm in set(arms):
        own = residuals[np.array(arms) == arm]
        scale = max(float(stats.median_abs_deviation(own, scale="normal")), COARSE)
        count += int((np.abs(own) > OUTLIER_SIGMAS * scale).sum())
    return count


def _outlier_flag(outliers: int, timed_cells: int) -> str | None:
    return f"{outliers} of {timed_cells} latencies are outliers" if outliers > OUTLIER_SHARE * timed_cells else None


def _places(rows: Sequence[tuple[Cell, float]]) -> list[int]:
    counts: defaultdict[int, int] = defaultdict(int)
    places = []
    for cell, _ in rows:
        places.append(counts[cell.launch])
        counts[cell.launch] += 1
    return places


def _trend_flag(what: str, place: Floats, residuals: Floats) -> str | None:
    if len(place) < 3 or np.ptp(place) == 0 or np.ptp(residuals) == 0:
        return None
    rank = stats.spearmanr(place, residuals)
    found = rank.pvalue < TREND_P and abs(rank.statistic) >= TREND
    return f"{what} (rank correlation {rank.statistic:+.2f})" if found else None


def _first_repeat(groups: Groups) -> Measure:
    ratios: defaultdict[Unit, list[float]] = defaultdict(list)
    for (unit, _), (first, *rest) in groups.items():
        if rest:
            ratios[unit].append(math.log(first / median(rest)))
    return mean_interval(list(per_prompt({unit: fmean(values) for unit, values in ratios.items()}).values()))


def _first_repeat_flag(first: Measure) -> str | None:
    if isinstance(first, Interval) and first.low > np.log1p(0.01):
        return f"first repeats are {np.expm1(first.estimate):.0%} slower than the rest: raise warmup"
    return None
