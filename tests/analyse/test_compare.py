import math

import numpy as np
import pytest
from runs import GREEDY, cell, grid, run
from scipy import stats

from xpress_bench.analyse.compare import speed_ups
from xpress_bench.analyse.intervals import Unknown
from xpress_bench.analyse.reduce import select


def compared(cells, arms=("direct", "draft", "refine")):
    return {(one.arm, one.base): one for one in speed_ups(select(run(cells), GREEDY), arms)}


def two(base, arm):
    cells = [cell("direct", f"p{i}", t) for i, t in enumerate(base)]
    cells += [cell("draft", f"p{i}", t) for i, t in enumerate(arm)]
    return compared(cells, ("direct", "draft"))["draft", "direct"]


def test_c15_three_rules_have_three_names():
    found = two((1.0, 10.0), (0.5, 10.0))
    assert found.total_time.estimate == pytest.approx(11 / 10.5)
    assert found.gmean_paired.estimate == pytest.approx(math.sqrt(2))
    assert found.median_paired.estimate == pytest.approx(1.5)


def test_c15_more_tokens_per_step_may_still_be_slower():
    found = two((1.0, 2.0, 3.0, 4.0) * 4, (1.3, 2.6, 3.9, 5.2) * 4)
    assert found.total_time.estimate == pytest.approx(1 / 1.3)
    assert found.gmean_paired.estimate == pytest.approx(0.7692, abs=1e-4)
    assert found.latency == "slower"
    assert len(found.slower) == 16


def test_metrics_page_example_of_one_run_with_many_headlines():
    # metrics.md 2.3: baseline 50 tok/s; method 60, 100, 200, 300 tok/s on 1000, 300, 200, 50 tokens
    lengths = (1000, 300, 200, 50)
    found = two([n / 50 for n in lengths], [n / s for n, s in zip(lengths, (60, 100, 200, 300), strict=True)])
    assert found.gmean_paired.estimate == pytest.approx(2.76, abs=0.01)
    assert found.median_paired.estimate == pytest.approx(3.0)
    assert found.total_time.estimate == pytest.approx(1.49, abs=0.01)


def test_c23_uniform_gain_has_a_tight_interval():
    found = two((0.1, 0.2, 0.3, 0.4, 0.5), (0.09, 0.18, 0.27, 0.36, 0.45))
    ratio = found.gmean_paired
    assert (ratio.estimate, ratio.low, ratio.high) == pytest.approx([1 / 0.9] * 3)


def test_what_each_launch_alone_would_have_said():
    seconds = {(0, "direct"): 2.0, (0, "draft"): 1.0, (1, "direct"): 3.0, (1, "draft"): 2.0}
    cells = [cell(arm, f"p{i}", s * (1 + i), launch=launch) for i in range(3) for (launch, arm), s in seconds.items()]
    found = compared(cells, ("direct", "draft"))["draft", "direct"]
    assert found.by_launch == pytest.approx((2.0, 1.5))
    assert found.gmean_paired.estimate == pytest.approx(3**0.5)


def test_every_pair_that_exists_and_holm_in_the_declared_family():
    rng = np.random.default_rng(2)
    speed = {"direct": 1.0, "draft": 0.9, "refine": 0.85}
    noise = {(arm, p): math.exp(rng.normal(0, 0.2)) for arm in speed for p in range(32)}
    cells = grid(lambda arm, p: speed[arm] * noise[arm, p])
    found = compared(cells)
    assert list(found) == [("draft", "direct"), ("refine", "direct"), ("refine", "draft")]
    logs = {arm: np.log([speed[arm] * noise[arm, p] for p in range(32)]) for arm in speed}
    raw = {pair: stats.ttest_1samp(logs[pair[1]] - logs[pair[0]], 0).pvalue for pair in found}
    assert {pair: one.p_value for pair, one in found.items()} == pytest.approx(raw)
    small, large = sorted((("refine", "direct"), ("refine", "draft")), key=raw.__getitem__)
    assert found[small].p_adjusted == pytest.approx(2 * raw[small])
    assert found[large].p_adjusted == pytest.approx(min(1, max(2 * raw[small], raw[large])))
    assert found["draft", "direct"].exploratory
    assert found["draft", "direct"].p_adjusted == pytest.approx(raw["draft", "direct"])
    assert not found[small].exploratory


@pytest.mark.parametrize(
    ("factor", "spread", "latency"),
    [
        (2.0, 0.1, "faster"),
        (0.5, 0.1, "slower"),
        (1.005, 0.0001, "no practical difference"),  # tiny p, below the band of 1 %
        (1.0, 0.001, "no practical difference"),  # the whole interval lies inside the band
        (1.05, 0.5, "not shown"),
        (1.0, 0.5, "not shown"),  # wide: a large difference is not excluded
    ],
)
def test_latency_outcomes(factor, spread, latency):
    wobble = [math.exp(spread * (-1) ** i) for i in range(40)]
    assert two([1.0] * 40, [w / factor for w in wobble]).latency == latency


def test_one_prompt_shows_nothing():
    found = two([1.0], [0.5])
    assert found.gmean_paired == Unknown("n < 2", pytest.approx(2.0))
    assert found.p_value is None
    assert found.latency == "not shown"


def test_no_common_prompt():
    found = compared([cell("direct", "p0"), cell("draft", "p1")], ("direct", "draft"))["draft", "direct"]
    assert found.prompts == 0
    assert found.missing == ("p0", "p1")
    assert isinstance(found.gmean_paired, Unknown)
    assert isinstance(found.total_time, Unknown)
