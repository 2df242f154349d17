"""Blocks to train a block drafter on, and the packed forward of many blocks at once (methods.md 2.3).

Blocks start at random anchors inside the target's own answers. A block sees the target's features strictly before its
anchor and itself, in both directions. In some blocks a part of the slots shows its true token instead of the mask, as
a later denoising step finds them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor
from torch.nn import functional as F

from xpress_bench.drafters.block_diffusion import BlockDiffusionModel
from xpress_bench.train.distil import Lessons


@dataclass(frozen=True, slots=True)
class Draw:
    """How blocks are drawn: `anchors` blocks in `rows` rows of `length` tokens.

    A share `long` of the draws takes one row of all those tokens instead, so that far context is learnt too; a share
    `wide` has blocks of the second size; a share `revealed` of the blocks is partly revealed. Slot k weighs
    exp(-(k - 1) / gamma).
    """

    rows: int = 4
    length: int = 512
    anchors: int = 192
    block_sizes: tuple[int, int] = (8, 16)
    wide: float = 0.3
    long: float = 0.15
    revealed: float = 0.2
    gamma: float = 4.0

    @property
    def tokens(self) -> int:
        """Tokens of the longest row with the block that may begin at its end."""
        return self.rows * self.length + max(self.block_sizes)


@dataclass(frozen=True, slots=True)
class Blocks:
    """A batch of blocks. R rows of T context tokens, A anchors a row, B slots a block.

    features [R, T, taps*H]; context_positions [R, T]; positions [R, A*B]; tokens [R, A, B] true ids; shown [R, A, B]
    whether the drafter sees a slot's token (always the anchor's); law_states [R, A, B-1, H] target states that predict
    slots 1..; weights [R, A, B-1], 0 where a slot is shown or beyond the answer; previous [R, A] the id before the
    anchor; mask [R, 1, A*B, T + A*B].
    """

    features: Tensor
    context_positions: Tensor
    positions: Tensor
    tokens: Tensor
    shown: Tensor
    previous: Tensor
    law_states: Tensor
    weights: Tensor
    mask: Tensor

    def to(self, device: torch.device, dtype: torch.dtype) -> Blocks:
        """The same blocks on a device, states and weights in a floating-point type."""
        moved = {}
        for each in fields(self):
            tensor: Tensor = getattr(self, each.name)
            moved[each.name] = tensor.to(device=device, dtype=dtype if tensor.is_floating_point() else tensor.dtype)
        return Blocks(**moved)


def draw_blocks(lessons: Lessons, draw: Draw, generator: torch.Generator) -> Blocks:
    """Random rows of the lessons and random anchors among their answer tokens."""
    long, wide = (torch.rand(2, generator=generator) < torch.tensor([draw.long, draw.wide])).tolist()
    rows = 1 if long else draw.rows
    T, A, B = draw.rows * draw.length // rows, draw.anchors // rows, draw.block_sizes[wide]
    starts = torch.randint(0, len(lessons.ids) - T - B, (rows, 1), generator=generator)
    index = starts + torch.arange(T)  # [R, T]
    documents = lessons.documents[index]
    usable = lessons.is_answer[index].float()
    usable[:, 0] = 0  # the token before the anchor must be in the row
    usable[:, -B:] = 0
    usable += 1e-6  # a row without an answer still has something to draw; its weights are then zero
    anchors = torch.multinomial(usable, A, generator=generator).sort(dim=1).values  # [R, A]
    slots = starts[..., None] + anchors[..., None] + torch.arange(B)  # [R, A, B]
    here = documents.gather(1, anchors)  # [R, A]
    inside = (lessons.documents[slots] == here[..., None]) & lessons.is_answer[slots]
    shown = reveal((rows, A, B), draw.revealed, generator)
    context_positions = lessons.positions[index]
    anchor_positions = context_positions.gather(1, anchors)
    seen = (documents[:, None, :] == here[..., None]) & (context_positions[:, None, :] < anchor_positions[..., None])
    own = torch.arange(A * B) // B
    itself = (own[:, None] == own[None, :]).expand(rows, -1, -1)
    decay = torch.exp(-torch.arange(B - 1) / draw.gamma)
    return Blocks(
        features=lessons.features[index],
        context_positions=context_positions,
        positions=(anchor_positions[..., None] + torch.arange(B)).flatten(1),
        tokens=lessons.ids[slots],
        shown=shown,
        previous=lessons.ids[slots[..., 0] - 1],
        law_states=lessons.final[slots[..., 1:] - 1],
        weights=(inside[..., 1:] & inside[..., :1] & ~shown[..., 1:]).float() * decay,
        mask=torch.cat([seen.repeat_interleave(B, dim=1), itself], dim=-1)[:, None],
    )


def reveal(shape: tuple[int, int, int], share: float, generator: torch.Generator) -> Tensor:
    """[R, A, B] yes or no: the anchor always; in a `share` of the blocks each other slot with a chance of its own."""
    chance = torch.rand(shape[:2], generator=generator) * (torch.rand(shape[:2], generator=generator) < share)
    shown = torch.rand(shape, generator=generator) < chance[..., None]
    shown[..., 0] = True
    return shown


def draft_states(model: BlockDiffusionModel, table: Tensor, blocks: Blocks) -> Tensor:
    """Final-norm states [R * A, B, H] of all blocks in one packed forward; table [V, H] embeds."""
    ids = blocks.tokens.masked_fill(~blocks.shown, model.config.mask_token_id)
    rows = F.embedding(ids.flatten(1), table)
    context = model.fuse(blocks.features)
    around_context = model.rotary(context, blocks.context_positions)
    around_block = model.rotary(rows, blocks.positions)
    for layer in model.layers:
        normed = layer.input_layernorm(rows)
        pairs = zip(
            layer.self_attn.keys_values(context, around_context),
            layer.self_attn.keys_values(normed, around_block),
            strict=True,
        )
        keys, values = (torch.cat(pair, dim=2) for pair in pairs)
        queries = layer.self_attn.queries(normed, around_block)
        rows = rows + layer.self_attn.attend(queries, keys, values, blocks.mask)
        rows = rows + layer.mlp(layer.post_attention_layernorm(rows))
    return model.norm(rows).unflatten(1, blocks.tokens.shape[1:]).flatten(0, 1)


def slot_loss(logits: Tensor, labels: Tensor, target_law: Tensor, weights: Tensor, ce: float, l1: float) -> Tensor:
    """ce * cross-entropy + l1 * |p_draft - p_target|_1 per slot [n], averaged by weights [n]; logits [n, V]."""
    logs = logits.float().log_softmax(-1)
    entropy = -logs.gather(-1, labels[:, None])[:, 0]
    distance = (logs.exp() - target_law).abs().sum(-1)
    return ((ce * entropy + l1 * distance) * weights).sum() / weights.sum().clamp_min(1.0)
