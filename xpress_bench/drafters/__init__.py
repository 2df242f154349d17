"""Drafters: propose a block of tokens for the target to verify."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from xpress_bench.registry import Registry
from xpress_bench.settings import DrafterSettings

if TYPE_CHECKING:
    from torch import Tensor

    from xpress_bench.sampling import Sampling
    from xpress_bench.targets import Target


@dataclass(frozen=True, slots=True)
class Context:
    """What is known when a block is drafted. The anchor is the last committed token, at absolute `position`."""

    tokens: list[int]  # prompt and output, the anchor last
    anchor: Tensor  # [b]
    previous: Tensor  # [b] the token before the anchor
    position: int
    room: int  # positions from the anchor's on that the target's context still has: a block may not be longer


@dataclass(frozen=True, slots=True)
class Draft:
    """One proposed block, anchor excluded.

    tokens [b, N]. logits [b, N, V]: what the tokens were picked from, None if nothing was. hidden [b, 1 + N, H]: the
    drafter's final states, anchor slot included, None if it has none. noise [b, N, V]: the Gumbel noise the tokens were
    picked with, None if they were not sampled. point_mass: the tokens are not a sample of softmax(logits / T) given
    their prefix, so a verifier must treat them as certain. passes: refinement passes that were really made over it.
    """

    tokens: Tensor
    logits: Tensor | None = None
    hidden: Tensor | None = None
    noise: Tensor | None = None
    point_mass: bool = True
    passes: int = 0

    def cut(self, count: int) -> Draft:
        """The first `count` tokens of the draft."""
        return replace(
            self,
            tokens=self.tokens[:, :count],
            logits=None if self.logits is None else self.logits[:, :count],
            hidden=None if self.hidden is None else self.hidden[:, : count + 1],
            noise=None if self.noise is None else self.noise[:, :count],
        )


class Drafter(Protocol):
    """Proposes blocks for one request at a time."""

    taps: tuple[int, ...]  # zero-based target layers whose outputs it reads; () reads none
    block_size: int  # B slots, the anchor's included
    denoising_steps: int

    def start(self, target: Target, prompt: Tensor, features: Tensor | None) -> None:
        """Forget the last request; take the prompt's ids [b, n] and features [b, n, len(taps) * H]."""
        ...

    def propose(self, context: Context, sampling: Sampling) -> Draft:
        """A draft of at most min(B, room) - 1 tokens; it may be empty."""
        ...

    def observe(self, features: Tensor | None) -> None:
        """Take the features [b, c, len(taps) * H] of the rows just committed, the old anchor's first."""
        ...


DrafterFactory = Callable[[DrafterSettings, "Target", "int | None"], Drafter]  # settings, target, block size

DRAFTERS: Registry[DrafterFactory] = Registry("drafters")
DRAFTERS.add("dflash", "xpress_bench.drafters.block_diffusion:load", "block diffusion over target features (DFlash)")
DRAFTERS.add("draft_model", "xpress_bench.drafters.draft_model:load", "a small causal LM with the target's tokenizer")
DRAFTERS.add("prompt_lookup", "xpress_bench.drafters.prompt_lookup:load", "copies what followed the last n-gram")
DRAFTERS.add("toy", "xpress_bench.drafters.toy:load", "draws every slot from one fixed law; for the toy target")
