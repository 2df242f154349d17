"""An engine that is another process: each request is a thread that reads a stream, and tells what came and when."""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping, Sequence
from time import perf_counter

from xpress_bench.load.engine import Ask, Event
from xpress_bench.measure.served import Servers
from xpress_bench.records import Condition
from xpress_bench.sampling import stable_seed
from xpress_bench.served.client import Answer, ServerError


class ServedEngine:
    """Servers by arm. They take all that is asked: what waits there is part of the time to the first token."""

    capacity: int | None = None

    def __init__(self, servers: Servers, condition: Condition, deadline_s: float) -> None:
        self._servers, self._condition, self._deadline_s = servers, condition, deadline_s
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._answers: dict[Ask, Answer] = {}

    def now(self) -> float:
        return perf_counter()

    def submit(self, ask: Ask) -> None:
        prompt = ask.prompt
        seed = stable_seed(ask.seed, f"{prompt.item.id}, turn {prompt.turn}")  # as a run asks it
        wanted = ask.arm, prompt, self._condition.temperature, seed, ask.max_new_tokens, self._deadline_s
        self._answers[ask] = answer = self._servers.ask(*wanted)
        threading.Thread(target=self._read, args=(ask, answer), daemon=True).start()

    def cancel(self, ask: Ask) -> None:
        if answer := self._answers.pop(ask, None):
            answer.cancel()

    def poll(self, until_s: float) -> Sequence[Event]:
        found = list[Event]()
        try:
            found.append(self._events.get(timeout=max(0.0, until_s - self.now())))
            while True:
                found.append(self._events.get_nowait())
        except queue.Empty:
            pass
        for event in found:
            if event.kind != "tokens":
                self._answers.pop(event.ask, None)
        return found

    def _read(self, ask: Ask, answer: Answer) -> None:
        try:
            for chunk in answer:
                self._events.put(Event(ask, "tokens", chunk.at_s, chunk.ids, chunk.text))
            self._events.put(Event(ask, "done", answer.ended_s, tokens=_tokens(answer)))
        except ServerError as fault:
            now_s, why = perf_counter(), str(fault)
            self._events.put(Event(ask, "failed", now_s, reason=why, again=fault.again, wait_s=fault.wait_s))
        except Exception as error:  # a thread that dies silently would lose its request
            self._events.put(Event(ask, "failed", perf_counter(), reason=f"{type(error).__name__}: {error}"))


def _tokens(answer: Answer) -> int | None:
    """As the server counts them."""
    usage = answer.told.get("usage")
    count = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
    return count if type(count) is int else None
