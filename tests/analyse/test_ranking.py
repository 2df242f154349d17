"""Ranks follow the paired test of every two rows, and nothing else."""

import math

import numpy as np
import pytest
from scipy import stats

from xpress_bench.analyse.ranking import ranks


def row(*logs):
    return {f"p{at}": value for at, value in enumerate(logs)}


def test_rows_that_nothing_parts_share_a_rank_and_the_next_counts_them():
    slow, fast, as_fast = row(0.1, 0.2, 0.3), row(1.11, 1.2, 1.29), row(1.12, 1.19, 1.3)
    assert ranks([slow, fast, as_fast]) == [3, 1, 1]


def test_pairing_parts_rows_whose_own_intervals_overlap():
    prompts = np.random.default_rng(0).normal(0, 1, 40)  # prompts differ by far more than the rows do
    assert ranks([row(*prompts), row(*(prompts + 0.05 + 0.001 * np.arange(40)))]) == [2, 1]


def test_a_difference_inside_the_noise_band_parts_nothing():
    assert ranks([row(0.0, 0.1, 0.2), row(0.009, 0.109, 0.209)]) == [1, 1]
    assert ranks([row(0.0, 0.1, 0.2), row(0.011, 0.111, 0.211)]) == [2, 1]


def test_only_shared_prompts_count():
    whole = {"p0": 0.0, "p1": 0.1, "p2": 0.2}
    assert ranks([whole, {"p1": 1.1, "p2": 1.2, "p9": -50.0}]) == [2, 1]
    assert ranks([whole, {"p2": 9.0}]) == [1, 1]
    assert ranks([whole, {"q": 9.0}]) == [1, 1]


def test_a_rank_says_what_was_shown_and_not_the_order_of_estimates():
    sure, unsure = row(*[1.0, 1.02] * 8), row(*[-2.0, 5.0] * 8)  # the higher mean, and no interval to speak of
    assert ranks([row(*[0.5, 0.52] * 8), sure, unsure]) == [2, 1, 1]


@pytest.mark.parametrize("seed", range(3))
def test_against_the_t_test_of_scipy(seed):
    rng = np.random.default_rng(seed)
    rows = [row(*logs) for logs in rng.normal(0, 0.3, (6, 12)) + rng.normal(0, 0.3, (6, 1))]
    rows[2] = dict(list(rows[2].items())[3:])

    def above(ours, theirs):
        differences = [ours[prompt] - theirs[prompt] for prompt in ours if prompt in theirs]
        low = stats.ttest_1samp(differences, 0).confidence_interval(0.95).low
        return low > 0 and np.mean(differences) >= math.log(1.01)

    assert ranks(rows) == [1 + sum(above(other, one) for other in rows if other is not one) for one in rows]


def test_nothing_to_rank():
    assert ranks([]) == []
    assert ranks([{}]) == [1]
