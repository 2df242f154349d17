"""What a report says of how it was measured: the order of arms, the drift of a launch, one process or several."""

from __future__ import annotations

from dataclasses import replace

import pytest
from runs import cell, run

from xpress_bench.analyse.summary import summarise
from xpress_bench.publish.lines import condition_lines
from xpress_bench.publish.page import page
from xpress_bench.records import Cell


def timing(cells: list[Cell]) -> list[str]:
    (of,) = summarise(run(cells)).conditions
    return [text for label, text in condition_lines(of) if label == "timing"]


def test_order_and_drift_are_reported_and_what_is_found_is_said() -> None:
    """Each repeat comes later in the launch and earlier in the order, and is slower than the one before."""
    cells = [cell("direct", latency_s=1.0 + 0.001 * r, repeat=r, order=11 - r) for r in range(12)]
    reported, *found = timing(cells)
    assert reported == "rank correlation of latency with the order of arms -1.00, with the time in a launch +1.00"
    assert found == [
        "latency drifts over the run (rank correlation +1.00)",
        "latency depends on the order of arms (rank correlation -1.00)",
    ]


def test_what_is_not_known_is_not_reported() -> None:
    assert timing([cell("direct", f"p{p}") for p in range(12)]) == []


@pytest.mark.parametrize(("in_process", "told"), [(True, "profile quick, in one process"), (False, "profile quick")])
def test_the_title_says_that_a_run_was_made_in_one_process(in_process: bool, told: str) -> None:
    one = run([cell("direct")])
    one = replace(one, header=replace(one.header, in_process=in_process))
    assert page(summarise(one)).title[-1] == told


def test_launches_that_differ_are_shown_beside_the_interval_that_does_not_hold_it() -> None:
    seconds = {(0, "direct"): 2.0, (0, "draft"): 1.0, (1, "direct"): 3.0, (1, "draft"): 2.0}
    cells = [cell(arm, f"p{i}", s, launch=launch) for i in range(3) for (launch, arm), s in seconds.items()]
    (of,) = summarise(run(cells)).conditions
    told = [text for label, text in condition_lines(of) if label == "by launch"]
    assert told == ["draft vs direct: 1.50 to 2.00 in 2 launches; what they differ by is in no interval"]
