"""What the load loop and an engine say to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from xpress_bench.measure.prompts import Prompt


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """A prompt to be answered by an arm with at most so many tokens; each attempt is an ask of its own."""

    index: int
    arm: str
    prompt: Prompt
    seed: int
    max_new_tokens: int


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to an ask at `at_s` of the engine's time.

    tokens: a delivery, with its ids or its text, or both. done: no more comes; `tokens` of it all, where a server
    counts them. failed: and `again` if another attempt may help, not before `wait_s` if that is said.
    """

    ask: Ask
    kind: Literal["tokens", "done", "failed"]
    at_s: float
    ids: Sequence[int] | None = None
    text: str = ""
    tokens: int | None = None
    reason: str = ""
    again: bool = False
    wait_s: float | None = None


class Engine(Protocol):
    """Answers asks. Times are seconds of a clock of its own.

    capacity: rows it has; the loop never gives it more at once, and the rest wait. None: it has a queue of its own.
    """

    capacity: int | None

    def now(self) -> float: ...

    def submit(self, ask: Ask) -> None:
        """Begin to answer; returns at once."""
        ...

    def cancel(self, ask: Ask) -> None:
        """Give it up. Events of it that are on their way may still come."""
        ...

    def poll(self, until_s: float) -> Sequence[Event]:
        """What has happened since the last call: waits for it, at most until `until_s`, or does work to bring it on."""
        ...
