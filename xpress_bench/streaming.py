"""Output as it comes: what a chat window shows, from any arm.

    parts = assemble(settings_of(["--drafter", "dflash"], "chat"))  # any flags of a run
    for event in stream(parts, "What is 17 + 25?"):
        print(event.text, end="", flush=True)

A speculative arm hands out several tokens at a time, as many as a verify step added.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from xpress_bench.decode import Limits, Output, direct_steps, speculative_steps
from xpress_bench.errors import UsageError, nearest
from xpress_bench.measure.prompts import render
from xpress_bench.parts import Parts, PlannedArm
from xpress_bench.records import Condition, StopReason
from xpress_bench.sampling import Sampling
from xpress_bench.settings import TargetSettings
from xpress_bench.verifiers import VERIFIERS

BROKEN = "\ufffd"  # what a decoder writes for bytes that end inside a character


@dataclass(frozen=True, slots=True)
class Event:
    """What one step added: ids, and the text that is certain by now; `seconds` since the request began.

    The texts of all events together are the text of all ids. `stop_reason` is set on the last event alone.
    """

    ids: tuple[int, ...]
    text: str
    seconds: float
    stop_reason: StopReason | None


class Text:
    """Ids -> text, piece by piece. What ends inside a character waits for the ids that complete it."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        # A decoder may write an id differently at the start of a text, so each piece is read behind the one before.
        self._before, self._told = 0, 0  # ids of the last piece begin, and end, here

    def piece(self, ids: Sequence[int], last: bool) -> str:
        """Text that `ids` complete; with `last` all that is left."""
        self._ids += ids
        told, whole = self._decode(self._told), self._decode(len(self._ids))
        if whole.endswith(BROKEN) and not last:
            return ""
        self._before, self._told = self._told, len(self._ids)
        return whole[len(told) :]

    def _decode(self, end: int) -> str:
        text: str = self._tokenizer.decode(self._ids[self._before : end], skip_special_tokens=True)
        return text


def stream(
    parts: Parts,
    prompt: str | Sequence[int],
    arm: str | None = None,
    max_new_tokens: int = 256,
    condition: Condition = Condition(0.0, "greedy"),  # noqa: B008 - it is frozen
    seed: int = 0,
) -> Iterator[Event]:
    """Answer one prompt, event by event: after the prompt pass, then after every step. A loop may stop at any event.

    `prompt` is a user's message, put through the chat template if the tokenizer has one, or token ids as they are.
    `arm` None takes the last of the parts: refinement where there is some. One stream at a time: parts are shared.

    Raises UsageError for an arm that the parts lack, or a prompt that leaves no room in the target's context.
    """
    started = time.perf_counter()
    planned = _arm(parts, arm)
    target = TargetSettings(parts.target.name)
    ids = render([prompt], parts.tokenizer, target) if isinstance(prompt, str) else tuple(prompt)
    if not 0 < len(ids) < parts.target.context:
        raise UsageError(
            f"the prompt has {len(ids)} tokens: give 1 to {parts.target.context - 1}, the target's context"
        )
    limits = Limits(min(max_new_tokens, parts.target.context - len(ids)), frozenset(parts.target.stop_ids))
    seen, text = 0, Text(parts.tokenizer)
    for output in _outputs(parts, planned, ids, limits, condition, seed):
        new, seen, reason = tuple(output.ids[seen:]), len(output.ids), output.stop_reason
        yield Event(new, text.piece(new, reason is not None), time.perf_counter() - started, reason)


def _arm(parts: Parts, name: str | None) -> PlannedArm:
    arms = {planned.arm.name: planned for planned in parts.arms}
    if name is None:
        return parts.arms[-1]
    if name not in arms:
        known = ", ".join(arms)
        raise UsageError(f"there is no arm {name!r}; {nearest(name, arms, f'known: {known}')}")
    return arms[name]


def _outputs(
    parts: Parts, planned: PlannedArm, ids: Sequence[int], limits: Limits, condition: Condition, seed: int
) -> Iterator[Output]:
    target, clock = parts.target, _Unmeasured()
    prompt, sampling = torch.tensor([ids], device=target.device), Sampling(condition, seed, target.device)
    if planned.drafter is None:
        return direct_steps(target, prompt, limits, sampling, clock)
    verifier = VERIFIERS.get(condition.verifier)
    arm = planned.drafter, planned.refiners, verifier
    return speculative_steps(target, *arm, prompt, limits, sampling, clock, planned.candidates)


class _Unmeasured:
    """Nobody asks how long the stages of a stream took."""

    def stamp(self) -> None:
        return None
