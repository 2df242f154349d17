"""How busy, fast and hot the machine is: read just before and just after the timed requests of a launch.

Counters never go back, and what a launch did is the difference of its two readings: a load average lags by a minute,
and a clock is low on an idle board (case C44). `analyse.admission` judges them. Everything is read, never set.
"""

from __future__ import annotations

import os
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from xpress_bench.measure import nvml
from xpress_bench.measure.machine import SM_CLOCK, attempt, board_of, cpuinfo, governor, power_limit_w, split
from xpress_bench.measure.nvml import Board, Reading

COOL_DOWN_S = 120.0  # at most, before a launch
_STAT = Path("/proc/stat")
_TASKS = Path("/proc/self/task")
_MEMORY_CLOCK, _CORE_SENSOR, _POWER_POLICY, _THERMAL_POLICY = 2, 0, 0, 1  # NVML's numbers
_THROTTLES = (  # NVML's bits, the lowest first
    "gpu_idle",
    "applications_clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "display_clock_setting",
    "board_limit",
    "reliability",
)


def conditions(device: str) -> dict[str, Any]:
    """The state of the machine right now, and counters; `reasons` says why something is None.

    CPU times are seconds of all CPUs that this process may use, `own_` those of this process and its threads;
    `own_waited_s` is how long its threads were ready to run and had no CPU. `clock_s` is monotonic.
    """
    board = board_of(device)
    values, reasons = split(_activity() | (_board_state(board) if board else {}))
    return {**values, "reasons": reasons}


def cool_down(device: str, limit_c: float | None, sleep: Callable[[float], None] = time.sleep) -> float | None:
    """Wait until the board is no hotter than `limit_c`, two minutes at most. Seconds waited; None: nothing to compare.

    Reads a temperature, so a CPU never waits.
    """
    board = board_of(device)
    if board is None or limit_c is None:
        return None
    waited_s = 0.0
    while (now_c := _temperature(board).value) is not None and now_c > limit_c and waited_s < COOL_DOWN_S:
        sleep(1.0)
        waited_s += 1.0
    return None if now_c is None else waited_s


def _activity() -> dict[str, Reading]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "load_average": attempt(lambda: list(os.getloadavg()), "no load average on this system"),
        "cpu_mhz": attempt(lambda: statistics.median(map(float, cpuinfo("cpu MHz"))), "no CPU clock on this system"),
        "governor": governor(),
        **_cpu_times(),
        "own_cpu_s": Reading(usage.ru_utime + usage.ru_stime),
        "own_waited_s": attempt(_waited_s, "no scheduler statistics on this system"),
        "own_voluntary_switches": Reading(usage.ru_nvcsw),
        "own_involuntary_switches": Reading(usage.ru_nivcsw),
        "clock_s": Reading(time.monotonic()),
    }


def _cpu_times() -> dict[str, Reading]:
    """By the columns of proc(5)'s stat: user (guests included), nice, system, idle, iowait, irq, softirq, steal."""
    columns = {"cpu_busy_s": (0, 1, 2, 5, 6), "cpu_idle_s": (3, 4), "cpu_stolen_s": (7,)}
    return {name: attempt(partial(_cpu_s, of), "no CPU times on this system") for name, of in columns.items()}


def _cpu_s(columns: Sequence[int]) -> float:
    usable = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    rows = [line.split() for line in _STAT.read_text(encoding="ascii").splitlines()]
    ticks = [int(row[1 + at]) for row in rows if row[0] in usable for at in columns]
    if not ticks:
        raise OSError("no line of a usable CPU")
    return sum(ticks) / os.sysconf("SC_CLK_TCK")


def _waited_s() -> float:
    """Run delays of all threads: the second number of schedstat (kernel documentation, sched-stats)."""
    waits_ns = [int(file.read_text(encoding="ascii").split()[1]) for file in _TASKS.glob("*/schedstat")]
    if not waits_ns:
        raise OSError("a kernel without CONFIG_SCHED_INFO")
    return sum(waits_ns) / 1e9


def _board_state(board: Board) -> dict[str, Reading]:
    memory, processes = nvml.device_memory(board), nvml.process_memory(board)
    return {
        "gpu_sm_clock_mhz": board.ask("ClockInfo", SM_CLOCK),
        "gpu_memory_clock_mhz": board.ask("ClockInfo", _MEMORY_CLOCK),
        "gpu_temperature_c": _temperature(board),
        "gpu_power_limit_w": power_limit_w(board),
        "gpu_throttle_reasons": board.ask("CurrentClocksThrottleReasons").then(_throttles),
        # Counters: a throttle that is over when the launch ends shows only here.
        "gpu_power_throttled_ns": board.ask("ViolationStatus", _POWER_POLICY).then(
            lambda counted: counted.violationTime
        ),
        "gpu_thermal_throttled_ns": board.ask("ViolationStatus", _THERMAL_POLICY).then(
            lambda counted: counted.violationTime
        ),
        "gpu_used_bytes": Reading(memory.used_bytes, memory.reason),
        "gpu_own_bytes": Reading(processes.own_bytes, processes.reason),
        "gpu_other_pids": _known(processes.others and list(processes.others), processes.reason),
        "gpu_foreign_processes": _known(processes.foreign, processes.reason),
    }


def _known(value: Any, reason: str | None) -> Reading:
    return Reading(value, reason if value is None else None)


def _temperature(board: Board) -> Reading:
    return board.ask("Temperature", _CORE_SENSOR)


def _throttles(bits: int) -> list[str]:
    return [name for at, name in enumerate(_THROTTLES) if bits >> at & 1]
