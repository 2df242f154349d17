"""The DFlash drafter with compiled steps: a context of fixed size, and blocks that are always whole (`--compile`)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from xpress_bench.checkpoints.dflash import Sight
from xpress_bench.drafters import most_drafts
from xpress_bench.drafters.block_diffusion import BlockDiffusion, ContextCache
from xpress_bench.errors import MisfitError
from xpress_bench.graphs import graph, room_for


class FixedContext(ContextCache):
    """A context in buffers [1, heads, room, d] of one size, whose length lies on the device: no shape depends on it.

    Every row of the buffers is handed out, and the mask hides those that are not there yet.
    """

    def __init__(self, layers: int, heads: int, width: int, room: int, like: Tensor) -> None:
        self.room = room
        self.length = torch.zeros((), dtype=torch.long, device=like.device)
        self._held = [
            (like.new_zeros(1, heads, room, width), like.new_zeros(1, heads, room, width)) for _ in range(layers)
        ]
        for tensor in (self.length, *(part for pair in self._held for part in pair)):
            torch._dynamo.mark_static_address(tensor)  # or a CUDA graph copies them at every step

    def clear(self) -> None:
        self.length.zero_()

    def view(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """See `ContextCache.view`; returns [1, heads, room, d]."""
        at = self.length + torch.arange(keys.shape[2], device=keys.device)
        held = self._held[layer]
        held[0].index_copy_(2, at, keys)
        held[1].index_copy_(2, at, values)
        return held

    def mask(self, sight: Sight, slots: int, device: torch.device) -> Tensor:
        """[slots, room]: every row of a block sees all of the context and of the block."""
        end: Tensor = self.length + slots
        return (torch.arange(self.room, device=device) < end).expand(slots, -1)


class CompiledBlockDiffusion(BlockDiffusion):
    """`BlockDiffusion` whose blocks and appended context are graphs. `reserve` comes before the first request."""

    @classmethod
    def of(cls, drafter: BlockDiffusion) -> CompiledBlockDiffusion:
        """The same drafter with compiled steps. MisfitError if its rows see less than everything before them."""
        if any(sight.causal or sight.window is not None for sight in drafter.model.sights):
            raise MisfitError(f"--compile: {drafter.folder or 'the drafter'} has layers that do not see everything")
        how, own = drafter.denoising, drafter.vocabulary
        return cls(drafter.model, own.target, drafter.block_size, drafter.folder, how, own)

    def __init__(self, *words: Any) -> None:
        super().__init__(*words)
        device = self.model.fc.weight.device
        self._predict, self._append = graph(super().predict, device), graph(self._append_rows, device)

    def reserve(self, tokens: int, block_rows: int) -> None:
        """Make the context for requests of at most `tokens`, prompt and output."""
        shape, room = self.model.config.qwen3, room_for(tokens, block_rows)
        if not isinstance(self._cache, FixedContext) or self._cache.room < room:
            sizes = len(self.model.layers), shape.num_key_value_heads, shape.head_dim
            self._cache = FixedContext(*sizes, room, self.model.fc.weight.detach())

    def observe(self, features: Tensor | None) -> None:
        if features is None or features.shape[1] > self.block_size:
            super().observe(features)  # the prompt, once a request
            return
        lacking = self.block_size - features.shape[1]
        self._append(F.pad(features, (0, 0, 0, lacking)))
        self._cache.length -= lacking

    def predict(self, anchor: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        whole = most_drafts(self)
        found: tuple[Tensor, Tensor] = (self._predict if tokens.shape[1] == whole else super().predict)(anchor, tokens)
        return found

    def _append_rows(self, features: Tensor) -> None:
        self.model.append(features, self._cache)
