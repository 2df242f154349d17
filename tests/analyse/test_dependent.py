"""Intervals of dependent requests: by hand, against closed forms, and their coverage on a queue whose law is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from xpress_bench.analyse.dependent import (
    effective_size,
    needed,
    quantile_interval,
    rate_interval,
    share_interval,
)
from xpress_bench.analyse.intervals import Interval, Unknown


def queue(customers: int, load: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Times in an M/M/1 queue with service rate 1, in order of arrival, from its steady state (Lindley 1952).

    Each is exponential with mean 1 / (1 - load).
    """
    service, gaps = rng.exponential(1.0, customers), rng.exponential(1 / load, customers)
    found = np.empty(customers)
    found[0] = rng.exponential(1 / (1 - load))
    for at in range(1, customers):
        found[at] = max(found[at - 1] - gaps[at], 0.0) + service[at]
    return found


def test_sizes_that_a_quantile_needs() -> None:
    # 0.5^6 = 0.016 and 0.5^5 = 0.031; 0.9^36 = 0.0225 and 0.9^35 = 0.02503; 0.99^368 = 0.02476 and 0.99^367 = 0.02501
    assert [needed(q) for q in (0.5, 0.9, 0.95, 0.99)] == [6, 36, 72, 368]
    assert needed(0.1) == needed(0.9)


def test_too_few_requests_have_no_interval_and_no_p99() -> None:
    found = quantile_interval([1.0, 2.0, 3.0], 0.5)
    assert found == Unknown("n < 30", 2.0)
    assert quantile_interval([], 0.5) == Unknown("no request", None)
    high = quantile_interval(list(np.arange(100.0) % 7), 0.99)
    assert isinstance(high, Unknown)
    assert high.estimate is None
    assert high.reason.startswith("p99 needs 368 independent requests, and these 100 are worth ")


def test_blocks_that_agree_are_worth_what_ten_blocks_can_tell() -> None:
    alternating = np.tile([0.0, 1.0], 50)  # every block has the share 1/2: effect 0, taken as 1
    size = effective_size(alternating)
    assert size == pytest.approx(100 * (stats.t.ppf(0.975, 99) / stats.t.ppf(0.975, 9)) ** 2)
    assert size == pytest.approx(76.9, abs=0.1)
    found = share_interval([bool(hit) for hit in alternating])
    assert isinstance(found, Interval)
    assert (found.estimate, found.n) == (0.5, 100)
    exact = stats.binomtest(50, 100).proportion_ci(0.95, "exact")
    assert found.low < exact.low < 0.5 < exact.high < found.high


def test_blocks_that_differ_are_worth_their_number() -> None:
    halves = np.repeat([0.0, 1.0], 50)  # five blocks of 0, five of 1: the variance of their means is 5 / 18
    effect = (5 / 18) / 10 / (0.25 / 100)
    assert effective_size(halves) == pytest.approx(100 / effect * (1.9842 / 2.2622) ** 2, rel=1e-4)
    assert effective_size(halves) < 10


def test_equal_values_and_certain_shares() -> None:
    assert quantile_interval([2.0] * 50, 0.5) == Interval(2.0, 2.0, 2.0, "order statistics at the effective size", 50)
    found = share_interval([True] * 50)
    assert isinstance(found, Interval)
    assert (found.estimate, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(0.025 ** (1 / 50))  # Clopper and Pearson with no miss


def test_a_rate_is_the_mean_of_blocks_of_time() -> None:
    times = [at + 0.5 for at in range(20)]  # one a second, two in each of ten blocks
    assert rate_interval([(times, [3.0] * 20)], 20.0, 1.0) == Interval(3.0, 3.0, 3.0, "constant data", 10)
    found = rate_interval([([0.5] * 20, [1.0] * 20)], 20.0, 1.0)  # all in the first block: rates 10, 0, 0, ...
    assert isinstance(found, Interval)
    low, high = stats.ttest_1samp([10.0] + [0.0] * 9, 0).confidence_interval(0.95)
    assert (found.estimate, found.low, found.high) == pytest.approx((1.0, max(low, 0), high))
    assert found.method == "t over blocks of time"
    late = rate_interval([(times, [1.0] * 20), ([25.0], [9.0])], 20.0, 2.1)  # 25 s is after the stage
    assert late == Unknown("a tenth of the stage is shorter than a request", 0.5)


def covered(q: float, n: int, runs: int) -> tuple[float, float]:
    """Share of intervals that hold the quantile, and of runs that have an interval."""
    rng, truth = np.random.default_rng(11), -math.log(1 - q) / (1 - 0.6)
    found = [quantile_interval(list(queue(n, 0.6, rng)), q) for _ in range(runs)]
    known = [one for one in found if isinstance(one, Interval)]
    return sum(one.low <= truth <= one.high for one in known) / len(known), len(known) / runs


def naive(q: float, n: int, runs: int) -> float:
    rng, truth = np.random.default_rng(11), -math.log(1 - q) / (1 - 0.6)
    ranks = stats.binom.ppf([0.025, 0.975], n, q).astype(int)
    found = (np.sort(queue(n, 0.6, rng)) for _ in range(runs))
    return sum(one[ranks[0]] <= truth <= one[ranks[1]] for one in found) / runs


def test_intervals_cover_the_quantiles_of_a_queue_and_plain_ones_do_not() -> None:
    assert covered(0.5, 1000, 300)[0] > 0.90
    assert covered(0.9, 2000, 200)[0] > 0.88
    assert naive(0.5, 1000, 300) < 0.75
