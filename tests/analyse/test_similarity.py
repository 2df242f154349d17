"""Pairs of texts, counted without making them."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np

from xpress_bench.analyse.similarity import _combinations


def test_pairs_are_counted_as_often_as_they_occur():
    texts = np.random.default_rng(5).choice(["a", "b", "c"], size=40).tolist()
    assert _combinations(texts) == Counter(combinations(texts, 2))
    assert _combinations(["a"]) == Counter()
