"""Fresh models that draft and refine, sized for a target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from transformers import Qwen3Config

from xpress_bench.checkpoints.dflash import BlockConfig
from xpress_bench.checkpoints.markov import MarkovConfig
from xpress_bench.checkpoints.xpress import HeadConfig
from xpress_bench.drafters.block_diffusion import BlockDiffusionModel
from xpress_bench.errors import UsageError
from xpress_bench.refiners.markov import MarkovHead
from xpress_bench.refiners.xpress import XPressHead

M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of what drafts. `mask_token_id` None: the tokenizer's own, or a special token that text never uses."""

    block_size: int = 8
    largest_block: int = 16
    layers: int = 2
    rank: int = 128
    mlp_hidden: int = 512
    passes: int = 4
    mask_token_id: int | None = None


@dataclass(frozen=True, slots=True)
class Tables:
    """The target's frozen tables: `embed` [V, H] for ids, `head` [V, H] for states. The same one if it ties them."""

    embed: Tensor
    head: Tensor

    def to(self, device: torch.device, dtype: torch.dtype) -> Tables:
        return Tables(self.embed.to(device, dtype), self.head.to(device, dtype))


def new_drafter(target: Any, shape: Shape, mask_token_id: int) -> BlockDiffusionModel:
    """A drafter for a target's transformers config; it takes over the sizes that Qwen3 knows."""
    heads = target.num_attention_heads
    config = BlockConfig(
        qwen3=Qwen3Config(
            num_hidden_layers=shape.layers,
            tie_word_embeddings=False,
            vocab_size=target.vocab_size,
            hidden_size=target.hidden_size,
            intermediate_size=target.intermediate_size,
            num_attention_heads=heads,
            num_key_value_heads=target.num_key_value_heads,
            head_dim=getattr(target, "head_dim", None) or target.hidden_size // heads,
            max_position_embeddings=target.max_position_embeddings,
            rope_parameters=target.rope_parameters,
        ),
        block_size=shape.block_size,
        mask_token_id=mask_token_id,
        target_layer_ids=taps_of(target.num_hidden_layers),
        num_target_layers=target.num_hidden_layers,
    )
    return _started_small(BlockDiffusionModel(config))


def new_xpress(drafter: BlockDiffusionModel, shape: Shape, tables: Tables) -> XPressHead:
    """A head that begins with the target's own tables, as far as its rank reaches."""
    config = drafter.config.qwen3
    sizes = HeadConfig(
        hidden_size=config.hidden_size,
        vocab_size=config.vocab_size,
        rank=shape.rank,
        mlp_hidden=shape.mlp_hidden,
        block_size=shape.largest_block,
        passes=shape.passes,
    )
    made = _started_small(XPressHead(sizes))
    return _with_tables(made, made.w1.weight, made.w2.weight, tables)


def new_markov(drafter: BlockDiffusionModel, shape: Shape, tables: Tables) -> MarkovHead:
    """A head of the rank that xPress has: the two differ in how they correct, not in their tables."""
    config = drafter.config.qwen3
    sizes = MarkovConfig(vocab_size=config.vocab_size, rank=shape.rank, hidden_size=config.hidden_size)
    made = _started_small(MarkovHead(sizes))
    return _with_tables(made, made.markov_w1.weight, made.markov_w2.weight, tables)


def _with_tables(model: M, embed: Tensor, head: Tensor, tables: Tables) -> M:
    """The model with its two tables [V, r] set to the target's: similar tokens are alike from the first step on."""
    with torch.no_grad():
        embed.copy_(principal(tables.embed, embed))
        head.copy_(principal(tables.head, head))
    return model


def principal(table: Tensor, drawn: Tensor) -> Tensor:
    """Rows of a table [V, H] in its r strongest directions, [V, r]; columns beyond H are those of `drawn` [V, r]."""
    centred = table.detach().float().cpu()
    centred = centred - centred.mean(0)
    _, directions = torch.linalg.eigh(centred.t() @ centred)  # [H, H] is small where [V, H] is not; weakest first
    kept = centred @ directions.flip(1)[:, : drawn.shape[1]]
    return torch.cat([kept, drawn[:, kept.shape[1] :]], dim=1)


def _started_small(model: M) -> M:
    """Matrices drawn from N(0, 0.02), as released heads were (methods.md 4.4)."""
    for weight in model.parameters():
        if weight.ndim == 2:
            nn.init.normal_(weight, std=0.02)
    return model


def taps_of(layers: int) -> tuple[int, ...]:
    """Layers that a drafter reads: from the second to the third from the end, evenly spread, as z-lab does."""
    count = min(5 if layers > 8 else 3, max(1, layers - 3))
    first, last = min(1, layers - 1), max(1, layers - 3)
    return tuple(round(first + (last - first) * index / max(1, count - 1)) for index in range(count))


def mask_id(tokenizer: Any, shape: Shape) -> int:
    """The id that stands for a slot to be filled."""
    if shape.mask_token_id is not None:
        return shape.mask_token_id
    if tokenizer.mask_token_id is not None:
        return int(tokenizer.mask_token_id)
    used = {tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id, tokenizer.unk_token_id}
    free = [token for token in tokenizer.added_tokens_decoder if token not in used]
    if not free:
        raise UsageError("the target's tokenizer has no special token to spare: set shape.mask_token_id")
    return int(free[-1])
