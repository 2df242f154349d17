"""Re-mask: hide the tokens that the drafter is least sure of, draft them again beside the rest, and repeat.

A heuristic without weights (methods.md 6), made from mask-predict (Ghazvininejad et al. 2019). A slot then depends on
tokens behind it, so it is not causal. A round costs a whole forward of the drafter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import functional as F

from xpress_bench.drafters import Context, Draft, Drafter
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.options import checked, share, whole
from xpress_bench.sampling import Sampling, pick
from xpress_bench.settings import RefinerSettings
from xpress_bench.targets import Target


@runtime_checkable
class Fills(Protocol):
    """A drafter that predicts the masked slots of a block beside the tokens of the others, as often as it is asked."""

    mask_token_id: int

    def predict(self, anchor: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """States [b, S, H] and logits [b, N, V] of the block of the anchor [b] and tokens [b, N], masks or not."""
        ...


@dataclass
class Remask:
    """The refiner: `passes` rounds. Either the `fraction` of the slots that are least sure is drafted again, rounded
    up, or those whose confidence is below `threshold`; never the first `keep_prefix`."""

    drafter: Fills
    passes: int = 1
    fraction: float | None = 0.5
    threshold: float | None = None
    keep_prefix: int = 0
    causal: bool = False

    def refine(self, draft: Draft, context: Context, sampling: Sampling) -> Draft:
        if draft.logits is None or draft.hidden is None:
            raise MisfitError("remask needs a drafter with hidden states and logits, such as dflash")
        lead = draft.hidden.shape[1] - draft.tokens.shape[1]
        for _ in range(self.passes):
            masked = self._unsure(draft.tokens, draft.logits)
            if masked.device.type == "cpu" and not masked.any():  # elsewhere the look would cost more than it saves
                break
            seen = draft.tokens.masked_fill(masked, self.drafter.mask_token_id)
            # Row by row: a drafter's cache holds the context of one.
            rows = zip(torch.split(context.anchor, 1), torch.split(seen, 1), strict=True)
            hidden, logits = map(torch.cat, zip(*(self.drafter.predict(*row) for row in rows), strict=True))
            # What the drafter says at a slot whose token it sees is no prediction of that token.
            logits = torch.where(masked[..., None], logits, draft.logits)
            tokens = torch.where(masked, pick(logits, sampling.temperature, draft.noise), draft.tokens)
            hidden = torch.where(F.pad(masked, (lead, 0))[..., None], hidden, draft.hidden)
            draft = replace(draft, tokens=tokens, logits=logits, hidden=hidden, passes=draft.passes + 1)
        return draft

    def _unsure(self, tokens: Tensor, logits: Tensor) -> Tensor:
        """Which slots [b, N] to draft again. Confidence is the token's probability at temperature 1, in float32."""
        sure = logits.float().softmax(-1).gather(-1, tokens[..., None])[..., 0]
        sure[:, : self.keep_prefix] = torch.inf
        if self.threshold is not None:
            return sure < self.threshold
        count = math.ceil((self.fraction or 0) * max(0, tokens.shape[1] - self.keep_prefix))
        order = sure.argsort(dim=-1, stable=True)  # at a tie the earlier slot
        return torch.zeros_like(tokens, dtype=torch.bool).scatter(-1, order[:, :count], True)


def load(settings: RefinerSettings, target: Target, drafter: Drafter) -> Remask:
    """`refiner.params`: rounds, keep_prefix, and fraction (half the slots unless it is given) or threshold."""
    if not isinstance(drafter, Fills):
        raise MisfitError("remask needs a drafter that fills a masked block, such as dflash; use --refiner none")
    if settings.passes is not None:
        raise UsageError(f"refiner.passes is {settings.passes}: remask makes refiner.params.rounds rounds")
    known = {"rounds": whole(0), "fraction": share(), "threshold": share(), "keep_prefix": whole(0)}
    given = checked(settings, known)
    if {"fraction", "threshold"} <= set(given):
        raise UsageError("refiner.params.fraction and refiner.params.threshold: remask takes one of them")
    threshold = given.get("threshold")
    fraction = None if threshold is not None else given.get("fraction", 0.5)
    return Remask(drafter, given.get("rounds", 1), fraction, threshold, given.get("keep_prefix", 0))
