"""Prompt lookup: copy what followed the last occurrence of the current n-gram. Needs no model and no training.

The rival every learned drafter has to beat on text that repeats itself (Saxena 2023; `prompt_lookup_num_tokens` in
transformers).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from xpress_bench.drafters import Context, Draft
from xpress_bench.errors import UsageError
from xpress_bench.options import checked, whole
from xpress_bench.sampling import Sampling
from xpress_bench.settings import DrafterSettings
from xpress_bench.targets import Target

BLOCK_SIZE = 8


@dataclass
class PromptLookup:
    """Finds the longest suffix of up to `max_ngram` tokens that occurred before; copies after its latest occurrence."""

    block_size: int
    max_ngram: int = 3
    taps: tuple[int, ...] = ()
    denoising_steps: int = 1
    batchable = True

    def start(self, target: Target, prompt: Tensor, features: Tensor | None) -> None:
        self._index: dict[tuple[int, ...], int] = {}  # n-gram -> index after its latest occurrence with a continuation
        self._seen = 0

    def propose(self, context: Context, sampling: Sampling) -> Draft:
        tokens = context.tokens
        self._extend(tokens)
        count = min(self.block_size, context.room) - 1
        found: list[int] = []
        for size in range(min(self.max_ngram, len(tokens) - 1), 0, -1):
            start = self._index.get(tuple(tokens[-size:]))
            if start is not None:
                found = tokens[start : start + count]
                break
        return Draft(torch.tensor([found], dtype=torch.long, device=context.anchor.device))

    def observe(self, features: Tensor | None) -> None:
        """Nothing to keep: the context carries the tokens."""

    def _extend(self, tokens: list[int]) -> None:
        """Index the n-grams that end before the last token: each of them has a continuation."""
        for end in range(self._seen, len(tokens) - 1):
            for size in range(1, min(self.max_ngram, end + 1) + 1):
                self._index[tuple(tokens[end + 1 - size : end + 1])] = end + 1
        self._seen = len(tokens) - 1


def load(settings: DrafterSettings, target: Target, block_size: int | None) -> PromptLookup:
    """`drafter.params.max_ngram` sets the longest n-gram."""
    if settings.denoising_steps != 1:
        raise UsageError(f"drafter.denoising_steps is {settings.denoising_steps}: prompt_lookup copies in one step")
    return PromptLookup(block_size or BLOCK_SIZE, **checked(settings, {"max_ngram": whole(1)}))
