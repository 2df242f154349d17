"""Where an arm left direct generation: rounding at a tie, or a real difference? The target is asked once more.

A forward over one token and a forward over a block use different matrix kernels, which round differently; two logits
closer than that difference may swap (design section 8). The replay measures the difference at the very place.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from xpress_bench.records import Cell, Replay, first_difference
from xpress_bench.sampling import Sampling
from xpress_bench.targets import Target

BLOCK = 8  # tokens of the block-shaped pass
NEAR = 8.0  # a near-tie is within this many rounding units of the logits' own dtype


@torch.inference_mode()
def replay(target: Target, prompt: Sequence[int], direct: Cell, arm: Cell, sampling: Sampling) -> Replay:
    """Judge the first place where the ids of `arm` differ from those of `direct`, on their common prefix.

    `tie`: the two tokens' scores are closer than one-token and block-shaped passes are to each other. `near_tie`:
    within a few rounding units. `real`: anything else, a missing or an extra token included.
    """
    position = first_difference(direct.ids, arm.ids)
    if position is None:
        raise ValueError(f"arm {arm.arm} on {arm.prompt}: nothing to replay, its ids are direct generation's")
    where = (direct.prompt, direct.seed, arm.arm, direct.condition, position)
    if position >= min(len(direct.ids), len(arm.ids)):
        own = direct.ids[position] if position < len(direct.ids) else -1
        other = arm.ids[position] if position < len(arm.ids) else None
        return Replay(*where, own, other, None, None, "real", direct.turn)
    prefix = [*prompt, *direct.ids[:position]]
    single, block = _scores(target, prefix, 1, sampling), _scores(target, prefix, BLOCK, sampling)
    own, other = direct.ids[position], arm.ids[position]
    gap = float(single[own] - single[other])
    tolerance = float((single - block).abs().max()) * 2
    near = NEAR * torch.finfo(target.dtype).eps * float(single[own].abs())
    verdict = "tie" if abs(gap) <= tolerance else "near_tie" if abs(gap) <= near else "real"
    return Replay(*where, own, other, gap, tolerance, verdict, direct.turn)  # type: ignore[arg-type]


def _scores(target: Target, prefix: list[int], rows: int, sampling: Sampling) -> Tensor:
    """What the choice after `prefix` is made from [V], computed with the last `rows` tokens in one forward."""
    rows = min(rows, len(prefix) - 1)
    ids = torch.tensor([prefix], device=target.device)
    target.prefill(ids[:, :-rows], ())
    logits = target.verify(ids[:, -rows:], ())[:, -1:]
    noise = sampling.target.at(len(prefix), 1, logits)
    scores = logits if noise is None else logits / sampling.temperature + noise
    return scores[0, 0]
