"""Passes by hand. Prompt p: output 10 to 17, of which 10 comes with the prompt; two steps of three drafts, two passes.

at  output      raw         pass 1      pass 2      leading right
1   11 12 13    11 90 13    11 12 91    11 12 91    1 2 2
4   14 15 16    14 15 92    14 93 16    14 15 16    2 1 3

Prompt q: output 1 2 3; one step of one draft, which the first pass repairs, and one that drafts nothing.
"""

from dataclasses import replace

import pytest
from runs import ARMS, GREEDY, REJECTION, cell, steps

from xpress_bench.analyse.intervals import Interval, Unknown
from xpress_bench.analyse.passes import passes
from xpress_bench.records import Trace

_, DRAFT, REFINE = ARMS
TWICE = replace(REFINE, passes=2)
BLOCKS = (((11, 90, 13), (11, 12, 91), (11, 12, 91)), ((14, 15, 92), (14, 93, 16), (14, 15, 16)))
P = Trace("p", 0, "refine", GREEDY, tuple(range(10, 18)), (3, 4), BLOCKS, ((), ()), ((), ()))
Q = Trace("q", 0, "refine", GREEDY, (1, 2, 3, 4), (2, 1), (((9,), (2,), (2,)), ()), ((), ()), ((), ()))


def timed(*refine_s, **changes):
    return [cell("refine", steps=replace(steps([1] * len(refine_s)), refine_s=refine_s, **changes))]


def test_one_prompt_by_hand():
    none, first, second = passes(TWICE, [P], [])
    assert [one.accepted.estimate for one in (none, first, second)] == [1.5, 1.5, 2.5]
    assert [one.gain.estimate for one in (none, first, second)] == [None, 0, 1]
    assert [one.left.estimate for one in (none, first, second)] == [1, 1, 0]
    assert [(one.repaired, one.broken) for one in (none, first, second)] == [(0, 0), (2, 2), (1, 0)]


def test_intervals_are_clustered_by_prompt():
    none, first, second = passes(TWICE, [P, Q], [])
    assert [one.accepted.estimate for one in (none, first, second)] == pytest.approx([1, 4 / 3, 2])
    # Gains 0 of 2 steps and 1 of 1, of 1/3 together: pseudo-values 1/3 - (2/3) / 1.5 and 1/3 + (2/3) / 1.5.
    half = 12.706204736 * (2 / 3) / 1.5  # t of one degree of freedom; their standard error is half their distance
    assert (first.gain.low, first.gain.high) == pytest.approx((1 / 3 - half, 1 / 3 + half))
    assert first.gain.low < 0
    assert second.left == Interval(0.0, 0.0, 0.0, "constant data", 2)


def test_a_pass_costs_only_where_it_was_made():
    # 6 ms for 2 + 1 passes: 2 ms each, the second in one of two steps.
    _, first, second = passes(TWICE, [P, Q], timed(0.004, 0.002, passes=(2, 1)))
    assert (first.cost_s, second.cost_s) == pytest.approx((0.002, 0.001))
    assert first.gain_per_ms.estimate == pytest.approx(1 / 6)
    assert second.gain_per_ms.high == pytest.approx(second.gain.high)
    _, *both = passes(TWICE, [P], timed(0.004, 0.002))  # an older journal does not say how many were made
    assert [one.cost_s for one in both] == pytest.approx([0.0015, 0.0015])


def test_what_was_not_timed_has_no_price():
    none, first, _ = passes(TWICE, [P, Q], [cell("refine")])
    assert first.cost_s is None
    assert first.gain_per_ms == Unknown("the pass was not timed")
    assert isinstance(none.gain_per_ms, Unknown)


@pytest.mark.parametrize(
    ("arm", "traces", "reason"),
    [
        (TWICE, [], "no request was traced"),
        (TWICE, [replace(P, condition=REJECTION)], "not comparable under rejection"),
        (TWICE, [Trace("p", 0, "refine", GREEDY, error="boom")], "every traced request failed: boom"),
        (DRAFT, [P], "has no refinement passes"),
        (replace(REFINE, passes=None), [P], "has no refinement passes"),
        (REFINE, [P], "cannot be made one by one"),
        (TWICE, [replace(P, ids=(10, 11, 99, *range(13, 18)))], "not those of the output"),
    ],
)
def test_where_passes_are_not_known(arm, traces, reason):
    assert reason in passes(arm, traces, []).reason


def test_a_failed_trace_is_left_out():
    failed = Trace("r", 0, "refine", GREEDY, error="boom")
    assert passes(TWICE, [P, failed, Q], []) == passes(TWICE, [P, Q], [])
