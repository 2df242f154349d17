"""Counted work against a baseline: the family of empty comparisons (C08) and every kind of difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from runs import cell, failed, run, steps

from xpress_bench.analyse.counted import counted_checks, target_passes, untimed
from xpress_bench.analyse.gate import Check, outcome_of
from xpress_bench.records import Cell, Run


def cells(count: int = 4) -> list[Cell]:
    made = [cell("direct", f"p{i}", None) for i in range(count)]
    return made + [cell("draft", f"p{i}", None, steps=steps([2, 0])) for i in range(count)]


def checks(found: Sequence[Cell], base: Sequence[Cell] | None = None) -> list[Check]:
    return counted_checks(run(base or cells()), run(found), "b")


def details(found: Sequence[Check]) -> list[str]:
    return [text for check in found for text in check.details]


def test_the_same_work_passes_and_says_how_much_was_compared() -> None:
    found = checks(cells())
    assert outcome_of(found) == "pass"
    assert sum(check.compared for check in found) == 8
    assert details(found) == []


def test_c08_a_nothing_of_the_baseline_is_found_again() -> None:
    renamed = [replace(one, prompt=f"new-{one.prompt}") for one in cells()]
    found = checks(renamed)
    assert outcome_of(found) == "broken"  # not a regression: nothing is known
    assert all("0 compared" in check.text for check in found)


def test_c08_c_an_empty_baseline_compares_nothing() -> None:
    found = counted_checks(replace(run(cells()), cells=()), run(cells()), "b")
    assert outcome_of(found) == "broken"
    assert "0 compared" in found[0].text


def test_c08_d_missing_cells_fail_and_are_named() -> None:
    found = checks([one for one in cells() if one.arm == "direct" or one.prompt == "p0"])
    assert outcome_of(found) == "regression"
    assert details(found) == [f"draft, greedy, p{i}, seed 0: missing from this run" for i in (1, 2, 3)]


def test_c08_e_more_than_the_baseline_passes_and_is_named() -> None:
    found = checks([*cells(), cell("direct", "p9", None)])
    assert outcome_of(found) == "pass"
    assert details(found) == ["new, not gated: direct, greedy, p9, seed 0"]


@pytest.mark.parametrize("hollow", [cell("draft", "p0", None, ids=()), failed("draft", "p0")])
def test_a_baseline_cell_without_output_is_broken_and_named(hollow: Cell) -> None:
    base = [hollow if (one.arm, one.prompt) == ("draft", "p0") else one for one in cells()]
    found = checks(base, base)
    assert outcome_of(found) == "broken"
    assert details(found) == ["draft, greedy, p0, seed 0"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ids": (1, 9, 3)}, "token 1: 2 -> 9"),
        ({"ids": (1, 2)}, "token 2: 3 -> the end"),
        ({"stop_reason": "length"}, "stop reason eos -> length"),
        ({"steps": steps([2, 1])}, "accepted at step 1: 0 -> 1"),
        ({"steps": steps([2])}, "offered at step 1: 7 -> the end"),
        ({"steps": replace(steps([2, 0]), passes=(4, 2))}, "passes at step 0: the end -> 4"),
        ({"steps": replace(steps([2, 0]), drafts=((5, 6), (7,)))}, "drafts at step 0: the end -> 5 6"),
        ({"prompt_sha256": "other", "prompt_tokens": 4}, "another prompt: 3 -> 4 tokens"),
        ({"error": "boom", "ids": ()}, "failed: boom"),
    ],
)
def test_any_difference_is_a_regression_that_says_where(change: dict[str, object], said: str) -> None:
    other = [replace(one, **change) if (one.arm, one.prompt) == ("draft", "p2") else one for one in cells()]
    found = checks(other)
    assert outcome_of(found) == "regression"
    assert f"draft, greedy, p2, seed 0: {said}" in details(found)


def test_times_are_no_part_of_counted_work() -> None:
    timed = cell("draft", steps=replace(steps([2, 0]), draft_s=(0.1, 0.2)), rest_s=0.1, prefill_s=0.1, ttft_s=0.1)
    bare = untimed(timed)
    assert (bare.latency_s, bare.ttft_s, bare.prefill_s, bare.rest_s, bare.steps.draft_s) == (None,) * 4 + ((),)
    assert bare.steps.accepted == (2, 0)


def test_target_passes_count_the_prompt_and_every_step() -> None:
    assert target_passes(cell("draft", steps=steps([2, 0]))) == 3
    assert target_passes(cell("direct")) == 3  # one for each of its three tokens, the first from the prompt


def test_other_weights_are_said_beside_the_difference() -> None:
    def weighed(weights: str) -> Run:
        made = run(cells())
        return replace(made, header=replace(made.header, target=made.header.target | {"weights_sha256": weights}))

    assert counted_checks(weighed("a"), weighed("a"), "b")[0].details == ()
    assert "target weights changed" in counted_checks(weighed("a"), weighed("b"), "b")[0].details[0]
