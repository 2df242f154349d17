"""Trees in a transformers model: what each row may see, and a cache of which only one path stays.

Rows of a tree lie in the cache behind the committed ones, in their order; a row's position is its depth behind them.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicSlidingWindowLayer

from xpress_bench.errors import MisfitError
from xpress_bench.targets.cache import BufferedLayer
from xpress_bench.trees import Tree

MASKABLE = ("sdpa", "eager")  # attention kernels that take a mask of any shape


def refuse_unless_free(model: Any, cache: Any, name: str, what: str, instead: str) -> None:
    """MisfitError for a model that cannot be told which row sees which, or whose cache is no plain list of rows.

    `what` needs that, "a tree" or "a batch"; `instead` is what to do without.
    """
    kernel = model.config._attn_implementation
    other = {type(layer) for layer in cache.layers} - {BufferedLayer, DynamicSlidingWindowLayer}
    if kernel not in MASKABLE:
        problem = f"attention {kernel!r} takes no mask of {what}; use target.attn_implementation=sdpa"
    elif "position_ids" not in signature(model.forward).parameters:
        problem = f"it takes no positions, and those of {what} are not the order of its rows"
    elif other:
        problem = f"no part of {what} can be kept in a cache of {', '.join(kind.__name__ for kind in other)}"
    else:
        return
    raise MisfitError(f"target {name!r}: {problem}, or {instead}")


def masks(cache: Any, tree: Tree, dtype: torch.dtype) -> Tensor | dict[str, Tensor]:
    """What to add to the attention scores of the rows of a tree; by kind of layer where a model has both."""
    of_kind = {}
    for layer in _held(cache):
        kind = "sliding_attention" if layer.is_sliding else "full_attention"
        if kind not in of_kind:
            of_kind[kind] = _mask(layer, tree, dtype)
    return of_kind if len(of_kind) > 1 else next(iter(of_kind.values()))


def _mask(layer: Any, tree: Tree, dtype: torch.dtype) -> Tensor:
    """[1, 1, 1 + n, rows shown + 1 + n]: 0 where a row sees another, the lowest number where not."""
    size = len(tree.depths)
    shown, first = layer.get_mask_sizes(size)
    rows = tree.depths + layer.get_seq_length()
    seen = torch.cat([tree.reach.new_ones(size, shown - size), tree.reach], dim=1)
    if layer.is_sliding:
        columns = torch.cat([torch.arange(first, first + shown - size, device=rows.device), rows])
        seen &= rows[:, None] - columns < layer.sliding_window
    return additive(seen, dtype)[None, None]


def additive(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """What to add to attention scores: 0 where a column is seen, the lowest number where not."""
    mask = torch.zeros(seen.shape, dtype=dtype, device=seen.device)
    return mask.masked_fill(~seen, torch.finfo(dtype).min)


def move_up(cache: Any, rows: int, path: Tensor) -> None:
    """Of the last `rows` of every layer, those of `path` [c] come first; the others are then dropped as ever."""
    for layer in _held(cache):
        start = layer.keys.shape[-2] - rows
        for held in (layer.keys, layer.values):
            held[..., start : start + len(path), :] = held[..., start + path, :]


def _held(cache: Any) -> list[Any]:
    """Layers with keys of their own; some models let later layers read those of earlier ones."""
    return [layer for layer in cache.layers if layer.is_initialized]
