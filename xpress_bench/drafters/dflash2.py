"""What DFlash 2 adds to the network: convolutions inside a block and a choice among candidates (methods.md 2.6)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from xpress_bench.checkpoints.dflash import DFlash2Config
from xpress_bench.sampling import pick


class Bare(nn.Module):
    """A sub-layer with nothing around it, as in DFlash."""

    def forward(self, rows: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return sublayer(rows)


class DynamicConvolution(nn.Module):
    """One causal convolution over a block's slots before a sub-layer and one after it.

    A kernel is a learned one, `base_kernel` [2, taps, H], plus one per row and group of channels that is projected from
    the rows before the first convolution. Names of parameters are the checkpoint's.
    """

    def __init__(self, config: DFlash2Config, width: int) -> None:
        super().__init__()
        self.kernels = (2, config.kernel_size, width // config.group_size)
        self.base_kernel = nn.Parameter(torch.randn(2, config.kernel_size, width) / config.kernel_size)
        self.kernel_projection = nn.Linear(width, 2 * config.kernel_size * self.kernels[2], bias=False)

    def forward(self, rows: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """rows [b, B, H] of whole blocks, the anchor's first."""
        dynamic = self.kernel_projection(rows).view(*rows.shape[:-1], *self.kernels)
        rows = sublayer(_convolved(rows, self.base_kernel[0], dynamic[:, :, 0]))
        return _convolved(rows, self.base_kernel[1], dynamic[:, :, 1])


def _convolved(rows: Tensor, base: Tensor, dynamic: Tensor) -> Tensor:
    """Row t: the sum over taps i of (base [taps, H] + dynamic [b, B, taps, groups] of t) * row t - i."""
    groups = dynamic.shape[-1]
    kernel = (base.view(*base.shape[:-1], groups, -1) + dynamic[..., None]).flatten(3)
    taps, slots = base.shape[0], rows.shape[1]
    padded = F.pad(rows, (0, 0, taps - 1, 0))
    return sum((kernel[:, :, i] * padded[:, taps - 1 - i :][:, :slots] for i in range(taps)), torch.zeros_like(rows))


class CandidateSelector(nn.Module):
    """Chooses among the likeliest tokens of each slot, left to right: the token before a slot adds to their scores."""

    def __init__(self, config: DFlash2Config, width: int, vocab_size: int) -> None:
        super().__init__()
        self.candidates = config.top_k
        self.predecessor_codebook = nn.Parameter(torch.randn(vocab_size, config.rank))
        self.successor_codebook = nn.Parameter(torch.randn(vocab_size, config.rank) / config.rank)
        self.hidden_projection = nn.Linear(width, config.rank, bias=False)

    def walk(
        self, hidden: Tensor, logits: Tensor, anchor: Tensor, temperature: float, noise: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Tokens [b, N] of slots with states [b, N, H] and logits [b, N, V], and the logits they were picked from.

        Those are -inf for every token that is no candidate of its slot.
        """
        unary, candidates = logits.topk(self.candidates, dim=-1)
        successors = F.embedding(candidates, self.successor_codebook) * self.hidden_projection(hidden)[:, :, None]
        noise = None if noise is None else noise.expand_as(logits).gather(-1, candidates)
        previous, tokens, scores = anchor, [], []
        for slot in range(hidden.shape[1]):
            pairs = successors[:, slot] @ F.embedding(previous, self.predecessor_codebook)[..., None]
            scores.append(unary[:, slot] + pairs[..., 0])
            chosen = pick(scores[-1], temperature, None if noise is None else noise[:, slot])
            previous = candidates[:, slot].gather(-1, chosen[:, None])[:, 0]
            tokens.append(previous)
        picked = torch.full_like(logits, -torch.inf).scatter(-1, candidates, torch.stack(scores, dim=1))
        return torch.stack(tokens, dim=1), picked
