from dataclasses import replace

import pytest
from runs import COUPLED, GREEDY, REJECTION, cell, failed, run
from scipy import stats

from xpress_bench.analyse.intervals import Interval, Unknown
from xpress_bench.analyse.parity import noise_floor, parity, score_difference
from xpress_bench.analyse.reduce import select
from xpress_bench.records import Replay, first_difference


def judge(cells, replays=(), scores=None, margin=0.02):
    condition = cells[0].condition
    return parity(select(run(cells), condition), "draft", "direct", replays, scores or {}, margin)


def pairs(n, condition=GREEDY):
    return [cell(arm, f"p{i}", condition=condition) for i in range(n) for arm in ("direct", "draft")]


def replay(position, verdict, **changes):
    plain = Replay("p0", 0, "draft", GREEDY, position, 2, 7, 0.125, 0.125, verdict)
    return replace(plain, **changes)


def test_all_identical_is_shown_with_the_exact_bound():
    found = judge(pairs(59))
    assert found.outcome == "shown"
    assert found.reason == "identical on 59 of 59 prompts"
    assert (found.identical.estimate, found.identical.low) == (1.0, pytest.approx(0.05 ** (1 / 59)))
    assert isinstance(found.first_divergence, Unknown)


def test_c25_near_tie_is_explained_but_not_exact():
    cells = pairs(20)
    cells[1] = replace(cells[1], ids=(1, 7, 3))
    found = judge(cells, [replay(1, "near_tie")])
    (place,) = found.divergences
    assert (place.position, place.direct_token, place.arm_token) == (1, 2, 7)
    assert (place.verdict, place.gap, place.tolerance) == ("near_tie", 0.125, 0.125)
    assert found.identical.estimate == 0.95
    assert found.explained.estimate == 1.0
    assert found.outcome == "shown"
    assert "ties" in found.reason


def test_c25_real_difference_refutes():
    cells = pairs(20)
    cells[1] = replace(cells[1], ids=(1, 7, 3))
    found = judge(cells, [replay(1, "real", gap=2.0)])
    assert found.outcome == "refuted"
    assert found.explained.estimate == 0.95


def test_the_worst_difference_of_a_prompt_counts():
    cells = [cell(arm, repeat=r) for r in (0, 1) for arm in ("direct", "draft")]
    cells[1] = replace(cells[1], ids=(1, 2, 9))
    cells[3] = replace(cells[3], ids=(1, 7, 3))
    for order in (cells, [*cells[2:], *cells[:2]]):
        found = judge(order, [replay(2, "tie"), replay(1, "real")])
        assert [place.position for place in found.divergences] == [1]
        assert found.outcome == "refuted"


@pytest.mark.parametrize(
    "other",
    [
        replay(2, "tie"),
        replay(1, "tie", prompt="p9"),
        replay(1, "tie", arm="refine"),
        replay(1, "tie", condition=COUPLED),
    ],
)
def test_a_replay_of_another_place_excuses_nothing(other):
    cells = pairs(3)
    cells[1] = replace(cells[1], ids=(1, 7, 3))
    found = judge(cells, [other])
    assert found.outcome == "not shown"
    assert "no replay" in found.reason


def test_c06_missing_tokens_are_a_difference_at_their_place():
    cells = [cell("direct", ids=tuple(range(64))), cell("draft", ids=tuple(range(59)), stop_reason="short")]
    found = judge(cells)
    (place,) = found.divergences
    assert (place.position, place.direct_token, place.arm_token) == (59, 59, None)
    assert found.identical.estimate == 0.0


@pytest.mark.parametrize(
    "broken",
    [
        [failed("direct"), failed("draft")],
        [cell("direct"), failed("draft")],
        [cell("direct", ids=()), cell("draft", ids=())],
        [cell("direct", ids=()), cell("draft")],
        [cell("direct")],
        [cell("draft")],
        [cell("direct", stop_reason="short"), cell("draft", stop_reason="short")],
    ],
)
def test_empty_or_failed_pairs_never_agree(broken):
    found = judge([*pairs(4)[2:], *broken])
    assert found.failed == ("p0",)
    assert found.identical.estimate == 3 / 4
    assert found.outcome == "not shown"


def test_nothing_compared_is_not_shown():
    found = parity(select(run([cell("refine")]), GREEDY), "draft", "direct", [], {}, 0.02)
    assert found.outcome == "not shown"
    assert isinstance(found.identical, Unknown)


def test_coupled_sampling_compares_ids_of_the_same_seed():
    cells = [cell(arm, seed=s, ids=(s, 2), condition=COUPLED) for s in (0, 1) for arm in ("direct", "draft")]
    assert judge(cells).outcome == "shown"
    swapped = [replace(c, seed=1 - c.seed) if c.arm == "draft" else c for c in cells]
    found = judge(swapped, [replay(0, "tie", condition=COUPLED, seed=0), replay(0, "real", condition=COUPLED, seed=1)])
    assert found.divergences[0].verdict == "real"


def test_rejection_sampling_is_judged_by_score_alone():
    cells = pairs(4, REJECTION)
    cells[1] = replace(cells[1], ids=(9,))
    found = judge(cells)
    assert found.outcome == "not shown"
    assert found.identical == Unknown("ids are not comparable under rejection sampling")
    assert found.divergences == ()


def scored(differences):
    direct = {f"p{i}": 0.5 for i in range(len(differences))}
    return {"direct": direct, "draft": {f"p{i}": 0.5 + d for i, d in enumerate(differences)}}


@pytest.mark.parametrize(
    ("differences", "outcome"),
    [
        ([0.01, -0.01] * 50, "shown"),
        ([-0.1, -0.12] * 50, "refuted"),
        ([0.4, -0.4] * 50, "not shown"),
        ([0.0] * 10, "not shown"),  # ten unchanged prompts exclude a share of 26 %, not of 2 %
        ([0.0] * 149, "shown"),  # the exact bound reaches 98 %
        ([0.0] * 148, "not shown"),
        ([], "not shown"),
    ],
)
def test_non_inferiority_has_three_outcomes(differences, outcome):
    assert judge(pairs(4, REJECTION), scores=scored(differences)).outcome == outcome


def test_non_inferiority_is_the_one_sided_test_at_the_margin():
    differences = [0.03, -0.04, 0.02, -0.03, 0.0, 0.01, -0.02, 0.02] * 4
    p = stats.ttest_1samp(differences, -0.02, alternative="greater").pvalue
    assert (judge(pairs(2, REJECTION), scores=scored(differences)).outcome == "shown") == (p < 0.025)
    found = score_difference(scored(differences), "draft", "direct")
    # at the margin where the lower end sits, the test has exactly the p-value of that level
    assert stats.ttest_1samp(differences, found.low, alternative="greater").pvalue == pytest.approx(0.025)


def test_without_a_margin_or_with_failures_quality_is_not_shown():
    scores = scored([0.01, -0.01] * 50)
    assert judge(pairs(4, REJECTION), scores=scores, margin=None).outcome == "not shown"
    broken = [*pairs(4, REJECTION)[1:], failed("direct", condition=REJECTION)]
    assert judge(broken, scores=scores).outcome == "not shown"


def test_noise_floor_is_direct_against_itself():
    once = [cell("direct", "p0")]
    assert noise_floor(once) == Unknown("direct ran once per prompt")
    twice = [cell("direct", f"p{i}", repeat=r, ids=(1, r if i == 0 else 2)) for i in range(4) for r in (0, 1)]
    found = noise_floor(twice)
    assert isinstance(found, Interval)
    assert (found.estimate, found.n) == (0.75, 4)


@pytest.mark.parametrize(
    ("ours", "theirs", "at"),
    [((1, 2), (1, 2), None), ((1, 2), (1, 3), 1), ((1,), (1, 2), 1), ((), (), None), ((), (1,), 0)],
)
def test_first_difference(ours, theirs, at):
    assert first_difference(ours, theirs) == at
