"""Quantiles of groups against those of the standard library, one group at a time."""

from __future__ import annotations

import statistics

import numpy as np
import pytest

from xpress_bench.analyse.groups import medians, numbered, quantiles


def test_groups_are_numbered_as_they_come():
    codes, keys = numbered(["b", "a", "b", "c"])
    assert (codes.tolist(), keys) == ([0, 1, 0, 2], ["b", "a", "c"])


@pytest.mark.parametrize("n", [2, 4])
def test_quantiles_are_those_of_the_standard_library(n):
    rng = np.random.default_rng(3)
    groups = rng.permutation(np.repeat(np.arange(9), np.arange(2, 11)))
    values = rng.lognormal(size=len(groups))
    found = quantiles(values, groups, 9, n)
    for group in range(9):
        assert found[:, group].tolist() == statistics.quantiles(values[groups == group], n=n, method="inclusive")


def test_a_group_of_one_is_its_own_median_and_an_empty_one_has_none():
    found = medians(np.array([4.0, np.nan, 1.0, 2.0, np.nan]), np.array([3, 1, 0, 0, 0]), 5)
    np.testing.assert_array_equal(found, [1.5, np.nan, np.nan, 4.0, np.nan])


def test_no_values_have_no_median():
    assert np.isnan(medians(np.array([]), np.array([], dtype=np.int64), 2)).all()
