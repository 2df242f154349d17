"""Was a launch disturbed? Judged from what was read off the machine just before and just after its timed requests.

Where there is a counter, its growth is judged and not the state at the two ends. What could not be read disturbs no
launch and clears none: `unjudged` says what that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xpress_bench.records import Launch

Conditions = Mapping[str, Any]  # as `measure.conditions` reads them
# 90 windows of 4 s, one or two threads on two shared cores. Below this share the median repetition took at most 6 %
# longer than at best in 23 of 24 windows; up to 20 % the mean took 10 to 58 % longer, beyond up to hundreds of times.
CPU_SHARE = 0.05
THROTTLED_SHARE = 0.01  # of the launch: less cannot move a median by what is called a difference
FOREIGN_BYTES = 2**30  # the driver's own reserve can be nearly as much (nvml-wrapper#57)
_HARMLESS = {"gpu_idle", "applications_clocks_setting"}  # reasons for a low clock that are no throttling
# What is judged on every machine and on one with a GPU, and the readings that tell it: all of any one row.
_CPU_NEEDS = {"the CPU time of others": (("cpu_busy_s", "cpu_idle_s", "cpu_stolen_s", "own_cpu_s"),)}
_GPU_NEEDS = {
    "throttling": (("gpu_power_throttled_ns", "gpu_thermal_throttled_ns", "clock_s"), ("gpu_throttle_reasons",)),
    "others on the GPU": (("gpu_foreign_processes",), ("gpu_used_bytes", "gpu_own_bytes")),
}


def disturbed(launches: Sequence[Launch]) -> dict[int, str]:
    """The launches that something disturbed, and what it was, from their marks."""
    return {launch: what for launch, states in _states(launches).items() if (what := disturbance(*states))}


def unjudged(launches: Sequence[Launch], device: str) -> dict[int, str]:
    """The launches that may have been disturbed without a trace: what could not be read, and why, from their marks."""
    needs = _CPU_NEEDS | (_GPU_NEEDS if device.startswith("cuda") else {})
    return {launch: gaps for launch, states in _states(launches).items() if (gaps := "; ".join(_gaps(needs, *states)))}


def _states(launches: Sequence[Launch]) -> dict[int, tuple[Conditions, Conditions]]:
    """The readings before and after every launch that ended."""
    before = {mark.launch: mark.machine.get("before") or {} for mark in launches if mark.event == "started"}
    after = {mark.launch: mark.machine.get("after") or {} for mark in launches if mark.event == "ended"}
    return {launch: (before.get(launch, {}), state) for launch, state in after.items()}


def _gaps(needs: Mapping[str, Sequence[Sequence[str]]], before: Conditions, after: Conditions) -> Iterator[str]:
    for what, ways in needs.items():
        missing = [[name for name in way if None in (before.get(name), after.get(name))] for way in ways]
        if all(missing):
            yield f"{what} ({_reason(missing[0][0], before, after)})"


def disturbance(before: Conditions, after: Conditions) -> str | None:
    """What disturbed a launch between two readings; None if nothing did."""
    return "; ".join((*_cpu(before, after), *_throttled(before, after), *_shared(before, after))) or None


def _reason(name: str, *states: Conditions) -> str:
    """Why a reading is unknown, as it was written down beside it."""
    said = ((state.get("reasons") or {}).get(name) for state in states)
    return next((str(reason) for reason in said if reason), "not recorded")


def _cpu(before: Conditions, after: Conditions) -> Iterator[str]:
    names = ("cpu_busy_s", "cpu_idle_s", "cpu_stolen_s", "own_cpu_s", "own_waited_s")
    busy_s, idle_s, stolen_s, own_s, waited_s = (_grown(before, after, name) for name in names)
    if busy_s is None or idle_s is None or stolen_s is None or own_s is None:
        return
    foreign = _share(busy_s - own_s, busy_s + idle_s + stolen_s)
    if waited_s is not None:  # others do no harm on a CPU that this process does not want
        foreign = min(foreign, _share(waited_s, own_s + waited_s))
    stolen = _share(stolen_s, busy_s + stolen_s)
    for who, share in (("other processes", foreign), ("other guests of the host", stolen)):
        if share > CPU_SHARE:
            yield f"{who} took {share:.0%} of the CPU time"


def _throttled(before: Conditions, after: Conditions) -> Iterator[str]:
    counters = {kind: _grown(before, after, f"gpu_{kind}_throttled_ns") for kind in ("power", "thermal")}
    elapsed_s = _grown(before, after, "clock_s")
    for kind, throttled_ns in counters.items():
        share = _share((throttled_ns or 0.0) / 1e9, elapsed_s or 0.0)
        if share > THROTTLED_SHARE:
            yield f"the GPU was throttled for {share:.0%} of the time ({kind})"
    if None in counters.values():
        reasons = {one for state in (before, after) for one in state.get("gpu_throttle_reasons") or ()} - _HARMLESS
        if reasons:
            yield f"the GPU was throttled ({', '.join(sorted(reasons))})"


def _shared(before: Conditions, after: Conditions) -> Iterator[str]:
    if processes := max(state.get("gpu_foreign_processes") or 0 for state in (before, after)):
        yield f"other processes on the GPU: {processes}"
    pairs = ((state.get("gpu_used_bytes"), state.get("gpu_own_bytes")) for state in (before, after))
    others = max((used - own for used, own in pairs if used is not None and own is not None), default=0)
    if others > FOREIGN_BYTES:
        yield f"others held {others / 2**30:.1f} GiB of the GPU's memory"


def _grown(before: Conditions, after: Conditions, counter: str) -> float | None:
    """Growth of a counter; None where it is not known at both ends."""
    start, end = before.get(counter), after.get(counter)
    return None if start is None or end is None else float(end - start)


def _share(part: float, whole: float) -> float:
    return max(0.0, part / whole) if whole > 0 else 0.0
