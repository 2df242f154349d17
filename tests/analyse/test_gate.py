"""The wall-time test and its outcomes, against closed forms and published sizes (statistics.md C.6)."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats

from xpress_bench.analyse.gate import (
    EXIT_CODES,
    Check,
    Design,
    limit_check,
    outcome_of,
    sign_flip_p,
    timing,
    timing_check,
)
from xpress_bench.analyse.intervals import Unknown

DESIGN = Design()


def around(mean: float, sd: float, n: int = 10) -> list[float]:
    """`n` values with exactly this mean and standard deviation, spread like normal quantiles."""
    quantiles = np.array([NormalDist().inv_cdf((i + 0.5) / n) for i in range(n)])
    return (mean + sd * quantiles / quantiles.std(ddof=1)).tolist()


def check(outcome: str = "pass", compared: int = 1) -> Check:
    return Check("counted work", "x", outcome, compared, "")  # type: ignore[arg-type]


def test_nothing_compared_is_broken_not_passed() -> None:
    assert outcome_of([]) == "broken"
    assert outcome_of([check(compared=0)]) == "broken"
    assert EXIT_CODES[outcome_of([])] not in (0, 1)


def test_the_worst_check_decides_and_a_regression_is_never_hidden() -> None:
    assert outcome_of([check(), check("inconclusive"), check("broken")]) == "broken"
    assert outcome_of([check("regression"), check("broken"), check("inconclusive")]) == "regression"
    assert outcome_of([check(), check("inconclusive", 0)]) == "inconclusive"
    assert EXIT_CODES == {"pass": 0, "regression": 1, "broken": 2, "inconclusive": 3}


def test_a_slow_down_of_five_percent_is_a_regression_and_its_p_is_the_t_test_s() -> None:
    logs = around(math.log(1.05), 0.01)
    found = timing(logs, tests=1, design=DESIGN)
    assert found.outcome == "regression"
    assert found.slow_down == pytest.approx(0.05)
    # t = mean / (sd / sqrt(n)), nine degrees of freedom
    assert found.p == pytest.approx(stats.t.sf(math.log(1.05) / (0.01 / math.sqrt(10)), 9))
    # 2.821438: the 99 % quantile of t with nine degrees of freedom, from tables
    assert found.upper == pytest.approx(math.expm1(math.log(1.05) + 2.821438 * 0.01 / math.sqrt(10)), rel=1e-6)


def test_equal_sides_pass_only_if_a_slow_down_of_five_percent_is_excluded() -> None:
    assert timing(around(0.0, 0.02), 1, DESIGN).outcome == "pass"  # 2.82 * 2 % / sqrt(10) = 1.8 %
    loud = timing(around(0.0, 0.06), 1, DESIGN)  # 5.4 %
    assert loud.outcome == "inconclusive"
    advised = loud.advised(DESIGN)
    assert isinstance(advised, int)
    assert advised > 10


def test_a_sure_slow_down_below_the_floor_is_no_regression() -> None:
    found = timing(around(math.log(1.019), 0.002), 1, DESIGN)
    assert found.p is not None
    assert found.p < 1e-6
    assert found.outcome == "pass"
    assert timing(around(math.log(1.021), 0.002), 1, DESIGN).outcome == "regression"


def test_tests_share_the_false_alarm_rate() -> None:
    logs = around(0.03, 0.03)  # t = 3.16: p 0.0057, between 0.01 / 4 and 0.01
    assert timing(logs, 1, DESIGN).outcome == "regression"
    assert timing(logs, 4, DESIGN).outcome == "inconclusive"


@pytest.mark.parametrize(
    ("sd", "alpha", "pairs"),
    [(0.01, 0.01, 4), (0.02, 0.01, 6), (0.03, 0.01, 9), (0.05, 0.01, 20), (0.02, 0.0025, 8), (0.05, 0.0025, 25)],
)
def test_the_advised_pairs_are_those_of_the_published_table(sd: float, alpha: float, pairs: int) -> None:
    advised = timing(around(0.0, sd), round(0.01 / alpha), DESIGN).advised(DESIGN)
    assert isinstance(advised, int)
    assert abs(advised - pairs) <= 1  # the table is rounded from a simulation


def test_pairs_without_any_spread_are_judged_by_size_alone() -> None:
    assert timing([0.0] * 10, 1, DESIGN).outcome == "pass"
    assert timing([0.01] * 10, 1, DESIGN).outcome == "pass"
    assert timing([0.05] * 10, 1, DESIGN).outcome == "regression"
    assert isinstance(timing([0.0] * 10, 1, DESIGN).advised(DESIGN), Unknown)


@pytest.mark.parametrize("logs", [[], [0.2]])
def test_less_than_two_pairs_say_nothing(logs: list[float]) -> None:
    assert timing(logs, 1, DESIGN).outcome == "inconclusive"


def test_sign_flips_of_ten_slower_pairs_are_one_in_1024() -> None:
    assert sign_flip_p([0.01 * (1 + i) for i in range(10)]) == pytest.approx(2**-10)
    assert sign_flip_p([0.01, -0.01]) == pytest.approx(3 / 4)  # sums 0.02, 0, 0, -0.02: three are at least 0


def test_the_fresh_pairs_alone_decide_after_a_first_alarm() -> None:
    alarm, quiet = timing(around(0.06, 0.01), 1, DESIGN), timing(around(0.0, 0.01), 1, DESIGN)
    said = timing_check("x", alarm, quiet, DESIGN)
    assert said.outcome == "pass"
    assert any("+6.18%" in detail for detail in said.details)  # exp(0.06) - 1
    assert timing_check("x", alarm, alarm, DESIGN).outcome == "regression"


def test_an_inconclusive_check_says_how_many_pairs_would_do() -> None:
    loud = timing(around(0.0, 0.06), 1, DESIGN)
    said = timing_check("x", loud, None, DESIGN)
    assert f"--pairs {loud.advised(DESIGN)}" in said.details[0]


@pytest.mark.parametrize("base", [None, 0.0, float("nan"), float("inf"), -1.0])
def test_a_base_without_a_usable_number_is_broken(base: float | None) -> None:
    said = limit_check("memory", "x", base, 1.0, 0.05, lower_is_better=True)
    assert (said.outcome, said.compared) == ("broken", 0)


@pytest.mark.parametrize("found", [None, float("nan"), float("inf")])
def test_a_candidate_without_a_number_is_no_pass(found: float | None) -> None:
    assert limit_check("memory", "x", 1.0, found, 0.05, lower_is_better=True).outcome == "broken"


def test_the_direction_of_better_is_declared() -> None:
    outcomes = [
        limit_check("x", "x", 100.0, found, 0.05, lower_is_better=lower).outcome
        for lower in (True, False)
        for found in (94.0, 104.0, 106.0)
    ]
    assert outcomes == ["pass", "pass", "regression", "regression", "pass", "pass"]


@pytest.mark.slow
def test_false_alarms_and_power_of_the_whole_gate_at_the_spread_of_a_real_machine() -> None:
    """Five metrics, ten pairs, confirmation on fresh pairs; sd 2 %: alarms at most 1 %, power at least 95 %.

    The t test and its confirmation are what is simulated, so Monte Carlo error is that of 2,000 draws.
    """
    rng = np.random.default_rng(11)
    tests, sd, draws = 5, 0.02, 2000

    def gates(slow_down: float) -> list[str]:
        said = []
        for _ in range(draws):
            shift = np.array([math.log1p(slow_down), *[0.0] * (tests - 1)])
            first, fresh = (shift[:, None] + rng.normal(0, sd, (tests, DESIGN.pairs)) for _ in range(2))
            checks = []
            for ours, again in zip(first.tolist(), fresh.tolist(), strict=True):
                one = timing(ours, tests, DESIGN)
                confirmed = timing(again, tests, DESIGN) if one.outcome == "regression" else None
                checks.append(timing_check("x", one, confirmed, DESIGN))
            said.append(outcome_of(checks))
        return said

    equal, slower = gates(0.0), gates(0.05)
    assert equal.count("regression") <= 0.01 * draws
    assert slower.count("regression") >= 0.95 * draws
    assert slower.count("pass") <= 0.01 * draws
