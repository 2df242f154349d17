"""An engine in this process: one arm, its requests decoded together, rows filled as they become free."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from xpress_bench.batching import Batch, Request, Row
from xpress_bench.decode import Limits
from xpress_bench.errors import MisfitError, XpressError
from xpress_bench.load.engine import Ask, Event
from xpress_bench.measure.faults import free_memory, told
from xpress_bench.measure.requests import Requests
from xpress_bench.measure.schedule import Slot
from xpress_bench.records import Condition
from xpress_bench.settings import ONE_DRAFT
from xpress_bench.verifiers import VERIFIERS


@dataclass(slots=True)
class _Answer:
    ask: Ask
    row: Row
    told: int = 0  # ids that an event has told


class BatchEngine:
    """Each poll is one prefill, if somebody waits for one, or one verify step of all rows."""

    def __init__(self, requests: Requests, arm: str, condition: Condition, rows: int) -> None:
        self.capacity: int | None = rows
        self._requests, self._arm, self._condition = requests, arm, condition
        self._joining: list[Ask] = []
        self._answers: list[_Answer] = []
        self._batch = self._new_batch()

    def now(self) -> float:
        return self._requests.clock.now()

    def submit(self, ask: Ask) -> None:
        self._joining.append(ask)

    def cancel(self, ask: Ask) -> None:
        if ask in self._joining:
            self._joining.remove(ask)
        for answer in self._answers:
            if answer.ask is ask:
                self._batch.leave(answer.row)
        self._answers = [answer for answer in self._answers if answer.ask is not ask]

    def poll(self, until_s: float) -> Sequence[Event]:
        if not self._joining and not self._answers:
            time.sleep(max(0.0, until_s - self.now()))
            return ()
        try:
            if self._joining:
                self._join(self._joining[0])
            else:
                self._batch.step()
        except XpressError:
            raise
        except Exception as error:  # whatever a plug-in or the device raises
            reason = told(error)
        else:
            return [event for answer in list(self._answers) for event in self._news(answer)]
        return self._failed(reason)

    def _join(self, ask: Ask) -> None:
        prompt = ask.prompt
        sampling = self._requests.sampling(Slot(self._condition, prompt.item.id, ask.seed, 0, ask.arm, 0, prompt.turn))
        limits = Limits(ask.max_new_tokens, frozenset(self._requests.target.stop_ids))
        (row,) = self._batch.join([Request(prompt.ids, limits, sampling)])
        self._answers.append(_Answer(self._joining.pop(0), row))

    def _news(self, answer: _Answer) -> list[Event]:
        now_s, ids = self.now(), answer.row.output.ids
        news = [Event(answer.ask, "tokens", now_s, ids[answer.told :])] if answer.told < len(ids) else []
        answer.told = len(ids)
        if answer.row.done:
            self._answers.remove(answer)
            news.append(Event(answer.ask, "done", now_s))
        return news

    def _failed(self, reason: str) -> list[Event]:
        """A batch in which a step failed is of no more use: all its requests have failed, and there is a new one."""
        asks = [answer.ask for answer in self._answers] + self._joining
        self._answers, self._joining = [], []
        del self._batch
        free_memory()
        self._batch = self._new_batch()
        return [Event(ask, "failed", self.now(), reason=reason) for ask in asks]

    def _new_batch(self) -> Batch:
        planned = self._requests.arms[self._arm]
        if planned.candidates != ONE_DRAFT:
            raise MisfitError("load decodes requests together, and candidates go one by one: leave candidates.* out")
        return Batch(
            self._requests.target,
            planned.drafter,
            planned.refiners,
            VERIFIERS.get(self._condition.verifier),
            self.capacity or 1,
            self._requests.clock,
        )
