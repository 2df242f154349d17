"""Which records count when a launch was tried more than once."""

from __future__ import annotations

from typing import Any

from xpress_bench.journals import Record, counting
from xpress_bench.records import Cell, Condition, Footer, Launch, Memory, Replay

GREEDY = Condition(0.0, "greedy")
MEMORY = Memory("draft", "process_peak_rss", 7)
CLOSED, STOPPED = Footer(2, 0, True, 1.0), Footer(1, 0, False, 1.0)


def mark(launch: int, event: Any = "started", sitting: int = 0) -> Launch:
    return Launch(launch, event, "2026-01-31T12:00:00+00:00", sitting)


def cell(launch: int, prompt: str, text: str = "") -> Cell:
    return Cell(launch, prompt, 0, "direct", 0, 0, GREEDY, 3, "abc", text=text)


def replay(prompt: str) -> Replay:
    return Replay(prompt, 0, "draft", GREEDY, 3, 5, None, None, None, "real")


def any_order(records: list[Record]) -> list[str]:
    return sorted(map(repr, records))


def test_without_marks_everything_counts() -> None:
    records: list[Record] = [cell(0, "p"), replay("p"), cell(1, "p"), MEMORY, CLOSED]
    assert any_order(counting(records)) == any_order(records)


def test_c39_the_last_attempt_at_a_launch_counts_with_all_that_belongs_to_it() -> None:
    first = [mark(0), cell(0, "p"), mark(0, "ended")]
    partial = [mark(1), cell(1, "p", "old"), replay("p"), STOPPED]
    again = [mark(1, sitting=1), cell(1, "p", "new"), cell(1, "q"), mark(1, "ended", 1)]
    kept = counting([*first, *partial, *again, MEMORY, CLOSED])
    assert any_order(kept) == any_order([*first, *again, MEMORY, CLOSED])


def test_a_partial_attempt_counts_until_there_is_another() -> None:
    records: list[Record] = [mark(0), cell(0, "p"), mark(0, "ended"), mark(1), cell(1, "p"), STOPPED]
    assert any_order(counting(records)) == any_order(records)


def test_a_launch_that_was_lost_before_it_started_takes_nothing_from_the_one_before() -> None:
    records: list[Record] = [mark(0), cell(0, "p"), mark(0, "ended"), mark(1, "lost"), mark(2), cell(2, "p")]
    assert any_order(counting(records)) == any_order(records)


def test_a_run_that_goes_on_has_no_footer_until_it_ends() -> None:
    kept = counting([mark(0), cell(0, "p"), MEMORY, STOPPED, mark(0, sitting=1)])
    assert any_order(kept) == any_order([mark(0, sitting=1), MEMORY])
