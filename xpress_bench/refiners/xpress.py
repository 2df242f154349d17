"""xPress: parallel refinement of a drafted block by K Jacobi passes of a small causal head (methods.md section 4).

A pass reads the block's current tokens, each slot seeing only the slots before it, and corrects every slot at once.
After m passes the first m slots are exactly what left-to-right correction would give, so K = B - 1 is sequential
decoding of the head and K = 0 is the bare drafter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from xpress_bench.checkpoints import xpress as checkpoint
from xpress_bench.checkpoints.files import locate
from xpress_bench.checkpoints.heads import check_layout
from xpress_bench.checkpoints.xpress import HeadConfig
from xpress_bench.drafters import Context, Draft, Drafter
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.options import checked
from xpress_bench.refiners.heads import corrected, output_ids
from xpress_bench.sampling import Sampling, pick
from xpress_bench.settings import RefinerSettings
from xpress_bench.targets import Target

EMBEDDED = Path(__file__).parent.parent / "embedded" / "xpress"


class Mix(nn.Module):
    """Per-channel lower-triangular mixing over slots, stored raw: index (channel, to slot, from slot)."""

    def __init__(self, rank: int, slots: int) -> None:
        super().__init__()
        self.L = nn.Parameter(torch.zeros(rank, slots, slots))

    def folded(self, slots: int) -> Tensor:
        """Lower triangle plus identity [r, B, B]: one product then does the mixing and the residual sum."""
        return self.L[:, :slots, :slots].tril() + torch.eye(slots, dtype=self.L.dtype, device=self.L.device)

    def forward(self, rows: Tensor, folded: Tensor | None = None) -> Tensor:
        """rows [b, B, r] plus their causal mix, diagonal included; `folded` saves folding again."""
        folded = self.folded(rows.shape[1]) if folded is None else folded
        return torch.matmul(folded, rows.permute(2, 1, 0)).permute(2, 1, 0)


class Mlp(nn.Module):
    """SwiGLU in the head's own rank."""

    def __init__(self, rank: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(rank, hidden, bias=False)
        self.up_proj = nn.Linear(rank, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, rank, bias=False)

    def forward(self, rows: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(rows)) * self.up_proj(rows))  # type: ignore[no-any-return]


class XPressHead(nn.Module):
    """The head exactly as released. Names of parameters are the checkpoint's, without `xpress_head.`."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.config = config
        self.w1 = nn.Embedding(config.vocab_size, config.rank)
        self.w2 = nn.Linear(config.rank, config.draft_vocab_size or config.vocab_size, bias=False)
        self.down_h = nn.Linear(config.hidden_size, config.rank, bias=False)
        self.down_g = nn.Linear(config.hidden_size, config.rank, bias=False)
        self.in_proj = nn.Linear(3 * config.rank, config.rank, bias=False)
        self.mix = Mix(config.rank, config.block_size)
        self.mlp = Mlp(config.rank, config.mlp_hidden)

    def block_part(self, hidden: Tensor) -> Tensor:
        """What every pass shares, [b, B, r], of drafter states [b, B, H]: computed once per block.

        The block summary g is the mean over all slots, the anchor's included.
        """
        summary = hidden.mean(dim=1, keepdim=True).expand_as(hidden)
        parts = torch.cat([self.down_h(hidden), self.down_g(summary)], dim=-1)
        return F.linear(parts, self.in_proj.weight[:, : parts.shape[-1]])

    def bias(self, block_part: Tensor, previous: Tensor, folded: Tensor | None = None) -> Tensor:
        """Logit corrections [b, B, V]; previous [b, B] is the token before each slot, `folded` the folded mixer."""
        token_part = F.linear(self.w1(previous), self.in_proj.weight[:, 2 * self.config.rank :])
        rows = self.mix(block_part + token_part, folded)
        return self.w2(rows + self.mlp(rows))  # type: ignore[no-any-return]


@dataclass
class XPress:
    """The refiner: seed with the drafter's tokens, then `passes` corrections, stopping early once nothing changes.

    Stopping early is exact: a settled block is a fixed point. It costs a host read per pass, so it is used on CPU only.
    """

    head: XPressHead
    passes: int
    folder: Path | None = None
    ids: Tensor | None = None  # see `heads.output_ids`
    causal: bool = True
    batchable = True

    def refine(self, draft: Draft, context: Context, sampling: Sampling) -> Draft:
        if draft.logits is None or draft.hidden is None:
            raise MisfitError("xpress needs a drafter with hidden states and logits, such as dflash")
        slots, count = draft.hidden.shape[1], draft.tokens.shape[1]
        shared, folded = self.head.block_part(draft.hidden), self.head.mix.folded(slots)
        tokens, logits, made = draft.tokens, draft.logits, 0
        while made < self.passes:
            made += 1
            before = torch.cat([context.previous[:, None], context.anchor[:, None], tokens[:, :-1]], dim=1)
            # A fill-in block begins with the anchor's own slot, which picks no token; in the shift layout each does.
            bias = self.head.bias(shared, before[:, -slots:], folded)[:, -count:]
            logits = corrected(draft.logits, bias, self.ids)
            settled = tokens
            tokens = pick(logits, sampling.temperature, draft.noise)
            if tokens.device.type == "cpu" and torch.equal(tokens, settled):
                break
        return replace(draft, tokens=tokens, logits=logits, passes=draft.passes + made)


def load(settings: RefinerSettings, target: Target, drafter: Drafter) -> XPress:
    """Build the refiner of a checkpoint and check that its slots, hidden size and vocabulary align."""
    if not drafter.taps:
        raise MisfitError("xpress refines drafts that come with hidden states, such as dflash's; use --refiner none")
    folder = locate(_where(settings, target), settings.revision)
    config = checkpoint.read_config(folder)
    checkpoint.check_fit(config, target, drafter.block_size, folder)
    checked(settings, {})
    check_layout(folder, drafter)
    head = XPressHead(config).to(device=target.device, dtype=target.dtype).eval()
    checkpoint.load_head(head, folder)
    passes = config.passes if settings.passes is None else settings.passes
    return XPress(head, passes, folder, output_ids(config.draft_vocab_size, drafter, folder))


def _where(settings: RefinerSettings, target: Target) -> str:
    if settings.path:
        return settings.path
    if target.name == "embedded":
        return str(EMBEDDED)
    raise UsageError(f"xpress needs a head trained for target {target.name!r}: --refiner FOLDER or HUB_ID")
