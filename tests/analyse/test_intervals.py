import math
import warnings

import numpy as np
import pytest
from scipy import stats

from xpress_bench.analyse.intervals import (
    Interval,
    Unknown,
    benjamini_yekutieli,
    clustered_ratio_interval,
    exact_lower_bound,
    holm,
    mean_interval,
    median_interval,
    paired_p_value,
    ratio_interval,
    totals_ratio_interval,
)

pytestmark = pytest.mark.filterwarnings("error")


def ends(measure):
    assert isinstance(measure, Interval), measure
    return measure.estimate, measure.low, measure.high


@pytest.mark.parametrize("estimate", [median_interval, mean_interval])
def test_c22a_constant_data_has_a_degenerate_interval(estimate):
    found = estimate([100.0] * 10)
    assert ends(found) == (100, 100, 100)
    assert found.method == "constant data"


@pytest.mark.parametrize("estimate", [median_interval, mean_interval])
def test_c22b_one_value_has_an_estimate_and_no_interval(estimate):
    assert estimate([100.0]) == Unknown("n < 2", 100.0)


@pytest.mark.parametrize("estimate", [median_interval, mean_interval, ratio_interval])
def test_c22c_no_value_has_neither(estimate):
    found = estimate([])
    assert isinstance(found, Unknown)
    assert found.estimate is None


def test_c22d_two_values_give_their_range_and_say_so():
    found = median_interval([100.0, 200.0])
    assert ends(found) == (150, 100, 200)
    assert found.method == "range, covers 50%"


def test_c22e_nearly_constant_data():
    assert ends(median_interval([100.0] * 9 + [101.0])) == (100, 100, 100)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("estimate", [median_interval, mean_interval, ratio_interval, paired_p_value, holm])
def test_c22f_nan_is_an_error(estimate, bad):
    with pytest.raises(ValueError, match="1 of 10 values"):
        estimate([0.5] * 9 + [bad])


def test_median_interval_by_order_statistics():
    # n = 10: ranks 2 and 9 cover 97.85 %, ranks 3 and 8 cover 89.06 %; Hettmansperger and Sheather mix them with weight
    # lambda = (n - k) I / (k + (n - 2 k) I), I = (.9785 - .95) / (.9785 - .8906), k = 2.
    outer, inner = (1 - 2 * stats.binom.cdf(k - 1, 10, 0.5) for k in (2, 3))
    share = (outer - 0.95) / (outer - inner)
    weight = (10 - 2) * share / (2 + (10 - 4) * share)
    _, low, high = ends(median_interval(np.arange(1.0, 11.0)))
    assert low == pytest.approx(2 + weight)
    assert high == pytest.approx(9 - weight)


@pytest.mark.parametrize("n", [6, 7, 8, 9, 11, 16, 28, 49, 50, 51, 135, 999, 20_000])
def test_median_interval_is_that_of_scipy(n):
    values = np.random.default_rng(n).gamma(2.0, size=n)
    theirs = stats.mstats.median_cihs(values, alpha=0.05)
    assert ends(median_interval(values))[1:] == pytest.approx(theirs, rel=1e-12)


def test_median_interval_covers_the_median():
    rng = np.random.default_rng(0)
    found = [ends(median_interval(rng.gamma(2.0, size=16))) for _ in range(1000)]
    covered = np.mean([low <= stats.gamma(2.0).median() <= high for _, low, high in found])
    assert 0.93 < covered < 0.97


def test_ratio_interval_is_the_t_interval_of_the_logs():
    logs = [0.1, 0.3, 0.2, 0.6]
    half_width = stats.t(3).ppf(0.975) * np.std(logs, ddof=1) / 2
    assert ends(ratio_interval(logs)) == pytest.approx([math.exp(x) for x in (0.3, 0.3 - half_width, 0.3 + half_width)])


def test_ratio_interval_is_symmetric_under_swapping_arms():
    logs = np.array([0.1, -0.3, 0.25])
    forth, back = ends(ratio_interval(logs)), ends(ratio_interval(-logs))
    assert forth == pytest.approx((1 / back[0], 1 / back[2], 1 / back[1]))


def test_clustered_ratio_agrees_with_a_bootstrap_over_prompts():
    rng = np.random.default_rng(3)
    n = rng.integers(30, 400, size=80)
    k = rng.binomial(n, rng.beta(6, 4, size=80))
    estimate, low, high = ends(clustered_ratio_interval(k, n))
    draws = rng.integers(80, size=(20_000, 80))
    ratios = k[draws].sum(axis=1) / n[draws].sum(axis=1)
    assert estimate == k.sum() / n.sum()
    assert (low, high) == pytest.approx(np.quantile(ratios, (0.025, 0.975)), abs=0.004)


def test_clustered_ratio_guards():
    assert clustered_ratio_interval([1], [4]) == Unknown("n < 2", 0.25)
    assert clustered_ratio_interval([0, 0], [0, 0]) == Unknown("nothing to divide by")
    assert ends(clustered_ratio_interval([1, 2], [2, 4])) == (0.5, 0.5, 0.5)
    assert ends(clustered_ratio_interval([0, 1], [10, 10]))[1] == 0
    with pytest.raises(ValueError, match="2 numerators for 1"):
        clustered_ratio_interval([1, 2], [2])


@pytest.mark.parametrize(("n", "bound"), [(59, 0.95), (149, 0.98), (299, 0.99)])
def test_exact_bound_without_a_failure_is_the_rule_of_three(n, bound):
    found = ends(exact_lower_bound(n, n))
    assert found == pytest.approx((1.0, 0.05 ** (1 / n), 1.0))
    assert found[1] >= bound > 0.05 ** (1 / (n - 1))


def test_exact_bound_guards():
    assert exact_lower_bound(0, 0) == Unknown("nothing was compared")
    assert ends(exact_lower_bound(0, 5))[:2] == (0, 0)


def test_p_value():
    logs = [0.1, 0.3, 0.2, 0.6]
    assert paired_p_value(logs) == pytest.approx(2 * stats.t(3).sf(0.3 / (np.std(logs, ddof=1) / 2)))
    assert paired_p_value([0.1]) is None
    assert paired_p_value([0.0] * 5) == 1.0
    assert paired_p_value([0.1] * 5) == 2 / 32  # sign test: five of five


def test_equal_ratios_of_different_latencies_do_not_warn():
    logs = np.log([x / (0.9 * x) for x in (0.1, 0.2, 0.3, 0.7, 1.1)])
    assert ends(ratio_interval(logs)) == pytest.approx([1 / 0.9] * 3)
    assert paired_p_value(logs) == 2 / 32


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_benjamini_yekutieli_by_hand():
    assert benjamini_yekutieli([0.01, 0.5]) == pytest.approx([0.01 * 2 * 1.5, 0.75])
    assert benjamini_yekutieli([]) == []


def test_same_data_same_interval():
    values = list(np.random.default_rng(1).normal(size=20))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert median_interval(values) == median_interval(values)


def test_a_ratio_of_totals_by_hand():
    # log 6/3 - and pseudo-values log 2 + (k / 3 - 1) - (n / 1.5 - 1): with k = (2, 4), n = (1, 2) both sides move alike
    assert ends(totals_ratio_interval([[2, 4]], [[1, 2]])) == pytest.approx((2, 2, 2))
    # k = (2, 4), n = (1, 1): log 3 -+ 1/3, standard error 1/3, t(1) = 12.706
    low, high = (math.log(value) for value in ends(totals_ratio_interval([[2, 4]], [[1, 1]]))[1:])
    assert (low, high) == pytest.approx((math.log(3) - 12.706 / 3, math.log(3) + 12.706 / 3), rel=1e-4)


def test_a_product_of_ratios_is_the_ratio_of_products_of_totals():
    draw = np.random.default_rng(3)
    a, b, c, d = draw.gamma(4.0, size=(4, 50))
    found = totals_ratio_interval([a, b], [c, d])
    assert found.estimate == pytest.approx(a.sum() * b.sum() / (c.sum() * d.sum()))
    assert (found.method, found.n) == ("clustered t on logs", 50)
    # a side that stands above and below cancels
    assert ends(totals_ratio_interval([a, b], [c, b])) == pytest.approx(ends(totals_ratio_interval([a], [c])))


def test_the_interval_of_totals_covers_and_agrees_with_the_linear_one():
    draw, hits = np.random.default_rng(5), 0
    for _ in range(1000):
        size = draw.gamma(3.0, size=40)
        k, n = size * draw.gamma(9.0, 1 / 9, size=40), size * draw.gamma(9.0, 1 / 9, size=40)
        found = totals_ratio_interval([k], [n])
        hits += found.low <= 1 <= found.high
    assert 0.92 <= hits / 1000 <= 0.98
    linear = clustered_ratio_interval(k, n)
    assert (linear.low, linear.high) == pytest.approx((found.low, found.high), abs=0.03)


def test_a_total_of_nothing_has_no_ratio():
    assert totals_ratio_interval([[0, 0]], [[1, 2]]) == totals_ratio_interval([[1, 2]], [[0, 0]])
    assert totals_ratio_interval([[]], [[]]) == Unknown("a total is 0")
    assert totals_ratio_interval([[4]], [[2]]) == Unknown("n < 2", pytest.approx(2.0))


@pytest.mark.parametrize("n", [2, 3, 7, 40, 1000])
def test_means_and_p_values_are_those_of_scipys_t_test(n: int) -> None:
    data = np.random.default_rng(n).normal(0.3, 2.0, n)
    expected = stats.ttest_1samp(data, 0)
    found = mean_interval(data)
    assert isinstance(found, Interval)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval(0.95)), rel=1e-12)
    assert paired_p_value(data) == pytest.approx(expected.pvalue, rel=1e-9)


@pytest.mark.parametrize(("successes", "n"), [(0, 9), (1, 9), (5, 9), (9, 9), (199, 200), (31, 1000)])
def test_the_exact_bound_is_scipys(successes: int, n: int) -> None:
    expected = stats.binomtest(successes, n, alternative="greater").proportion_ci(0.95, "exact").low
    found = exact_lower_bound(successes, n)
    assert isinstance(found, Interval)
    assert found.low == pytest.approx(expected, abs=1e-10)
