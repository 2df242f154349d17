"""Readings around a launch: counters of this process and its CPUs, the state of the board, a bounded wait."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from xpress_bench.measure import conditions as module
from xpress_bench.measure import machine, nvml
from xpress_bench.measure.conditions import COOL_DOWN_S, conditions, cool_down
from xpress_bench.measure.nvml import Board, DeviceMemory, ProcessMemory, Reading

# Ticks of the columns user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice.
STAT = """\
cpu  9 9 9 9 9 9 9 9 9 9
cpu0 100 20 30 400 50 6 7 8 90 10
cpu1 1000 0 0 2000 0 0 0 0 0 0
cpu10 7 7 7 7 7 7 7 7 7 7
intr 5 5
"""


def test_cpu_times_are_those_of_the_usable_cpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "stat").write_text(STAT)
    monkeypatch.setattr(module, "_STAT", tmp_path / "stat")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_CLK_TCK": 100}[name])
    found = conditions("cpu")
    busy_s, idle_s, stolen_s = (found[f"cpu_{kind}_s"] for kind in ("busy", "idle", "stolen"))
    assert (busy_s, idle_s, stolen_s) == (pytest.approx(11.63), pytest.approx(24.5), pytest.approx(0.08))


def test_waiting_is_that_of_all_threads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for thread, waited_ns in ((1, 1_500_000_000), (2, 250_000_000)):
        (tmp_path / str(thread)).mkdir()
        (tmp_path / str(thread) / "schedstat").write_text(f"123 {waited_ns} 4\n")
    monkeypatch.setattr(module, "_TASKS", tmp_path)
    assert conditions("cpu")["own_waited_s"] == pytest.approx(1.75)


def test_own_counters_are_those_of_this_process() -> None:
    before, start = conditions("cpu"), time.process_time()
    while time.process_time() - start < 0.05:
        pass
    after = conditions("cpu")
    assert 0.04 < after["own_cpu_s"] - before["own_cpu_s"] < 5
    assert after["clock_s"] - before["clock_s"] >= 0.05
    assert after["own_voluntary_switches"] >= before["own_voluntary_switches"]


def test_what_can_not_be_read_is_none_with_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for place, name in ((machine, "_CPUINFO"), (module, "_STAT"), (module, "_TASKS")):
        monkeypatch.setattr(place, name, tmp_path / "absent")
    monkeypatch.setattr(machine, "_CPUS", tmp_path)
    monkeypatch.delattr("os.getloadavg")
    found = conditions("cpu")
    reasons = found.pop("reasons")
    assert {name for name, value in found.items() if value is None} == reasons.keys()
    assert reasons.keys() == {"load_average", "cpu_mhz", "governor", "own_waited_s"} | {
        f"cpu_{kind}_s" for kind in ("busy", "idle", "stolen")
    }
    (tmp_path / "stat").write_text("cpu 1 1 1 1 1 1 1 1\n")  # no single CPU: unknown, and not 0
    monkeypatch.setattr(module, "_STAT", tmp_path / "stat")
    assert conditions("cpu")["cpu_busy_s"] is None


class FakeBoard(Board):
    """Answers from a table; temperatures come one after the other."""

    answers: dict[tuple[Any, ...], Any] = {  # noqa: RUF012
        ("PowerManagementLimit",): 699_600,
        ("ClockInfo", 1): 1755,
        ("ClockInfo", 2): 3201,
        ("CurrentClocksThrottleReasons",): 0x4 | 0x20,
        ("ViolationStatus", 0): SimpleNamespace(violationTime=5),
        ("ViolationStatus", 1): SimpleNamespace(violationTime=0),
    }
    temperatures: list[int | None] = []  # noqa: RUF012

    def ask(self, what: str, *arguments: object) -> Reading:
        if what == "Temperature":
            now_c = self.temperatures.pop(0) if len(self.temperatures) > 1 else self.temperatures[0]
            return Reading(now_c, None if now_c else "lost")
        return Reading(self.answers[what, *arguments])


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[int | None]], None]:
    def use(temperatures: Sequence[int | None]) -> None:
        monkeypatch.setattr(FakeBoard, "temperatures", list(temperatures))

    monkeypatch.setattr(nvml, "open_board", lambda device: FakeBoard("GPU-x", "H200"))
    monkeypatch.setattr(nvml, "device_memory", lambda board: DeviceMemory(8, 18 * 2**30 + 5, "v2"))
    monkeypatch.setattr(nvml, "process_memory", lambda board: ProcessMemory(None, (9, 10), "not listed"))
    use([61])
    return use


@pytest.mark.usefixtures("board")
def test_conditions_of_a_board() -> None:
    found = conditions("cuda:0")
    assert found["gpu_throttle_reasons"] == ["sw_power_cap", "sw_thermal_slowdown"]
    assert (found["gpu_sm_clock_mhz"], found["gpu_memory_clock_mhz"], found["gpu_temperature_c"]) == (1755, 3201, 61)
    assert (found["gpu_power_throttled_ns"], found["gpu_thermal_throttled_ns"]) == (5, 0)
    assert (found["gpu_used_bytes"], found["gpu_power_limit_w"]) == (8, 700)
    assert (found["gpu_other_pids"], found["gpu_foreign_processes"]) == ([9, 10], 1)  # one of them may be this one
    assert (found["gpu_own_bytes"], found["reasons"]["gpu_own_bytes"]) == (None, "not listed")


def test_a_board_without_nvml_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "open_board", lambda device: Board("x", "H200", reason="no NVML here"))
    state = conditions("cuda:0")
    of_board = [name for name in state if name.startswith("gpu")]
    assert len(of_board) == 11
    assert all(state[name] is None and state["reasons"][name] == "no NVML here" for name in of_board)


@pytest.mark.parametrize(
    ("temperatures", "waited_s"),
    [([40], 0.0), ([41], 0.0), ([70, 60, 50, 41], 3.0), ([70], COOL_DOWN_S), ([70, None], None)],
)
def test_a_launch_waits_for_the_temperature_of_the_first(
    board: Callable[[Sequence[int | None]], None], temperatures: list[int | None], waited_s: float | None
) -> None:
    board(temperatures)
    slept: list[float] = []
    assert cool_down("cuda:0", 41, slept.append) == waited_s
    assert sum(slept) == (1.0 if waited_s is None else waited_s)


@pytest.mark.usefixtures("board")
def test_without_a_board_or_a_first_temperature_nothing_waits() -> None:
    def never(_: float) -> None:
        raise AssertionError

    assert cool_down("cpu", 41, never) is None
    assert cool_down("cuda:0", None, never) is None
