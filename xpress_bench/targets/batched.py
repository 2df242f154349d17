"""Targets for several requests at once, a row each: rows join, advance and leave on their own.

In the cache a column is a position. Each row's keys and values are written at its own positions, and a row sees no
column beyond its own: what was rejected lies there unseen until it is written over. So a rollback is a smaller length,
prompts need no padding, and nothing has to be moved together; only the last row moves, when another leaves. The price
is attention over as many columns as the longest row has.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import Cache
from transformers.cache_utils import DynamicLayer

from xpress_bench.errors import MisfitError
from xpress_bench.targets import Target
from xpress_bench.targets.branching import additive, refuse_unless_free
from xpress_bench.targets.cache import LEAST, growing_cache
from xpress_bench.targets.compiled import CompiledTarget
from xpress_bench.targets.hf import HfTarget

Taps = tuple[int, ...]


class BatchedTarget(Protocol):
    """A target's rows 0..b-1, each the state of one request, as `Target` describes it for one."""

    def join(self, ids: Tensor, taps: Taps) -> tuple[Tensor, Tensor | None]:
        """Prefill ids [1, n] as a row behind the others. Returns what `Target.prefill` does."""
        ...

    def verify(self, ids: Tensor, taps: Taps) -> Tensor:
        """Logits [b, 1 + N, V] of each row's anchor and N tokens behind it, in one forward."""
        ...

    def commit(self, keep: Sequence[int]) -> list[Tensor | None]:
        """Keep the first keep[r] tokens of row r of the last `verify`. Returns their features [1, keep[r], _]."""
        ...

    def drop(self, row: int) -> None:
        """Forget a row; the last one takes its place."""
        ...


def batched_target(target: Target, size: int) -> BatchedTarget:
    """`target` for at most `size` rows. MisfitError if it cannot work on rows of several requests."""
    if isinstance(target, HfTarget) and not isinstance(target, CompiledTarget):
        return HfRows(target, size)
    if getattr(target, "batchable", False):
        return TargetCopies(target)
    raise MisfitError(f"target {target.name!r} takes one request at a time; use batch_size=1")


class Rows:
    """Keys and values [size, heads, room, d] of each layer; row r holds its first `lengths[r]` columns.

    Buffers grow by a quarter when a row needs more, and are kept when rows leave.
    """

    def __init__(self, layers: int, size: int, device: torch.device) -> None:
        self.lengths: list[int] = []
        self._size, self._device = size, device
        self._buffers: list[tuple[Tensor, Tensor] | None] = [None] * layers

    def aim(self, rows: Sequence[int]) -> Tensor:
        """Make `rows` [k] those that `put` writes to. Returns their lengths [k, 1]."""
        lengths = [self.lengths[row] for row in rows]
        self.longest = max(lengths)
        self._rows = torch.tensor(rows, device=self._device)[:, None]
        self._places = self._ends = torch.tensor(lengths, device=self._device)[:, None]
        return self._ends

    def places(self, count: int) -> Tensor:
        """The next `count` positions [k, count] of the rows aimed at."""
        if self._places.shape[1] != count:  # else it is another layer of the same forward
            self._places = self._ends + torch.arange(count, device=self._device)
        return self._places

    def put(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write keys and values [k, heads, n, d] behind the rows aimed at; returns [b, heads, longest + n, d] of all b.

        `longest` is of the rows aimed at. Lengths stay: they say what was kept, and that is known later.
        """
        end = self.longest + keys.shape[2]
        held = self._buffers[layer]
        if held is None or held[0].shape[2] < end:
            held = self._grown(held and held[0], keys, end), self._grown(held and held[1], values, end)
            self._buffers[layer] = held
        places = self.places(keys.shape[2])
        for buffer, new in zip(held, (keys, values), strict=True):
            buffer[self._rows, :, places] = new.transpose(1, 2)
        count = len(self.lengths)
        return held[0][:count, :, :end], held[1][:count, :, :end]

    def drop(self, row: int) -> None:
        """Forget a row; the last one takes its place."""
        last = len(self.lengths) - 1
        for buffer in (part for held in self._buffers if held is not None for part in held):
            if row < last:
                buffer[row, :, : self.lengths[last]] = buffer[last, :, : self.lengths[last]]
        take_out(self.lengths, row)

    def _grown(self, old: Tensor | None, like: Tensor, columns: int) -> Tensor:
        # Of zeros: columns that are not seen have weight 0, and 0 times what stood in fresh memory may be NaN.
        new = like.new_zeros(self._size, like.shape[1], max(LEAST, 5 * columns // 4), like.shape[3])
        if old is not None:
            new[:, :, : old.shape[2]] = old
        return new


def take_out(rows: list[Any], row: int) -> None:
    """Drop one of `rows`; the last takes its place."""
    last = rows.pop()
    if row < len(rows):
        rows[row] = last


class RowLayer(DynamicLayer):
    """One layer of `Rows`, as a model in transformers wants it."""

    def __init__(self, rows: Rows, index: int) -> None:
        super().__init__()
        self._rows, self._index = rows, index

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        return self._rows.put(self._index, key_states, value_states)


class HfRows:
    """A transformers causal LM over `Rows`. Prompts are read one by one, by the very forward of a single request."""

    def __init__(self, target: HfTarget, size: int) -> None:
        config = target.model.config
        alone = growing_cache(config)
        refuse_unless_free(target.model, alone, target.name, "a batch", "use batch_size=1")
        if _turns_by_length(target.config):
            raise MisfitError(
                f"target {target.name!r}: the longest row of a batch would set the rotary frequencies of all; "
                "use batch_size=1"
            )
        self._target = HfTarget(target.model, target.name)
        self._windows = [layer.sliding_window if layer.is_sliding else None for layer in alone.layers]
        self._rows = Rows(len(alone.layers), size, target.device)
        self._cache = Cache(layers=[RowLayer(self._rows, index) for index in range(len(alone.layers))])

    def join(self, ids: Tensor, taps: Taps) -> tuple[Tensor, Tensor | None]:
        """See `BatchedTarget.join`."""
        logits, features = self._target.prefill(ids, taps)
        self._rows.lengths.append(0)
        row = len(self._rows.lengths) - 1
        for index, layer in enumerate(self._target._cache.layers):
            if not layer.is_initialized:  # it reads the rows of an earlier one
                continue
            # A layer with a window holds the last columns only; no row of the batch will see those before.
            self._rows.lengths[row] = ids.shape[1] - layer.keys.shape[2]
            self._rows.aim([row])
            self._rows.put(index, layer.keys, layer.values)
        self._rows.lengths[row] = ids.shape[1]
        self._target._cache = self._cache
        return logits, features

    def verify(self, ids: Tensor, taps: Taps) -> Tensor:
        """See `BatchedTarget.verify`."""
        self._rows.aim(range(len(self._rows.lengths)))
        places = self._rows.places(ids.shape[1])
        return self._target._forward(
            ids.clamp_max(self._target.vocab_size - 1),
            taps,
            logits_to_keep=0,
            attention_mask=self._masks(places),
            # What follows an anchor beyond the context is padding, and a table of positions has no row for it.
            position_ids=places.clamp_max(self._target.context - 1).maximum(places[:, :1]),
        )

    def commit(self, keep: Sequence[int]) -> list[Tensor | None]:
        """See `BatchedTarget.commit`."""
        for row, count in enumerate(keep):
            self._rows.lengths[row] += count
        features = self._target._features
        if features is None:
            return [None] * len(keep)
        return [features[row : row + 1, :count] for row, count in enumerate(keep)]

    def drop(self, row: int) -> None:
        """See `BatchedTarget.drop`."""
        self._rows.drop(row)

    def _masks(self, places: Tensor) -> Tensor | dict[str, Tensor]:
        """What to add to the scores [b, 1, 1 + N, columns] of tokens at `places`; by kind of layer if there are two."""
        columns = torch.arange(self._rows.longest + places.shape[1], device=places.device)
        back = places[:, :, None] - columns
        of_kind = {}
        for window in set(self._windows):
            seen = (back >= 0) if window is None else (back >= 0) & (back < window)
            kind = "full_attention" if window is None else "sliding_attention"
            of_kind[kind] = additive(seen, self._target.dtype)[:, None]
        return of_kind if len(of_kind) > 1 else next(iter(of_kind.values()))


class TargetCopies:
    """A target that is `batchable`, once for each row: what a batch answers, at the cost of single requests.

    A target is that if a shallow copy, once it has begun a request of its own, shares nothing of it with the original.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._rows: list[Target] = []

    def join(self, ids: Tensor, taps: Taps) -> tuple[Tensor, Tensor | None]:
        """See `BatchedTarget.join`."""
        one = copy(self._target)
        found = one.prefill(ids, taps)
        self._rows.append(one)
        return found

    def verify(self, ids: Tensor, taps: Taps) -> Tensor:
        """See `BatchedTarget.verify`."""
        return torch.cat([one.verify(ids[row : row + 1], taps) for row, one in enumerate(self._rows)])

    def commit(self, keep: Sequence[int]) -> list[Tensor | None]:
        """See `BatchedTarget.commit`."""
        return [one.commit(count) for one, count in zip(self._rows, keep, strict=True)]

    def drop(self, row: int) -> None:
        """See `BatchedTarget.drop`."""
        take_out(self._rows, row)


def _turns_by_length(config: Any) -> bool:
    """Whether rotary frequencies depend on how far a forward reaches."""
    own = getattr(config, "rope_parameters", None) or {}
    kinds = [own, *(part for part in own.values() if isinstance(part, dict))]
    return any(kind.get("rope_type") in ("dynamic", "longrope") for kind in kinds)
