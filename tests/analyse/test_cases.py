"""Cases as a reader meets them, in the summary and on the page of a run; formulas are tested by module."""

from __future__ import annotations

import json

import pytest
from runs import ARMS, cell, run, steps

from xpress_bench.analyse.acceptance import acceptance
from xpress_bench.analyse.summary import summarise
from xpress_bench.errors import UsageError
from xpress_bench.journals import to_line
from xpress_bench.publish.page import page
from xpress_bench.publish.report_as import report_as


def section(cells, **changes):
    return page(summarise(run(cells, **changes))).sections[0]


def row(cells, arm):
    table = section(cells).table
    found = next(one for one in table.rows if one[0].startswith(arm))
    return dict(zip(table.columns, found, strict=True))


def texts(cells, label):
    return [text for name, text in section(cells).lines if name == label]


def timed(arm, *latencies_s, start=0):
    return [cell(arm, f"p{i}", latency_s) for i, latency_s in enumerate(latencies_s, start=start)]


TEN_PERCENT = (0.1, 0.2, 0.3, 0.4, 0.5), (0.09, 0.18, 0.27, 0.36, 0.45)


def test_c15_the_sentence_says_how_the_arm_was_made():
    cells = [cell(arm.name, f"p{i}") for i in range(3) for arm in ARMS]
    assert "refine (dflash B=8 + xpress K=4)" in section(cells).verdict


@pytest.mark.parametrize(
    ("latencies_s", "shown"),
    [([0.1] * 10, "100 ms [100, 100]"), ([0.1], "100 ms (n < 2)"), ([0.1, 0.2], "150 ms [100, 200]")],
)
def test_c22_constant_single_and_two_latencies(latencies_s, shown):
    assert row(timed("direct", *latencies_s), "direct")["median latency"] == shown


def test_c22_one_prompt_has_no_interval_and_says_why():
    assert "n < 2" in row(timed("direct", 0.1) + timed("draft", 0.05), "draft")["speed-up vs direct"]


def test_c23_a_uniform_gain_is_1_11_whatever_the_order():
    base, arm = TEN_PERCENT
    for cells in (timed("direct", *base) + timed("draft", *arm), timed("draft", *arm)[::-1] + timed("direct", *base)):
        assert row(cells, "draft")["speed-up vs direct"] == "1.11 [1.11, 1.11]"


def test_c23_a_prompt_that_one_arm_lacks_is_named_and_a_double_one_refused():
    base, arm = TEN_PERCENT
    cells = timed("direct", *base) + timed("draft", *arm[1:], start=1)
    assert texts(cells, "not paired") == ["draft vs direct: p0"]
    assert row(cells, "draft")["speed-up vs direct"] == "1.11 [1.11, 1.11]"
    with pytest.raises(UsageError, match="twice"):
        section([*cells, cells[0]])


def test_c31b_drafts_that_were_never_verified_are_in_no_denominator():
    found = acceptance([cell("refine", steps=steps([0, 3], offered=[0, 4]))])
    assert found.draft_accept_rate_step.estimate == 3 / 4
    assert found.steps == 2


def test_c31c_block_sizes_differ_in_rate_and_not_in_tokens_per_step():
    cells = [
        cell(arm, f"p{i}", steps=steps([3, 3], offered=offered)) for arm, offered in (("draft", 4), ("refine", 16))
        for i in range(2)
    ]  # fmt: skip
    assert [row(cells, arm)["tokens/step"] for arm in ("draft", "refine")] == ["4.00 [4.00, 4.00]"] * 2
    assert [row(cells, arm)["accepted"] for arm in ("draft", "refine")] == ["75.0 %", "18.8 %"]


def test_c32_a_request_without_a_step_takes_no_part_in_means_and_is_counted():
    drafted = [cell("draft", f"p{i}", steps=steps([1, 2], offered=4)) for i in range(3)]
    none = [cell("draft", f"q{i}", ids=(7,), stop_reason=reason) for i, reason in enumerate(("length", "eos"))]
    both = summarise(run(drafted + none)).conditions[0].arms[0]
    assert both.requests == 5
    assert both.acceptance == acceptance(drafted)


def test_c32_an_answer_of_one_token_has_no_time_per_further_token():
    cells = [cell("draft", f"p{i}", ids=(7,), ttft_s=0.5) for i in range(3)]
    table = report_as(run(cells), "vllm").sections[0].table
    assert dict(zip(table.columns, table.rows[0], strict=True))["Mean TPOT (ms)"] == "-"


def test_c32_a_journal_is_json_for_parsers_that_know_no_nan():
    def refuse(constant):
        raise AssertionError(constant)

    for one in (cell("direct", latency_s=None), cell("draft", ids=(7,), latency_s=0.0)):
        assert json.loads(to_line(one), parse_constant=refuse)["steps"]["offered"] == []


def test_c40_three_seeds_are_n_of_prompts_and_not_of_seeds():
    cells = [cell("direct", f"p{p}", 0.1 * (1 + seed), seed=seed) for p in range(4) for seed in range(3)]
    direct = summarise(run(cells)).conditions[0].arms[0]
    assert direct.latency_s.n == 4
    assert direct.latency_s.estimate == pytest.approx(0.2)
