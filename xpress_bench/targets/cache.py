"""A cache whose steps cost what they add: rows are written into buffers, not copied with all rows before them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

LEAST = 256  # rows of a buffer


class BufferedLayer(DynamicLayer):
    """Keys and values of full attention as views of buffers [b, heads, room, d], which grow by a quarter when used up.

    `DynamicLayer` makes new tensors of all rows at every step, which a long prompt makes dear.

    Rows that were cropped stay in the buffers until they are written over; nobody else may hold a view of them by then.
    """

    keys: Tensor
    values: Tensor
    _buffers: tuple[Tensor, Tensor]

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write rows [b, heads, n, d] behind those held; returns all."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self._buffers = (_buffer(key_states, 0), _buffer(value_states, 0))
        start = self.get_seq_length()
        end = start + key_states.shape[-2]
        if self._buffers[0].shape[-2] < end:
            self._buffers = (_buffer(self.keys, end), _buffer(self.values, end))
            self._buffers[0][..., :start, :], self._buffers[1][..., :start, :] = self.keys, self.values
        keys, values = self._buffers
        keys[..., start:end, :], values[..., start:end, :] = key_states, value_states
        self.keys, self.values = keys[..., :end, :], values[..., :end, :]
        return self.keys, self.values


def growing_cache(config: Any) -> DynamicCache:
    """transformers' cache for a model, sliding windows and all, with `BufferedLayer` where it would copy every row."""
    cache = DynamicCache(config=config)
    cache.layers = [BufferedLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


def _buffer(like: Tensor, rows: int) -> Tensor:
    batch, heads, held, width = like.shape
    room = max(LEAST, 5 * max(rows, held) // 4)
    return torch.empty(batch, heads, room, width, dtype=like.dtype, device=like.device)
