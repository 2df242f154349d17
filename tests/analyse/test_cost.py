from dataclasses import fields, replace

import pytest
from runs import ARMS, cell, run, steps

from xpress_bench.analyse.cost import Cost, cost, step_s
from xpress_bench.analyse.intervals import Interval, Unknown
from xpress_bench.analyse.summary import summarise
from xpress_bench.publish.explaining import page

IDS = tuple(range(9))  # the first comes from the prompt, 8 more
DIRECT = cell("direct", latency_s=1.0, ids=IDS, prefill_s=0.2)  # 0.1 s per token
DRAFT = cell(  # 4 steps of 0.15 s
    "draft",
    latency_s=0.84,
    ids=IDS,
    prefill_s=0.2,
    rest_s=0.04,
    steps=replace(steps([1] * 4), draft_s=(0.05,) * 4, refine_s=(0.0,) * 4, verify_s=(0.1,) * 4),
)
REFINE = cell(  # 2 steps of 0.18 s
    "refine",
    latency_s=0.6,
    ids=IDS,
    prefill_s=0.2,
    rest_s=0.04,
    steps=replace(steps([3] * 2), draft_s=(0.05,) * 2, refine_s=(0.03,) * 2, verify_s=(0.1,) * 2),
)


def on_prompts(*cells):
    """The same times on three prompts, so that every interval has no width."""
    return [replace(one, prompt=f"p{p}", prompt_sha256=f"p{p}") for p in range(3) for one in cells]


def measures(found):
    return [getattr(found, one.name) for one in fields(Cost)]


def estimates(found):
    return [value.estimate for value in measures(found)]


def test_over_direct_generation_by_hand():
    found = cost(on_prompts(DIRECT), on_prompts(REFINE))
    # ratio 0.18 / 0.1; requests of 1.0 s against 0.2 + 0.36, less 0.06 of refining or 0.1 of drafting; measured 1 / 0.6
    assert estimates(found) == pytest.approx([1.8, 1.8, 1 / 0.56, 1 / 0.5, 1 / 0.46, 0.56 / 0.6])
    assert all(isinstance(value, Interval) and value.n == 3 for value in measures(found))


def test_over_another_arm_refinement_pays_from_where_both_decode_alike():
    found = cost(on_prompts(DRAFT), on_prompts(REFINE))
    assert found.step_ratio.estimate == pytest.approx(0.18 / 0.15)
    assert found.break_even_tokens_per_step.estimate == pytest.approx(2 * 0.18 / 0.15)
    assert found.predicted_speed_up.estimate == pytest.approx(0.8 / 0.56)
    assert found.efficiency.estimate == pytest.approx((0.84 / 0.6) / (0.8 / 0.56))


def test_at_its_break_even_an_arm_decodes_as_fast_as_direct():
    # The same step that commits 1.8 tokens on average: 18 tokens in 10 steps, 1.8 s, as direct takes for 18 tokens.
    ids = tuple(range(19))
    direct = replace(DIRECT, ids=ids, latency_s=2.0)
    accepted = [1] * 8 + [0] * 2
    ours = replace(steps(accepted), draft_s=(0.05,) * 10, refine_s=(0.03,) * 10, verify_s=(0.1,) * 10)
    found = cost(on_prompts(direct), on_prompts(replace(REFINE, ids=ids, latency_s=2.0, rest_s=0.0, steps=ours)))
    assert found.predicted_speed_up.estimate == pytest.approx(1.0)
    assert found.decoding_speed_up(1.8).estimate == pytest.approx(1.0)


def test_the_speed_up_at_other_tokens_per_step_turns_the_interval_round():
    flat = Interval(2.0, 1.6, 2.5, "t", 9)
    found = Cost(*[flat] * 6).decoding_speed_up(4.0)
    assert found == Interval(2.0, 1.6, 2.5, "t", 9)
    assert Cost(*[Unknown("n < 2", 2.0)] * 6).decoding_speed_up(4.0) == Unknown("n < 2", 2.0)
    assert Cost(*[Unknown("a total is 0")] * 6).decoding_speed_up(4.0) == Unknown("a total is 0")


def test_only_prompts_that_both_sides_were_timed_on_count():
    slow = replace(REFINE, prompt="p9", prompt_sha256="p9", latency_s=60.0, prefill_s=50.0)
    untimed = replace(REFINE, prompt="p1", prompt_sha256="p1", steps=steps([3] * 2))
    ours = [one for one in on_prompts(REFINE) if one.prompt != "p1"]
    found = cost(on_prompts(DIRECT), [*ours, slow, untimed])
    assert estimates(found) == pytest.approx([1.8, 1.8, 1 / 0.56, 1 / 0.5, 1 / 0.46, 0.56 / 0.6])
    assert found.efficiency.n == 2


def test_seconds_of_a_step():
    assert step_s(on_prompts(REFINE)).estimate == pytest.approx(0.18)
    assert step_s(on_prompts(DIRECT)).estimate == pytest.approx(0.1)
    assert isinstance(step_s([]), Unknown)


def test_without_steps_or_times_it_is_unknown():
    assert cost([DIRECT], [DIRECT]) == Unknown("no verify step was timed")
    assert cost([DIRECT], [replace(REFINE, steps=steps([3] * 2))]) == Unknown("no verify step was timed")
    assert cost([], [REFINE]) == Unknown("no prompt was timed on both sides")
    assert cost([DIRECT], [REFINE]).efficiency == Unknown("n < 2", pytest.approx(0.56 / 0.6))


def test_the_report_and_explain_tell_it():
    journal = run(on_prompts(DIRECT, DRAFT, REFINE), arms=ARMS)
    refine = summarise(journal).conditions[0].arms[2]
    assert refine.cost.break_even_tokens_per_step.estimate == pytest.approx(1.8)
    told = [text for label, text in page(journal).sections[0].lines if label == "cost"]
    assert told == [
        "draft vs direct: breaks even at 1.50 [1.50, 1.50] tokens per step and has 2.00 [2.00, 2.00]; predicted "
        "speed-up 1.25 [1.25, 1.25], 1.67 [1.67, 1.67] if drafting were free; efficiency 0.952 [0.952, 0.952]",
        "refine vs direct: breaks even at 1.80 [1.80, 1.80] tokens per step and has 4.00 [4.00, 4.00]; predicted "
        "speed-up 1.79 [1.79, 1.79], 2.17 [2.17, 2.17] if drafting were free, 2.00 [2.00, 2.00] if refining were "
        "free; efficiency 0.933 [0.933, 0.933]",
        "refine vs draft: a step takes 1.20 [1.20, 1.20] times as long, which pays from 2.40 [2.40, 2.40] tokens per "
        "step on; it has 4.00 [4.00, 4.00]",
    ]
