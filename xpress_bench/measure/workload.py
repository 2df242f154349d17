"""How many requests a run makes, and what they are for: the timed ones are not all."""

from __future__ import annotations

from collections import Counter

from xpress_bench.measure.controls import control_requests
from xpress_bench.measure.ready import Ready
from xpress_bench.measure.runner import WARMED, looked_at_again
from xpress_bench.measure.trace import trace_slots
from xpress_bench.settings import Settings


def workload(ready: Ready, settings: Settings) -> dict[str, Counter[str]]:
    """Requests of each arm by what they are for, over all launches; only what there is.

    Not counted: the memory pass, which loads everything anew, and what depends on how the run goes, which is replays
    and launches that are made twice. Later turns that turn out too long are.
    """
    requests = ready.requests
    turns = sum(ready.suite.turns_of(prompt.item, settings.turns) for prompt in ready.prompts)
    repeats = settings.launches * len(settings.conditions())
    found = {
        "timed": dict.fromkeys(requests.arms, turns * len(settings.seeds) * settings.repeats * repeats),
        "to warm up": dict.fromkeys(requests.arms, WARMED * settings.batch_size * settings.warmup * repeats),
        "for earlier turns": {"direct": turns - len(ready.prompts)},
    }
    if looked_at_again(settings):
        found["for traces"] = Counter(slot.arm for slot in trace_slots(requests, settings))
        found["for controls"] = control_requests(requests, settings)
    counted = {purpose: Counter(arms) for purpose, arms in found.items()}
    return {purpose: arms for purpose, arms in counted.items() if arms.total()}
