import numpy as np
import pytest
from runs import cell, steps
from scipy import stats

from xpress_bench.analyse.acceptance import acceptance, tokens_per_step
from xpress_bench.analyse.intervals import Interval, Unknown


def took(*prompts, **changes):
    return acceptance([cell("draft", f"p{i}", steps=one, **changes) for i, one in enumerate(prompts)])


def test_worked_trace_of_the_metrics_page():
    # metrics.md 2.1: block 8, accepted prefixes before any stop rule, EOS at the second draft token of the last step
    trace = steps([7, 3, 0, 5, 2, 7, 1, 4], committed=[8, 4, 1, 6, 3, 8, 2, 2])
    found = took(trace)
    assert found.tokens_per_step_nominal_step.estimate == 37 / 8  # printed there as 4.63
    assert found.tokens_per_step_committed_step.estimate == 34 / 8  # 4.25
    assert found.accepted_drafts_per_step_step.estimate == 29 / 8  # 3.63
    assert found.draft_accept_rate_step.estimate == 29 / 56  # 51.8 %
    assert [one.estimate * 8 for one in found.accept_marginal_step] == [7, 6, 5, 4, 3, 2, 2]


def test_same_trace_as_a_journal_holds_it_cut_at_the_stop():
    found = took(steps([7, 3, 0, 5, 2, 7, 1, 2], committed=[8, 4, 1, 6, 3, 8, 2, 2]))
    assert found.tokens_per_step_committed_step.estimate == 34 / 8
    assert found.accepted_drafts_per_step_step.estimate == 27 / 8
    assert found.draft_accept_rate_step.estimate == 27 / 56


def test_c11_leading_run_only_and_both_means_apart():
    found = took(steps([1, 3, 0], offered=3))
    assert found.draft_accept_rate_step.estimate == 4 / 9
    assert found.accepted_drafts_per_step_step.estimate == 4 / 3
    assert found.tokens_per_step_committed_step.estimate == 7 / 3
    assert took(steps([3], offered=3)).draft_accept_rate_step.estimate == 1.0


def test_c12a_regrouping_changes_nothing():
    apart = [cell("draft", steps=steps(a, offered=4), repeat=r) for r, a in enumerate(([4, 0], [2, 1]))]
    together = [cell("draft", steps=steps([4, 0, 2, 1], offered=4))]
    for cells in (apart, together, apart[::-1]):
        found = acceptance(cells)
        assert found.accepted_drafts_per_step_step.estimate == 1.75
        assert found.tokens_per_step_committed_step.estimate == 2.75


def test_c12b_pooled_and_per_prompt_have_two_names():
    found = took(steps([6]), steps([1] * 9))
    assert found.accepted_drafts_per_step_step.estimate == 1.5
    assert found.accepted_drafts_per_step_prompt.estimate == 3.5


def test_c12c_every_turn_of_conversations_of_one_two_and_three_counts():
    talks = {"one": [4], "two": [0, 2], "three": [1, 1, 6]}  # accepted in the single step of each turn
    cells = [
        cell("draft", prompt, turn=turn, steps=steps([accepted]))
        for prompt, runs in talks.items()
        for turn, accepted in enumerate(runs, start=1)
    ]
    found = acceptance(cells)
    assert found.steps == 6
    assert found.accepted_drafts_per_step_step.estimate == 14 / 6
    assert found.accepted_drafts_per_step_prompt.estimate == pytest.approx((4 + 1 + 8 / 3) / 3)
    assert found.accepted_drafts_per_step_prompt.n == 3


def test_c31_denominator_is_what_was_offered():
    found = took(steps([8, 4, 3], offered=[8, 8, 3]))
    assert found.draft_accept_rate_step.estimate == 15 / 19
    assert took(steps([3], offered=[4])).draft_accept_rate_step.estimate == 3 / 4
    for block, rate in ((4, 0.75), (16, 0.1875)):
        found = took(steps([3, 3], offered=block), steps([3], offered=block))
        assert found.draft_accept_rate_step.estimate == rate
        assert found.tokens_per_step_committed_step.estimate == 4.0


def test_c32_no_step_is_unknown_and_rejection_is_0():
    for cells in ([], [cell("direct")], [cell("draft"), cell("draft", "p1", ids=(9,))]):
        found = acceptance(cells)
        assert found.steps == 0
        assert found.tokens_per_step_committed_step == Unknown("no verify step was taken")
        assert found.draft_accept_rate_prompt == Unknown("no verify step was taken")
        assert found.accept_marginal_step == ()
    rejected = took(steps([0] * 10), steps([0] * 10))
    assert rejected.draft_accept_rate_step == Interval(0.0, 0.0, 0.0, "constant data", 2)
    assert rejected.tokens_per_step_committed_step.estimate == 1.0


def test_steps_without_an_offer_have_no_rate():
    found = took(steps([0, 0], offered=0))
    assert found.draft_accept_rate_step == Unknown("no draft token was offered")
    assert found.tokens_per_step_committed_step.estimate == 1.0


def test_a_prompt_without_an_offer_takes_no_part_in_the_mean():
    found = took(steps([2], offered=4), steps([0], offered=0), steps([1], offered=4))
    assert found.draft_accept_rate_prompt.estimate == 0.375
    assert found.draft_accept_rate_prompt.n == 2


def test_intervals_are_clustered_by_prompt():
    rng = np.random.default_rng(5)
    accepted = [rng.binomial(7, rng.beta(6, 4), size=rng.integers(5, 50)) for _ in range(40)]
    found = took(*[steps([int(a) for a in one]) for one in accepted])
    k, n = np.array([one.sum() for one in accepted]), np.array([7 * len(one) for one in accepted])
    rate = k.sum() / n.sum()
    low, high = stats.ttest_1samp(rate + (k - rate * n) / n.mean(), 0).confidence_interval()
    measured = found.draft_accept_rate_step
    assert (measured.estimate, measured.low, measured.high) == pytest.approx((rate, low, high))
    marginal = [np.mean(np.concatenate(accepted) >= i) for i in range(1, 8)]
    assert [one.estimate for one in found.accept_marginal_step] == pytest.approx(marginal)
    assert all(0 <= one.low <= one.high <= 1 for one in found.accept_marginal_step)


def test_tokens_per_step_alone_is_that_of_the_whole():
    cells = [cell("draft", "p0", steps=steps([3, 1])), cell("draft", "p1", steps=steps([4])), cell("draft", "p2")]
    for some in (cells, cells[:1], cells[2:], []):
        assert tokens_per_step(some) == acceptance(some).tokens_per_step_committed_step
    assert tokens_per_step(cells).estimate == 11 / 3  # 4 + 2 tokens and 5, in three steps
