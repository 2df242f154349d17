"""Clocks that time a device which may still be working when the host call has returned (case C10).

Latencies are host seconds between two `now()`, each after `synchronize()`. Stages are timed by stamps: on CUDA an event
in the stream, so that stamping costs no synchronisation; elsewhere the host's clock once the device is idle.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol

import torch


class Clock(Protocol):
    """Host time and device time of one device."""

    def synchronize(self) -> None:
        """Wait until the device has done all that was queued."""

    def now(self) -> float:
        """Monotonic host time, in seconds from an arbitrary start."""

    def stamp(self) -> object:
        """A point in the device's time."""

    def seconds(self, start: object, end: object) -> float:
        """Device seconds between two stamps; only valid after `synchronize()`."""


def nothing() -> None:
    """Synchronises a device that never queues: the CPU."""


class HostClock:
    """Stamps are host seconds, each taken after `synchronize`: right for any device, but it stalls a queue."""

    def __init__(self, synchronize: Callable[[], None] = nothing) -> None:
        self._synchronize = synchronize

    def synchronize(self) -> None:
        self._synchronize()

    def now(self) -> float:
        return perf_counter()

    def stamp(self) -> float:
        self._synchronize()
        return perf_counter()

    def seconds(self, start: Any, end: Any) -> float:
        return float(end - start)


class CudaClock:
    """Stamps are CUDA events on the current stream of `device`."""

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)

    def synchronize(self) -> None:
        torch.cuda.synchronize(self._device)

    def now(self) -> float:
        return perf_counter()

    def stamp(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def seconds(self, start: Any, end: Any) -> float:
        return float(start.elapsed_time(end)) / 1e3


def clock_for(device: str) -> Clock:
    """The clock of a torch device: events on CUDA, the host's clock everywhere else."""
    kind = torch.device(device).type
    if kind == "cuda":
        return CudaClock(device)
    if kind == "cpu":
        return HostClock()
    return HostClock(torch.get_device_module(device).synchronize)
