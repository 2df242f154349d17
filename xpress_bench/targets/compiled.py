"""A target whose decode steps are compiled: fixed shapes over a static cache, no host read inside (`--compile`).

The prompt runs as ever, since every length would be a graph of its own; its keys and values are copied into buffers of
one size, made once for the longest request of the run. After that a step has one of two shapes: one row, or a whole
block. A shorter block is padded, and the rows of the padding are rolled back with the rejected ones.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import DynamicCache, StaticCache
from transformers.cache_utils import DynamicLayer, StaticLayer

from xpress_bench.errors import MisfitError
from xpress_bench.graphs import graph, room_for
from xpress_bench.targets.hf import HfTarget

Taps = tuple[int, ...]


class CompiledTarget(HfTarget):
    """`HfTarget` with compiled steps. `reserve` comes before the first request, and the first one compiles."""

    def __init__(self, model: Any, name: str) -> None:
        super().__init__(model, name)
        self._fixed: Any = None
        self._block_rows = 1
        self._compiled = set[tuple[int, Taps]]()
        self._step = graph(self._forward_fixed, self.device)

    def reserve(self, tokens: int, block_rows: int) -> None:
        """Make buffers for requests of at most `tokens`, prompt and output, with at most `block_rows` a verify step.

        Raises MisfitError for a model with other than full attention layers.
        """
        capacity = room_for(tokens, block_rows)
        if self._fixed is not None and self._fixed.get_max_length() >= capacity and block_rows <= self._block_rows:
            return
        self._fixed = StaticCache(config=self.model.config, max_cache_len=capacity)
        self._block_rows = block_rows
        self._compiled.clear()
        if odd := {type(layer).__name__ for layer in self._fixed.layers} - {StaticLayer.__name__}:
            raise MisfitError(f"model {self.name!r}: --compile is for full attention, and its cache has {min(odd)}")

    def prefill(self, ids: Tensor, taps: Taps) -> tuple[Tensor, Tensor | None]:
        """See `Target.prefill`: without a graph, then copied into the buffers."""
        self._cache = DynamicCache(config=self.model.config)
        logits = self._forward(ids, taps, logits_to_keep=1)
        features = self._features
        for fixed, grown in zip(self._fixed.layers, self._cache.layers, strict=True):
            _copy(grown, fixed)
        self._cache = self._fixed
        for count in (1, self._block_rows):  # all shapes now, so that no graph is made in the middle of a request
            if (self._shape(count, taps), taps) not in self._compiled:
                self.verify(ids.new_zeros(1, count), taps)
                self.commit(0)
        return logits, features

    def verify(self, ids: Tensor, taps: Taps) -> Tensor:
        """See `Target.verify`."""
        count = ids.shape[1]
        self._rows = self._shape(count, taps)
        padded = F.pad(ids.clamp_max(self.vocab_size - 1), (0, self._rows - count))
        logits, self._features = self._step(padded, self._cache, taps)
        self._compiled.add((self._rows, taps))
        return logits[:, :count]

    def _shape(self, count: int, taps: Taps) -> int:
        """Rows that a step over `count` ids has; with taps always a whole block, for direct generation has none."""
        return 1 if count == 1 and not taps else self._block_rows

    def _forward_fixed(self, ids: Tensor, cache: Any, taps: Taps) -> tuple[Tensor, Tensor | None]:
        options: dict[str, Any] = {"output_hidden_states": [tap + 1 for tap in taps]} if taps else {}
        output = self.model(input_ids=ids, cache=cache, use_cache=True, logits_to_keep=0, **options)
        states = [output.hidden_states[tap + 1] for tap in taps]
        return output.logits, torch.cat(states, dim=-1) if taps else None


def _copy(grown: DynamicLayer, fixed: StaticLayer) -> None:
    assert grown.keys is not None
    assert grown.values is not None
    if not fixed.is_initialized:
        fixed.lazy_initialization(grown.keys, grown.values)
    rows = grown.keys.shape[2]
    fixed.keys[:, :, :rows], fixed.values[:, :, :rows] = grown.keys, grown.values
    fixed.cumulative_length.fill_(rows)
