"""Drafters for several requests at once, a row each (see `targets.batched` for the rows)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from xpress_bench.checkpoints.dflash import Sight
from xpress_bench.drafters import Context, Draft, Drafter
from xpress_bench.drafters.attention import seen_of
from xpress_bench.drafters.block_diffusion import BlockDiffusion, ContextCache
from xpress_bench.errors import MisfitError
from xpress_bench.sampling import RowSampling, Sampling
from xpress_bench.targets import Target
from xpress_bench.targets.batched import Rows, take_out

WHOLE = 1 << 30  # room for any block


@dataclass(frozen=True)
class Together:
    """What is known of each row of a batch, and the same of all, for what works on [b, N] at once."""

    contexts: Sequence[Context]
    samplings: Sequence[Sampling]

    @cached_property
    def context(self) -> Context:
        """The rows' anchors. It has no tokens, its position counts from each row's anchor, and blocks are whole."""
        anchors, before = ([getattr(one, name) for one in self.contexts] for name in ("anchor", "previous"))
        return Context([], torch.cat(anchors), torch.cat(before), 0, WHOLE)

    @cached_property
    def sampling(self) -> RowSampling:
        return self.of(range(len(self.contexts)))

    def of(self, rows: Sequence[int]) -> RowSampling:
        """The sampling of some rows."""
        return RowSampling([self.samplings[row] for row in rows], [self.contexts[row].position for row in rows])


class BatchedDrafter(Protocol):
    """A drafter's rows 0..b-1, each the state of one request, as `Drafter` describes it for one."""

    taps: tuple[int, ...]

    def join(self, prompt: Tensor) -> None:
        """A request more, of the ids [1, n], as a row behind the others."""
        ...

    def observe(self, features: Sequence[Tensor | None]) -> None:
        """Take in each row's features [1, c, _]: first those of the prompt, then of what was committed."""
        ...

    def propose(self, together: Together) -> tuple[Draft, Sequence[int]]:
        """A draft [b, N] and how many tokens of each row are one; they may be more than the row has room for."""
        ...

    def drop(self, row: int) -> None:
        """Forget a row; the last one takes its place."""
        ...


def batched_drafter(drafter: Drafter | None, target: Target, size: int) -> BatchedDrafter:
    """`drafter` for at most `size` rows; None drafts nothing. MisfitError if it cannot draft for several requests."""
    if drafter is None:
        return NoDrafts()
    if type(drafter) is BlockDiffusion:  # a compiled one has a context for one request
        return BlockDiffusionRows(drafter, target, size)
    if getattr(drafter, "batchable", False):
        return DrafterCopies(drafter, target)
    name = type(drafter).__name__
    raise MisfitError(
        f"drafter {name} drafts for one request at a time; in batches there are dflash, prompt_lookup and suffix "
        "(without memory or --compile); or use batch_size=1"
    )


class NoDrafts:
    """Direct generation: every block is empty."""

    taps: tuple[int, ...] = ()

    def join(self, prompt: Tensor) -> None:
        """Nothing to keep."""

    def observe(self, features: Sequence[Tensor | None]) -> None:
        """Nothing to keep."""

    def propose(self, together: Together) -> tuple[Draft, Sequence[int]]:
        count = len(together.contexts)
        return Draft(together.context.anchor.new_empty(count, 0)), [0] * count

    def drop(self, row: int) -> None:
        """Nothing is kept."""


class RowsContext(ContextCache):
    """The contexts of several requests in `Rows`; `length` [k, 1] is that of the rows aimed at."""

    def __init__(self, layers: int, size: int, device: torch.device) -> None:
        self.rows = Rows(layers, size, device)

    def aim(self, rows: Sequence[int]) -> None:
        """Make `rows` those that the next forward is about."""
        self.length = self.rows.aim(rows)

    def view(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """See `Rows.put`."""
        return self.rows.put(layer, keys, values)

    def mask(self, sight: Sight, slots: int, device: torch.device) -> Tensor:
        """What the rows of each block see, [b, 1, slots, longest + slots]: their own context, and as `sight` says."""
        columns = torch.arange(self.rows.longest + slots, device=device)
        return seen_of(sight, columns - self.length, slots)[:, None]


class BlockDiffusionRows:
    """DFlash over `Rows`. Every block is drafted whole; what a row has no room for is not offered."""

    def __init__(self, drafter: BlockDiffusion, target: Target, size: int) -> None:
        self.taps = drafter.taps
        self._drafter = copy(drafter)
        self._cache = self._drafter._cache = RowsContext(len(drafter.model.layers), size, target.device)

    def join(self, prompt: Tensor) -> None:
        """See `BatchedDrafter.join`."""
        self._cache.rows.lengths.append(0)

    def observe(self, features: Sequence[Tensor | None]) -> None:
        """See `BatchedDrafter.observe`. Prompts are taken in alone, so that nothing is padded to their length."""
        given = [one[0] for one in features if one is not None]
        if len(given) < len(features):
            self._drafter.observe(None)  # which says what is wrong
        short = [row for row, one in enumerate(given) if len(one) <= self._drafter.block_size]
        long = [[row] for row, one in enumerate(given) if len(one) > self._drafter.block_size]
        for rows in [short, *long] if short else long:
            self._cache.aim(rows)
            self._drafter.observe(pad_sequence([given[row] for row in rows], batch_first=True))
            for row in rows:
                self._cache.rows.lengths[row] += len(given[row])

    def propose(self, together: Together) -> tuple[Draft, Sequence[int]]:
        """See `BatchedDrafter.propose`."""
        self._cache.aim(range(len(together.contexts)))
        draft = self._drafter.propose(together.context, together.sampling)
        return draft, [draft.tokens.shape[1]] * len(together.contexts)

    def drop(self, row: int) -> None:
        """See `BatchedDrafter.drop`."""
        self._cache.rows.drop(row)


class DrafterCopies:
    """A drafter that is `batchable`, once for each row: ragged drafts, at the cost of single requests."""

    def __init__(self, drafter: Drafter, target: Target) -> None:
        self.taps = drafter.taps
        self._drafter, self._target = drafter, target
        self._rows: list[Drafter] = []
        self._prompts: list[Tensor | None] = []  # of rows that have not begun

    def join(self, prompt: Tensor) -> None:
        """See `BatchedDrafter.join`."""
        self._rows.append(copy(self._drafter))
        self._prompts.append(prompt)

    def observe(self, features: Sequence[Tensor | None]) -> None:
        """See `BatchedDrafter.observe`."""
        for one, prompt, seen in zip(self._rows, self._prompts, features, strict=True):
            if prompt is None:
                one.observe(seen)
            else:
                one.start(self._target, prompt, seen)
        self._prompts = [None] * len(self._rows)

    def propose(self, together: Together) -> tuple[Draft, Sequence[int]]:
        """See `BatchedDrafter.propose`."""
        given = zip(self._rows, together.contexts, together.samplings, strict=True)
        drafts = [one.propose(context, sampling) for one, context, sampling in given]
        tokens, logits, hidden, noise = (
            _padded([getattr(one, name) for one in drafts]) for name in ("tokens", "logits", "hidden", "noise")
        )
        assert tokens is not None
        certain = any(one.point_mass for one in drafts)
        return Draft(tokens, logits, hidden, noise, certain), [one.tokens.shape[1] for one in drafts]

    def drop(self, row: int) -> None:
        """See `BatchedDrafter.drop`."""
        take_out(self._rows, row)
        take_out(self._prompts, row)


def _padded(parts: Sequence[Tensor | None]) -> Tensor | None:
    """Rows [1, n, ...] of several lengths as one tensor [b, most, ...]; None if one of them is missing."""
    found = [one[0] for one in parts if one is not None]
    return pad_sequence(found, batch_first=True) if len(found) == len(parts) else None
