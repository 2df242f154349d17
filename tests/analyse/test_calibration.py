"""Calibration by hand, and of a drafter that is right as often as it says."""

from dataclasses import replace

import numpy as np
import pytest
from runs import GREEDY, REJECTION

from xpress_bench.analyse.calibration import calibration
from xpress_bench.analyse.intervals import Unknown
from xpress_bench.records import Trace

# Right, wrong, then one behind a wrong token; right, right, wrong. Prompt q: one right token of full confidence.
P = Trace("p", 0, "draft", GREEDY, tuple(range(10, 17)), (2, 3), (((11, 90, 13),), ((13, 14, 92),)),
          ((0.95, 0.62, 0.99), (0.95, 0.85, 0.15)), ((), ()))  # fmt: skip
Q = Trace("q", 0, "draft", GREEDY, (1, 2, 3), (2,), (((2,),),), ((1.0,),), ((),))


def test_bins_error_and_excess_by_hand():
    found = calibration([P, Q])
    assert [(one.low, one.high, one.tokens) for one in found.bins] == [
        (0.1, 0.2, 1), (0.6, 0.7, 1), (0.8, 0.9, 1), (0.9, 1.0, 3),
    ]  # fmt: skip
    assert [one.right.estimate for one in found.bins] == [0, 0, 1, 1]
    assert found.bins[-1].confidence == pytest.approx(2.9 / 3)
    assert found.error == pytest.approx((0.15 + 0.62 + 0.15 + 0.1) / 6)
    assert found.excess.estimate == pytest.approx((4.52 - 4) / 6)
    # Doubts -0.48 + ... of p: 3.52 - 3 over 5 tokens; of q 0 over 1: pseudo-values by Cochran over a mean of 3 tokens.
    r = 0.52 / 6
    values = np.array([r + (0.52 - 5 * r) / 3, r + (0 - r) / 3])
    assert found.excess.high == pytest.approx(r + 12.706204736 * abs(values[0] - values[1]) / 2)


def test_a_drafter_that_is_right_as_often_as_it_says():
    rng = np.random.default_rng(4)
    traces = []
    for prompt in range(64):
        confidence = rng.uniform(size=100).round(6).tolist()
        drafts = [1 if rng.uniform() < one else 9 for one in confidence]
        blocks, rows, none = ([((token,),) for token in drafts], [(one,) for one in confidence], [()] * 100)
        traces.append(Trace(f"p{prompt}", 0, "draft", GREEDY, (1,) * 101, (1,) * 100, (*blocks,), (*rows,), (*none,)))
    found = calibration(traces)
    assert sum(one.tokens for one in found.bins) == 6400
    assert found.error < 0.03  # each of ten bins of 640 tokens is off by 0.02 at most, but for luck
    assert found.excess.low < 0 < found.excess.high
    sure = calibration([replace(one, confidence=tuple((1.0,) for _ in one.confidence)) for one in traces])
    assert sure.error == pytest.approx(0.5, abs=0.03)
    assert sure.excess.low > 0.4


def test_where_confidence_is_not_known():
    assert "no request" in calibration([]).reason
    assert "rejection" in calibration([replace(P, condition=REJECTION)]).reason
    assert calibration([replace(P, confidence=((), ()))]) == Unknown(
        "the drafter gives no law to take a confidence from"
    )
    assert "failed: boom" in calibration([Trace("p", 0, "draft", GREEDY, error="boom")]).reason
