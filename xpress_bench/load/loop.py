"""The load loop: one stage of one arm on one engine. It is single-threaded and knows no clock but the engine's.

A request comes at its arrival time, whenever the loop gets to look: what it waits before that is part of its latency,
so an engine that stalls cannot hide the requests it kept from being sent (coordinated omission). It then waits for a
free row, is given to the engine, and ends in exactly one status.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import pairwise

from xpress_bench.load.arrivals import arrivals
from xpress_bench.load.circuit import Circuit, backoff_s
from xpress_bench.load.engine import Ask, Engine, Event
from xpress_bench.load_records import Asked, Policy, Stage, Status

WATCH_S = 1.0  # between two looks at the memory; a poll never waits longer
OUT_OF_MEMORY = "oom:"  # how the reason of such a failure begins


@dataclass(slots=True, eq=False)
class Flight:
    """A request that has come and not ended."""

    ask: Ask
    arrival_s: float
    attempts: int = 0
    started_s: float | None = None
    times_s: list[float] = field(default_factory=list)  # of deliveries
    delivered: list[int | None] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    tokens: int | None = None
    degraded: str | None = None


class Loop:
    """Runs a stage. `ask` makes request number i; `record` is given each as it ends, `watch` is called every second."""

    def __init__(
        self,
        engine: Engine,
        stage: Stage,
        arm: str,
        repeat: int,
        policy: Policy,
        ask: Callable[[int], Ask],
        record: Callable[[Asked], None],
        watch: Callable[[float], None] = lambda now_s: None,
    ) -> None:
        self.engine, self.stage, self.policy = engine, stage, policy
        self.circuit = Circuit(policy)
        self.asked = 0
        self.arm, self._repeat = arm, repeat
        self._ask, self._record, self._watch = ask, record, watch
        self._arriving = arrivals(stage, repeat)  # a heap
        self._open: dict[int, Flight] = {}  # by index, so in the order of arrival
        self._waiting: deque[Flight] = deque()
        self._again: list[tuple[float, int]] = []  # heap: when a further attempt is due, and whose
        self._running: dict[Ask, Flight] = {}
        self._rng = random.Random(f"backoff/{stage.name}/{repeat}")
        self._start_s, self._watch_s = engine.now(), 0.0

    def run(self, held: Callable[[], AbstractContextManager[None]] = nullcontext) -> float:
        """Seconds until the last request had ended. What `held` raises ends the stage: requests in hand are cut."""
        try:
            while self._arriving or self._open:
                with held():
                    self._turn()
        except BaseException:
            for flight in list(self._open.values()):
                self._give_up(flight, "cut", "the stage was stopped")
            raise
        return self._now()

    def _turn(self) -> None:
        now_s = self._now()
        if now_s >= self._watch_s:
            self._watch(now_s)
            self._watch_s = now_s + WATCH_S
        self._arrive(now_s)
        self._expire(now_s)
        self._send(now_s)
        for event in self.engine.poll(self._start_s + self._next_s(now_s)):
            if event.ask in self._running:
                self._take(event)

    def _now(self) -> float:
        return self.engine.now() - self._start_s

    def _next_s(self, now_s: float) -> float:
        """When there is something to do even if the engine says nothing."""
        due = [now_s + WATCH_S, *self._arriving[:1], *(when_s for when_s, _ in self._again[:1])]
        if oldest := self._oldest():
            due.append(oldest.arrival_s + self.policy.deadline_s)
        return max(now_s, min(due))

    def _oldest(self) -> Flight | None:
        return next(iter(self._open.values()), None)

    # --- what time brings

    def _arrive(self, now_s: float) -> None:
        while self._arriving and self._arriving[0] <= now_s:
            arrival_s = heapq.heappop(self._arriving)
            if self._admits(arrival_s):
                flight = Flight(self._ask(self.asked), arrival_s)
                self._open[self.asked] = flight
                self._waiting.append(flight)
                self.asked += 1

    def _admits(self, arrival_s: float) -> bool:
        seconds, most = self.stage.seconds, self.stage.requests
        return (seconds is None or arrival_s < seconds) and (most is None or self.asked < most)

    def _expire(self, now_s: float) -> None:
        while (flight := self._oldest()) and flight.arrival_s + self.policy.deadline_s <= now_s:
            if flight.ask in self._running and flight.times_s:
                self.circuit.succeeded()  # slow, and alive
            elif flight.ask in self._running:
                self.circuit.failed(now_s, "no token came before the deadline")
            self._give_up(flight, "deadline", f"no full answer within {self.policy.deadline_s:g} s")

    def _send(self, now_s: float) -> None:
        while self._again and self._again[0][0] <= now_s:
            _, index = heapq.heappop(self._again)
            if index in self._open:
                self._waiting.appendleft(self._open[index])  # it came before those that wait
        free = len(self._waiting) if self.engine.capacity is None else self.engine.capacity - len(self._running)
        while self._waiting and free > 0:
            flight = self._waiting.popleft()
            if not self.circuit.lets(now_s):
                self._end(flight, "shed", now_s, "the circuit is open")
                continue
            degrade = self.policy.degrade
            if degrade and now_s - flight.arrival_s > degrade.after_s:
                self._degrade(flight)
            self._submit(flight, now_s)
            free -= 1

    def _submit(self, flight: Flight, now_s: float) -> None:
        flight.attempts += 1
        flight.started_s = now_s
        for kept in (flight.times_s, flight.delivered, flight.ids, flight.text):
            kept.clear()  # of an attempt that failed half-way
        self._running[flight.ask] = flight
        self.engine.submit(flight.ask)

    def _degrade(self, flight: Flight) -> None:
        degrade, ask = self.policy.degrade, flight.ask
        if degrade is None or flight.degraded:
            return
        flight.degraded = str(degrade)
        most = min(ask.max_new_tokens, degrade.max_new_tokens or ask.max_new_tokens)
        flight.ask = replace(ask, arm=degrade.arm or ask.arm, max_new_tokens=most)

    # --- what the engine says

    def _take(self, event: Event) -> None:
        flight, at_s = self._running[event.ask], event.at_s - self._start_s
        if event.kind == "tokens":
            flight.times_s.append(at_s)
            flight.delivered.append(None if event.ids is None else len(event.ids))
            flight.ids += event.ids or ()
            flight.text.append(event.text)
        elif event.kind == "failed":
            self._failed(flight, event, at_s)
        else:
            self.circuit.succeeded()
            flight.tokens = event.tokens
            late = at_s > flight.arrival_s + self.policy.deadline_s
            self._end(flight, "deadline" if late else "ok", at_s, "it came late" if late else None)

    def _failed(self, flight: Flight, event: Event, at_s: float) -> None:
        del self._running[event.ask]
        if self.policy.degrade and not flight.degraded and event.reason.startswith(OUT_OF_MEMORY):
            self._degrade(flight)
            heapq.heappush(self._again, (at_s, flight.ask.index))
            return
        self.circuit.failed(at_s, event.reason)
        if not event.again or flight.attempts > self.policy.retries:
            self._end(flight, "failed", at_s, event.reason)
            return
        flight.ask = replace(flight.ask)  # events of the attempt that failed are not its own
        wait_s = max(backoff_s(self.policy, flight.attempts, self._rng), event.wait_s or 0.0)
        heapq.heappush(self._again, (at_s + wait_s, flight.ask.index))

    def _give_up(self, flight: Flight, status: Status, reason: str) -> None:
        if flight.ask in self._running:
            self.engine.cancel(flight.ask)
        elif flight in self._waiting:
            self._waiting.remove(flight)
        self._end(flight, status, self._now(), reason)

    def _end(self, flight: Flight, status: Status, at_s: float, reason: str | None) -> None:
        del self._open[flight.ask.index]
        self._running.pop(flight.ask, None)
        if self.stage.rate is None:  # its client asks again
            next_s = self.circuit.next_s(at_s)
            if self._admits(next_s):
                heapq.heappush(self._arriving, next_s)
        self._record(self._asked(flight, status, at_s, reason))

    def _asked(self, flight: Flight, status: Status, at_s: float, reason: str | None) -> Asked:
        ask, known = flight.ask, [count for count in flight.delivered if count is not None]
        told = bool(known) and len(known) == len(flight.delivered)
        return Asked(
            stage=self.stage.name,
            arm=self.arm,
            repeat=self._repeat,
            index=ask.index,
            prompt=ask.prompt.item.id,
            seed=ask.seed,
            status=status,
            arrival_s=_rounded(flight.arrival_s),
            ended_s=_rounded(at_s),
            attempts=flight.attempts,
            started_s=None if flight.started_s is None else _rounded(flight.started_s),
            first_s=_rounded(flight.times_s[0]) if flight.times_s else None,
            tokens=sum(known) if told else flight.tokens,
            gaps_s=tuple(_rounded(b - a) for a, b in pairwise(flight.times_s)),
            delivered=tuple(known) if told else (),
            output=_digest(flight, told) if status == "ok" else None,
            degraded=flight.degraded,
            reason=reason,
        )


def _rounded(seconds: float) -> float:
    return round(seconds, 6)


def _digest(flight: Flight, told: bool) -> str:
    """Of the ids where all are told, else of the text; never the one against the other."""
    if told:
        return "ids:" + hashlib.sha256(" ".join(map(str, flight.ids)).encode()).hexdigest()
    return "text:" + hashlib.sha256("".join(flight.text).encode()).hexdigest()
