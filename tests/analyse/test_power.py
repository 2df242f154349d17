import math

import numpy as np
import pytest
from scipy import stats

from xpress_bench.analyse.intervals import Unknown
from xpress_bench.analyse.power import detectable, detectable_speed_up, needed, needed_for_margin, power, spread


@pytest.mark.parametrize(
    ("sd", "margin", "prompts"), [(0.2, 0.02, 857), (0.2, 0.05, 138), (0.3, 0.02, 1927), (0.3, 0.05, 309)]
)
def test_sizes_of_the_reference_for_a_parity_margin(sd, margin, prompts):
    # statistics.md C.5: one-sided 5 %, power 90 %
    assert needed_for_margin(margin, sd, 0.9, alpha=0.05) == prompts
    assert prompts < needed(margin, sd, 0.9, alpha=0.05) <= prompts + 2  # what the normal formula leaves out


def test_a_two_sided_95_percent_interval_takes_more_than_the_table():
    # (1.959964 + 1.281552)^2 * 100 = 1050.74; the table's 857 prompts are for a one-sided 5 %
    assert needed_for_margin(0.02, 0.2, 0.9) == 1051


@pytest.mark.parametrize(
    ("sd_percent", "at_1", "at_quarter", "found_percent"),
    [(0.5, 3, 4, 0.8), (1, 4, 5, 1.7), (2, 6, 8, 3.4), (3, 9, 12, 5.1), (5, 20, 25, 8.7)],
)
def test_table_of_the_reference_for_the_gate(sd_percent, at_1, at_quarter, found_percent):
    # statistics.md C.6: pairs for 95 % power at a slow-down of 5 %, alpha 0.01 and 0.0025; detectable at n = 10
    sd = sd_percent / 100
    assert needed(math.log(1.05), sd, 0.95, alpha=0.01) == at_1
    assert needed(math.log(1.05), sd, 0.95, alpha=0.0025) == at_quarter
    assert round(100 * (detectable_speed_up(sd, 10, 0.9, alpha=0.0025) - 1), 1) == found_percent


def test_power_is_the_share_of_samples_that_the_t_test_finds():
    samples = np.random.default_rng(3).normal(0.5, 1.0, size=(20_000, 20))
    found = stats.ttest_1samp(samples, 0, axis=1, alternative="greater").pvalue < 0.025
    assert power(0.5, 1.0, 20) == pytest.approx(found.mean(), abs=0.01)


def test_without_an_effect_power_is_alpha():
    assert power(0.0, 1.0, 8, alpha=0.01) == pytest.approx(0.01)


def test_many_prompts_follow_the_normal_law():
    # (z.975 + z.80) / sqrt(n) = 2.801585 / 100
    assert detectable(1.0, 10_000, 0.8) == pytest.approx(2.801585 / 100, rel=1e-3)


def test_detectable_is_what_is_found_with_that_power():
    for n in (2, 3, 10, 160):
        for wanted in (0.8, 0.9):
            assert power(detectable(0.03, n, wanted), 0.03, n) == pytest.approx(wanted)


def test_a_prompt_fewer_is_too_few():
    n = needed(0.01, 0.05, 0.8)
    assert power(0.01, 0.05, n - 1) < 0.8 <= power(0.01, 0.05, n)


def test_an_effect_far_above_the_spread_takes_two_prompts():
    assert needed(1.0, 1e-6, 0.9) == 2


def test_unknown_is_never_a_number():
    assert spread([0.1]) == Unknown("n < 2")
    assert spread([0.1, 0.1]) == Unknown("no spread between prompts")
    assert spread([1.0, 3.0]) == pytest.approx(math.sqrt(2))
    none = Unknown("no spread between prompts")
    assert detectable_speed_up(none, 10, 0.9) == needed(0.1, none, 0.9) == needed_for_margin(0.1, none, 0.9) == none
    assert detectable(0.1, 1, 0.9) == Unknown("n < 2")
    assert isinstance(needed(0.0, 0.1, 0.9), Unknown)
    assert isinstance(needed(1e-9, 1.0, 0.9), Unknown)
