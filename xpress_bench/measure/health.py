"""What would make this machine noisy: every finding with why it matters and what to do. Reads, and changes nothing.

One thing is tried: a fixed piece of work is repeated for three seconds, while what disturbs a launch is watched.
"""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from xpress_bench.analyse.admission import disturbance
from xpress_bench.measure.clock import Clock, clock_for
from xpress_bench.measure.conditions import conditions
from xpress_bench.measure.machine import attempt, board_of, governor, installed

TRIED_S = 3.0
SPREAD, DRIFT = 0.25, 0.05  # a quiet machine stays below: p95 over median, last third over first
ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class Finding:
    """`what` was seen, `why` it matters, `todo` against it. A note is for knowing, a warning is to be put right."""

    level: Literal["warning", "note"]
    what: str
    why: str
    todo: str


@dataclass(frozen=True, slots=True)
class Trial:
    """Seconds of each repetition of the same work, and the pages that were swapped meanwhile, if that is known."""

    seconds: tuple[float, ...]
    disturbance: str | None
    swapped_pages: int | None

    @property
    def spread(self) -> float:
        """95th percentile over median, less 1."""
        return float(np.quantile(self.seconds, 0.95) / np.median(self.seconds) - 1)

    @property
    def drift(self) -> float:
        """Median of the last third over that of the first, less 1."""
        third = max(1, len(self.seconds) // 3)
        return float(np.median(self.seconds[-third:]) / np.median(self.seconds[:third]) - 1)


def findings(device: str, threads: int, trial: Trial, root: Path = ROOT) -> list[Finding]:
    """Everything that was found, warnings first. `threads`: torch threads; `root`: where /proc and /sys lie."""
    every = (*_cores(threads, root), *_clocks(root), *_system(root), *_software(), *_board(device), *_tried(trial))
    return sorted(every, key=lambda one: one.level == "note")


def trial(device: str, tried_s: float = TRIED_S) -> Trial:
    """Repeat a fixed chain of matrix products for so many seconds."""
    rows, weights = torch.ones(16, 512, device=device), torch.full((512, 512), 1 / 512, device=device)
    clock, seconds = clock_for(device), list[float]()
    for _ in range(20):  # untimed
        _repetition(rows, weights, clock)
    before, swapped, until = conditions(device), _swapped(), time.monotonic() + tried_s
    while not seconds or time.monotonic() < until:
        seconds.append(_repetition(rows, weights, clock))
    pages = None if swapped is None else (_swapped() or 0) - swapped
    return Trial(tuple(seconds), disturbance(before, conditions(device)), pages)


def _repetition(rows: Tensor, weights: Tensor, clock: Clock) -> float:
    start = clock.now()
    for _ in range(20):
        rows = rows @ weights
    clock.synchronize()
    return clock.now() - start


def _cores(threads: int, root: Path) -> Iterator[Finding]:
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    if threads > len(usable):
        yield Finding(
            "warning",
            f"{threads} threads on {len(usable)} usable CPUs",
            "threads wait for one another, and a request takes many times as long",
            f"run with threads={len(usable)}",
        )
    siblings = {_text(root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") for cpu in usable}
    if None not in siblings and len(siblings) < threads <= len(usable):
        yield Finding(
            "warning",
            f"{threads} threads on {len(siblings)} cores: some share a core with a sibling",
            "two threads of one core are slower than two cores, and which share one changes",
            f"run with threads={len(siblings)}",
        )
    quota = _quota(root)
    if quota is not None and quota < threads:
        yield Finding(
            "warning",
            f"a quota of {quota:g} CPUs for {threads} threads",
            "the kernel stops the process for the rest of each period once the quota is used up",
            f"give the container or unit {threads} CPUs, or run with threads={max(1, int(quota))}",
        )


def _clocks(root: Path) -> Iterator[Finding]:
    governors = governor().value
    if governors and governors != "performance":
        yield Finding(
            "warning",
            f"the frequency governor is {governors}",
            "clocks follow the load: what is measured after a pause is slower",
            "cpupower frequency-set -g performance",
        )
    system = root / "sys/devices/system/cpu"
    if (_text(system / "intel_pstate/no_turbo"), _text(system / "cpufreq/boost")) in (("0", None), (None, "1")):
        yield Finding(
            "note",
            "turbo is on",
            "clocks depend on temperature and on what other cores do; arms are interleaved, so ratios stay fair",
            "turn it off where two sessions are to be compared, and on both",
        )


def _system(root: Path) -> Iterator[Finding]:
    if (root / ".dockerenv").exists() or (root / "run/.containerenv").exists():
        yield Finding(
            "note",
            "this is a container",
            "other containers of the host are not seen, and NVML lists processes by the host's ids",
            "see that nothing else runs on the host",
        )


def _software() -> Iterator[Finding]:
    if installed("pynvml"):
        yield Finding(
            "warning",
            "the distribution `pynvml` is installed",
            "it is deprecated and its module takes the place of that of nvidia-ml-py",
            "pip uninstall pynvml && pip install --force-reinstall nvidia-ml-py",
        )
    if platform.machine() not in ("x86_64", "AMD64"):
        return
    capability = torch.backends.cpu.get_cpu_capability()
    if not capability.startswith("AVX"):
        yield Finding(
            "warning",
            f"torch computes with {capability}, without AVX",
            "matrix products are several times slower than this processor can",
            "install a torch build for this processor, and leave ATEN_CPU_CAPABILITY unset",
        )
    if not torch.backends.mkl.is_available():
        yield Finding(
            "warning", "torch is built without MKL", "matrix products are slower", "install an official build"
        )


def _board(device: str) -> Iterator[Finding]:
    board = board_of(device)
    if board is None:
        return
    if board.reason:
        yield Finding(
            "warning",
            f"the board cannot be read: {board.reason}",
            "memory, clocks, throttling and other processes stay unknown: nothing on the board voids a launch",
            "pip install nvidia-ml-py, and see that the driver is visible here",
        )
        return
    if board.mig:
        yield Finding("note", "a MIG slice", "other slices share the board's power and clocks", "leave them idle")
    if board.ask("PersistenceMode").value == 0:
        yield Finding(
            "warning",
            "persistence mode is off",
            "the driver unloads between processes, and each launch starts from another state",
            "nvidia-smi -pm 1",
        )
    ecc = board.ask("EccMode").value
    if ecc is not None and not ecc[0]:
        yield Finding(
            "note", "ECC is off", "memory is a little faster than with it", "compare only with boards like it"
        )


def _tried(trial: Trial) -> Iterator[Finding]:
    if trial.disturbance:
        yield Finding(
            "warning",
            trial.disturbance,
            "requests take longer, and not all arms alike",
            "stop what else runs; with admission=void a disturbed launch is measured once more",
        )
    if trial.swapped_pages:
        yield Finding("warning", "memory is being swapped", "a request may wait for the disk", "free memory")
    if trial.spread > SPREAD or abs(trial.drift) > DRIFT:
        yield Finding(
            "warning",
            "the same work takes different times",
            "so do requests: intervals get wide, and a single slow one may pass for an effect",
            "look for what else runs, a governor or heat; more launches average some of it out",
        )


def _quota(root: Path) -> float | None:
    """CPUs that the control group of this process may use at once; None: no quota."""
    own = re.findall(r"^0::/(.*)$", _text(root / "proc/self/cgroup") or "", re.MULTILINE)
    for folder in (*own, ""):
        words = (_text(root / "sys/fs/cgroup" / folder / "cpu.max") or "max").split()
        if words[0] != "max":
            return int(words[0]) / int(words[1])
    first = root / "sys/fs/cgroup/cpu"  # version 1
    quota_us, period_us = _text(first / "cpu.cfs_quota_us"), _text(first / "cpu.cfs_period_us")
    return int(quota_us) / int(period_us) if quota_us and period_us and int(quota_us) > 0 else None


def _swapped(root: Path = ROOT) -> int | None:
    pages: Sequence[str] = re.findall(r"^pswp(?:in|out) (\d+)$", _text(root / "proc/vmstat") or "", re.MULTILINE)
    return sum(map(int, pages)) if pages else None


def _text(file: Path) -> str | None:
    return attempt(lambda: file.read_text(encoding="utf-8").strip(), "not there").value
