"""Markov: left-to-right correction of a drafted block by a first-order head (DSpark's `vanilla`, methods.md 3.1).

Slot k's logits become U_k + W2(W1[prev]), where prev is the token just picked for slot k - 1, for the first slot the
anchor. Each slot waits for the one before it, so a block of B slots takes B - 1 small steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from xpress_bench.checkpoints import markov as checkpoint
from xpress_bench.checkpoints.files import locate
from xpress_bench.checkpoints.markov import MarkovConfig
from xpress_bench.drafters import Context, Draft, Drafter
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.sampling import Sampling, pick
from xpress_bench.settings import RefinerSettings
from xpress_bench.targets import Target

EMBEDDED = Path(__file__).parent.parent / "embedded" / "markov"


class MarkovHead(nn.Module):
    """The head exactly as released. Names of parameters are the checkpoint's, without `markov_head.`."""

    def __init__(self, config: MarkovConfig) -> None:
        super().__init__()
        self.config = config
        self.markov_w1 = nn.Embedding(config.vocab_size, config.rank)
        self.markov_w2 = nn.Linear(config.rank, config.vocab_size, bias=False)

    def bias(self, previous: Tensor) -> Tensor:
        """Logit corrections [..., V] of slots that come after the tokens previous [...]."""
        return self.markov_w2(self.markov_w1(previous))  # type: ignore[no-any-return]


@dataclass
class Markov:
    """The refiner: one walk over the block, so there is no number of passes to choose."""

    head: MarkovHead
    folder: Path | None = None
    causal: bool = True
    passes: int | None = None

    def refine(self, draft: Draft, context: Context, sampling: Sampling) -> Draft:
        if draft.logits is None:
            raise MisfitError("markov needs a drafter with logits, such as dflash")
        previous, tokens, corrected = context.anchor[:, None], [], []
        for slot in range(draft.tokens.shape[1]):
            logits = draft.logits[:, slot : slot + 1] + self.head.bias(previous)
            noise = None if draft.noise is None else draft.noise[:, slot : slot + 1]
            previous = pick(logits, sampling.temperature, noise)
            tokens.append(previous)
            corrected.append(logits)
        walked = torch.cat(tokens, dim=1), torch.cat(corrected, dim=1)
        return replace(draft, tokens=walked[0], logits=walked[1], passes=draft.passes + 1)


def load(settings: RefinerSettings, target: Target, drafter: Drafter) -> Markov:
    """Build the refiner of a checkpoint and check that its hidden size and vocabulary are the target's."""
    if not drafter.taps:
        raise MisfitError("markov refines drafts made from target features, such as dflash's; use --refiner none")
    if settings.passes is not None:
        raise UsageError(f"refiner.passes is {settings.passes}: markov walks the block once; leave refiner.passes out")
    if settings.params:
        raise UsageError(f"markov knows no refiner.params, got {', '.join(sorted(settings.params))}")
    folder = locate(_where(settings, target), settings.revision)
    config = checkpoint.read_config(folder)
    checkpoint.check_fit(config, target, folder)
    head = MarkovHead(config).to(device=target.device, dtype=target.dtype).eval()
    checkpoint.load_head(head, folder)
    return Markov(head, folder)


def _where(settings: RefinerSettings, target: Target) -> str:
    if settings.path:
        return settings.path
    if target.name != "embedded":
        raise UsageError(f"markov needs a head trained for target {target.name!r}: --refiner FOLDER or HUB_ID")
    if not EMBEDDED.is_dir():
        raise UsageError(f"no Markov head for the embedded target at {EMBEDDED}; use --refiner xpress or FOLDER")
    return str(EMBEDDED)
