"""Functions compiled for fixed shapes: what `--compile` turns the steps of target, drafter and refiner into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

ROUND = 256  # buffers are made in whole multiples, so that runs of like prompts share what was compiled


def graph(function: Callable[..., Any], device: torch.device) -> Callable[..., Any]:
    """`function` compiled afresh for each set of shapes it meets; on a GPU it is captured as a CUDA graph.

    A CUDA graph returns the same memory each time it is played, so there the results are copied for their user.
    """
    if device.type != "cuda":
        return torch.compile(function, dynamic=False, fullgraph=True)
    step = torch.compile(function, dynamic=False, fullgraph=True, mode="reduce-overhead")
    return lambda *words: tree_map_only(Tensor, torch.clone, step(*words))


def room_for(tokens: int, rows: int) -> int:
    """Rows of a buffer for requests of at most `tokens` whose last step may add `rows`."""
    return -(-(tokens + rows) // ROUND) * ROUND
