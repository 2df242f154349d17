"""The machine a run was measured on: versions, git state, what makes two machines comparable, and how busy it is.

Everything is read, never set. What can not be read is None, and `reasons` says why under the same key. Nothing here
holds an environment variable, a user name, a host name or a path.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import platform
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import xpress_bench
from xpress_bench.measure import nvml
from xpress_bench.measure.nvml import Board, Reading

GIT_TIMEOUT_S = 10.0
_PACKAGES = ("torch", "transformers", "diffusers", "datasets", "numpy", "scipy")
_CPUINFO = Path("/proc/cpuinfo")
_CPUS = Path("/sys/devices/system/cpu")
_MACHINE_ID = Path("/etc/machine-id")
_SM_CLOCK, _MEMORY_CLOCK, _CORE_SENSOR, _POWER_POLICY, _THERMAL_POLICY = 1, 2, 0, 0, 1  # NVML's numbers
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


def versions() -> dict[str, str | None]:
    """Versions of all that can change a result. None: not installed; for cuda and cudnn also: torch is not loaded."""
    return {
        "xpress-bench": xpress_bench.__version__,
        "python": platform.python_version(),
        **{name: _installed(name) for name in _PACKAGES},
        **_cuda(),
        "driver": nvml.driver_version().value,
    }


def git_state() -> dict[str, Any]:
    """Commit the package runs from, and whether the package's own files differ from it.

    Keys: commit, dirty, reason. A package installed inside somebody else's repository is not taken for that repository.
    """
    try:
        _git("ls-files", "--error-unmatch", "__init__.py")
        commit, changes = _git("rev-parse", "HEAD"), _git("status", "--porcelain", "--", ".")
    except subprocess.CalledProcessError:
        return {"commit": None, "dirty": None, "reason": "the package is in no git checkout, or git may not read it"}
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"commit": None, "dirty": None, "reason": f"git did not run ({type(error).__name__})"}
    return {"commit": commit, "dirty": bool(changes), "reason": None}


def fingerprint(device: str, threads: int) -> dict[str, Any]:
    """What a baseline is kept under: `hard` keys must match, `soft` keys warn. `threads`: torch threads.

    Keys: hard, soft, reasons, and the sha256 of hard. Load and clock readings, which change by themselves (case C44),
    are in neither: see `conditions`.
    """
    board = _board(device)
    hard, reasons = _split(_processor(threads) | (_model(board) if board else {}))
    soft, soft_reasons = _split(_host() | (_copy(board) if board else {}))
    sha256 = hashlib.sha256(json.dumps(hard, sort_keys=True).encode()).hexdigest()
    return {"hard": hard, "soft": soft, "reasons": reasons | soft_reasons, "sha256": sha256}


def conditions(device: str) -> dict[str, Any]:
    """How busy, fast and hot the machine is right now; read before and after a launch. Also holds `reasons`."""
    board = _board(device)
    values, reasons = _split(_activity() | (_board_state(board) if board else {}))
    return {**values, "reasons": reasons}


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _cuda() -> dict[str, str | None]:
    torch = sys.modules.get("torch")
    cudnn = torch.backends.cudnn.version() if torch else None
    return {"cuda": torch.version.cuda if torch else None, "cudnn": None if cudnn is None else str(cudnn)}


def _git(*arguments: str) -> str:
    # A hook or a wrapper may point git at another repository by its environment.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(
        ("git", "--no-optional-locks", *arguments),
        cwd=Path(xpress_bench.__file__).parent,
        env=environment,
        capture_output=True,
        check=True,
        timeout=GIT_TIMEOUT_S,
        encoding="utf-8",
    ).stdout.strip()


def _board(device: str) -> Board | None:
    return nvml.open_board(device) if device.startswith("cuda") else None


def _processor(threads: int) -> dict[str, Reading]:
    memory_bytes = _attempt(lambda: os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), "no sysconf")
    return {
        "cpu_model": Reading(_cpu_model()),
        "cpu_count": Reading(os.cpu_count()),
        "cpu_usable": _attempt(lambda: len(os.sched_getaffinity(0)), "no CPU affinity on this system"),
        "torch_threads": Reading(threads),
        # Whole GiB: a new kernel keeps a few MiB more or less for itself.
        "memory_gib": memory_bytes.then(lambda total: round(total / 2**30)),
    }


def _host() -> dict[str, Reading]:
    return {"host": Reading(_host_hash()), "kernel": Reading(platform.release()), "governor": _governor()}


def _activity() -> dict[str, Reading]:
    return {
        "load_average": _attempt(lambda: list(os.getloadavg()), "no load average on this system"),
        "cpu_mhz": _attempt(lambda: statistics.median(map(float, _cpuinfo("cpu MHz"))), "no CPU clock on this system"),
        "governor": _governor(),
    }


def _model(board: Board) -> dict[str, Reading]:
    memory, power_limit_mw = nvml.device_memory(board), board.ask("PowerManagementLimit")
    return {
        "gpu_name": Reading(board.name, None if board.name else board.reason),
        "gpu_mig": Reading(None, board.reason) if board.reason else Reading(board.mig),
        "gpu_memory_gib": Reading(memory.total_bytes, memory.reason).then(lambda total: round(total / 2**30)),
        "gpu_driver_major": nvml.driver_version().then(lambda version: int(version.partition(".")[0])),
        "gpu_power_limit_w": power_limit_mw.then(lambda limit: round(limit / 1e3)),
        "gpu_application_clock_mhz": board.ask("ApplicationsClock", _SM_CLOCK),
    }


def _copy(board: Board) -> dict[str, Reading]:
    memory = nvml.device_memory(board)
    return {
        "gpu_uuid": Reading(board.uuid, None if board.uuid else board.reason),
        "gpu_persistence": board.ask("PersistenceMode").then(bool),
        "gpu_ecc": board.ask("EccMode").then(lambda modes: bool(modes[0])),
        "gpu_memory_struct": Reading(memory.struct, memory.reason),
    }


def _board_state(board: Board) -> dict[str, Reading]:
    memory, processes = nvml.device_memory(board), nvml.process_memory(board)
    pids = processes.others
    return {
        "gpu_sm_clock_mhz": board.ask("ClockInfo", _SM_CLOCK),
        "gpu_memory_clock_mhz": board.ask("ClockInfo", _MEMORY_CLOCK),
        "gpu_temperature_c": board.ask("Temperature", _CORE_SENSOR),
        "gpu_throttle_reasons": board.ask("CurrentClocksThrottleReasons").then(_throttles),
        # Counters: a throttle that is over when the launch ends shows only here.
        "gpu_power_throttled_ns": board.ask("ViolationStatus", _POWER_POLICY).then(lambda time: time.violationTime),
        "gpu_thermal_throttled_ns": board.ask("ViolationStatus", _THERMAL_POLICY).then(lambda time: time.violationTime),
        "gpu_used_bytes": Reading(memory.used_bytes, memory.reason),
        "gpu_own_bytes": Reading(processes.own_bytes, processes.reason),
        "gpu_other_pids": Reading(None, processes.reason) if pids is None else Reading(list(pids)),
    }


def _throttles(bits: int) -> list[str]:
    return [name for at, name in enumerate(_THROTTLES) if bits >> at & 1]


def _cpu_model() -> str:
    names = _attempt(lambda: _cpuinfo("model name")[0], "not an x86 Linux").value
    return str(names or platform.processor() or platform.machine())


def _cpuinfo(field: str) -> list[str]:
    return re.findall(rf"^{field}\s*: (.+)$", _CPUINFO.read_text(encoding="utf-8"), re.MULTILINE)


def _governor() -> Reading:
    files = _CPUS.glob("cpu[0-9]*/cpufreq/scaling_governor")
    found = _attempt(lambda: {file.read_text(encoding="utf-8").strip() for file in files}, "not readable").value
    return Reading("+".join(sorted(found))) if found else Reading(None, "no frequency scaling on this system")


def _host_hash() -> str:
    # machine-id(5) asks to publish only a keyed hash of it; a host name alone could be guessed back from its hash.
    secret = _attempt(lambda: _MACHINE_ID.read_text(encoding="utf-8").strip(), "no machine id").value or platform.node()
    return hmac.new(secret.encode(), b"xpress-bench", "sha256").hexdigest()[:16]


def _attempt(read: Callable[[], Any], reason: str) -> Reading:
    try:
        return Reading(read())
    except (OSError, ValueError, AttributeError, IndexError):
        return Reading(None, reason)


def _split(readings: Mapping[str, Reading]) -> tuple[dict[str, Any], dict[str, str]]:
    values = {name: reading.value for name, reading in readings.items()}
    return values, {name: reading.reason for name, reading in readings.items() if reading.reason}
