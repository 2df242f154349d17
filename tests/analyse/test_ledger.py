"""The worked case, by hand: output 10 11 12 13 14 15 16 17, of which 10 comes with the prompt.

step  at  draft       refined     output      raw prefix  accepted  committed
1     1   11 90 13    11 12 91    11 12 13    1           2         11 12 13
2     4   14 15 92    14 93 94    14 15 16    2           1         14 15
3     6   16 17 95    16 17 95    16 17       2           2         16 17, a stop id
"""

import math
from dataclasses import replace

import pytest
from runs import ARMS, REJECTION, cell, steps

from xpress_bench.analyse.intervals import Interval, Unknown
from xpress_bench.analyse.knee import Knee, knee, stage_shares
from xpress_bench.analyse.ledger import Truncation, ledger, right_by_slot, truncation

_, DRAFT, REFINE = ARMS
STEPS = replace(
    steps([2, 1, 2], offered=3, committed=[3, 2, 2]),
    drafts=((11, 90, 13), (14, 15, 92), (16, 17, 95)),
    refined=((11, 12, 91), (14, 93, 94), (16, 17, 95)),
    refine_s=(0.001, 0.001, 0.002),
)
WORKED = cell("refine", ids=tuple(range(10, 18)), steps=STEPS)
# One step whose only draft is repaired: raw prefix 0, accepted 1, 2 ms.
SHORT = cell(
    "refine",
    "p1",
    ids=(1, 2, 3),
    steps=replace(steps([1], offered=1), drafts=((9,),), refined=((2,),), refine_s=(0.002,)),
)


def counts(slot):
    return slot.kept_right, slot.repaired, slot.broken, slot.changed, slot.kept_wrong, slot.unjudged


def test_what_became_of_each_slot_by_hand():
    found = ledger(REFINE, [WORKED])
    assert [slot.slot for slot in found.slots] == [1, 2, 3]
    assert counts(found.slots[0]) == (3, 0, 0, 0, 0, 0)
    assert counts(found.slots[1]) == (1, 1, 1, 0, 0, 0)
    assert counts(found.slots[2]) == (0, 0, 1, 1, 0, 1)  # 13 was right at its place although 90 stood before it
    assert [(slot.extended, slot.cut) for slot in found.slots] == [(0, 0), (1, 1), (0, 0)]
    assert [slot.right_before.estimate for slot in found.slots] == [1, 2 / 3, 1 / 2]
    assert [slot.right_after.estimate for slot in found.slots] == [1, 2 / 3, 0]


def test_gain_is_the_accepted_prefix_less_the_raw_one():
    alone = ledger(REFINE, [WORKED])  # (2 - 1) + (1 - 2) + (2 - 2) over 3 steps
    assert alone.gain == Unknown("n < 2", 0.0)
    both = ledger(REFINE, [WORKED, SHORT])  # gains 0 of 3 steps and 1 of 1: pseudo-values -0.125 and 0.625
    assert both.gain.estimate == 0.25
    half = 12.706204736 * 0.75 / 2  # t of one degree of freedom; the values' standard error is half their distance
    assert (both.gain.low, both.gain.high) == pytest.approx((0.25 - half, 0.25 + half))
    assert both.gain.low < 0  # a gain may be a loss: no end is cut
    assert both.gain_per_ms.estimate == pytest.approx(1 / 6)  # 4 ms and 2 ms


def test_a_refiner_that_changes_nothing_gains_nothing():
    same = [replace(WORKED, prompt=p, steps=replace(STEPS, accepted=(1, 2, 2), committed=(2, 3, 2),
            drafts=((11, 90, 13), (13, 14, 92), (16, 17, 95)), refined=((11, 90, 13), (13, 14, 92), (16, 17, 95))))
            for p in ("p0", "p1")]  # fmt: skip
    found = ledger(REFINE, same)
    assert found.gain == Interval(0.0, 0.0, 0.0, "constant data", 2)
    assert all((slot.repaired, slot.broken, slot.changed, slot.extended, slot.cut) == (0,) * 5 for slot in found.slots)
    assert [slot.kept_wrong for slot in found.slots] == [0, 2, 2]


def test_drafts_behind_the_limit_are_not_judged_wrong():
    last = replace(steps([0, 0], offered=[2, 0]), drafts=((7, 3), ()), refined=((7, 3), ()))
    found = ledger(REFINE, [cell("refine", ids=(1, 2, 3), steps=last)])
    assert [counts(slot) for slot in found.slots] == [(0, 0, 0, 0, 1, 0), (1, 0, 0, 0, 0, 0)]
    assert found.gain.estimate == 0


def test_an_untimed_refiner_has_no_gain_per_ms():
    untimed = replace(WORKED, steps=replace(STEPS, refine_s=()))
    assert ledger(REFINE, [untimed]).gain_per_ms == Unknown("nothing to divide by")


@pytest.mark.parametrize(
    ("arm", "cells", "reason"),
    [
        (DRAFT, [WORKED], "has no refiner"),
        (REFINE, [], "no verify step"),
        (REFINE, [cell("refine")], "no verify step"),
        (REFINE, [replace(WORKED, condition=REJECTION)], "not comparable under rejection"),
        (REFINE, [WORKED, cell("refine", "p1", steps=steps([2]))], "1 of 2 requests do not record their drafts"),
        (REFINE, [replace(WORKED, ids=WORKED.ids[:-1])], "do not record"),
        (REFINE, [replace(WORKED, ids=(10, 11, 12, 13, 14, 15, 16, 18))], "accepted drafts of p0 are not those"),
    ],
)
def test_where_the_ledger_cannot_be_kept(arm, cells, reason):
    assert reason in ledger(arm, cells).reason


def test_raw_drafts_of_an_arm_without_refiner():
    plain = cell("draft", ids=(1, 2, 3, 4), steps=replace(steps([1, 0], offered=[2, 1]), drafts=((2, 9), (8,))))
    assert [share.estimate for share in right_by_slot([plain])] == [1 / 2, 0]
    assert isinstance(right_by_slot([cell("direct")]), Unknown)


def test_where_blocks_broke():
    assert truncation([WORKED]) == Truncation(broke=(0, 1, 1), whole=0, stopped=1, empty=0)
    # All of 3 drafts accepted; none of 3; the stop id is the last draft; no room.
    ends = steps([3, 0, 3, 0], offered=[3, 3, 3, 0], committed=[4, 1, 3, 1])
    assert truncation([cell("draft", steps=ends)]) == Truncation(broke=(1, 0, 0), whole=2, stopped=0, empty=1)
    assert truncation([replace(cell("draft", steps=ends), condition=REJECTION)]).whole == 2
    assert truncation([cell("direct")]) == Unknown("no verify step was taken")


DIRECT = cell("direct", latency_s=1.1, prefill_s=0.1, ids=tuple(range(11)))  # 0.1 s a token


def staged(accepted, prompt="p0", **times):
    n = len(accepted)
    parts = {"draft_s": 0.05, "refine_s": 0.0, "verify_s": 0.25, **times}
    rest_s, prefill_s = parts.pop("rest_s", 0.0), parts.pop("prefill_s", 0.0)
    per_step = {name: (each,) * n for name, each in parts.items()}
    latency_s = sum(parts.values()) * n + rest_s + prefill_s
    return cell("draft", prompt, latency_s, rest_s=rest_s, prefill_s=prefill_s,
                steps=replace(steps(accepted, offered=3), **per_step))  # fmt: skip


def test_knee_by_hand():
    # Slots are accepted in 1, 1/2 and 0 of the steps. One token is verified in 0.1 s, four in 0.25 s: 0.05 s a slot,
    # 0.15 s besides. So 0, 1, 2, 3 drafts give 1/0.15, 2/0.2, 2.5/0.25, 2.5/0.3 tokens a second, the best first 1.
    found = knee([staged([1, 2]), staged([1, 2], "p1")], [DIRECT])
    assert isinstance(found, Knee)
    assert found.drafts == 1
    assert found.gain == pytest.approx(10 / (2.5 / 0.3))
    assert found.break_even == pytest.approx(0.05 * 2.5 / 0.3)
    assert found.last.estimate == 0


def test_knee_is_the_whole_block_where_slots_cost_nothing():
    free = [staged([1, 3], verify_s=0.1), staged([1, 3], "p1", verify_s=0.08)]
    assert (knee(free, [DIRECT]).drafts, knee(free, [DIRECT]).gain, knee(free, [DIRECT]).break_even) == (3, 1.0, 0.0)
    assert isinstance(knee([cell("draft", steps=steps([1]))], [DIRECT]), Unknown)
    assert isinstance(knee(free, []), Unknown)


def test_shares_of_the_latency():
    one = staged([1, 2], refine_s=0.1, verify_s=0.2, rest_s=0.1, prefill_s=0.2)  # 0.1 0.2 0.4 0.1 0.2 of 1.0 s
    shares = stage_shares([one, replace(one, prompt="p1")])
    assert {stage: round(share.estimate, 9) for stage, share in shares.items()} == {
        "draft": 0.1, "refine": 0.2, "verify": 0.4, "rest": 0.1, "prefill": 0.2,
    }  # fmt: skip
    assert math.isclose(sum(share.estimate for share in shares.values()), 1)
    assert stage_shares([replace(one, latency_s=2.0)]) == {}  # half of it is nowhere
    assert stage_shares([DIRECT]) == {}
