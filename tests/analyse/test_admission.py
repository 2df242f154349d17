"""What disturbs a launch, from readings worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from xpress_bench.analyse.admission import disturbance, disturbed, unjudged
from xpress_bench.records import Launch

QUIET = {"cpu_busy_s": 10.0, "cpu_idle_s": 10.0, "cpu_stolen_s": 0.0, "own_cpu_s": 10.0, "own_waited_s": 0.0}
BOARD = {"gpu_power_throttled_ns": 5, "gpu_thermal_throttled_ns": 0, "gpu_throttle_reasons": [], "clock_s": 100.0}


def growing(**grown: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Readings before and after; CPU counters of a quiet launch of 20 CPU-seconds but for those given."""
    before = {name: 1000.0 + at for at, name in enumerate(QUIET)}
    return before, {name: start + (QUIET | grown)[name] for name, start in before.items()}


def test_a_launch_alone_on_its_machine_is_quiet() -> None:
    assert disturbance(*growing()) is None
    assert disturbance({}, {}) is None
    assert disturbance({"cpu_busy_s": None, "gpu_foreign_processes": None}, {"gpu_used_bytes": None}) is None


@pytest.mark.parametrize(
    ("grown", "told"),
    [
        # 10 busy seconds of which 6 are ours, of 20: others took 20 %; ours waited 2 of 8 seconds, 25 %.
        ({"own_cpu_s": 6.0, "own_waited_s": 2.0}, "other processes took 20% of the CPU time"),
        # They ran where this process had no thread: it waited 0.1 of 6.1 seconds.
        ({"own_cpu_s": 6.0, "own_waited_s": 0.1}, None),
        # More threads than CPUs wait for one another: nobody else's doing.
        ({"own_waited_s": 10.0}, None),
        ({"own_cpu_s": 9.2, "own_waited_s": 0.8}, None),  # 4 % of 20
        ({"own_cpu_s": 8.8, "own_waited_s": 0.8}, "other processes took 6% of the CPU time"),
        ({"own_cpu_s": 10.3}, None),  # ticks are coarser than what a process is charged
        # 2.5 s withheld of the 12.5 that were wanted.
        ({"cpu_stolen_s": 2.5, "cpu_idle_s": 7.5}, "other guests of the host took 20% of the CPU time"),
    ],
)
def test_cpu_time_that_others_take(grown: dict[str, float], told: str | None) -> None:
    assert disturbance(*growing(**grown)) == told


def test_where_waiting_is_unknown_the_share_alone_is_judged() -> None:
    before, after = growing(own_cpu_s=6.0)
    assert disturbance(before | {"own_waited_s": None}, after) == "other processes took 20% of the CPU time"


def test_c44_a_load_average_and_a_low_clock_of_an_idle_board_void_nothing() -> None:
    idle = BOARD | {"load_average": [70.0] * 3, "gpu_sm_clock_mhz": 345, "gpu_throttle_reasons": ["gpu_idle"]}
    assert disturbance(idle, idle | {"clock_s": 200.0}) is None


@pytest.mark.parametrize(
    ("after", "told"),
    [
        ({"gpu_thermal_throttled_ns": 20 * 10**9}, "the GPU was throttled for 20% of the time (thermal)"),
        ({"gpu_power_throttled_ns": 5 + 5 * 10**9}, "the GPU was throttled for 5% of the time (power)"),
        ({"gpu_power_throttled_ns": 5 + 9 * 10**8}, None),  # 0.9 %
        # Over at both ends, or under way at one of them for a moment: the counter says how long.
        ({"gpu_throttle_reasons": ["hw_thermal_slowdown"]}, None),
    ],
)
def test_a_throttle_counts_by_its_counter(after: dict[str, Any], told: str | None) -> None:
    assert disturbance(BOARD, BOARD | {"clock_s": 200.0} | after) == told


@pytest.mark.parametrize("end", [0, 1])
def test_without_counters_the_reasons_at_either_end_count(end: int) -> None:
    states = [{"gpu_throttle_reasons": ["gpu_idle"]}, {"gpu_throttle_reasons": ["gpu_idle"]}]
    states[end] = {"gpu_throttle_reasons": ["sw_power_cap", "gpu_idle"]}
    assert disturbance(*states) == "the GPU was throttled (sw_power_cap)"
    assert (
        disturbance({"gpu_throttle_reasons": None}, {"gpu_throttle_reasons": ["applications_clocks_setting"]}) is None
    )


def test_c20_others_on_the_board() -> None:
    assert disturbance({"gpu_foreign_processes": 0}, {"gpu_foreign_processes": 2}) == "other processes on the GPU: 2"
    held = {"gpu_used_bytes": 12 * 2**30, "gpu_own_bytes": 3 * 2**30}
    assert disturbance(held, {}) == "others held 9.0 GiB of the GPU's memory"
    reserve = {"gpu_used_bytes": 3 * 2**30 + 912 * 2**20, "gpu_own_bytes": 3 * 2**30}  # C35: the driver's own
    assert disturbance(reserve, reserve) is None
    assert disturbance({"gpu_used_bytes": 12 * 2**30, "gpu_own_bytes": None}, {}) is None


def test_every_disturbance_is_told() -> None:
    before, after = growing(own_cpu_s=6.0, own_waited_s=9.0, cpu_stolen_s=5.0)
    assert (disturbance(before, after | {"gpu_foreign_processes": 1}) or "").count(";") == 2


def test_launches_are_judged_by_their_own_marks() -> None:
    before, after = growing(own_cpu_s=6.0, own_waited_s=2.0)
    marks = [
        Launch(0, "started", "t", 0, {"before": before}),
        Launch(0, "ended", "t", 0, {"after": growing()[1]}),
        Launch(1, "started", "t", 0, {"before": before}),
        Launch(1, "ended", "t", 0, {"after": after}, reason="what a stranger may write"),
        Launch(2, "started", "t", 0),  # as older versions wrote them
        Launch(2, "ended", "t", 0),
    ]
    assert disturbed(marks) == {1: "other processes took 20% of the CPU time"}


def marks(before: dict[str, Any], after: dict[str, Any]) -> list[Launch]:
    return [Launch(3, "started", "t", 0, {"before": before}), Launch(3, "ended", "t", 0, {"after": after})]


def test_a_launch_whose_readings_are_all_there_can_be_judged() -> None:
    before, after = growing()
    assert unjudged(marks(before, after), "cpu") == {}
    board = BOARD | {"gpu_foreign_processes": 0}
    assert unjudged(marks(before | board, after | board), "cuda:0") == {}


@pytest.mark.parametrize(
    "known",
    [
        # Reasons at both ends stand in for counters, memory for a list of processes; waiting only sharpens a share.
        {"gpu_throttle_reasons": [], "gpu_foreign_processes": 0, "own_waited_s": None},
        BOARD | {"gpu_used_bytes": 5, "gpu_own_bytes": 5},
    ],
)
def test_one_way_to_know_is_enough(known: dict[str, Any]) -> None:
    before, after = growing()
    assert unjudged(marks(before | known, after | known), "cuda") == {}


@pytest.mark.parametrize("end", [0, 1])
def test_unknown_cpu_times_at_either_end_leave_it_open(end: int) -> None:
    states = list(growing())
    states[end] |= {"cpu_stolen_s": None, "reasons": {"cpu_stolen_s": "no CPU times on this system"}}
    assert disturbance(*states) is None
    assert unjudged(marks(*states), "cpu") == {3: "the CPU time of others (no CPU times on this system)"}


def test_a_board_that_cannot_be_read_leaves_a_gpu_open() -> None:
    before, after = growing()
    names = ("gpu_power_throttled_ns", "gpu_thermal_throttled_ns", "gpu_throttle_reasons", "gpu_foreign_processes")
    blind = dict.fromkeys(names) | {"reasons": dict.fromkeys(names, "no NVML")}
    assert unjudged(marks(before | blind, after | blind), "cuda") == {
        3: "throttling (no NVML); others on the GPU (no NVML)"
    }
    assert unjudged(marks(before | blind, after | blind), "cpu") == {}
    assert unjudged(marks(before, after), "cuda") == {3: "throttling (not recorded); others on the GPU (not recorded)"}


def test_a_launch_that_never_ended_is_not_judged_at_all() -> None:
    assert unjudged([Launch(0, "started", "t", 0), Launch(0, "lost", "t", 0)], "cpu") == {}
    assert unjudged([Launch(0, "started", "t", 0), Launch(0, "ended", "t", 0)], "cpu") == {
        0: "the CPU time of others (not recorded)"
    }
