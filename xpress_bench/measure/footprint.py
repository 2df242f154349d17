"""Where the memory of an arm goes: bytes that each part and its caches hold, and on CUDA the peak of each stage.

A part is searched for the tensors it holds, whatever its class, so that a plug-in is measured like a part of our own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from xpress_bench.decode import Output
from xpress_bench.errors import RunError
from xpress_bench.measure.faults import told
from xpress_bench.measure.ready import make_ready
from xpress_bench.measure.schedule import Slot
from xpress_bench.measure.turns import with_later_turns
from xpress_bench.parts import Parts
from xpress_bench.settings import Settings

STAGES = ("draft", "refine", "verify")
NOT_HERE = "only CUDA's allocator tells"


@dataclass(frozen=True, slots=True)
class Footprint:
    """The fields of `records.Memory` that come from inside the measured process."""

    parts_bytes: dict[str, int | None]
    stage_peak_bytes: dict[str, int | None]
    unknown: dict[str, str]
    torch_reserved_peak_bytes: int | None = None
    torch_allocated_peak_bytes: int | None = None


class StagePeaks:
    """A clock for the memory pass: it notes torch's peaks since the stamp before, and then begins new ones.

    A stamp is the number of notes so far. It costs no synchronisation: the allocator works in the host's time.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._peaks: list[tuple[int, int]] = []  # allocated, reserved bytes

    def synchronize(self) -> None:
        torch.cuda.synchronize(self._device)

    def now(self) -> float:
        return perf_counter()

    def stamp(self) -> int:
        device = self._device
        self._peaks.append((torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device)))
        torch.cuda.reset_peak_memory_stats(device)
        return len(self._peaks)

    def seconds(self, start: Any, end: Any) -> float:
        raise NotImplementedError("the memory pass times nothing")

    def allocated(self, start: Any = 0, end: Any = None) -> int:
        """Most bytes allocated between two stamps, or in all."""
        return max(allocated for allocated, _ in self._peaks[start:end])

    def reserved(self) -> int:
        """Most bytes reserved from the driver, in all."""
        return max(reserved for _, reserved in self._peaks)


def footprint(settings_file: Path, arm: str) -> Footprint:
    """Load one arm, run it once over the longest prompt or batch of them, see what it holds. RunError if it fails."""
    settings = Settings.from_json(settings_file.read_text(encoding="utf-8"))
    ready = with_later_turns(make_ready(settings, only=arm), settings, settings_file.parent)
    longest = sorted(ready.prompts, key=lambda prompt: len(prompt.ids), reverse=True)[: settings.batch_size]
    condition, seed = settings.conditions()[0], settings.seeds[0]
    slots = [Slot(condition, prompt.item.id, seed, 0, arm, 0, prompt.turn) for prompt in longest]
    peaks = StagePeaks(settings.device) if settings.device.startswith("cuda") else None
    ready.requests.clock = peaks or ready.requests.clock
    try:
        output = max(ready.requests.decoded(slots), key=lambda output: len(output.rounds))  # it saw all steps
    except Exception as error:  # whatever a plug-in or the device raises
        raise RunError(told(error)) from error
    held, gone = held_bytes(ready.parts), dict[str, str]()
    if settings.batch_size > 1:
        held["caches"], gone["caches"] = None, "the caches of a batch end with it"
    if peaks is None:
        names = ("graphs", *stages_of(output))
        return Footprint(held | {"graphs": None}, dict.fromkeys(names[1:]), gone | dict.fromkeys(names, NOT_HERE))
    peaks.stamp()
    found = Footprint(held | {"graphs": graph_bytes()}, stage_peaks(output, peaks), gone)
    return replace(found, torch_reserved_peak_bytes=peaks.reserved(), torch_allocated_peak_bytes=peaks.allocated())


def stages_of(output: Output) -> tuple[str, ...]:
    """Stages of a request; what direct generation does after the prompt is one."""
    return ("prefill", *(STAGES if output.rounds else ("decode",)))


def stage_peaks(output: Output, peaks: StagePeaks) -> dict[str, int | None]:
    """Most bytes allocated in each stage, over the whole request; its last note comes after the request."""
    found = {"prefill": peaks.allocated(output.started, output.prefilled)}
    if not output.rounds:
        return {**found, "decode": peaks.allocated(output.prefilled)}
    for at, stage in enumerate(STAGES):
        found[stage] = max(peaks.allocated(*one.stamps[at : at + 2]) for one in output.rounds)
    return {**found}


def graph_bytes() -> int:
    """Bytes in the private pools of captured CUDA graphs."""
    segments = torch.cuda.memory_snapshot()
    return sum(segment["total_size"] for segment in segments if tuple(segment["segment_pool_id"]) != (0, 0))


def held_bytes(parts: Parts) -> dict[str, int | None]:
    """Bytes of the weights of target, drafter and refiner, and of all other tensors they hold after a request.

    Memory that two of them share, as a table that a drafter borrows from the target, is the first one's.
    """
    (planned,), kind = parts.arms, parts.target.device.type
    whole = {"target": parts.target, "drafter": planned.drafter, "refiner": planned.refiners}
    found: dict[str, int | None] = {}
    seen, caches = set[int](), 0
    for name, part in whole.items():
        weights = 0
        for tensor, weight in _tensors(part, set()):
            storage = tensor.untyped_storage()
            if tensor.device.type == kind and storage.data_ptr() not in seen:
                seen.add(storage.data_ptr())
                weights, caches = weights + weight * storage.nbytes(), caches + (not weight) * storage.nbytes()
        if part:
            found[name] = weights
    return found | {"caches": caches}


def _tensors(thing: Any, visited: set[int]) -> Iterator[tuple[Tensor, bool]]:
    """Every tensor that can be reached, and whether it belongs to a module."""
    if id(thing) in visited:
        return
    visited.add(id(thing))
    if isinstance(thing, Tensor):
        yield thing, False
    elif isinstance(thing, nn.Module):
        yield from ((tensor, True) for tensor in chain(thing.parameters(), thing.buffers()))
    elif not callable(thing):
        inner = thing.values() if isinstance(thing, Mapping) else thing
        inner = vars(thing).values() if hasattr(thing, "__dict__") else inner
        for one in inner if not isinstance(inner, str | bytes) and hasattr(inner, "__iter__") else ():
            yield from _tensors(one, visited)
