"""Markov: left-to-right correction of a drafted block by a small head (DSpark, methods.md 3.1).

Slot k's logits become U_k + W2(code), where the code is made from W1[prev]; prev is the token just picked for slot
k - 1, for the first slot the anchor. Each slot waits for the one before it, so N slots take N small steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from xpress_bench.checkpoints import markov as checkpoint
from xpress_bench.checkpoints.files import locate
from xpress_bench.checkpoints.heads import check_layout
from xpress_bench.checkpoints.markov import MarkovConfig
from xpress_bench.drafters import Context, Draft, Drafter
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.options import checked
from xpress_bench.refiners.heads import corrected, output_ids
from xpress_bench.sampling import Sampling, pick
from xpress_bench.settings import RefinerSettings
from xpress_bench.targets import Target

EMBEDDED = Path(__file__).parent.parent / "embedded" / "markov"


class MarkovHead(nn.Module):
    """The head exactly as released. Names of parameters are the checkpoint's, without `markov_head.`.

    Kinds differ in the code: `vanilla` is W1[prev]; `gated` weighs it by the drafter's state; `rnn` makes it from that
    state, W1[prev] and a memory of the slots before.
    """

    def __init__(self, config: MarkovConfig) -> None:
        super().__init__()
        self.config = config
        rank, width = config.rank, config.hidden_size
        self.markov_w1 = nn.Embedding(config.vocab_size, rank)
        self.markov_w2 = nn.Linear(rank, config.draft_vocab_size or config.vocab_size, bias=False)
        if config.kind == "gated":
            self.gate_proj = nn.Linear(width + rank, rank)
        elif config.kind == "rnn":
            self.joint_proj = nn.Linear(2 * rank + width, 3 * rank)

    def bias(self, previous: Tensor) -> Tensor:
        """Logit corrections [..., V] of a vanilla head for slots that come after the tokens previous [...]."""
        return self.markov_w2(self.markov_w1(previous))  # type: ignore[no-any-return]

    def code(self, previous: Tensor, hidden: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """The code [b, 1, r] of one slot, whose correction is W2(code), and the memory [b, 1, r] for the next slot.

        previous [b, 1] is the token before the slot, hidden [b, 1, H] the drafter's state of the slot.
        """
        code = self.markov_w1(previous)
        if self.config.kind == "gated":
            code = self.gate_proj(torch.cat([hidden, code], dim=-1)).sigmoid() * code
        elif self.config.kind == "rnn":
            gate, new, out = self.joint_proj(torch.cat([memory, code, hidden], dim=-1)).chunk(3, dim=-1)
            kept = gate.sigmoid()
            memory = kept * memory + (1 - kept) * new.tanh()
            code = out.tanh()
        return code, memory

    def start(self, anchor: Tensor, leading: Sequence[Tensor]) -> Tensor:
        """The memory before the first token, of the anchor [b, 1] and the states of the slots that pick none.

        A fill-in block begins with such a slot, and an rnn head was trained over it too (speculators).
        """
        memory = self.markov_w1.weight.new_zeros(*anchor.shape, self.config.rank)
        for hidden in leading if self.config.kind == "rnn" else ():
            memory = self.code(anchor, hidden, memory)[1]
        return memory


@dataclass
class Markov:
    """The refiner: one walk over the block, so there is no number of passes to choose."""

    head: MarkovHead
    folder: Path | None = None
    ids: Tensor | None = None  # see `heads.output_ids`
    causal: bool = True
    passes: int | None = None
    batchable = True

    def refine(self, draft: Draft, context: Context, sampling: Sampling) -> Draft:
        if draft.logits is None or draft.hidden is None:
            raise MisfitError("markov needs a drafter with hidden states and logits, such as dflash")
        previous, tokens, rows = context.anchor[:, None], [], []
        states, count = torch.split(draft.hidden, 1, dim=1), draft.tokens.shape[1]
        memory = self.head.start(previous, states[:-count])
        for slot, hidden in enumerate(states[-count:]):
            code, memory = self.head.code(previous, hidden, memory)
            logits = corrected(draft.logits[:, slot : slot + 1], self.head.markov_w2(code), self.ids)
            noise = None if draft.noise is None else draft.noise[:, slot : slot + 1]
            previous = pick(logits, sampling.temperature, noise)
            tokens.append(previous)
            rows.append(logits)
        walked = torch.cat(tokens, dim=1), torch.cat(rows, dim=1)
        return replace(draft, tokens=walked[0], logits=walked[1], passes=draft.passes + 1)


def load(settings: RefinerSettings, target: Target, drafter: Drafter) -> Markov:
    """Build the refiner of a checkpoint and check that its hidden size and vocabulary are the target's."""
    if not drafter.taps:
        raise MisfitError("markov refines drafts made from target features, such as dflash's; use --refiner none")
    if settings.passes is not None:
        raise UsageError(f"refiner.passes is {settings.passes}: markov walks the block once; leave refiner.passes out")
    checked(settings, {})
    folder = locate(_where(settings, target), settings.revision)
    config = checkpoint.read_config(folder)
    checkpoint.check_fit(config, target, folder)
    check_layout(folder, drafter)
    head = MarkovHead(config).to(device=target.device, dtype=target.dtype).eval()
    checkpoint.load_head(head, folder)
    return Markov(head, folder, output_ids(config.draft_vocab_size, drafter, folder))


def _where(settings: RefinerSettings, target: Target) -> str:
    if settings.path:
        return settings.path
    if target.name != "embedded":
        raise UsageError(f"markov needs a head trained for target {target.name!r}: --refiner FOLDER or HUB_ID")
    if not EMBEDDED.is_dir():
        raise UsageError(f"no Markov head for the embedded target at {EMBEDDED}; use --refiner xpress or FOLDER")
    return str(EMBEDDED)
