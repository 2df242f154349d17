"""Controls: some requests run a second way beside the first, to check the measuring itself; no report averages them.

generate: transformers' own greedy generation beside direct, so that arm A is seen to be no straw man. unstamped: an
arm under a clock whose stamps do nothing, so that the price of stage times is known.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass

import torch

from xpress_bench.measure.clock import Clock
from xpress_bench.measure.faults import deadline, told
from xpress_bench.measure.progress import Progress
from xpress_bench.measure.prompts import Prompt
from xpress_bench.measure.requests import Requests
from xpress_bench.measure.schedule import Slot
from xpress_bench.records import Against, Control
from xpress_bench.settings import Settings
from xpress_bench.suites import spread
from xpress_bench.targets.hf import HfTarget

PAIRS = 3  # of each prompt and way
DIRECT = "direct"
Way = Callable[[], tuple[float, tuple[int, ...]]]  # runs the request; its seconds and ids


@dataclass(frozen=True, slots=True)
class Unstamped:
    """A clock that times a request and none of its stages."""

    of: Clock

    def synchronize(self) -> None:
        self.of.synchronize()

    def now(self) -> float:
        return self.of.now()

    def stamp(self) -> None:
        """Nothing: the point."""

    def seconds(self, start: object, end: object) -> float:
        return 0.0


def controls(requests: Requests, settings: Settings, progress: Progress) -> Iterator[Control]:
    """Per prompt and way, `PAIRS` records under the run's first condition; prompts are `settings.controls` at most."""
    for done, (against, slot) in enumerate(wanted := _wanted(requests, settings)):
        progress(done, len(wanted), f"controls {slot.prompt}")
        reason = _no_generate(requests, slot) if against == "generate" else None
        if reason:
            yield Control(against, slot.prompt, slot.arm, reason=reason)
        else:
            yield from _pairs(against, requests, slot, generate_options(settings))


def control_requests(requests: Requests, settings: Settings) -> Counter[str]:
    """How many requests `controls` makes of each arm, transformers' own counted as direct's."""
    made: Counter[str] = Counter()
    for against, slot in _wanted(requests, settings):
        if against != "generate" or not _no_generate(requests, slot):
            made[slot.arm] += 1 + 2 * PAIRS
    return made


def _wanted(requests: Requests, settings: Settings) -> list[tuple[Against, Slot]]:
    first = [prompt.item.id for prompt in requests.prompts.values() if prompt.turn == 1]
    condition, last = settings.conditions()[0], list(requests.arms)[-1]
    ways: list[tuple[Against, str]] = [("generate", DIRECT), ("unstamped", last)]
    return [
        (against, Slot(condition, prompt, settings.seeds[0], 0, arm, 0))
        for prompt in spread(first, settings.controls)
        for against, arm in ways
    ]


def generate_options(settings: Settings) -> dict[str, str]:
    """What makes `generate` like our loop: a compiled one has a cache of fixed size, and so should the other."""
    return {"cache_implementation": "static"} if settings.compile else {}


def generate(requests: Requests, prompt: Prompt, options: dict[str, str]) -> tuple[int, ...]:
    """transformers' greedy answer to a prompt, by the same stop ids and limit as ours."""
    target = requests.target
    assert isinstance(target, HfTarget)
    ids, stops = torch.tensor([prompt.ids], device=target.device), sorted(target.stop_ids)
    with torch.inference_mode():
        output = target.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=prompt.budget,
            eos_token_id=stops or None,
            pad_token_id=stops[0] if stops else 0,
            **options,
        )
    return tuple(output[0, ids.shape[1] :].tolist())


def _no_generate(requests: Requests, slot: Slot) -> str | None:
    if not isinstance(requests.target, HfTarget):
        return "the target is no transformers model"
    if slot.condition.temperature:
        return "generate draws its own noise above temperature 0"
    return None if DIRECT in requests.arms else "the run has no direct arm"


def _pairs(against: Against, requests: Requests, slot: Slot, options: dict[str, str]) -> Iterator[Control]:
    prompt, bare = requests.prompts[slot.key], copy(requests)
    bare.clock = Unstamped(requests.clock)

    def theirs() -> tuple[float, tuple[int, ...]]:
        return _timed(requests, lambda: generate(requests, prompt, options))

    ways = {"ours": _own(requests, slot), "control": theirs if against == "generate" else _own(bare, slot)}
    rng = random.Random(f"{against} {prompt.item.id}")
    try:
        ways["control"]()  # the run has warmed up our way, not this one
        for _ in range(PAIRS):
            seen = {name: ways[name]() for name in rng.sample(list(ways), 2)}
            (latency_s, ids), (control_s, control_ids) = seen["ours"], seen["control"]
            same = ids == control_ids
            yield Control(against, prompt.item.id, slot.arm, latency_s, control_s, len(ids), len(control_ids), same)
    except Exception as error:  # whatever the device or another loop raises; a control is not worth a run
        yield Control(against, prompt.item.id, slot.arm, reason=told(error))


def _own(requests: Requests, slot: Slot) -> Way:
    def run() -> tuple[float, tuple[int, ...]]:
        cell = requests.run(slot, launch=-1)
        if cell.latency_s is None:
            raise RuntimeError(cell.error)
        return cell.latency_s, cell.ids

    return run


def _timed(requests: Requests, run: Callable[[], tuple[int, ...]]) -> tuple[float, tuple[int, ...]]:
    clock = requests.clock
    with deadline(requests.deadline_s):
        clock.synchronize()
        start = clock.now()
        ids = run()
        clock.synchronize()
        return clock.now() - start, ids
