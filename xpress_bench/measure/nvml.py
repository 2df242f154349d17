"""What the NVIDIA driver says about a board: memory, clocks, other processes. The only place that imports pynvml.

A board is found by the UUID that torch reports, never by index: NVML counts every board by bus, CUDA only the visible
ones and in an order of its own (case C19). Everything is read, never set. No library, no driver or a refused call gives
None and a reason, never 0 and never an exception: memory is not worth a run.

Calls and units are those of https://docs.nvidia.com/deploy/nvml-api/. `pynvml` is the module of `nvidia-ml-py`.
Run as `python -m xpress_bench.measure.nvml UUID`, this file is the child process of `PeakSampler`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, Self

SAMPLE_S = 0.010  # as in optimum-benchmark
STOP_TIMEOUT_S = 10.0  # a lost board can hang a call for good
Struct = Literal["v2", "v1"]
_STRUCTS: dict[Struct, int | None] = {"v2": 0x02000028, "v1": None}  # the version tag each call takes


class Reading(NamedTuple):
    """Something read from the machine: its value, or None and why."""

    value: Any
    reason: str | None = None

    def then(self, change: Callable[[Any], Any]) -> Reading:
        """The changed value; an unknown one stays as it is."""
        return self if self.reason else Reading(change(self.value))


@dataclass(frozen=True, slots=True)
class Board:
    """A GPU or a MIG slice. With `reason` set it could not be opened, and that is the answer to every question.

    `uuid` is NVML's, "GPU-…" or "MIG-…"; without NVML it is torch's, which has no prefix. `name` is torch's.
    """

    uuid: str | None = None
    name: str | None = None
    nvml: Any = None
    handle: Any = None
    reason: str | None = None

    @property
    def mig(self) -> bool:
        """Whether it is a MIG slice."""
        return str(self.uuid).startswith("MIG-")

    def ask(self, what: str, *arguments: object) -> Reading:
        """Answer of the NVML call nvmlDeviceGet<what>."""
        if self.reason:
            return Reading(None, self.reason)
        return _call(self.nvml, f"nvmlDeviceGet{what}", self.handle, *arguments)


def open_board(device: str) -> Board:
    """The board of a torch device such as `cuda:1`. Creates no CUDA context (pytorch#99533): idle memory stays idle."""
    kind, _, index = device.partition(":")
    if kind != "cuda":
        return Board(reason=f"{device} is no NVIDIA board")
    import torch  # here, so that the sampling child starts without it

    ordinal, visible = int(index or 0), torch.cuda.device_count()
    if ordinal >= visible:
        return Board(reason=f"{device} does not exist: {visible} visible device{'s' * (visible != 1)}")
    found = torch.cuda.get_device_properties(ordinal)
    return open_uuid(str(found.uuid), found.name)


def open_uuid(uuid: str, name: str | None = None) -> Board:
    """The board or MIG slice with this UUID, given with or without NVML's prefix."""
    nvml, reason = _library()
    if reason:
        return Board(uuid, name, reason=reason)
    bare = uuid.removeprefix("GPU-").removeprefix("MIG-")
    for full in (f"MIG-{bare}", f"GPU-{bare}"):
        handle, reason = _call(nvml, "nvmlDeviceGetHandleByUUID", full)
        if reason is None:
            return _whole_or_slice(Board(full, name, nvml, handle))
    return Board(uuid, name, reason=reason)


def driver_version() -> Reading:
    """Version of the NVIDIA driver, e.g. "570.86.15"."""
    nvml, reason = _library()
    return Reading(None, reason) if reason else _call(nvml, "nvmlSystemGetDriverVersion")


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Memory of a whole board or slice; `used_bytes` may hold that of other processes.

    `struct`: v1 counts the driver's own reserve as used, up to 1 GB, v2 does not (nvml-wrapper#57): never mix the two.
    """

    used_bytes: int | None = None
    total_bytes: int | None = None
    struct: Struct | None = None
    reason: str | None = None


def device_memory(board: Board, struct: Struct | None = None) -> DeviceMemory:
    """Read by `struct`; by default by v2 where the driver has it (WSL does not), else by v1."""
    reason = None
    for one in (struct,) if struct else _STRUCTS:
        memory, reason = board.ask("MemoryInfo", _STRUCTS[one])
        if reason is None:
            return DeviceMemory(memory.used, memory.total, one)
    return DeviceMemory(reason=reason)


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """Memory of this process on a board, and the pids of all others there; None is unknown.

    In a container NVML shows host pids, and one of `others` may then be this process (case C20). `listed`: own pid is.
    """

    own_bytes: int | None = None
    others: tuple[int, ...] | None = None
    reason: str | None = None
    listed: bool = False

    @property
    def foreign(self) -> int | None:
        """How many are certainly not this process; None where a list lacks it and all others too."""
        return len(self.others or ()) - (not self.listed) if self.others or self.listed else None


def process_memory(board: Board) -> ProcessMemory:
    """Memory of this process by the driver's list of compute processes."""
    listed, reason = board.ask("ComputeRunningProcesses")
    if reason:
        return ProcessMemory(reason=reason)
    own_pid = os.getpid()
    others = tuple(process.pid for process in listed if process.pid != own_pid)
    own = next((process for process in listed if process.pid == own_pid), None)
    if own is None:
        return ProcessMemory(None, others, f"own pid is not among the {len(listed)} listed; containers show host pids")
    if own.usedGpuMemory is None:
        return ProcessMemory(None, others, "the driver keeps no memory by process (WSL, WDDM)", listed=True)
    return ProcessMemory(own.usedGpuMemory, others, listed=True)


@dataclass(frozen=True, slots=True)
class DevicePeak:
    """Device-used bytes over a while: before it (`idle_bytes`) and at most, all read by one `struct`."""

    idle_bytes: int | None = None
    peak_bytes: int | None = None
    struct: Struct | None = None
    samples: int = 0
    reason: str | None = None

    @property
    def peak_minus_idle_bytes(self) -> int | None:
        """What the while added; None when unknown."""
        return None if self.peak_bytes is None or self.idle_bytes is None else self.peak_bytes - self.idle_bytes


def running_peak(board: Board) -> Iterator[DevicePeak]:
    """Reads the board once for each item. After a failed reading the peak is unknown for good."""
    first = now = device_memory(board)
    peak_bytes = samples = 0
    while now.used_bytes is not None:
        peak_bytes, samples = max(peak_bytes, now.used_bytes), samples + 1
        yield DevicePeak(first.used_bytes, peak_bytes, first.struct, samples)
        now = device_memory(board, first.struct)
    while True:
        yield DevicePeak(samples=samples, reason=now.reason)


class PeakSampler:
    """Samples a board every 10 ms during a `with` block; `peak` is there after it.

    It samples in a child process, since a thread would wait for the interpreter lock of the code it measures. Enter it
    before the first CUDA context of this process, so that the context counts.
    """

    def __init__(self, board: Board) -> None:
        self.peak = DevicePeak(reason=board.reason or "not sampled yet")
        self._command = None if board.reason else (sys.executable, "-m", __name__, str(board.uuid))

    def __enter__(self) -> Self:
        if self._command:
            pipe = subprocess.PIPE
            self._child = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, encoding="utf-8")
            assert self._child.stdout is not None
            self._child.stdout.readline()  # comes once the idle level is read
        return self

    def __exit__(self, *_: object) -> None:
        if self._command:
            self.peak = _stopped(self._child)


def _stopped(child: subprocess.Popen[str]) -> DevicePeak:
    try:
        answer, _ = child.communicate("\n", timeout=STOP_TIMEOUT_S)
        return DevicePeak(**json.loads(answer))
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return DevicePeak(reason=f"the sampling process did not answer within {STOP_TIMEOUT_S:g} s")
    except ValueError:
        return DevicePeak(reason=f"the sampling process ended early, with status {child.returncode}")


def _library() -> Reading:
    try:
        import pynvml
    except ImportError:
        return Reading(None, "nvidia-ml-py is not installed")
    return _call(pynvml, "nvmlInit").then(lambda _: pynvml)


def _call(nvml: Any, name: str, *arguments: object) -> Reading:
    try:
        return Reading(getattr(nvml, name)(*arguments))
    except (nvml.NVMLError, nvml.NVMLLibraryMismatchError) as error:
        return Reading(None, f"{name}: {error}")


def _whole_or_slice(board: Board) -> Board:
    mode = board.ask("MigMode").value
    if mode and mode[0] and not board.mig:
        return Board(board.uuid, board.name, reason="split by MIG, and torch does not say which slice it uses")
    return board


def _wait_for_end(stopped: threading.Event) -> None:
    os.read(0, 1)  # not sys.stdin: its lock would be held, and would break the exit after an error
    stopped.set()


def main() -> None:
    """Print a line once the idle level is read, and the peak once stdin has a byte or ends with the parent."""
    stopped = threading.Event()
    threading.Thread(target=_wait_for_end, args=(stopped,), daemon=True).start()
    peaks = running_peak(open_uuid(sys.argv[1]))
    print(json.dumps(asdict(next(peaks))), flush=True)
    while not stopped.wait(SAMPLE_S):
        next(peaks)
    print(json.dumps(asdict(next(peaks))))


if __name__ == "__main__":
    main()
