from dataclasses import replace

import pytest
from runs import GREEDY, cell, failed, run, steps
from scipy import stats

from xpress_bench.analyse.acceptance import acceptance
from xpress_bench.analyse.intervals import Interval, Unknown
from xpress_bench.analyse.metrics import NO_STEP, chunks, metrics, speedups
from xpress_bench.analyse.reduce import select

# metrics.md 2.1: block 8, accepted prefixes before any stop rule, EOS at the second draft token of the last step
ACCEPTED, COMMITTED = [7, 3, 0, 5, 2, 7, 1, 4], [8, 4, 1, 6, 3, 8, 2, 2]
WORKED = cell("draft", ids=tuple(range(35)), stop_reason="eos", steps=steps(ACCEPTED, committed=COMMITTED))


def value(measure):
    assert measure.estimate is not None, measure
    return measure.estimate


@pytest.mark.parametrize(
    ("name", "exact", "printed"),
    [
        ("tokens_per_step_nominal", 37 / 8, 4.63),
        ("tokens_per_verify_incl_prefill", 35 / 8, 4.38),
        ("tokens_per_step_committed", 34 / 8, 4.25),
        ("chunk_mean_specdec_bench", 34 / 9, 3.78),
        ("accepted_drafts_per_step", 29 / 8, 3.63),
        ("draft_accept_rate", 29 / 56, 0.518),
        ("slot_utilisation", 37 / 64, 0.578),
        ("drafted_share_of_output", 29 / 35, 0.829),
        ("tokens_per_target_forward", 35 / 9, None),
    ],
)
def test_worked_trace_of_the_metrics_page(name, exact, printed):
    found = metrics([WORKED])
    for suffix in ("_step", "_prompt"):
        assert value(found[name + suffix]) == exact
    if printed is not None:
        last_digit = 0.01 if printed > 1 else 0.001
        assert abs(exact - printed) <= last_digit / 2 + 1e-12


def test_what_the_journal_holds_of_that_trace_ends_at_the_stop_id():
    found = metrics([replace(WORKED, steps=steps([*ACCEPTED[:-1], 2], committed=COMMITTED))])
    assert value(found["tokens_per_step_committed_step"]) == 34 / 8
    assert value(found["chunk_mean_specdec_bench_step"]) == 34 / 9
    assert value(found["drafted_share_of_output_step"]) == 27 / 35


def test_positions_by_hand():
    found = metrics([cell("draft", steps=steps([2, 1, 0, 1], offered=[3, 3, 3, 1]))])
    by_position = {
        "accept_marginal": [3 / 4, 1 / 4, 0],
        "accept_conditional": [3 / 4, 1 / 3, 0],
        "accept_offered": [3 / 4, 1 / 3, 0],
    }
    for name, shares in by_position.items():
        assert [value(found[f"{name}_step[{at}]"]) for at in (1, 2, 3)] == shares
    nobody = metrics([cell("draft", steps=steps([0, 0], offered=2))])
    assert nobody["accept_conditional_step[2]"] == Unknown("no step accepted the draft before it")
    assert value(nobody["accept_marginal_step[2]"]) == 0


def test_position_match_looks_behind_the_first_error_and_not_behind_the_end():
    output = (10, 11, 12, 13, 14, 15, 16, 17)
    blocks = ((11, 99, 13), (13, 14, 99), (98, 17, 55), (17, 1, 1))
    trace = replace(steps([1, 2, 0, 1], offered=3, committed=[2, 3, 1, 1]), drafts=blocks)
    found = metrics([cell("draft", ids=output, steps=trace)])
    assert [value(found[f"position_match_step[{at}]"]) for at in (1, 2, 3)] == [3 / 4, 2 / 3, 1 / 2]


def test_position_match_is_of_the_block_that_was_offered():
    trace = replace(steps([1], offered=1), drafts=((99,),), refined=((2,),))
    assert value(metrics([cell("refine", ids=(1, 2, 3), steps=trace)])["position_match_step[1]"]) == 1
    bare = metrics([cell("draft", steps=steps([1], offered=1))])
    assert bare["position_match_step[1]"] == Unknown("no offered token is at hand there")


def test_pooled_and_per_prompt_differ_and_agree_with_the_report():
    cells = [
        cell("draft", "p0", steps=steps([6])),
        cell("draft", "p1", steps=steps([1] * 9)),
        cell("draft", "p2", steps=steps([3, 0], offered=[7, 2])),
    ]
    found, reported = metrics(cells), acceptance(cells)
    names = ("tokens_per_step_committed", "tokens_per_step_nominal", "accepted_drafts_per_step", "draft_accept_rate")
    for name in (f"{name}_{suffix}" for name in names for suffix in ("step", "prompt")):
        assert found[name] == getattr(reported, name)
    assert [found[f"accept_marginal_step[{at}]"] for at in range(1, 8)] == list(reported.accept_marginal_step)
    assert value(found["accepted_drafts_per_step_step"]) == 18 / 12
    assert value(found["accepted_drafts_per_step_prompt"]) == pytest.approx((6 + 1 + 1.5) / 3)


def test_suite_is_the_mean_of_categories():
    lengths = {"a0": 1, "a1": 3, "b0": 4, "b1": 5, "b2": 9}
    cells = [cell("draft", prompt, steps=steps([length - 1], offered=9)) for prompt, length in lengths.items()]
    found = metrics(cells, {prompt: prompt[0] for prompt in lengths})["tokens_per_step_committed_suite"]
    assert isinstance(found, Interval)
    assert found.estimate == (2 + 6) / 2  # the mean of prompts is 4.4
    half_width = stats.t.ppf(0.975, 3) * (2 / 2 + 7 / 3) ** 0.5 / 2  # variances 2 and 7, five prompts in two strata
    assert (found.low, found.high) == pytest.approx((4 - half_width, 4 + half_width))


def test_suite_without_what_it_needs_is_unknown():
    cells = [cell("draft", prompt, steps=steps([1])) for prompt in ("p0", "p1", "p2")]
    name = "tokens_per_step_committed_suite"
    assert metrics(cells)[name] == Unknown("the categories of the prompts are not at hand")
    assert metrics(cells, {"p0": "a", "p1": "a"})[name] == Unknown("prompt p2 has no category")
    assert metrics(cells, {"p0": "a", "p1": "a", "p2": "b"})[name] == Unknown("n < 2 in category b", 2.0)


def test_direct_generation_gives_one_per_forward_and_has_no_steps():
    found = metrics([cell("direct", prompt, ids=(5, 6, 7), stop_reason="eos") for prompt in ("p0", "p1")])
    ones = {name for name, measure in found.items() if measure == Interval(1.0, 1.0, 1.0, "constant data", 2)}
    assert ones == {
        f"{name}_{suffix}"
        for name in ("chunk_mean_specdec_bench", "tokens_per_target_forward")
        for suffix in ("step", "prompt")
    }
    assert found["tokens_per_step_committed_step"] == Unknown(NO_STEP)
    assert metrics([])["draft_accept_rate_prompt"] == Unknown(NO_STEP)


def test_steps_without_an_offer_have_no_rate():
    found = metrics([cell("draft", steps=steps([0, 0], offered=0))])
    assert found["draft_accept_rate_step"] == Unknown("no draft token was offered")
    assert value(found["tokens_per_step_committed_step"]) == 1


def test_chunks_are_without_the_stop_id_and_never_empty():
    trace = steps([2, 0], committed=[3, 1])
    assert chunks(cell("draft", ids=(1, 2, 3, 4, 5), stop_reason="eos", steps=trace)) == {1: 1, 3: 1}
    assert chunks(cell("draft", ids=(1, 2, 3, 4, 5), stop_reason="length", steps=trace)) == {1: 2, 3: 1}
    assert chunks(cell("draft", ids=(9,), stop_reason="eos")) == {}
    assert metrics([cell("draft", ids=(9,))])["chunk_mean_specdec_bench_step"] == Unknown(
        "nothing but a stop id was output"
    )


def timed(arm, prompt, tokens, rate, **changes):
    return cell(arm, prompt, tokens / rate, ids=(1,) * tokens, ttft_s=0.0, **changes)


def compared(cells):
    return speedups(select(run(cells), GREEDY), "draft", "direct")


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("speedup_mean_tps", 3.30),
        ("speedup_median_paired", 3.00),
        ("speedup_gmean_paired", 2.75),  # 57.6 ** (1 / 4) = 2.7549; the page prints 2.76
        ("speedup_mean_tpot", 2.29),
        ("speedup_total_time", 1.49),
    ],
)
def test_worked_speed_ups_of_the_metrics_page(name, printed):
    # metrics.md 2.3: direct 50 tok/s everywhere, the method 60, 100, 200 and 300 on outputs of 1000, 300, 200 and 50
    rows = [(1000, 60), (300, 100), (200, 200), (50, 300)]
    cells = [timed("draft", f"p{at}", tokens, rate) for at, (tokens, rate) in enumerate(rows)]
    cells += [timed("direct", f"p{at}", tokens, 50) for at, (tokens, _) in enumerate(rows)]
    assert round(value(compared(cells)[name]), 2) == printed


def test_tpot_leaves_the_first_id_s_time_out_and_divides_by_all_ids():
    cells = [replace(timed("direct", f"p{at}", 10, 1), latency_s=12.0, ttft_s=2.0) for at in range(2)] + [
        replace(timed("draft", f"p{at}", 10, 1), latency_s=7.0, ttft_s=2.0) for at in range(2)
    ]
    found = compared(cells)
    assert value(found["speedup_mean_tpot"]) == pytest.approx(2)  # 10 s over 5 s
    assert value(found["speedup_mean_tps"]) == pytest.approx(12 / 7)
    blind = compared([replace(one, ttft_s=None) for one in cells])
    assert isinstance(blind["speedup_mean_tpot"], Unknown)
    assert blind["speedup_mean_tps"] == found["speedup_mean_tps"]


def test_speed_ups_use_what_both_arms_answered_and_repeats_take_their_median():
    cells = [timed("direct", "p0", 10, 10), timed("direct", "p1", 10, 10), timed("direct", "p2", 10, 1000)]
    cells += [timed("draft", "p1", 10, 20, repeat=at) for at in range(2)]
    cells += [timed("draft", "p1", 10, 1, repeat=2), timed("draft", "p0", 10, 20), failed("draft", "p2")]
    found = compared(cells)
    assert {name: value(measure) for name, measure in found.items()} == pytest.approx(dict.fromkeys(found, 2.0))
    alone = compared(cells[:3])
    assert all(isinstance(measure, Unknown) and measure.estimate is None for measure in alone.values())
