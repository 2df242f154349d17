from dataclasses import replace

import pytest
from runs import COUPLED, GREEDY, REJECTION, Item, cell, failed, figures, grid, run, steps, study

from xpress_bench.analyse.intervals import Unknown
from xpress_bench.analyse.summary import by, summarise
from xpress_bench.errors import UsageError
from xpress_bench.journals import read_run, to_line
from xpress_bench.records import Memory


def arm(summary, name, at=0):
    return next(one for one in summary.conditions[at].arms if one.arm.name == name)


def test_speed_ups_of_a_known_study():
    (of,) = summarise(run(study())).conditions
    assert of.speed_up("refine").gmean_paired.estimate == pytest.approx(2.0, rel=0.01)
    assert of.speed_up("refine", "draft").gmean_paired.estimate == pytest.approx(1.6, rel=0.01)
    assert of.speed_up("draft", "refine") is None


def test_median_latency_and_pooled_tokens_per_second():
    cells = [cell("direct", f"p{i}", t, ids=tuple(range(n))) for i, (t, n) in enumerate(((1, 10), (2, 20), (10, 10)))]
    direct = arm(summarise(run(cells)), "direct")
    assert direct.latency_s.estimate == 2
    assert direct.tokens_per_s.estimate == pytest.approx(40 / 13)


def test_c06_tokens_are_those_produced():
    cells = [cell("draft", f"p{i}", 1.0, ids=tuple(range(59))) for i in range(2)]
    assert arm(summarise(run(cells)), "draft").tokens_per_s.estimate == 59


def test_c32f_no_elapsed_time_no_throughput():
    assert arm(summarise(run([cell("direct", latency_s=0.0)])), "direct").tokens_per_s == Unknown("nothing was timed")


def test_c32_direct_has_no_acceptance():
    direct = arm(summarise(run(study())), "direct")
    assert direct.acceptance.tokens_per_step_committed_step == Unknown("no verify step was taken")
    assert isinstance(direct.stages, Unknown)


def test_levels_of_a_good_run():
    (of,) = summarise(run(study())).conditions
    levels = of.levels(of.arms[2])
    assert (levels.runs, levels.quality, levels.latency, levels.stable) == (True, "shown", "faster", True)


def test_prompts_that_got_slower_make_a_speed_up_unstable():
    slow = [replace(c, latency_s=c.latency_s * 3) if c.arm == "refine" and c.prompt in ("p1", "p2") else c
            for c in study()]  # fmt: skip
    (of,) = summarise(run(slow)).conditions
    assert of.speed_up("refine").slower == ("p1", "p2")
    assert of.levels(of.arms[2]).latency == "faster"
    assert not of.levels(of.arms[2]).stable  # 2 of 32 is above 5 %


def test_failed_and_short_cells_are_counted_and_not_averaged():
    cells = study()
    cells[1] = failed("draft", "p0")
    cells[5] = replace(cells[5], stop_reason="short", latency_s=1e-9)
    (of,) = summarise(run(cells)).conditions
    assert (of.expected, of.usable, len(of.failed), len(of.short)) == (96, 94, 1, 1)
    assert of.speed_up("refine").prompts == 31
    assert of.speed_up("refine").missing == ("p1",)
    assert of.speed_up("refine").gmean_paired.estimate == pytest.approx(2.0, rel=0.01)
    assert not of.levels(of.arms[2]).runs


def test_without_a_footer_the_run_is_incomplete():
    summary = summarise(run(study(), footer=None))
    assert not summary.complete
    assert not summary.conditions[0].levels(summary.conditions[0].arms[1]).runs


def test_conditions_are_summarised_apart():
    doubled = [replace(c, condition=COUPLED, latency_s=c.latency_s * 10) for c in study()]
    cold, warm = summarise(run([*study(), *doubled])).conditions
    assert (cold.condition, warm.condition) == (GREEDY, COUPLED)
    assert warm.arms[0].latency_s.estimate == pytest.approx(10 * cold.arms[0].latency_s.estimate)


def test_scores_use_the_items_and_every_arm_has_its_own():
    items = [Item(f"p{i}", (str(i),)) for i in range(4)]
    texts = {"direct": "Answer: 1", "draft": "Answer: 2"}
    cells = [replace(c, text=texts[c.arm]) for c in grid(lambda a, p: 1.0, prompts=4, arms=texts)]
    summary = summarise(run(cells), items)
    assert arm(summary, "direct").score.estimate == 0.25
    assert summarise(run(cells)).conditions[0].arms[0].score == Unknown("the suite's items are not at hand")
    unscorable = summarise(run(cells), [Item(f"p{i}") for i in range(4)])
    assert arm(unscorable, "draft").score == Unknown("no reference")


def test_rejection_uses_the_margin_of_the_suite():
    items = [Item(f"p{i}", ("x",)) for i in range(160)]
    cells = grid(lambda a, p: 1.0, prompts=160, condition=REJECTION)
    assert arm(summarise(run(cells), items), "refine").parity.outcome == "shown"
    strict = run(cells, suite={"parity_margin": 0.01})
    assert arm(summarise(strict, items), "refine").parity.outcome == "not shown"


def test_memory_is_the_arms_own_or_unknown():
    memory = [Memory("draft", "process_peak_rss", 7)]
    summary = summarise(run(study(), memory=memory))
    assert arm(summary, "draft").memory.peak_bytes == 7
    assert arm(summary, "refine").memory == Unknown("peak memory was not measured")


def test_any_arms_without_direct():
    cells = [replace(c, arm={"direct": "zeta", "draft": "alpha"}[c.arm]) for c in study() if c.arm != "refine"]
    arms = [replace(one, name=name) for one, name in zip(run(study()).header.arms, ("zeta", "alpha", "-"), strict=True)]
    (of,) = summarise(run(cells, arms=arms)).conditions
    assert [one.arm.name for one in of.arms] == ["zeta", "alpha"]
    assert of.speed_up("alpha", "zeta").latency == "faster"
    assert of.arms[1].parity == Unknown("the run has no direct arm")


def test_by_category_splits_prompts_and_loses_none():
    items = [Item(f"p{i}", category="even" if i % 2 == 0 else "odd") for i in range(32)]
    groups = by(run(study()), items, "category")
    assert list(groups) == ["even", "odd"]
    assert [one.conditions[0].speed_up("draft").prompts for one in groups.values()] == [16, 16]
    assert all(one.conditions[0].levels(one.conditions[0].arms[1]).runs for one in groups.values())
    with pytest.raises(UsageError, match="no field 'colour'"):
        by(run(study()), items, "colour")


def test_stage_shares_and_costs_reach_the_arm():
    timed = replace(steps([3, 3]), draft_s=(0.1, 0.1), refine_s=(0.0, 0.0), verify_s=(0.2, 0.2))
    cells = [c for c in study() if c.arm != "refine"]
    cells = [replace(c, steps=timed, ids=tuple(range(9)), prefill_s=0.1) if c.arm == "draft" else c for c in cells]
    draft = arm(summarise(run(cells)), "draft")
    assert draft.stages.step_s == pytest.approx(0.3)
    assert draft.cost == Unknown("no prompt was timed on both sides")  # direct's prefill is not known


def test_a_journal_on_disk_gives_the_same_summary(tmp_path):
    journal = run(study())
    lines = [to_line(record) for record in (journal.header, *journal.cells, journal.footer)]
    (tmp_path / "journal.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert figures(summarise(read_run(tmp_path))) == figures(summarise(journal))


def test_c37_an_arm_of_which_a_request_failed_enters_no_average_and_has_no_rank():
    cells = [cell(arm, f"p{p}", 1.0 + p) for p in range(10) for arm in ("direct", "draft", "refine")]
    halfway = [failed("draft", c.prompt) if c.arm == "draft" and c.prompt > "p4" else c for c in cells]
    of = summarise(run(halfway)).conditions[0]
    direct, draft, refine = of.arms
    assert isinstance(draft.latency_s, Unknown)
    assert isinstance(draft.tokens_per_s, Unknown)
    assert draft.requests == 0
    assert isinstance(of.speed_up("draft").gmean_paired, Unknown)
    assert of.speed_up("refine").prompts == refine.latency_s.n == direct.latency_s.n == 10
    assert len(of.failed) == 5
    assert not of.levels(draft).runs
