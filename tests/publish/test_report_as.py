from dataclasses import replace

import pytest
from runs import COUPLED, cell, exact_study, failed, run, steps

from xpress_bench.errors import UsageError
from xpress_bench.publish.markdown import markdown
from xpress_bench.publish.report_as import SYSTEMS, report_as
from xpress_bench.publish.text import plain

# The worked trace of metrics.md 2.1 as a journal holds it: EOS at the second draft token of the last step
ACCEPTED, COMMITTED = [7, 3, 0, 5, 2, 7, 1, 2], [8, 4, 1, 6, 3, 8, 2, 2]


def trace(**changes):
    return cell("draft", ids=tuple(range(35)), latency_s=1.8, steps=steps(ACCEPTED, committed=COMMITTED), **changes)


def row(cells, system, arm="draft", **changes):
    """One arm's cells of the table by column, and the reasons below it."""
    section = report_as(run(cells, **changes), system).sections[0]
    found = next(row for row in section.table.rows if row[0] == arm)
    return dict(zip(section.table.columns, found, strict=True)), section.lines


def reason(lines, *words):
    return next(text for _, text in lines if all(word in text for word in words))


def test_worked_trace_as_each_system_counts_it():
    assert row([trace()], "sglang")[0]["spec_accept_length"] == "4.38"  # 35 ids, the prompt's first included
    assert row([trace()], "spec-bench")[0]["#Mean accepted tokens"] == "4.25"
    assert row([trace()], "dflash")[0]["Average Acceptance length"] == "4.25"
    assert row([trace()], "deepspec")[0]["accept_len"] == "4.25"
    assert row([trace()], "deepspec")[0]["verify_rate"] == "0.5763"  # 34 of 51 + 8: printed there as 57.6 %
    assert row([trace()], "specdec_bench")[0]["Average_AL"] == "3.7778"  # 34 / 9


def test_vllm_counts_behind_the_stop_id_so_only_bounds_are_known():
    found, lines = row([trace()], "vllm")
    unknown = ("Acceptance length", "Acceptance rate (%)", "Accepted tokens", "Position 0", "Position 6")
    assert [found[name] for name in unknown] == ["-"] * 5
    assert (found["Drafts"], found["Draft tokens"]) == ("8", "56")
    assert "from 4.38 to 5.00" in reason(lines, "behind a stop id")  # 27 / 8, and 32 / 8 if all of the block was right


def test_vllm_is_exact_where_the_journal_tells_what_was_accepted_before_the_stop():
    whole = trace()
    whole = replace(whole, steps=replace(whole.steps, matched=(7, 3, 0, 5, 2, 7, 1, 4)))
    found, _ = row([whole], "vllm")
    assert found["Acceptance length"] == "4.62"  # 1 + 29 / 8 = 4.625, in metrics.md rounded up
    assert (found["Accepted tokens"], found["Acceptance rate (%)"]) == ("29", "51.79")  # 29 of 56
    assert row([whole], "sglang")[0]["spec_accept_rate"] == "0.5179"


def test_vllm_where_the_target_s_own_token_ends_the_output():
    whole = steps([7, 0, 2], committed=[8, 1, 3])
    found, _ = row([cell("draft", ids=tuple(range(13)), latency_s=1.5, ttft_s=0.3, steps=whole)], "vllm")
    assert found["Acceptance rate (%)"] == "42.86"  # 9 of 21
    assert found["Acceptance length"] == "4.00"  # 1 + 9 / 3
    assert [found[f"Position {at}"] for at in range(7)] == ["66.67", "66.67", *["33.33"] * 5]
    assert found["Mean TPOT (ms)"] == "100.00"  # 1.2 s over 12 ids
    assert found["Mean TTFT (ms)"] == found["P99 TTFT (ms)"] == "300.00"
    assert found["Mean ITL (ms)"] == found["Output token throughput (tok/s)"] == "-"


def test_vllm_offers_whole_blocks_beyond_the_limit():
    cut = steps([7, 3], offered=[7, 3], committed=[8, 4])
    found, lines = row([cell("draft", ids=tuple(range(13)), stop_reason="length", steps=cut)], "vllm")
    assert (found["Acceptance length"], found["Draft tokens"], found["Drafts"]) == ("-", "-", "2")
    assert "from 6.00 to 8.00" in reason(lines, "Acceptance length")
    assert "1 of 2 steps offer fewer than 7 drafts" in reason(lines, "Draft tokens")
    rejected = steps([7, 1], offered=[7, 3])  # nothing was cut off here that the target could have accepted
    assert row([cell("draft", steps=rejected)], "vllm")[0]["Acceptance length"] == "5.00"


def test_sglang_averages_requests_and_specforge_pools_them():
    cells = [
        cell("draft", "p0", ids=tuple(range(9)), steps=steps([7])),
        cell("draft", "p1", ids=tuple(range(7)), steps=steps([0] * 5 + [0], committed=[1] * 6)),
    ]
    found, _ = row(cells, "sglang")
    assert (found["completion_tokens"], found["spec_verify_ct"]) == ("16", "7")
    assert found["spec_accept_length"] == "5.08"  # (9 / 1 + 7 / 6) / 2
    assert found["accept_length (SpecForge)"] == "2.29"  # 16 / 7
    assert found["spec_accept_rate"] == "0.5000"  # (7 / 7 + 0 / 42) / 2
    assert found["avg_spec_accept_length"] == "-"
    assert row([trace()], "sglang")[0]["spec_accept_rate"] == "-"


def test_spec_bench_takes_the_first_seed_and_whole_questions():
    one = cell("draft", ids=(1,) * 8, latency_s=2.0, steps=steps([6]))
    cells = [one, replace(one, turn=2, latency_s=6.0, ids=(1,) * 8)]  # 16 ids in 8 s, not the mean of 4 and 1.33
    cells += [replace(one, prompt="p1", latency_s=1.0), replace(one, prompt="p1", seed=1, latency_s=0.001)]
    cells += [replace(each, arm="direct", latency_s=8.0, steps=steps([])) for each in cells]
    found, lines = row(cells, "spec-bench")
    assert found["Tokens per second"] == "5.00"  # (16 / 8 + 8 / 1) / 2
    assert found["Speedup ratio"] == found["Tokens per second for the baseline"] == "-"
    assert "speedup_mean_tps is" in reason(lines, "Speedup ratio", "of draft")
    direct, lines = row(cells, "spec-bench", "direct")
    assert (direct["#Mean accepted tokens"], direct["Tokens per second"]) == ("1.00", "1.00")
    assert "is the baseline" in reason(lines, "Speedup ratio of direct")


@pytest.mark.parametrize(("system", "column"), [("spec-bench", "#Mean accepted tokens"), ("deepspec", "accept_len")])
def test_loops_that_overshoot_the_limit_count_what_is_not_here(system, column):
    found, lines = row([trace(), trace(stop_reason="length", repeat=1)], system)
    assert found[column] == "-"
    assert "1 of 2 requests end at the output limit" in reason(lines, column)
    assert "4.25" in reason(lines, column)


def test_dflash_averages_responses_and_divides_decode_time_by_all_ids():
    draft = [
        cell("draft", "p0", 3.0, ids=(1,) * 10, ttft_s=1.0, steps=steps([7, 0])),
        cell("draft", "p1", 2.0, ids=(1,) * 5, ttft_s=1.0, steps=steps([0] * 4)),
    ]
    direct = [replace(one, arm="direct", latency_s=5.0, steps=steps([])) for one in draft]
    found, _ = row([*direct, *draft], "dflash")
    assert found["Average Acceptance length"] == "2.75"  # (4.5 + 1) / 2; pooled it is 13 / 6
    assert found["DFlash throughput"] == "5.00"  # 1 / mean of 0.2 and 0.2 s
    assert found["Baseline throughput"] == "1.67"  # 1 / mean of 0.4 and 0.8 s
    assert found["Decoding speedup"] == "3.00"
    assert found["Acceptance length histogram"] == "0.0% 83.3% 0.0% 0.0% 0.0% 0.0% 0.0% 0.0% 16.7%"
    lone, lines = row([*direct[:1], *draft], "dflash")
    assert lone["Decoding speedup"] == "-"
    assert "different requests" in reason(lines, "Decoding speedup", "of draft")


def test_dflash_averages_nan_where_no_step_was_taken():
    found, lines = row([trace(), cell("draft", "p1", ids=(2,), ttft_s=0.5)], "dflash")
    assert found["Average Acceptance length"] == "-"
    assert "1 of 2 requests took no verify step" in reason(lines, "Average Acceptance length")


def test_deepspec_cuts_offers_at_the_stop_id_and_reads_first_turns():
    found, _ = row([trace(), cell("draft", turn=2, steps=steps([0] * 9))], "deepspec")
    assert found["#propose"] == "6.38+1"  # 51 / 8
    rates = ["0.8750", "0.7500", "0.5714", "0.4286", "0.4286", "0.2857", "0.2857"]  # of 8, 8 and then 7 steps
    assert [found[f"accept_rate@{at}"] for at in range(7)] == rates


def test_deepspec_offers_whole_blocks_where_the_limit_cut_ours():
    found, lines = row([cell("draft", ids=(1,) * 4, steps=steps([0, 1], offered=[7, 2]))], "deepspec")
    assert (found["accept_len"], found["verify_rate"]) == ("1.50", "-")
    assert "1 of 2 steps" in reason(lines, "verify_rate")


def test_specdec_bench_indexes_by_chunk_length():
    found, _ = row([trace()], "specdec_bench")
    assert found["Acceptance_Length_Histogram"] == "1: 3, 2: 1, 3: 1, 4: 1, 6: 1, 8: 2"
    assert found["Conditional_Acceptance_Rate"] == "1: 1.000, 2: 0.667, 3: 0.833, 4: 0.800, 6: 0.750, 8: 0.667"
    assert found["Joint_Acceptance_Rate"] == "1: 1.000, 2: 0.667, 3: 0.556, 4: 0.444, 6: 0.333, 8: 0.222"
    assert found["Request Generation Step Time"] == "0.2000"  # 1.8 s over 9 chunks, the first of them the prompt's


def test_specdec_bench_leaves_the_time_of_a_lone_stop_id_out():
    alone = steps([1, 0], offered=7, committed=[2, 1])
    found, lines = row([cell("draft", ids=(1,) * 4, steps=alone)], "specdec_bench")
    assert found["Average_AL"] == "1.5000"
    assert found["Request Generation Step Time"] == "-"
    assert "1 of 1 requests" in reason(lines, "Step Time")
    mute, lines = row([trace(), cell("draft", "p1", ids=(2,))], "specdec_bench")
    assert mute["Average_AL"] == "-"
    assert "1 of 2 requests output nothing but a stop id" in reason(lines, "Average_AL")


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_dash_has_a_reason_and_every_arm_a_row(system):
    cells = [*exact_study()[:27], failed("draft", "p9", "out of [memory]\x1b")]
    page = report_as(run(cells), system)
    section = page.sections[0]
    assert [one[0] for one in section.table.rows] == ["direct", "draft", "refine"]
    for arm, *values in section.table.rows:
        told = [text for label, text in section.lines if label == "not known" and arm in text]
        assert ("-" in values) == bool(told)
    assert ("failed", "1 request of draft, not averaged: out of [memory]  (p9)") in section.lines
    assert f"reported as {system}" in plain(page)
    assert f"reported as {system}" in markdown(page).replace("\\", "")


@pytest.mark.parametrize("system", SYSTEMS)
def test_nothing_is_0_where_nothing_succeeded(system):
    found, _ = row([failed("direct"), failed("draft")], system)
    assert set(list(found.values())[1:]) == {"-"}


def test_conditions_stay_apart():
    both = [trace(), replace(trace(), condition=COUPLED, seed=3)]
    sections = report_as(run(both), "sglang").sections
    assert [one.heading for one in sections] == ["greedy", "temperature 0.7, coupled"]
    assert [one.table.rows[0][1] for one in sections] == ["35", "35"]


def test_unknown_system_names_the_nearest():
    with pytest.raises(UsageError, match="did you mean vllm"):
        report_as(run([trace()]), "vlm")
    with pytest.raises(UsageError, match="choose one of vllm, sglang, spec-bench, dflash, deepspec, specdec_bench"):
        report_as(run([trace()]), "xyzzy")
