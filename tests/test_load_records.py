"""Lines of a load run: strict, read back as they were, and of a stage that was run again the last time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from xpress_bench.errors import UsageError
from xpress_bench.load_records import LOAD, Asked, Degrade, Line, Mark, Plan, Policy, Stage, read_load, to_line
from xpress_bench.records import JOURNAL

STAGES = (Stage("single", clients=1, requests=3), Stage("2/s fixed", rate=2.0, arrivals="fixed", seconds=4.0))
PLAN = Plan(STAGES, 2, Policy(30.0, degrade=Degrade(2.0, max_new_tokens=8)), {"ttft": 1.0})
ONE = Asked("single", "direct", 0, 0, "p", 7, "ok", 0.0, 2.5, 1, 0.1, 0.5, 3, (1.0, 1.0), (1, 1, 1), "ids:ab")
STARTED = Mark("single", "direct", 0, "started", "2026-01-31T12:00:00+00:00")
ENDED = replace(STARTED, event="ended", asked=1, opened=2, memory=((0.0, 10), (1.0, 12)))


def written(folder: Path, *lines: Line, end: str = "") -> Path:
    (folder / JOURNAL).touch()
    (folder / LOAD).write_text("".join(to_line(line) + "\n" for line in lines) + end)
    return folder


def test_lines_are_read_back_as_they_were(tmp_path: Path) -> None:
    load = read_load(written(tmp_path, PLAN, STARTED, ONE, ENDED))
    assert (load.plan, load.header) == (PLAN, None)
    assert load.marks == {("single", "direct", 0): ENDED}
    assert load.requests == {("single", "direct", 0): (ONE,)}
    assert not load.complete


def test_of_a_stage_that_was_run_again_the_last_time_counts(tmp_path: Path) -> None:
    cut = replace(ONE, status="cut", index=5)
    stopped = replace(STARTED, event="stopped", reason="interrupted")
    load = read_load(written(tmp_path, PLAN, STARTED, cut, stopped, STARTED, ONE, ENDED))
    assert load.requests == {ONE.unit: (ONE,)}
    assert load.marks[ONE.unit].event == "ended"
    again = read_load(written(tmp_path, PLAN, STARTED, ONE, ENDED, STARTED))
    assert (again.requests, again.marks[ONE.unit].event) == ({ONE.unit: ()}, "started")


def test_half_a_line_at_the_end_is_dropped_and_any_other_is_told(tmp_path: Path) -> None:
    assert read_load(written(tmp_path, PLAN, STARTED, end='{"kind":"req')).requests == {ONE.unit: ()}
    for bad in ("[]\n", '{"kind":"cell"}\n', '{"kind":"request"}\n', "\xff\n", "{}\n"):
        with pytest.raises(UsageError, match=f"{LOAD}, line 2: not a record of a load run"):
            read_load(written(tmp_path, PLAN, end=bad))


def test_lines_where_they_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="starts with its plan"):
        read_load(written(tmp_path, STARTED))
    with pytest.raises(UsageError, match="a request stands where it cannot"):
        read_load(written(tmp_path, PLAN, ONE))
    with pytest.raises(UsageError, match="no load run at"):
        read_load(tmp_path / "nowhere")


def test_no_number_is_written_that_json_does_not_have() -> None:
    with pytest.raises(ValueError, match="JSON"):
        to_line(replace(ONE, ended_s=float("nan")))
