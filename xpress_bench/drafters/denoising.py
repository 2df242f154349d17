"""Commit by confidence: how a masked block is filled in several steps (LLaDA; methods.md section 6).

The rule is that of diffusers' `BlockRefinementScheduler` at a threshold of 1, without its reads on the host, and with
a mask of its own for what is committed: an id equal to MASK is an ordinary prediction.
"""

from __future__ import annotations

from torch import Tensor


def commit_counts(slots: int, steps: int) -> list[int]:
    """How many of `slots` each step commits: as even as can be, the earlier steps taking one more.

    A step commits at least one slot, so fewer slots than `steps` take as many steps as there are slots.
    """
    steps = min(steps, slots)
    even, rest = divmod(slots, steps)
    return [even + (index < rest) for index in range(steps)]


def commit(committed: Tensor, logits: Tensor, tokens: Tensor, count: int) -> Tensor:
    """`committed` [b, N] with the `count` most confident of the open slots added; at a tie, the earlier slot.

    Confidence is the probability of `tokens` [b, N] under softmax(logits [b, N, V]) in float32, at temperature 1
    whatever the tokens were picked at: the drafter's own belief.
    """
    confidence = logits.float().softmax(-1).gather(-1, tokens[..., None])[..., 0]
    # A stable sort: topk leaves the order of ties open.
    order = confidence.masked_fill(committed, -1).argsort(dim=-1, descending=True, stable=True)
    return committed.scatter(-1, order[:, :count], True)
