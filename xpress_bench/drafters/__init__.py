"""Drafters: propose a block of tokens for the target to verify."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from xpress_bench.registry import Registry
from xpress_bench.settings import DrafterSettings

if TYPE_CHECKING:
    from torch import Tensor

    from xpress_bench.sampling import Sampling
    from xpress_bench.targets import Target
    from xpress_bench.trees import Tree


@dataclass(frozen=True, slots=True)
class Context:
    """What is known when a block is drafted. The anchor is the last committed token, at absolute `position`."""

    tokens: list[int]  # prompt and output, the anchor last
    anchor: Tensor  # [b]
    previous: Tensor  # [b] the token before the anchor
    position: int
    room: int  # positions from the anchor's on that the target's context still has: a block may not be longer

    def over(self, rows: int) -> Context:
        """The same for `rows` drafts of one block."""
        return replace(self, anchor=self.anchor.expand(rows), previous=self.previous.expand(rows))


@dataclass(frozen=True, slots=True)
class Draft:
    """One proposed block, anchor excluded.

    tokens [b, N]. logits [b, N, V]: what the tokens were picked from, None if nothing was; -inf for what cannot be
    picked. hidden [b, S, H]: the drafter's final states of the block's slots, the anchor's first, None if it has none;
    the last N are those that the N tokens were picked from (S is N + 1 in the fill-in layout, N in the shift layout).
    noise [b, N, V]: the Gumbel noise the tokens were picked with, None if they were not sampled. point_mass: the tokens
    are not a sample of softmax(logits / T) given their prefix, so a verifier must treat them as certain. passes:
    refinement passes that were really made over it.

    Of several candidates the rows are one each. What is made of them is verified as one row: `sources` [N] then has the
    candidate that each token is from, -1 if it is no candidate's; `tree` has the shape, None for a chain.
    """

    tokens: Tensor
    logits: Tensor | None = None
    hidden: Tensor | None = None
    noise: Tensor | None = None
    point_mass: bool = True
    passes: int = 0
    sources: Tensor | None = None
    tree: Tree | None = None

    @property
    def longest(self) -> int:
        """Tokens that can be accepted at most."""
        return self.tokens.shape[1] if self.tree is None else self.tree.levels

    def cut(self, count: int) -> Draft:
        """The first `count` tokens of the draft."""
        dropped = self.tokens.shape[1] - count
        return replace(
            self,
            tokens=self.tokens[:, :count],
            logits=None if self.logits is None else self.logits[:, :count],
            hidden=None if self.hidden is None else self.hidden[:, : self.hidden.shape[1] - dropped],
            noise=None if self.noise is None else self.noise[:, :count],
        )

    def of(self, rows: list[int]) -> Draft:
        """The drafts of some rows, in this order."""
        return replace(
            self,
            tokens=self.tokens[rows],
            logits=None if self.logits is None else self.logits[rows],
            hidden=None if self.hidden is None else self.hidden[rows],
            noise=None if self.noise is None else self.noise[rows],
        )


class Drafter(Protocol):
    """Proposes blocks for one request at a time.

    Set `batchable = True` if `start` makes all that belongs to a request anew: a batch has a shallow copy for each row.
    """

    taps: tuple[int, ...]  # zero-based target layers whose outputs it reads; () reads none
    block_size: int  # B slots, the anchor's included

    @property
    def denoising_steps(self) -> int:
        """Forwards that fill one block."""
        ...

    def start(self, target: Target, prompt: Tensor, features: Tensor | None) -> None:
        """Forget the last request; take the prompt's ids [b, n] and features [b, n, len(taps) * H]."""
        ...

    def propose(self, context: Context, sampling: Sampling) -> Draft:
        """A draft of at most room - 1 tokens and one block; it may be empty."""
        ...

    def observe(self, features: Tensor | None) -> None:
        """Take the features [b, c, len(taps) * H] of the rows just committed, the old anchor's first."""
        ...


def most_drafts(drafter: Drafter) -> int:
    """Draft tokens of a whole block: B - 1, or B in the shift layout, where the anchor's slot predicts too."""
    return drafter.block_size - (getattr(drafter, "layout", "fill_in") == "fill_in")


@runtime_checkable
class Translates(Protocol):
    """A drafter that reads and writes text, with ids of its own."""

    def translate_from(self, tokenizer: Any) -> None:
        """Take the target's tokenizer, before the first request."""
        ...


DrafterFactory = Callable[[DrafterSettings, "Target", "int | None"], Drafter]  # settings, target, block size

DRAFTERS: Registry[DrafterFactory] = Registry("drafters")
DRAFTERS.add("dflash", "xpress_bench.drafters.block_diffusion:load", "block diffusion over target features (DFlash)")
DRAFTERS.add("dflash2", "xpress_bench.drafters.block_diffusion:load", "DFlash with convolutions and candidate choice")
DRAFTERS.add("draft_model", "xpress_bench.drafters.draft_model:load", "a small causal LM drafts token by token")
DRAFTERS.add("eagle3", "xpress_bench.drafters.eagle3:load", "a layer over target features, token by token (EAGLE-3)")
DRAFTERS.add("masked_lm", "xpress_bench.drafters.masked_lm:load", "any masked LM with the target's tokenizer")
DRAFTERS.add("prompt_lookup", "xpress_bench.drafters.prompt_lookup:load", "copies what followed the last n-gram")
DRAFTERS.add("suffix", "xpress_bench.drafters.suffix:load", "continues as most often after the longest suffixes")
DRAFTERS.add("toy", "xpress_bench.drafters.toy:load", "draws every slot from one fixed law; for the toy target")
