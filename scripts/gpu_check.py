"""What only a GPU can show, checked once by a person who has one: `python scripts/gpu_check.py [--device cuda]`.

correct     greedy ids of draft and refine are those of direct and of transformers' generate (float64)
clock       stage times by CUDA events agree with those taken with the device idle at every stamp
memory      the board's peak, torch's reserved and torch's allocated peaks of every arm do not contradict each other
compiled    the compiled steps, CUDA graphs and all, give the ids of the plain ones (float64)

Each line is `ok` or `FAULT` with its figures; the exit status is 1 if there is a fault. Please report the output.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from xpress_bench.config import settings_from
from xpress_bench.measure.clock import HostClock, clock_for
from xpress_bench.measure.controls import generate
from xpress_bench.measure.journal import SETTINGS
from xpress_bench.measure.machine import fingerprint, versions
from xpress_bench.measure.memory import measure_arms
from xpress_bench.measure.ready import Ready, make_ready
from xpress_bench.measure.requests import Requests
from xpress_bench.measure.schedule import Slot
from xpress_bench.records import Cell, Memory
from xpress_bench.settings import Settings

CLOSE = 0.10  # share by which event times and synchronised times may differ: a stamp that waits stalls the queue
Line = tuple[bool, str, str]  # whether it is as it should be, what was checked, what was found


def settings_for(device: str, *words: str) -> Settings:
    return settings_from({"device": device}, ["suite=short", "limit=6", "max_new_tokens=64", *words])


def cells(ready: Ready, requests: Requests, arm: str) -> list[Cell]:
    """Every prompt once; a failure ends the check of this kind."""
    found = []
    for prompt in ready.prompts:
        slot = Slot(ready_condition, prompt.item.id, 0, 0, arm, 0, prompt.turn)
        cell = requests.run(slot, launch=0)
        if cell.error:
            raise RuntimeError(f"{arm} on {prompt.item.id}: {cell.error}")
        found.append(cell)
    return found


ready_condition = settings_from({"device": "cpu"}, []).conditions()[0]  # greedy


def correct(device: str) -> Iterator[Line]:
    ready = make_ready(settings_for(device, "dtype=float64"))
    direct = [cell.ids for cell in cells(ready, ready.requests, "direct")]
    others: dict[str, list[tuple[int, ...]]] = {
        "transformers' generate": [generate(ready.requests, prompt, {}) for prompt in ready.prompts]
    }
    others |= {arm: [cell.ids for cell in cells(ready, ready.requests, arm)] for arm in ("draft", "refine")}
    for name, ids in others.items():
        same = sum(one == other for one, other in zip(direct, ids, strict=True))
        yield same == len(direct), "correct", f"{name}: ids of direct on {same} of {len(direct)} prompts"


def clock(device: str) -> Iterator[Line]:
    ready = make_ready(settings_for(device))
    waiting = Requests(
        ready.parts.target,
        ready.parts.tokenizer,
        ready.parts.arms,
        ready.prompts,
        HostClock(lambda: torch.cuda.synchronize(device)),
        600.0,
    )
    cells(ready, ready.requests, "refine")  # warm
    events, synchronised = (cells(ready, requests, "refine") for requests in (ready.requests, waiting))
    assert not isinstance(clock_for(device), HostClock)
    for stage in ("draft_s", "refine_s", "verify_s"):
        by_event, by_host = (sum(sum(getattr(one.steps, stage)) for one in run) for run in (events, synchronised))
        ratio = by_event / by_host
        yield (
            abs(ratio - 1) <= CLOSE,
            "clock",
            f"{stage[:-2]}: {by_event:.4f} s by events, {by_host:.4f} s waiting",
        )
    staged, latency = sum(map(_staged, events)), sum(cell.latency_s or 0.0 for cell in events)
    yield abs(staged / latency - 1) <= 0.05, "clock", f"stages add up to {staged / latency:.1%} of the latency"


def _staged(cell: Cell) -> float:
    steps = cell.steps
    return (cell.prefill_s or 0.0) + sum(map(sum, (steps.draft_s, steps.refine_s, steps.verify_s)))


def memory(device: str) -> Iterator[Line]:
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / SETTINGS
        file.write_text(settings_for(device).to_json(), encoding="utf-8")
        for found in measure_arms(file, ["direct", "draft", "refine"]):
            peaks = found.peak_bytes, found.torch_reserved_peak_bytes, found.torch_allocated_peak_bytes
            known = found.reason is None and None not in peaks
            yield known and list(peaks) == sorted(peaks, reverse=True), "memory", _told(found)  # type: ignore[type-var]


def _told(found: Memory) -> str:
    peaks = found.peak_bytes, found.torch_reserved_peak_bytes, found.torch_allocated_peak_bytes
    board, reserved, allocated = ("unknown" if one is None else f"{one / 2**20:.0f} MiB" for one in peaks)
    return f"{found.arm}: board {board}, reserved {reserved}, allocated {allocated} {found.reason or ''}".rstrip()


def compiled(device: str) -> Iterator[Line]:
    plain, made = (make_ready(settings_for(device, "dtype=float64", f"compile={word}")) for word in ("false", "true"))
    for arm in ("direct", "draft", "refine"):
        pairs = zip(cells(plain, plain.requests, arm), cells(made, made.requests, arm), strict=True)
        same = [one.ids == other.ids for one, other in pairs]
        yield all(same), "compiled", f"{arm}: ids of the plain steps on {sum(same)} of {len(same)} prompts"


CHECKS: tuple[Callable[[str], Iterator[Line]], ...] = (correct, clock, memory, compiled)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    device = parser.parse_args().device
    if not torch.cuda.is_available():
        print("gpu_check: no CUDA device is visible here, so nothing was checked", file=sys.stderr)
        return 2
    print(f"{versions()}\n{fingerprint(device, torch.get_num_threads())['hard']}")
    good = True
    for check in CHECKS:
        try:
            lines = list(check(device))
        except Exception as error:  # the other checks are still worth their output
            lines = [(False, check.__name__, f"{type(error).__name__}: {error}")]
        for right, what, found in lines:
            good &= right
            print(f"{'ok   ' if right else 'FAULT'}  {what:<9} {found}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
