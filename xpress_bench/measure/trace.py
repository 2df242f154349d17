"""The trace pass: some requests run once more, untimed, with a look at every block. The timed ones never stop for it.

A probe is a refiner that changes nothing. One stands before the arm's own refiners and one behind them, so the decode
loop needs no hook: the first sees the raw draft and tries fewer passes on it, the last sees what the verifier will.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, is_dataclass, replace
from itertools import accumulate, product
from typing import Any

import torch
from torch import Tensor

from xpress_bench.drafters import Context, Draft
from xpress_bench.measure.faults import NonFiniteError
from xpress_bench.measure.progress import Progress
from xpress_bench.measure.requests import Requests
from xpress_bench.measure.schedule import Slot
from xpress_bench.records import Trace
from xpress_bench.refiners import Refiner
from xpress_bench.sampling import Sampling, law, stable_seed
from xpress_bench.settings import Settings
from xpress_bench.suites import spread

DIGITS = 6  # after the point, of what is written down
Look = Callable[[Draft, Context, Sampling], Sequence[Any]]


@dataclass
class Probe:
    """Gives every draft back and keeps the rows that `look` makes of it, by the anchor's position; a row has one entry
    per slot."""

    look: Look
    seen: dict[int, Sequence[Any]] = field(default_factory=dict)
    causal: bool = True
    passes: int | None = None

    def refine(self, draft: Draft, context: Context, sampling: Sampling) -> Draft:
        self.seen[context.position] = self.look(draft, context, sampling)
        return draft

    def rows(self, position: int, count: int) -> tuple[tuple[Any, ...], ...]:
        """The first `count` slots of every row of one step; no rows if its draft was empty."""
        return tuple(tuple(row[:count]) for row in self.seen.get(position, ()))


def traces(requests: Requests, settings: Settings, progress: Progress) -> Iterator[Trace]:
    """Per condition, prompt and arm with a drafter, one trace: the first turn under the first seed.

    Prompts are `settings.trace` at most, spread evenly over those of the run.
    """
    wanted = trace_slots(requests, settings)
    for done, slot in enumerate(wanted):
        progress(done, len(wanted), f"tracing {slot.arm} {slot.prompt}")
        yield trace(requests, slot)


def trace_slots(requests: Requests, settings: Settings) -> list[Slot]:
    """What `traces` runs, each once."""
    first = [prompt.item.id for prompt in requests.prompts.values() if prompt.turn == 1]
    arms = [name for name, planned in requests.arms.items() if planned.drafter is not None]
    wanted = product(settings.conditions(), spread(first, settings.trace), arms)
    return [Slot(condition, prompt, settings.seeds[0], 0, arm, 0) for condition, prompt, arm in wanted]


def trace(requests: Requests, slot: Slot) -> Trace:
    """Run one slot and say what became of its blocks; a failure is told in `error`."""
    planned = requests.arms[slot.arm]
    passes, raw, final = Probe(_after_passes(planned.refiners)), Probe(_confidence), Probe(_places(slot))
    probed = copy(requests)
    probed.arms = {slot.arm: replace(planned, refiners=(passes, raw, *planned.refiners, final))}
    cell = probed.run(slot, launch=-1)
    who = slot.prompt, slot.seed, slot.arm, slot.condition
    if cell.error:
        return Trace(*who, error=cell.error, turn=slot.turn)
    steps = list(zip(accumulate(cell.steps.committed, initial=cell.prompt_tokens), cell.steps.offered, strict=False))
    return Trace(
        *who,
        ids=cell.ids,
        committed=cell.steps.committed,
        blocks=tuple(passes.rows(*step) for step in steps),
        confidence=tuple(row for step in steps for row in raw.rows(*step) or [()]),
        places=tuple(row for step in steps for row in final.rows(*step) or [()]),
        turn=slot.turn,
    )


def _after_passes(refiners: Sequence[Refiner]) -> Look:
    """Looks at the block after 0, 1, ... passes of the arm's one refiner; at the raw one where they cannot be set."""

    def look(draft: Draft, context: Context, sampling: Sampling) -> list[list[int]]:
        blocks = [draft]
        if len(refiners) == 1 and is_dataclass(refiners[0]) and refiners[0].passes is not None:
            fewer = [replace(refiners[0], passes=count + 1) for count in range(refiners[0].passes)]
            blocks += [refiner.refine(draft, context, sampling) for refiner in fewer]
        return [block.tokens[0].tolist() for block in blocks]

    return look


def _confidence(draft: Draft, context: Context, sampling: Sampling) -> list[list[float]]:
    if draft.logits is None:
        return []
    return [_rounded(_law(draft.logits, sampling).gather(-1, draft.tokens[0, :, None])[:, 0])]


def _places(slot: Slot) -> Look:
    """Looks at where each token stands in its law; ties are in the order of ids."""
    shares = torch.Generator().manual_seed(stable_seed("place", slot.seed, slot.prompt))

    def look(draft: Draft, context: Context, sampling: Sampling) -> list[list[float]]:
        if draft.point_mass or draft.logits is None:
            return []
        q, order = _law(draft.logits, sampling).cpu().sort(stable=True)
        own = (order == draft.tokens[0].cpu()[:, None]).int().argmax(-1, keepdim=True)
        share = torch.rand(own.shape, generator=shares, dtype=torch.float64)
        return [_rounded((q.cumsum(-1) - (1 - share) * q).gather(-1, own)[:, 0])]

    return look


def _law(logits: Tensor, sampling: Sampling) -> Tensor:
    """Probabilities [N, V] in float64."""
    q = law(logits, sampling.temperature or 1.0)[0].double()
    if not bool(q.isfinite().all()):
        raise NonFiniteError("the law of a draft is not finite")
    return q


def _rounded(numbers: Tensor) -> list[float]:
    return [round(number, DIGITS) for number in numbers.tolist()]
