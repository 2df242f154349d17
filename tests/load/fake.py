"""An engine of virtual time: every request takes what a script says, and nobody waits for it."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from xpress_bench.load.engine import Ask, Event
from xpress_bench.load.loop import Loop
from xpress_bench.load_records import Asked, Policy, Stage
from xpress_bench.measure.prompts import Prompt
from xpress_bench.suites import Item

PATIENT = Policy(deadline_s=1000.0)


@dataclass(frozen=True)
class Script:
    """Deliveries (seconds after submission, ids), then done after `done_s`; or failed after it, with `reason`.

    `forever`: nothing comes at all.
    """

    done_s: float = 1.0
    deliveries: tuple[tuple[float, tuple[int, ...] | None], ...] = ()
    reason: str = ""
    again: bool = True
    wait_s: float | None = None
    forever: bool = False
    tokens: int | None = None  # as a server counts them


@dataclass
class FakeEngine:
    """`script(ask, nth)`: what becomes of the nth submission. `stalls`: (from, to) in which the engine's thread hangs:

    a poll that would return inside returns at its end, as a step that takes very long does.
    """

    script: Callable[[Ask, int], Script] = lambda ask, nth: Script()
    capacity: int | None = None
    stalls: tuple[tuple[float, float], ...] = ()
    time_s: float = 0.0
    submitted: list[tuple[float, Ask]] = field(default_factory=list)
    cancelled: list[Ask] = field(default_factory=list)
    most_running: int = 0

    def __post_init__(self) -> None:
        self._events: list[tuple[float, int, Event]] = []
        self._ticket = count()
        self._running: set[Ask] = set()

    def now(self) -> float:
        return self.time_s

    def submit(self, ask: Ask) -> None:
        script = self.script(ask, len(self.submitted))
        self.submitted.append((self.time_s, ask))
        self._running.add(ask)
        self.most_running = max(self.most_running, len(self._running))
        if script.forever:
            return
        for after_s, ids in script.deliveries:
            self._push(Event(ask, "tokens", self.time_s + after_s, ids))
        at_s = self.time_s + script.done_s
        if script.reason:
            self._push(Event(ask, "failed", at_s, reason=script.reason, again=script.again, wait_s=script.wait_s))
        else:
            self._push(Event(ask, "done", at_s, tokens=script.tokens))

    def _push(self, event: Event) -> None:
        heapq.heappush(self._events, (event.at_s, next(self._ticket), event))

    def cancel(self, ask: Ask) -> None:
        self.cancelled.append(ask)
        self._running.discard(ask)

    def poll(self, until_s: float) -> list[Event]:
        self.time_s = max(self.time_s, min([until_s, *(event[0] for event in self._events[:1])]))
        for start_s, end_s in self.stalls:
            if start_s <= self.time_s < end_s:
                self.time_s = end_s
        found = []
        while self._events and self._events[0][0] <= self.time_s:
            _, _, event = heapq.heappop(self._events)
            if event.kind != "tokens":
                self._running.discard(event.ask)
            found.append(event)
        return found


def ask(index: int, arm: str = "direct") -> Ask:
    return Ask(index, arm, Prompt(Item(f"p{index}", "?"), (1, 2, 3), 8), 0, 8)


def run(engine: FakeEngine, stage: Stage, policy: Policy = PATIENT) -> tuple[list[Asked], Loop]:
    """The requests of a stage in the order in which they ended, and the loop."""
    found: list[Asked] = []
    loop = Loop(engine, stage, "direct", 0, policy, ask, found.append)
    loop.run()
    return found, loop
