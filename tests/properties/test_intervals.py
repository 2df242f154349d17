"""Intervals on any numbers: what has to hold whatever the data are."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpress_bench.analyse.intervals import (
    Interval,
    Measure,
    Unknown,
    benjamini_yekutieli,
    clustered_ratio_interval,
    exact_lower_bound,
    holm,
    mean_interval,
    median_interval,
    paired_p_value,
    ratio_interval,
)

Estimator = Callable[[Sequence[float]], Measure]
VALUES = st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=40)
LOGS = st.lists(st.floats(-3, 3), min_size=2, max_size=40)
COUNTS = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), min_size=2, max_size=40)
P_VALUES = st.lists(st.floats(0, 1), max_size=20)
ONE_SAMPLE = pytest.mark.parametrize("estimator", [median_interval, mean_interval])


def ends(measure: Measure) -> tuple[float, float, float]:
    assert isinstance(measure, Interval), measure
    return measure.estimate, measure.low, measure.high


def same(ours: Measure, theirs: Sequence[float]) -> None:
    assert ends(ours) == pytest.approx(theirs, rel=1e-6, abs=1e-9)


def ordered(*values: float) -> bool:
    """None is above the next by more than rounding."""
    return all(low <= high * (1 + 1e-12) for low, high in pairwise(values))


@ONE_SAMPLE
@given(values=VALUES)
def test_an_interval_holds_its_estimate_and_a_median_s_stays_inside_the_data(
    estimator: Estimator, values: list[float]
) -> None:
    estimate, low, high = ends(estimator(values))
    assert ordered(low, estimate, high)
    assert estimator(values).n == len(values)  # type: ignore[union-attr]
    if estimator is median_interval:
        assert ordered(min(values), low, high, max(values))


@ONE_SAMPLE
@given(values=VALUES, seed=st.integers())
def test_the_order_of_prompts_changes_nothing(estimator: Estimator, values: list[float], seed: int) -> None:
    same(estimator(random.Random(seed).sample(values, len(values))), ends(estimator(values)))


@ONE_SAMPLE
@given(values=VALUES, power=st.integers(-3, 3))
def test_another_unit_scales_everything(estimator: Estimator, values: list[float], power: int) -> None:
    factor = 2.0**power
    same(estimator([factor * value for value in values]), [factor * end for end in ends(estimator(values))])


@given(LOGS)
def test_swapped_arms_give_the_reciprocal_and_the_same_p(logs: list[float]) -> None:
    swapped = [-value for value in logs]
    estimate, low, high = ends(ratio_interval(logs))
    same(ratio_interval(swapped), (1 / estimate, 1 / high, 1 / low))
    assert paired_p_value(swapped) == pytest.approx(paired_p_value(logs))


@given(LOGS)
def test_the_test_and_the_interval_say_the_same(logs: list[float]) -> None:
    found = ratio_interval(logs)
    p = paired_p_value(logs)
    if isinstance(found, Interval) and found.method == "paired t on logs" and p is not None and abs(p - 0.05) > 1e-6:
        assert (p < 0.05) == (not found.low <= 1 <= found.high)


@given(COUNTS, st.integers(1, 9), st.integers())
def test_a_pooled_ratio_is_the_ratio_of_sums_however_the_prompts_lie_and_whatever_the_unit(
    counts: list[tuple[int, int]], unit: int, seed: int
) -> None:
    k, n = zip(*counts, strict=True)
    estimate, low, high = ends(clustered_ratio_interval(k, n))
    assert estimate == pytest.approx(sum(k) / sum(n))
    assert ordered(0, low, estimate, high)
    mixed_k, mixed_n = zip(*random.Random(seed).sample(counts, len(counts)), strict=True)
    same(clustered_ratio_interval(mixed_k, mixed_n), (estimate, low, high))
    same(clustered_ratio_interval([unit * one for one in k], n), (unit * estimate, unit * low, unit * high))


@pytest.mark.parametrize("estimator", [median_interval, mean_interval, ratio_interval])
@given(value=st.floats(-3, 3), count=st.integers(0, 9), bad=st.sampled_from([math.nan, math.inf, -math.inf]))
def test_one_value_is_unknown_constant_ones_have_no_width_and_nan_is_an_error(
    estimator: Estimator, value: float, count: int, bad: float
) -> None:
    found = estimator([value] * count)
    right = math.exp(value) if estimator is ratio_interval else value
    if count < 2:
        assert found == Unknown("n < 2" if count else "no values", pytest.approx(right) if count else None)
    else:
        assert isinstance(found, Interval)
        assert found.method == "constant data"
        same(found, (right, right, right))
    with pytest.raises(ValueError, match="NaN or infinite"):
        estimator([value] * count + [bad])


@given(st.integers(1, 300), st.data())
def test_a_bound_of_a_share_is_below_it_and_grows_with_it(n: int, data: st.DataObject) -> None:
    successes = data.draw(st.integers(0, n - 1))
    share, low, high = ends(exact_lower_bound(successes, n))
    assert 0 <= low <= share <= high == 1
    assert low < ends(exact_lower_bound(successes + 1, n))[1]


@pytest.mark.parametrize("adjust", [holm, benjamini_yekutieli])
@given(p_values=P_VALUES)
def test_adjusting_never_makes_a_p_value_smaller_or_swaps_two(
    adjust: Callable[[Sequence[float]], list[float]], p_values: list[float]
) -> None:
    adjusted = adjust(p_values)
    assert all(ordered(raw, found, 1) for raw, found in zip(p_values, adjusted, strict=True))
    assert ordered(*(found for _, found in sorted(zip(p_values, adjusted, strict=True))))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_s_smallest_is_bonferroni_s(p_values: list[float]) -> None:
    assert min(holm(p_values)) == pytest.approx(min(1.0, len(p_values) * min(p_values)))
