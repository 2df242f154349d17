"""Verifiers: the acceptance rules, as pure functions of the draft, the target's logits and the request's noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xpress_bench.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

    from xpress_bench.drafters import Draft
    from xpress_bench.sampling import Sampling


@dataclass(frozen=True, slots=True)
class Verdict:
    """accepted [b]: length of the accepted prefix, before stop rules. next_token [b]: the target's own after it.

    path [1 + levels]: of a tree, the rows that lead through all that is accepted and on along the longest, then first,
    of its continuations; the anchor's row first, -1 behind the end.
    """

    accepted: Tensor
    next_token: Tensor
    path: Tensor | None = None


Verifier = Callable[
    ["Draft", "Tensor", "int", "Sampling"], Verdict
]  # draft, chain or tree; logits [b, 1+N, V]; anchor position; noise

VERIFIERS: Registry[Verifier] = Registry("verifiers")
VERIFIERS.add("greedy", "xpress_bench.verifiers.rules:match", "the longest prefix equal to the target's argmax")
VERIFIERS.add("coupled", "xpress_bench.verifiers.rules:match", "as greedy, under noise shared by draft and target")
VERIFIERS.add("rejection", "xpress_bench.verifiers.rules:rejection", "speculative sampling (Leviathan, Chen 2023)")
