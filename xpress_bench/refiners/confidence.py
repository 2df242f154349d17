"""Confidence: end a draft where a trained head doubts that the target will follow (DSpark, methods.md 3.1, 3.4).

The head says for every slot how likely its token is accepted once all before it are. Its inputs are the drafter's
state of the slot and the token before it, so the decision to end the draft at slot k looks at tokens before k only,
and what is left of the draft keeps its law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from xpress_bench.checkpoints import confidence as checkpoint
from xpress_bench.checkpoints.confidence import ConfidenceConfig
from xpress_bench.checkpoints.files import locate
from xpress_bench.checkpoints.heads import check_layout
from xpress_bench.drafters import Context, Draft, Drafter, most_drafts
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.options import checked, numbers_above_zero, share
from xpress_bench.sampling import Sampling
from xpress_bench.settings import RefinerSettings
from xpress_bench.targets import Target

OPTIONS = ("threshold", "temperatures")


class ConfidenceHead(nn.Module):
    """The head exactly as released, with a copy of its own of the Markov head's W1 if it reads one (rank above 0)."""

    def __init__(self, config: ConfidenceConfig) -> None:
        super().__init__()
        self.config = config
        self.proj = nn.Linear(config.hidden_size + config.rank, 1)
        self.markov_w1 = nn.Embedding(config.vocab_size, config.rank) if config.rank else None

    def forward(self, hidden: Tensor, previous: Tensor) -> Tensor:
        """Logits [b, N] of acceptance, of the drafter's states [b, N, H] and the tokens before them [b, N]."""
        if self.markov_w1 is not None:
            hidden = torch.cat([hidden, self.markov_w1(previous)], dim=-1)
        return self.proj(hidden)[..., 0]  # type: ignore[no-any-return]


@dataclass
class Confidence:
    """The refiner: keeps the tokens before the first slot whose confidence is below `threshold`; 0 keeps all.

    With `temperatures`, one for each slot, a slot's confidence is sigmoid(logit / temperature), and what is compared is
    the survival of the slot: the product of the confidences up to its own. Without, each confidence stands alone. The
    rows of a batch stay equally long: as long as the longest of them. The length is read on the host.
    """

    head: ConfidenceHead
    threshold: float = 0.0
    temperatures: tuple[float, ...] = ()
    folder: Path | None = None
    causal: bool = True
    passes: int | None = None

    def refine(self, draft: Draft, context: Context, sampling: Sampling) -> Draft:
        chance = self.logits(draft, context)
        if self.temperatures:
            chance = (chance / chance.new_tensor(self.temperatures)[: chance.shape[1]]).sigmoid().cumprod(-1)
        else:
            chance = chance.sigmoid()
        kept = (chance >= self.threshold).int().cumprod(-1).sum(-1).max()
        return draft.cut(int(kept))

    def logits(self, draft: Draft, context: Context) -> Tensor:
        """What the head says of every token [b, N], at least in float32."""
        if draft.hidden is None:
            raise MisfitError("confidence needs a drafter with hidden states, such as dflash")
        previous = torch.cat([context.anchor[:, None], draft.tokens[:, :-1]], dim=1)
        logits: Tensor = self.head(draft.hidden[:, -draft.tokens.shape[1] :], previous)
        return logits if logits.dtype == torch.float64 else logits.float()


def load(settings: RefinerSettings, target: Target, drafter: Drafter) -> Confidence:
    """`refiner.params`: threshold, and temperatures as `calibration.fit` finds them."""
    if not drafter.taps:
        raise MisfitError("confidence judges drafts made from target features, such as dflash's; use --refiner none")
    if settings.path is None:
        raise UsageError("confidence needs a checkpoint with such a head: --drafter FOLDER or HUB_ID, or refiner.path")
    if settings.passes is not None:
        raise UsageError(f"refiner.passes is {settings.passes}: confidence makes none; leave refiner.passes out")
    given = checked(settings, {"threshold": share(), "temperatures": numbers_above_zero()})
    if "threshold" not in given:
        raise UsageError("confidence needs refiner.params.threshold: a number from 0 to 1, 0 for no limit")
    temperatures = _for_each_slot(given.get("temperatures", ()), drafter)
    folder = locate(settings.path, settings.revision)
    config = checkpoint.read_config(folder)
    checkpoint.check_fit(config, target, folder)
    check_layout(folder, drafter)
    head = ConfidenceHead(config).to(device=target.device, dtype=target.dtype).eval()
    checkpoint.load_head(head.proj, head.markov_w1, folder)
    return Confidence(head, given["threshold"], temperatures, folder)


def _for_each_slot(temperatures: Sequence[float], drafter: Drafter) -> tuple[float, ...]:
    slots = most_drafts(drafter)
    if temperatures and len(temperatures) < slots:
        raise UsageError(
            f"refiner.params.temperatures has {len(temperatures)} numbers, and a draft up to {slots} tokens"
        )
    return tuple(temperatures)
