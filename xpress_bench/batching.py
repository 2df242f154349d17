"""The decode loop of several requests at once: what `decode` does for one, a row each.

Requests join a batch at any time and leave it when they end (continuous batching). A step drafts, refines and verifies
one block of every row in one forward of each model; each row accepts as much as it does, and goes on from there. Only
the laws are each row's own: it is offered what its own limits have room for, and draws from its own streams. So a row's
ids and rounds are those of `decode` alone, whatever its mates, up to how a wider forward rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from xpress_bench.decode import Clock, Limits, Output, Round, refine, stop_reason, up_to_stop
from xpress_bench.drafters import Context, Draft, Drafter
from xpress_bench.drafters.batched import Together, batched_drafter
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.refiners import Refiner
from xpress_bench.sampling import Sampling, pick
from xpress_bench.targets import Target
from xpress_bench.targets.batched import batched_target, take_out
from xpress_bench.verifiers import Verdict, Verifier
from xpress_bench.verifiers.rules import match


@dataclass(frozen=True, slots=True)
class Request:
    """What one row is asked for: the prompt's ids, when to end, and randomness of its own."""

    ids: tuple[int, ...]
    limits: Limits
    sampling: Sampling


@dataclass(slots=True, eq=False)
class Row:
    """A request in a batch. `output` grows; its stamps and passes are those of all that joined or stepped with it."""

    request: Request
    tokens: list[int]  # prompt and output; the last is the anchor
    output: Output
    unseen: Tensor | None  # features [1, c, _] that the drafter has not seen yet

    @property
    def done(self) -> bool:
        return self.output.stop_reason is not None

    def extend(self, ids: Sequence[int]) -> None:
        """Add ids to the output, and end it if they say so."""
        self.tokens += ids
        self.output.ids += ids
        self.output.stop_reason = stop_reason(self.output.ids, self.request.limits)


class Judged(NamedTuple):
    """What became of a row in a step: draft tokens accepted, the target's own, what was offered before and after
    refining."""

    accepted: int
    next_token: int
    before: tuple[int, ...]
    after: tuple[int, ...]


class Batch:
    """At most `size` requests of one condition, decoded together. After an error it is of no more use.

    `drafter` None is direct generation. `target`, `drafter`, `refiners`: the parts as a batch uses them.
    Raises MisfitError for parts that can only work on one request at a time.
    """

    def __init__(
        self,
        target: Target,
        drafter: Drafter | None,
        refiners: Sequence[Refiner],
        verifier: Verifier,
        size: int,
        clock: Clock,
    ) -> None:
        for refiner in refiners:
            if not getattr(refiner, "batchable", False):
                name = type(refiner).__name__
                raise MisfitError(
                    f"refiner {name} works on one request at a time; in batches there are xpress and markov"
                )
        self.size = size
        self.rows: list[Row] = []
        self._device, self._context = target.device, target.context
        self.target = batched_target(target, size)
        self.drafter = batched_drafter(drafter, target, size)
        self.refiners, self._drafting = refiners, drafter is not None
        self._verifier = verifier if drafter is not None else match  # of an empty draft: the target's own pick
        self._clock = clock

    @property
    def free(self) -> int:
        """Rows that may join."""
        return self.size - len(self.rows)

    @torch.inference_mode()
    def join(self, requests: Sequence[Request]) -> list[Row]:
        """Prefill requests, one after the other; returns their rows, each with its first id.

        A row that ends with that id is done and not in the batch.
        """
        if len(requests) > self.free:
            raise ValueError(f"{len(requests)} requests for {self.free} free rows")
        if len({one.sampling.condition for one in [*requests, *(row.request for row in self.rows)]}) > 1:
            raise UsageError("the requests of a batch have one temperature and one verifier; make a batch of each")
        started = self._clock.stamp()
        prompts = [torch.tensor([request.ids], device=self._device) for request in requests]
        found = [self.target.join(prompt, self.drafter.taps) for prompt in prompts]
        picked = [_first(request, logits) for request, (logits, _) in zip(requests, found, strict=True)]
        ids = torch.cat(picked).tolist() if picked else []
        prefilled = self._clock.stamp()
        joined = []
        for request, prompt, token, (_, features) in zip(requests, prompts, ids, found, strict=True):
            self.drafter.join(prompt)
            row = Row(request, list(request.ids), Output([], None, started, prefilled), features)
            row.extend([token])
            joined.append(row)
        self.rows += joined
        self._let_go()
        return joined

    @torch.inference_mode()
    def step(self) -> list[Row]:
        """One verify step of every row. Returns the rows; those that have ended are no longer in the batch."""
        rows = list(self.rows)
        if not rows:
            return []
        stamps = [self._clock.stamp()]
        together = self._together()
        # Taking in the context is part of drafting, as in `decode.speculative`.
        self.drafter.observe([row.unseen for row in rows])
        draft, counts = self.drafter.propose(together)
        stamps.append(self._clock.stamp())
        refined = refine(draft, self.refiners, together.context, together.sampling)
        stamps.append(self._clock.stamp())
        offered = self._offered(refined, counts, together)
        judged = self._judged(draft, refined.cut(max(offered)), offered, together)
        features = self.target.commit([1 + accepted for accepted, *_ in judged])
        stamps.append(self._clock.stamp())
        for row, seen, count, (accepted, new, before, after) in zip(rows, features, offered, judged, strict=True):
            row.unseen = seen
            committed = up_to_stop([*after[:accepted], new], row.request.limits)
            row.extend(committed)
            if self._drafting:
                numbers = count, accepted, min(accepted, len(committed)), len(committed)
                blocks = before, after if self.refiners else ()
                row.output.rounds.append(Round(*numbers, *blocks, refined.passes, 0, tuple(stamps)))
        self._let_go()
        return rows

    @torch.inference_mode()
    def leave(self, row: Row) -> None:
        """Cancel a row; its output stays as it is."""
        self._drop(self.rows.index(row))

    def _together(self) -> Together:
        last = torch.tensor([row.tokens[-2:] for row in self.rows], device=self._device)
        contexts = []
        for row, ends in zip(self.rows, last, strict=True):
            position = len(row.tokens) - 1
            contexts.append(Context(row.tokens, ends[1:], ends[:1], position, self._context - position))
        return Together(contexts, [row.request.sampling for row in self.rows])

    def _offered(self, refined: Draft, counts: Sequence[int], together: Together) -> list[int]:
        """How many draft tokens of each row there are, and room for them and the target's own."""
        offered = []
        for row, count, context in zip(self.rows, counts, together.contexts, strict=True):
            room = min(row.request.limits.max_new_tokens - len(row.output.ids), context.room)
            offered.append(max(0, min(count, refined.tokens.shape[1], room - 1)))
        return offered

    def _judged(self, draft: Draft, refined: Draft, offered: Sequence[int], together: Together) -> list[Judged]:
        """Verify what each row is offered of `refined`; with it the step's one device-to-host read."""
        ids = torch.cat([together.context.anchor[:, None], refined.tokens], dim=1)
        logits = self.target.verify(ids, self.drafter.taps)
        order, verdicts = list[int](), list[Verdict]()
        for count in set(offered):  # rows that are offered as much at once, so that no rule has to know of padding
            rows = [row for row, other in enumerate(offered) if other == count]
            part, seen = refined.cut(count), logits[:, : 1 + count]
            if len(rows) < len(offered):
                part, seen = part.of(rows), seen[rows]
            verdicts.append(self._verifier(part, seen, 0, together.of(rows)))
            order += rows
        width = refined.tokens.shape[1]
        blocks = torch.cat([draft.tokens[:, :width], refined.tokens], dim=1)
        table = [
            torch.cat([one.accepted for one in verdicts])[:, None],
            torch.cat([one.next_token for one in verdicts])[:, None],
            blocks if len(verdicts) == 1 else blocks[order],
        ]
        judged = {}
        for row, (accepted, new, *ids) in zip(order, torch.cat(table, dim=1).tolist(), strict=True):
            before, after = ids[: offered[row]], ids[width : width + offered[row]]
            judged[row] = Judged(accepted, new, tuple(before), tuple(after))
        return [judged[row] for row in range(len(offered))]

    def _let_go(self) -> None:
        for index in reversed(range(len(self.rows))):  # so that what takes a place is never on its way out
            if self.rows[index].done:
                self._drop(index)

    def _drop(self, index: int) -> None:
        self.target.drop(index)
        self.drafter.drop(index)
        take_out(self.rows, index)


def decode_together(
    target: Target,
    drafter: Drafter | None,
    refiners: Sequence[Refiner],
    verifier: Verifier,
    requests: Sequence[Request],
    clock: Clock,
) -> list[Output]:
    """Requests that begin together, until the last has ended; `drafter` None is direct generation."""
    batch = Batch(target, drafter, refiners, verifier, len(requests), clock)
    rows = batch.join(requests)
    while batch.rows:
        batch.step()
    return [row.output for row in rows]


def _first(request: Request, logits: Tensor) -> Tensor:
    """The id [1] behind the prompt, of logits [1, 1, V]."""
    sampling = request.sampling
    return pick(logits, sampling.temperature, sampling.target.at(len(request.ids), 1, logits))[0]
