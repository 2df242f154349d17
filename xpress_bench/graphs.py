"""Functions compiled for fixed shapes: what `--compile` turns the steps of target, drafter and refiner into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

ROUND = 256  # buffers are made in whole multiples, so that runs of like prompts share what was compiled


def graph(function: Callable[..., Any], device: torch.device, backend: str = "inductor") -> Callable[..., Any]:
    """`function` compiled afresh for each set of shapes it meets; on a GPU it is captured as a CUDA graph.

    The modules that it reads must not change after the first call: whether they have is not looked at again, since
    looking takes as long as a small layer. A CUDA graph returns the same memory each time it is played, so there the
    results are copied for their user.
    """
    options: dict[str, Any] = {"guard_filter_fn": torch.compiler.skip_guard_on_all_nn_modules_unsafe}
    if device.type == "cuda":
        options["triton.cudagraphs"] = True
    step = torch.compile(function, dynamic=False, fullgraph=True, backend=backend, options=options)
    if device.type != "cuda":
        return step
    return lambda *words: tree_map_only(Tensor, torch.clone, step(*words))


def room_for(tokens: int, rows: int) -> int:
    """Rows of a buffer for requests of at most `tokens` whose last step may add `rows`."""
    return -(-(tokens + rows) // ROUND) * ROUND
