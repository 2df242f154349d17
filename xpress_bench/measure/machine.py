"""The machine a run was measured on: versions, git state, and what makes two machines comparable.

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
SM_CLOCK = 1  # NVML's number


def versions() -> dict[str, str | None]:
    """Versions of all that can change a result. None: not installed; for cuda and cudnn also: torch is not loaded."""
    return {
        "xpress-bench": xpress_bench.__version__,
        "python": platform.python_version(),
        **{name: installed(name) for name in _PACKAGES},
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
    board = board_of(device)
    hard, reasons = split(_processor(threads) | (_model(board) if board else {}))
    soft, soft_reasons = split(_host() | (_copy(board) if board else {}))
    sha256 = hashlib.sha256(json.dumps(hard, sort_keys=True).encode()).hexdigest()
    return {"hard": hard, "soft": soft, "reasons": reasons | soft_reasons, "sha256": sha256}


def installed(name: str) -> str | None:
    """Version of a distribution, None if it is not installed."""
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


def board_of(device: str) -> Board | None:
    """The board of a CUDA device; None for any other device."""
    return nvml.open_board(device) if device.startswith("cuda") else None


def _processor(threads: int) -> dict[str, Reading]:
    memory_bytes = attempt(lambda: os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), "no sysconf")
    return {
        "cpu_model": Reading(_cpu_model()),
        "cpu_count": Reading(os.cpu_count()),
        "cpu_usable": attempt(lambda: len(os.sched_getaffinity(0)), "no CPU affinity on this system"),
        "torch_threads": Reading(threads),
        # Whole GiB: a new kernel keeps a few MiB more or less for itself.
        "memory_gib": memory_bytes.then(lambda total: round(total / 2**30)),
    }


def _host() -> dict[str, Reading]:
    return {"host": Reading(_host_hash()), "kernel": Reading(platform.release()), "governor": governor()}


def _model(board: Board) -> dict[str, Reading]:
    memory = nvml.device_memory(board)
    return {
        "gpu_name": Reading(board.name, None if board.name else board.reason),
        "gpu_mig": Reading(None, board.reason) if board.reason else Reading(board.mig),
        "gpu_memory_gib": Reading(memory.total_bytes, memory.reason).then(lambda total: round(total / 2**30)),
        "gpu_driver_major": nvml.driver_version().then(lambda version: int(version.partition(".")[0])),
        "gpu_power_limit_w": power_limit_w(board),
        "gpu_application_clock_mhz": board.ask("ApplicationsClock", SM_CLOCK),
    }


def power_limit_w(board: Board) -> Reading:
    """Power limit in whole watts."""
    return board.ask("PowerManagementLimit").then(lambda limit_mw: round(limit_mw / 1e3))


def _copy(board: Board) -> dict[str, Reading]:
    memory = nvml.device_memory(board)
    return {
        "gpu_uuid": Reading(board.uuid, None if board.uuid else board.reason),
        "gpu_persistence": board.ask("PersistenceMode").then(bool),
        "gpu_ecc": board.ask("EccMode").then(lambda modes: bool(modes[0])),
        "gpu_memory_struct": Reading(memory.struct, memory.reason),
    }


def _cpu_model() -> str:
    names = attempt(lambda: cpuinfo("model name")[0], "not an x86 Linux").value
    return str(names or platform.processor() or platform.machine())


def cpuinfo(field: str) -> list[str]:
    """A field of every CPU. Raises OSError where there is no such file."""
    return re.findall(rf"^{field}\s*: (.+)$", _CPUINFO.read_text(encoding="utf-8"), re.MULTILINE)


def governor() -> Reading:
    """Frequency governors of all cores, each named once."""
    files = _CPUS.glob("cpu[0-9]*/cpufreq/scaling_governor")
    found = attempt(lambda: {file.read_text(encoding="utf-8").strip() for file in files}, "not readable").value
    return Reading("+".join(sorted(found))) if found else Reading(None, "no frequency scaling on this system")


def _host_hash() -> str:
    # machine-id(5) asks to publish only a keyed hash of it; a host name alone could be guessed back from its hash.
    secret = attempt(lambda: _MACHINE_ID.read_text(encoding="utf-8").strip(), "no machine id").value or platform.node()
    return hmac.new(secret.encode(), b"xpress-bench", "sha256").hexdigest()[:16]


def attempt(read: Callable[[], Any], reason: str) -> Reading:
    """What `read` returns, or None and the reason where the system has no such thing."""
    try:
        return Reading(read())
    except (OSError, ValueError, AttributeError, IndexError):
        return Reading(None, reason)


def split(readings: Mapping[str, Reading]) -> tuple[dict[str, Any], dict[str, str]]:
    """Values, and the reasons of those that are None."""
    values = {name: reading.value for name, reading in readings.items()}
    return values, {name: reading.reason for name, reading in readings.items() if reading.reason}
