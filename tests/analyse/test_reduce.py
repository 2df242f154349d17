import math

import pytest
from runs import COUPLED, GREEDY, cell, failed, run

from xpress_bench.analyse.reduce import pair, per_prompt, prompt_latencies, select, unit_latencies
from xpress_bench.errors import UsageError


def test_repeats_take_their_median_inside_a_unit():
    cells = [cell("draft", latency_s=t, repeat=r) for r, t in enumerate((1.0, 9.0, 2.0))]
    assert unit_latencies(cells) == {(0, "p0", 0, 1): 2.0}


def test_at_temperature_0_seeds_are_repeats_and_above_it_they_are_not():
    times = enumerate((1.0, 9.0, 2.0))
    greedy = [cell("draft", latency_s=t, seed=s) for s, t in times]
    assert unit_latencies(greedy) == {(0, "p0", 0, 1): 2.0}
    sampled = [cell("draft", latency_s=t, seed=s, condition=COUPLED) for s, t in enumerate((1.0, 9.0, 2.0))]
    assert unit_latencies(sampled) == {(0, "p0", 0, 1): 1.0, (0, "p0", 1, 1): 9.0, (0, "p0", 2, 1): 2.0}


def test_ladder_by_hand():
    base = [cell("direct", latency_s=t, launch=b, repeat=r) for b, r, t in ((0, 0, 2), (0, 1, 4), (1, 0, 8), (1, 1, 8))]
    arm = [cell("draft", latency_s=t, launch=b, repeat=r) for b, r, t in ((0, 0, 1), (0, 1, 2), (1, 0, 1), (1, 1, 1))]
    # launch 0: medians 3 / 1.5 = 2; launch 1: 8 / 1 = 8; mean of logs = log 4
    assert pair(base, arm).log_ratios() == {"p0": pytest.approx(math.log(4))}
    assert pair(base, arm).by_launch() == pytest.approx([2, 8])
    assert prompt_latencies(base) == {"p0": 6.0}


def test_neither_launches_nor_turns_add_prompts():
    values = {(0, "a", 0, 1): 1.0, (1, "a", 0, 1): 3.0, (0, "b", 0, 1): 5.0, (0, "b", 0, 2): 8.0}
    assert per_prompt(values) == {"a": 2.0, "b": 6.5}


def test_turns_are_paired_apart_and_averaged():
    base = [cell("direct", latency_s=t, turn=turn, repeat=r) for turn, r, t in ((1, 0, 2), (1, 1, 4), (2, 0, 8))]
    arm = [cell("draft", latency_s=t, turn=turn) for turn, t in ((1, 3.0), (2, 2.0))]
    # turn 1: 3 / 3 = 1; turn 2: 8 / 2 = 4; mean of logs = log 2
    assert pair(base, arm).log_ratios() == {"p0": pytest.approx(math.log(2))}
    assert prompt_latencies(base) == {"p0": 5.5}
    assert prompt_latencies(arm) == {"p0": 2.5}


def test_c23_pairs_by_prompt_whatever_the_order():
    base = [cell("direct", f"p{i}", t) for i, t in enumerate((100.0, 200.0, 300.0, 400.0, 500.0))]
    arm = [cell("draft", f"p{i}", t) for i, t in enumerate((90.0, 180.0, 270.0, 360.0, 450.0))]
    expected = {f"p{i}": pytest.approx(math.log(1 / 0.9)) for i in range(5)}
    assert pair(base, arm).log_ratios() == expected
    assert pair(base, arm[::-1]).log_ratios() == expected


def test_c23_a_missing_prompt_is_named():
    base = [cell("direct", f"p{i}") for i in range(5)]
    arm = [cell("draft", f"p{i}") for i in (0, 1, 3, 4)]
    paired = pair(base, arm)
    assert len(paired.log_ratios()) == 4
    assert paired.missing == ("p2",)
    assert pair(arm, base).missing == ("p2",)


def test_c23_a_duplicate_key_is_an_error():
    with pytest.raises(UsageError, match="twice"):
        select(run([cell("direct"), cell("direct", latency_s=2.0)]), GREEDY)


def test_conditions_are_never_mixed():
    mixed = run([cell("direct"), cell("direct", latency_s=5.0, condition=COUPLED)])
    assert [c.latency_s for c in select(mixed, GREEDY).usable] == [1.0]
    assert [c.latency_s for c in select(mixed, COUPLED).usable] == [5.0]


def test_failed_and_short_cells_are_kept_apart():
    selection = select(run([cell("direct"), failed("draft"), cell("refine", stop_reason="short")]), GREEDY)
    assert [c.arm for c in selection.usable] == ["direct"]
    assert [c.arm for c in selection.failed] == ["draft"]
    assert [c.arm for c in selection.short] == ["refine"]
    assert selection.of("draft") == []
    assert len(selection.keyed("draft")) == 1


def test_arms_must_have_seen_the_same_tokens():
    with pytest.raises(UsageError, match="different tokens"):
        select(run([cell("direct"), cell("draft", prompt_sha256="other")]), GREEDY)


def test_c32f_a_latency_of_0_is_not_a_time():
    assert unit_latencies([cell("direct", latency_s=0.0)]) == {}
