"""A run beside a publication, from journals made by hand: what is compared, by which rule, and how it ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from runs import cell, failed, run, steps

from xpress_bench.analyse.published import load
from xpress_bench.analyse.reproduce import Compared, against, sought
from xpress_bench.records import Arm, Condition, Run
from xpress_bench.suites import Item

PROMPTS = 40
SAMPLED = Condition(1.0, "rejection")
ADDRESS = "hf:owner/mt_bench_prompts?split=train&prompt=prompt"
TABLE = f"""\
title: a title
source: a table
confidence: read in the paper
metrics:
  tokens_per_step_committed_step: {{decimals: 1}}
  tokens_per_step_uncut_step: {{decimals: 1, tolerance: 0.1}}
  tokens_per_step_uncut_prompt: {{decimals: 1}}
  tokens_per_step_uncut_suite: {{decimals: 1}}
  tokens_per_step_committed_suite: {{decimals: 1}}
  speedup_mean_tpot: {{decimals: 1}}
  tokens_per_s: {{decimals: 0}}
datasets:
  mt-bench: {{suite: "{ADDRESS}", prompts: {PROMPTS}}}
  gsm8k: {{drawn: the first 128 after shuffle}}
common:
  {{target: owner/target, drafter: owner/drafter, block_size: 8, max_new_tokens: 64, dtype: float32, batch_size: 1}}
rows:
"""


def published(tmp_path: Path, *rows: str):
    file = tmp_path / "table.yaml"
    file.write_text(TABLE + "".join(f"  - {{{row}}}\n" for row in rows), encoding="utf-8")
    return load(str(file))


def journal(accepted=(3, 1), prompts: int = PROMPTS, arms=("direct", "draft"), **settings: Any) -> Run:
    """Every prompt takes two steps of 7 drafts; those that were accepted, before and after stop rules, are given."""
    of_draft = {"steps": replace(steps(accepted), matched=(3, 3)), "ids": (1,) * 7}
    plain = {"ids": (1,) * 7, "ttft_s": 0.3}
    cells = [
        cell(arm, f"p{at}", 1.0 if arm == "draft" else 1.7, **plain | (of_draft if arm == "draft" else {}))
        for at in range(prompts)
        for arm in arms
    ]
    made = run(cells, arms=[Arm("direct", None, None, None, None, None), Arm("draft", "dflash", None, 8, 1, None)])
    asked = {
        "suite": ADDRESS,
        "target": {"name": "owner/target", "thinking": False},
        "drafter": {"name": "owner/drafter", "path": None},
        "refiner": {"name": "auto"},
        "max_new_tokens": 64,
        "dtype": "float32",
        "batch_size": 1,
    }
    header = replace(
        made.header,
        settings=made.header.settings | asked | settings,
        suite=made.header.suite | {"name": "mt_bench_prompts"},
    )
    return replace(made, header=header)


def only(found: list[Compared]) -> Compared:
    assert len(found) == 1
    return found[0]


def values(metric: str, value: float, dataset: str = "mt-bench") -> str:
    return f"temperature: 0, metrics: [{metric}], values: {{{dataset}: [{value}]}}"


@pytest.mark.parametrize(
    ("metric", "theirs", "outcome"),
    [
        ("tokens_per_step_committed_step", 3.0, "reproduced"),  # (4 + 2) / 2
        ("tokens_per_step_committed_step", 3.1, "not reproduced"),  # the last digit is worth 0.05, the interval nothing
        ("tokens_per_step_uncut_step", 4.0, "reproduced"),  # 1 + (3 + 3) / 2
        ("tokens_per_step_uncut_step", 3.91, "reproduced"),  # within the 0.1 that they allow
        ("tokens_per_step_uncut_step", 3.8, "not reproduced"),
        ("tokens_per_step_uncut_prompt", 4.0, "reproduced"),
    ],
)
def test_the_rule_is_theirs_and_the_tolerance_is_told(tmp_path, metric, theirs, outcome):
    one = only(against(journal(), published(tmp_path, values(metric, theirs))))
    assert (one.outcome, one.reasons, one.arm) == (outcome, (), "draft")
    assert one.tolerance == pytest.approx(0.1 if metric == "tokens_per_step_uncut_step" else 0.05)


@pytest.mark.parametrize("metric", ["tokens_per_step_uncut_suite", "tokens_per_step_committed_suite"])
def test_a_mean_of_categories_weighs_each_the_same(tmp_path, metric):
    """10 prompts of one category get 4 tokens a step, 30 of another 2: the mean of both is 3, that of prompts 2.5."""
    whole, theirs = journal((3, 3)), published(tmp_path, values(metric, 3.0))
    slow = {"steps": replace(steps((1, 1)), matched=(1, 1))}
    cells = [replace(one, **slow) if one.steps.offered and int(one.prompt[1:]) >= 10 else one for one in whole.cells]
    uneven = replace(whole, cells=tuple(cells))
    items = [Item(f"p{at}", "?", category="a" if at < 10 else "b") for at in range(PROMPTS)]
    one = only(against(uneven, theirs, items))
    assert (one.outcome, one.ours.estimate) == ("reproduced", 3.0)
    assert only(against(uneven, theirs)).reasons == (
        f"{metric}: ours is not known, the categories of the prompts are not at hand",
    )


def test_our_interval_is_part_of_the_tolerance_unless_it_is_too_wide(tmp_path):
    theirs = published(tmp_path, values("tokens_per_step_committed_step", 3.0))
    uneven = journal()
    changed = [
        replace(one, steps=steps((5, 1))) if one.prompt == "p0" and one.steps.offered else one for one in uneven.cells
    ]
    one = only(against(replace(uneven, cells=tuple(changed)), theirs))
    # One prompt of 40 has 8 tokens instead of 6: per step 3.025, sd of the prompts' values 1 / 40 ** 0.5.
    half = 2.0227 * (1 / 40**0.5) / 40**0.5
    assert one.tolerance == pytest.approx(0.05 + half, rel=1e-3)
    assert one.outcome == "reproduced"
    wild = [
        replace(one, steps=steps((7, 7) if int(one.prompt[1:]) % 2 else (0, 0))) if one.steps.offered else one
        for one in uneven.cells
    ]
    one = only(against(replace(uneven, cells=tuple(wild)), theirs))
    assert (one.outcome, one.tolerance) == ("not comparable", None)
    assert "half of our interval is more than 5% of the value" in one.reasons[0]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"max_new_tokens": 128}, "another max_new_tokens: 128 here, 64 there"),
        ({"dtype": "bfloat16"}, "another dtype: bfloat16 here"),
        (
            {"suite": "hf:owner/mt_bench_prompts?split=train[:40]&prompt=prompt"},
            "other prompts: theirs are those of hf:",
        ),
        ({"target": {"name": "./target"}}, "perhaps another checkpoint: target is ./target here, owner/target there"),
        (
            {"drafter": {"name": "dflash", "path": "/x/drafter"}},
            "perhaps another checkpoint: drafter is /x/drafter here",
        ),
    ],
)
def test_what_is_not_the_same_is_a_reason(tmp_path, changed, told):
    one = only(against(journal(**changed), published(tmp_path, values("tokens_per_step_committed_step", 3.0))))
    assert one.outcome == "not comparable"
    assert [reason for reason in one.reasons if reason.startswith(told)] == list(one.reasons)


def test_fewer_prompts_and_another_draw_are_other_prompts(tmp_path):
    theirs = published(tmp_path, values("tokens_per_step_committed_step", 3.0))
    assert only(against(journal(prompts=39), theirs)).reasons == ("other prompts: 39 answered here, 40 there",)
    pinned = journal(suite=f"hf:owner/gsm8k?prompt=q,{ADDRESS}&revision=abc")
    assert only(against(pinned, theirs)).outcome == "reproduced"
    drawn = published(tmp_path, values("tokens_per_step_committed_step", 3.0, "gsm8k"))
    math = journal(suite="gsm8k.jsonl")
    math = replace(math, header=replace(math.header, suite=math.header.suite | {"name": "gsm8k"}))
    assert only(against(math, drawn)).reasons == ("other prompts: of theirs is known, the first 128 after shuffle",)


def test_a_request_that_failed_is_a_reason(tmp_path):
    whole = journal()
    again = replace(whole, cells=(*whole.cells, failed("draft", "p0", repeat=1)))
    one = only(against(again, published(tmp_path, values("tokens_per_step_committed_step", 3.0))))
    assert one.reasons == ("1 of our requests failed or ended short",)


def test_lengths_are_compared_across_machines_and_speed_is_not(tmp_path):
    row = "hardware: H200, temperature: 0, metrics: [speedup_mean_tpot, tokens_per_step_committed_step], "
    theirs = published(tmp_path, row + "values: {mt-bench: [2.0, 3.0]}")
    speed, length = against(journal(), theirs)
    assert (speed.outcome, length.outcome) == ("not comparable", "reproduced")
    assert speed.reasons == ("speedup_mean_tpot: another machine, cpu here, H200 there",)
    there = journal()
    there = replace(there, header=replace(there.header, machine={"hard": {"gpu_name": "NVIDIA H200 NVL"}}))
    speed, _ = against(there, theirs)
    assert (speed.outcome, speed.ours.estimate) == ("reproduced", pytest.approx(2.0))  # (1.7 - 0.3) / (1.0 - 0.3)
    (speed,) = against(there, published(tmp_path, "engine: vLLM, hardware: H200, " + values("speedup_mean_tpot", 2)))
    assert speed.reasons == ("speedup_mean_tpot: another loop, theirs is vLLM",)


def test_what_no_run_measures_is_said(tmp_path):
    (one,) = against(journal(), published(tmp_path, "hardware: H200, " + values("tokens_per_s", 900)))
    assert one.outcome == "not comparable"
    assert one.reasons[-1] == "tokens_per_s: ours is not known, no run of ours measures it"


def test_an_older_journal_does_not_tell_what_lies_behind_a_stop_id(tmp_path):
    older = journal()
    cells = [replace(one, steps=replace(one.steps, matched=())) for one in older.cells]
    one = only(
        against(replace(older, cells=tuple(cells)), published(tmp_path, values("tokens_per_step_uncut_step", 4)))
    )
    assert one.outcome == "not comparable"
    assert "the journal is older" in one.reasons[0]


def test_sampled_runs_need_their_acceptance_rule_and_their_average(tmp_path):
    plain = journal()
    cells = [replace(one, condition=SAMPLED, seed=seed) for one in plain.cells for seed in (0, 1)]
    sampled = replace(plain, cells=tuple(cells), header=replace(plain.header, conditions=(SAMPLED,)))
    row = "temperature: 1, verifier: rejection, metrics: [{}], values: {{mt-bench: [{}]}}"
    assert (
        only(against(sampled, published(tmp_path, row.format("tokens_per_step_uncut_step", 4)))).outcome == "reproduced"
    )
    one = only(against(sampled, published(tmp_path, row.format("tokens_per_step_uncut_prompt", 4))))
    assert "another pooling rule, theirs is a mean over responses" in one.reasons[0]
    other = row.replace("rejection", "sample and match").format("tokens_per_step_uncut_step", 4)
    one = only(against(sampled, published(tmp_path, other)))
    assert one.reasons == ("another verifier: rejection here, sample and match there",)
    unsaid = only(
        against(
            sampled,
            published(tmp_path, row.replace("verifier: rejection, ", "").format("tokens_per_step_uncut_step", 4)),
        )
    )
    assert (unsaid.outcome, unsaid.unsaid()) == ("reproduced", ["thinking", "verifier"])


def test_only_first_turns_are_compared(tmp_path):
    plain = journal()
    later = [replace(one, turn=2, steps=steps((0, 0))) for one in plain.cells if one.steps.offered]
    both = replace(plain, cells=(*plain.cells, *later))
    assert (
        only(against(both, published(tmp_path, values("tokens_per_step_committed_step", 3.0)))).outcome == "reproduced"
    )


def test_the_data_sets_of_a_joined_suite_are_told_apart_by_its_items(tmp_path):
    joined = journal(prompts=PROMPTS + 2, suite=f"hf:owner/gsm8k?prompt=q,{ADDRESS}")
    joined = replace(
        joined, header=replace(joined.header, suite=joined.header.suite | {"name": "gsm8k,mt_bench_prompts"})
    )
    items = [Item(f"p{at}", "?", suite="mt_bench_prompts" if at < PROMPTS else "gsm8k") for at in range(PROMPTS + 2)]
    theirs = published(tmp_path, values("tokens_per_step_committed_step", 3.0))
    assert only(against(joined, theirs, items)).outcome == "reproduced"
    assert against(joined, theirs) == []


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("target: owner/other, " + values("tokens_per_step_committed_step", 3), "target"),
        ("drafter: owner/other, " + values("tokens_per_step_committed_step", 3), "drafter"),
        ("refiner: xpress, " + values("tokens_per_step_committed_step", 3), "refiner"),
        (values("tokens_per_step_committed_step", 3, "gsm8k"), "data set"),
        ("temperature: 0.5, metrics: [tokens_per_step_committed_step], values: {mt-bench: [3]}", "temperature"),
    ],
)
def test_what_has_no_counterpart_is_not_in_the_list(tmp_path, row, what):
    theirs = published(tmp_path, row)
    assert against(journal(), theirs) == []
    told = {name: (there, here) for name, there, here in sought(journal().header, theirs)}
    assert told[what][0] != told[what][1]


def test_a_refiner_is_compared_at_their_passes_and_with_their_head(tmp_path):
    row = "refiner: xpress, passes: [6, 7], " + values("tokens_per_step_committed_step", 3.0)
    plain = journal()
    arm = Arm("draft", "dflash", "xpress", 8, 1, 6)

    def reasons(arm: Arm, **settings: Any) -> tuple[str, ...]:
        header = replace(plain.header, arms=(plain.header.arms[0], arm), settings=plain.header.settings | settings)
        return only(against(replace(plain, header=header), published(tmp_path, row))).reasons

    assert reasons(arm) == ()
    assert reasons(replace(arm, passes=4)) == ("other passes: 4 here, 6 or 7 there",)
    told = "perhaps another checkpoint: refiner is owner/head here, owner/drafter there"
    assert reasons(arm, refiner={"name": "owner/head"}) == (told,)
