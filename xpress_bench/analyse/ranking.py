"""Ranks that measurements support: a row stands below another only where the two, paired, are apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

from xpress_bench.analyse.compare import NOISE_BAND
from xpress_bench.analyse.intervals import ALPHA


def ranks(log_speed_ups: Sequence[Mapping[str, float]]) -> list[int]:
    """Rank of each row, the best 1, from its log speed-up over direct of each prompt.

    A row is above another if on the prompts that both have the 95 % t interval of the mean difference lies above 0 and
    the mean outside the noise band. Its rank is 1 and the number of rows above it, so rows that are not apart share
    one. Fewer than two shared prompts part nothing. Each pair is tested at its own level.
    """
    if not log_speed_ups:
        return []
    prompts = sorted(set().union(*log_speed_ups))
    logs = np.array([[row.get(prompt, math.nan) for prompt in prompts] for row in log_speed_ups])
    known = ~np.isnan(logs)
    has, values = known.astype(np.float64), np.where(known, logs, 0.0)
    # Sums over the shared prompts of every pair at once: a loop over two thousand rows would take hours.
    n = has @ has.T
    squares = values**2 @ has.T
    paired = n > 1
    shared = np.where(paired, n, 2.0)
    mean = (values @ has.T - has @ values.T) / shared
    variance = (squares + squares.T - 2 * (values @ values.T) - shared * mean**2) / (shared - 1)
    sizes, of = np.unique(shared, return_inverse=True)
    quantile = stats.t.ppf(1 - ALPHA / 2, sizes - 1)[of.reshape(shared.shape)]
    half_width = quantile * np.sqrt(np.maximum(variance, 0.0) / shared)
    above = paired & (mean - half_width > 0) & (mean >= math.log1p(NOISE_BAND))
    return [int(count) + 1 for count in above.sum(axis=0)]
