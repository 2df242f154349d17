import numpy as np
import pytest

from xpress_bench.analyse.contest import Contest, Spread, between_rounds, contest, simultaneous
from xpress_bench.analyse.intervals import Interval, Unknown

LOGS = [0.1, 0.2, 0.3, 0.2]  # mean 0.2, standard error 0.0408248


def ratio(estimate, low, high):
    return Interval(estimate, low, high, "by hand", 9)


def decided(order, *pairs):
    """A contest in which the first of each pair is shown to be better; means fall with the number of defeats."""
    ratios = {pair: ratio(1.2, 1.1, 1.3) for pair in pairs}
    means = {value: -float(sum(loser == value for _, loser in pairs)) for value in order}
    return Contest(tuple(order), means, ratios)


@pytest.mark.parametrize(
    ("comparisons", "quantile"),  # Student's t, 3 degrees of freedom: 0.975, and Bonferroni's table for 3 and 10
    [(1, 3.1824), (3, 4.8567), (10, 7.4533)],
)
def test_an_interval_is_wider_the_more_hold_together(comparisons, quantile):
    found = simultaneous(LOGS, comparisons)
    assert np.log([found.low, found.estimate, found.high]) == pytest.approx(
        [0.2 - quantile * 0.0408248, 0.2, 0.2 + quantile * 0.0408248], abs=2e-5
    )


def test_without_spread_or_values_there_is_nothing_to_widen():
    same = simultaneous([0.0, 0.0, 0.0], 10)
    assert (same.low, same.estimate, same.high) == (1, 1, 1)
    assert simultaneous([0.5], 10) == Unknown("n < 2", pytest.approx(np.exp(0.5)))
    assert simultaneous(Unknown("another machine"), 3) == Unknown("another machine")


def test_what_rounds_differ_by_is_pooled_over_values():
    # Variances 0.02 and 0.0002 of one degree of freedom each: pooled 0.0101; a difference of two means of two has it.
    assert between_rounds([(0.1, 0.3), (0.11, 0.13)]) == Spread(pytest.approx(0.0101), 2)
    assert between_rounds([(0.1,), (0.3,)]) == Unknown(
        "every value was run once, and what processes differ by is not known; add --rounds 2"
    )


def test_an_interval_has_the_variance_of_rounds_and_of_prompts():
    # Satterthwaite: (0.0408248^2 + 0.01)^2 / (0.0408248^4 / 3 + 0.01^2 / 2) = 2.6771; t at 0.975 is 3.4145 there.
    found = simultaneous(LOGS, 1, Spread(0.01, 2))
    half = 3.4145 * (0.0408248**2 + 0.01) ** 0.5
    assert np.log([found.low, found.high]) == pytest.approx([0.2 - half, 0.2 + half], abs=2e-3)
    assert found.method == "paired t on logs and rounds"
    assert simultaneous(LOGS, 1, Unknown("once")) == Unknown("once", pytest.approx(np.exp(0.2)))


def test_values_that_are_equal_but_for_their_processes_are_seldom_told_apart():
    random, sweeps, false, blind = np.random.default_rng(5), 200, 0, 0
    for _ in range(sweeps):
        shifts = random.normal(0, 0.05, size=(4, 2))  # of four values in two rounds
        values = {str(at): random.normal(0, 0.05, size=20) + shifts[at].mean() for at in range(4)}
        rounds = [tuple(one) for one in shifts]
        false += contest(values, np.mean, lambda one, other: one - other, between_rounds(rounds)).separates
        blind += contest(values, np.mean, lambda one, other: one - other).separates
    assert false <= 17  # 10 on average at most; above 17 once in 100 such studies
    assert blind > 100  # intervals of prompts alone


def test_better_takes_an_interval_above_one_and_more_than_the_noise_band():
    values = ("a", "b")
    for found, better in [
        (ratio(1.2, 1.01, 1.4), True),
        (ratio(1.2, 0.99, 1.4), False),
        (ratio(1.009, 1.008, 1.01), False),
        (Unknown("another machine", 2.0), False),
    ]:
        assert Contest(values, {}, {("a", "b"): found}).better("a", "b") is better


def test_the_knee_is_the_smallest_value_that_no_larger_one_beats():
    rising = decided("248", ("4", "2"), ("8", "2"))
    assert (rising.knee, rising.best, rising.undecided) == ("4", "4", ("4", "8"))
    falling = decided("248", ("2", "4"), ("2", "8"), ("4", "8"))
    assert (falling.knee, falling.undecided) == ("2", ("2",))
    peak = decided("248", ("4", "2"), ("4", "8"))
    assert (peak.knee, peak.undecided) == ("4", ("4",))


def test_what_any_value_beats_is_not_the_best_whatever_looks_best():
    found = decided("248", ("4", "2"))
    assert Contest(found.values, {"2": 0.0, "4": 0.1, "8": 0.2}, found.ratios).undecided == ("4", "8")


def test_where_nothing_is_shown_the_base_stays():
    level = decided("248")
    assert not level.separates
    assert level.undecided == ("2", "4", "8")
    assert level.recommended("8") == "8"


def test_a_cheaper_value_that_is_as_good_does_not_move_the_base():
    assert decided("248", ("4", "2"), ("8", "2")).recommended("8") == "8"


def test_of_several_better_than_the_base_the_knee_is_taken_and_without_order_the_best():
    found = decided("2468", ("4", "2"), ("6", "2"), ("8", "2"), ("8", "6"))
    assert found.recommended("2") == "4"  # 6 is beaten by 8, nothing beats 4
    means = {"2": 0.0, "4": 0.1, "6": 0.3, "8": 0.2}
    assert Contest(found.values, means, found.ratios).recommended("2", ordered=False) == "6"


def test_all_pairs_are_compared_both_ways():
    logs = {"a": [1.0, 1.2, 0.8], "b": [0.5, 0.6, 0.4], "c": [0.0, 0.1, -0.1]}
    found = contest(logs, np.mean, lambda one, other: [x - y for x, y in zip(one, other, strict=True)])
    assert set(found.ratios) == {(a, b) for a in "abc" for b in "abc" if a != b}
    assert found.best == "a"
    assert found.ratios["a", "b"].estimate == pytest.approx(1 / found.ratios["b", "a"].estimate)
    assert "3 comparisons" in found.ratios["a", "b"].method


def test_of_equal_values_one_is_called_better_in_at_most_a_twentieth_of_sweeps():
    random, sweeps = np.random.default_rng(11), 100
    false = 0
    for _ in range(sweeps):
        prompts = random.normal(0, 0.5, size=20)  # what prompts have in common goes away in pairs
        values = {str(at): prompts + random.normal(0, 0.2, size=20) for at in range(4)}
        false += contest(values, np.mean, lambda one, other: one - other).separates
    assert false <= 11  # 5 on average at most, above 11 once in 230 such studies; intervals of one pair alone give 25
