"""Quantiles of many small groups at once: with a million values a loop over groups takes longer than all the rest."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]  # the number of a group, from 0
Mask = NDArray[np.bool_]
K = TypeVar("K", bound=Hashable)


def numbered(keys: Iterable[K]) -> tuple[Codes, list[K]]:
    """Of each key the number of its group, in order of first occurrence, and the key of each group."""
    numbers: dict[K, int] = {}
    codes = [numbers.setdefault(key, len(numbers)) for key in keys]
    return np.array(codes, dtype=np.int64), list(numbers)


def medians(values: Floats, groups: Codes, count: int) -> Floats:
    """[count]: the median of each group; NaN is no value, and stands for a group without one."""
    found: Floats = quantiles(values, groups, count, 2)[0]
    return found


def quantiles(values: Floats, groups: Codes, count: int, n: int) -> Floats:
    """[n - 1, count]: what `statistics.quantiles(..., n=n, method="inclusive")` gives for each of `count` groups."""
    known = ~np.isnan(values)
    sizes = np.bincount(groups[known], minlength=count)
    order = np.lexsort((values[known], groups[known]))
    ordered = np.append(values[known][order], 0.0)  # behind the last value of all, whose neighbour has no share
    places, shares = np.divmod(np.outer(np.arange(1, n), sizes - 1), n)
    below = np.cumsum(sizes) - sizes + places
    found = (ordered[below] * (n - shares) + ordered[below + 1] * shares) / n
    return np.where(sizes > 0, found, np.nan)
