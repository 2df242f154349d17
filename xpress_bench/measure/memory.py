"""Peak memory of each arm, in a pass of its own apart from latency: one fresh process for each arm.

A fresh process, because allocators keep the blocks of whatever ran before (case C35). On CUDA the headline is what the
whole board used above its idle level, which counts the context and library workspaces that torch's own peaks omit;
elsewhere it is the peak resident set of the process.

Run as `python -m xpress_bench.measure.memory SETTINGS_JSON ARM`, this file is that process.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from xpress_bench.measure import nvml
from xpress_bench.records import Memory

if TYPE_CHECKING:
    from xpress_bench.measure.footprint import Footprint

CHILD = (sys.executable, "-m", "xpress_bench.measure.memory")
_STATUS = Path("/proc/self/status")


def measure_arms(settings: Path, arms: Sequence[str], timeout_s: float = 300.0) -> list[Memory]:
    """Peak memory of each arm, in order. `settings`: JSON of the run's Settings. A failed arm has a reason, no peak."""
    return [_measure(settings, arm, timeout_s) for arm in arms]


def peak_rss_bytes() -> int:
    """Peak resident set of this process.

    Linux: VmHWM, since ru_maxrss starts at the size of the process that forked this one. Elsewhere ru_maxrss, which is
    in bytes on macOS and in KiB on the BSDs.
    """
    if _STATUS.exists() and (found := re.search(r"^VmHWM:\s*(\d+) kB", _STATUS.read_text(), re.MULTILINE)):
        return int(found[1]) * 1024
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def observe(device: str, arm: str, work: Callable[[], Footprint]) -> Memory:
    """Peak memory of this process and its board while `work` runs. This process must be fresh."""
    if device.startswith("cuda"):
        return _observe_board(device, arm, work)
    inside = work()
    return replace(Memory(arm, "process_peak_rss", peak_rss_bytes()), **asdict(inside))


def _measure(settings: Path, arm: str, timeout_s: float) -> Memory:
    device = _device(settings)
    unknown = Memory(arm, "nvml_device_peak_minus_idle" if device.startswith("cuda") else "process_peak_rss", None)
    try:
        child = subprocess.run(
            (*CHILD, settings, arm),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            encoding="utf-8",
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        return replace(unknown, reason=f"the memory pass did not end within {timeout_s:g} s")
    if child.returncode:
        status = f"the memory pass ended with status {child.returncode}"
        return replace(unknown, reason=f"{status}: {_last_line(child.stderr) or 'no message'}")
    try:
        return Memory(**json.loads(_last_line(child.stdout)))
    except (ValueError, TypeError):
        return replace(unknown, reason="the memory pass printed no record")


def _observe_board(device: str, arm: str, work: Callable[[], Footprint]) -> Memory:
    import torch

    board = nvml.open_board(device)
    strangers = nvml.process_memory(board).others
    with nvml.PeakSampler(board) as sampler:
        torch.cuda.reset_peak_memory_stats(device)
        inside = work()
        torch.cuda.synchronize(device)
    peak_bytes = sampler.peak.peak_minus_idle_bytes
    peaks = inside.torch_reserved_peak_bytes, inside.torch_allocated_peak_bytes
    reasons = (sampler.peak.reason, _contradiction(peak_bytes, *peaks), _company(strangers))
    reason = "; ".join(filter(None, reasons)) or None
    found = Memory(arm, "nvml_device_peak_minus_idle", peak_bytes, device_uuid=board.uuid, reason=reason)
    return replace(found, **asdict(inside))


def _contradiction(peak: int | None, reserved: int | None, allocated: int | None) -> str | None:
    known = [one for one in (peak, reserved, allocated) if one is not None]
    if known == sorted(known, reverse=True):
        return None
    return f"the peaks contradict each other: board {peak}, torch reserved {reserved}, allocated {allocated} bytes"


def _company(strangers: Sequence[int] | None) -> str | None:
    if not strangers:
        return None
    return f"may hold memory of other processes, seen on the board: pid {', '.join(map(str, strangers))}"


def _device(settings: Path) -> str:
    return str(json.loads(settings.read_text(encoding="utf-8"))["device"])


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2].strip()


def main() -> None:
    """Run one arm and print its Memory record as the last line; a failure is one line on stderr and status 1."""
    settings, arm = Path(sys.argv[1]), sys.argv[2]
    try:
        from xpress_bench.measure.footprint import footprint  # loads torch and models: only this process needs them

        record = observe(_device(settings), arm, lambda: footprint(settings, arm))
    except Exception as error:
        message = " ".join(str(error).split())  # the parent reads one line
        sys.exit(f"{type(error).__name__}: {message}")
    print(json.dumps(asdict(record)))


if __name__ == "__main__":
    main()
