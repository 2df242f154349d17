"""What a reader of timings is told of a run that was not measured at one go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from runs import exact_study, run

from xpress_bench.analyse.sittings import not_judged, sittings
from xpress_bench.records import Launch

HERE: dict[str, Any] = {
    "hard": {"cpu_model": "A", "cpu_count": 2},
    "soft": {"kernel": "6.1"},
    "versions": {"torch": "2.9"},
    "git": {"commit": "ab"},
}


def started(launch: int, sitting: int = 0, day: str = "2026-01-31", **machine: Any) -> Launch:
    return Launch(launch, "started", f"{day}T12:00:00+00:00", sitting, HERE | machine)


def ended(launch: int) -> Launch:
    return Launch(launch, "ended", "2026-01-31T13:00:00+00:00", 0)


def test_a_run_at_one_go_needs_no_word() -> None:
    assert list(sittings([])) == []
    assert list(sittings([started(0), ended(0), started(1), ended(1)])) == []


def test_c39_times_of_two_sittings_are_marked() -> None:
    marks = [started(0), ended(0), started(2, 1, "2026-02-02"), ended(2), started(1, 1, "2026-02-01")]
    assert list(sittings(marks)) == [
        "measured in 2 sittings, whose times may differ for that alone: launch 1 at 2026-01-31T12:00:00+00:00; "
        "launches 2, 3 at 2026-02-01T12:00:00+00:00"
    ]


def test_another_machine_and_other_versions_are_named_and_the_kernel_is_not() -> None:
    other = started(1, hard={"cpu_model": "B", "cpu_count": 2}, soft={"kernel": "6.2"}, versions={"torch": "2.10"})
    assert list(sittings([started(0), other])) == [
        "launch 2 was measured with other cpu_model ('B', not 'A'), torch ('2.10', not '2.9') than launch 1"
    ]
    committed = started(1, git={"commit": "cd"})
    assert list(sittings([started(0), committed])) == [
        "launch 2 was measured with other git commit ('cd', not 'ab') than launch 1"
    ]


def test_c37_a_lost_launch_is_named_with_its_reason() -> None:
    lost = Launch(1, "lost", "2026-01-31T13:00:00+00:00", 0, reason="it ended with status -9")
    assert list(sittings([started(0), ended(0), started(1), lost])) == ["launch 2 was lost: it ended with status -9"]


def test_a_launch_that_something_disturbed_says_so() -> None:
    again = Launch(1, "started", "2026-01-31T12:00:00+00:00", 0, HERE, "the GPU was throttled")
    marks = [started(0), ended(0), again, Launch(1, "ended", "2026-01-31T13:00:00+00:00", 0, {}, "a busy CPU")]
    assert list(sittings(marks)) == [
        "launch 2 was measured twice, since the first attempt was void: the GPU was throttled",
        "launch 2 was disturbed: a busy CPU",
    ]
    void = Launch(1, "void", "2026-01-31T13:00:00+00:00", 0, {}, "a busy CPU")
    assert list(sittings([started(0), ended(0), void])) == ["launch 2 was void: a busy CPU"]


def test_launches_that_could_not_be_judged_say_so_together() -> None:
    header = run(exact_study()).header
    judged = replace(header, settings=header.settings | {"admission": "warn"})
    marks = [started(0), ended(0), started(2), ended(2)]
    assert list(not_judged(judged, marks)) == [
        "whether anything disturbed launches 1, 3 could not be judged: the CPU time of others (not recorded)"
    ]
    known: dict[str, Any] = dict.fromkeys(("cpu_busy_s", "cpu_idle_s", "cpu_stolen_s", "own_cpu_s"), 1.0)
    assert list(not_judged(judged, [started(0, before=known), replace(ended(0), machine={"after": known})])) == []
    assert list(not_judged(replace(header, settings=header.settings | {"admission": "off"}), marks)) == []
