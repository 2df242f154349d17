"""Train a DFlash drafter and an xPress head together against a frozen target (methods.md 2.3 and 4.4).

Blocks start at random anchors inside the target's own answers. A block sees the target's features strictly before its
anchor and itself, in both directions. The head learns to correct from true tokens (teacher forcing) and from its own
(free-running rounds); the drafter keeps a loss of its own, so that it stays a good drafter without the head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from xpress_bench.drafters.block_diffusion import BlockDiffusionModel
from xpress_bench.refiners.xpress import XPressHead
from xpress_bench.train.distil import Lessons
from xpress_bench.train.progressive import MasterWeights, Rates, Session


@dataclass(frozen=True, slots=True)
class DrafterRecipe:
    """`lengths`: tokens per row, `anchors` blocks per row; `wide` is the share of steps at the largest block."""

    minutes: float = 21.0
    rows: int = 4
    length: int = 512
    anchors: int = 48
    block_sizes: tuple[int, int] = (8, 16)
    wide: float = 0.3
    rounds: int = 2  # free-running rounds of the head
    rounds_weight: float = 0.3
    base_weight: tuple[float, float] = (1.0, 0.6)  # weight of the drafter's own loss, first and last
    ce: float = 0.4
    l1: float = 0.6
    gamma: float = 4.0
    rates: Rates = Rates(adam_lr=2e-3, weight_decay=0.05, decay_from=0.3)
    seed: int = 3


@dataclass(frozen=True, slots=True)
class Blocks:
    """A batch of blocks. R rows of T context tokens, A anchors a row, B slots a block.

    features [R, T, taps*H]; context_positions [R, T]; anchors [R, A] indices into T; positions [R, A*B];
    tokens [R, A, B] true ids; law_states [R, A, B-1, H] target states that predict slots 1..; weights [R, A, B-1];
    previous [R, A] the id before the anchor; mask [R, 1, A*B, T + A*B].
    """

    features: Tensor
    context_positions: Tensor
    positions: Tensor
    tokens: Tensor
    previous: Tensor
    law_states: Tensor
    weights: Tensor
    mask: Tensor


class Drafts(nn.Module):
    """Drafter and head as one module, so that one set of optimizers moves both."""

    def __init__(self, drafter: BlockDiffusionModel, head: XPressHead) -> None:
        super().__init__()
        self.drafter = drafter
        self.head = head


def draw_blocks(lessons: Lessons, recipe: DrafterRecipe, block_size: int, generator: torch.Generator) -> Blocks:
    """Random rows of the lessons, random anchors among their answer tokens; slots beyond a document weigh nothing."""
    T, A, B = recipe.length, recipe.anchors, block_size
    starts = torch.randint(0, len(lessons.ids) - T - B, (recipe.rows, 1), generator=generator)
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
    decay = torch.exp(-torch.arange(B - 1) / recipe.gamma)
    context_positions = lessons.positions[index]
    anchor_positions = context_positions.gather(1, anchors)
    seen = (documents[:, None, :] == here[..., None]) & (context_positions[:, None, :] < anchor_positions[..., None])
    own = torch.arange(A * B) // B
    mask = torch.cat(
        [seen.repeat_interleave(B, dim=1), (own[:, None] == own[None, :]).expand(recipe.rows, -1, -1)], dim=-1
    )
    return Blocks(
        features=lessons.features[index],
        context_positions=context_positions,
        positions=(anchor_positions[..., None] + torch.arange(B)).flatten(1),
        tokens=lessons.ids[slots],
        previous=lessons.ids[slots[..., 0] - 1],
        law_states=lessons.final[slots[..., 1:] - 1],
        weights=(inside[..., 1:] & inside[..., :1]).float() * decay,
        mask=mask[:, None],
    )


def draft_states(model: BlockDiffusionModel, table: Tensor, blocks: Blocks) -> Tensor:
    """Final-norm states [R * A, B, H] of all blocks in one packed forward."""
    R, A, B = blocks.tokens.shape
    ids = torch.full((R, A, B), model.config.mask_token_id)
    ids[..., 0] = blocks.tokens[..., 0]
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
    return model.norm(rows).unflatten(1, (A, B)).flatten(0, 1)


def slot_loss(logits: Tensor, labels: Tensor, target_law: Tensor, weights: Tensor, ce: float, l1: float) -> Tensor:
    """ce * cross-entropy + l1 * |p_draft - p_target|_1 per slot [n], averaged by weights [n]; logits [n, V]."""
    logs = logits.float().log_softmax(-1)
    entropy = -logs.gather(-1, labels[:, None])[:, 0]
    distance = (logs.exp() - target_law).abs().sum(-1)
    return ((ce * entropy + l1 * distance) * weights).sum() / weights.sum().clamp_min(1.0)


def losses(
    model: Drafts,
    table: Tensor,
    blocks: Blocks,
    recipe: DrafterRecipe,
    progress: float,
    loss_of: Callable[..., Tensor] = slot_loss,
) -> dict[str, Tensor]:
    """Loss parts of one batch: the drafter's own, the teacher-forced pass, the free-running rounds, and their sum."""
    hidden = draft_states(model.drafter, table, blocks)  # [R*A, B, H]
    base = hidden[:, 1:] @ table.t()
    tokens = blocks.tokens.flatten(0, 1)
    labels, weights = tokens[:, 1:].flatten(), blocks.weights.flatten()
    with torch.no_grad():
        target_law = (blocks.law_states.flatten(0, 2) @ table.t()).float().softmax(-1)

    def loss(logits: Tensor) -> Tensor:
        return loss_of(logits.flatten(0, 1), labels, target_law, weights, recipe.ce, recipe.l1)

    shared = model.head.block_part(hidden)
    before_anchor = blocks.previous.flatten()[:, None]

    def corrected(current: Tensor) -> Tensor:
        previous = torch.cat([before_anchor, tokens[:, :1], current[:, :-1]], dim=1)
        return base + model.head.bias(shared, previous)[:, 1:]

    own, forced = loss(base), loss(corrected(tokens[:, 1:]))
    current, free = base.argmax(-1), []
    for _ in range(recipe.rounds):
        logits = corrected(current)
        free.append(loss(logits))
        current = logits.argmax(-1)
    first, last = recipe.base_weight
    weight = first + (last - first) * progress
    rounds = torch.stack(free).mean() if free else own.new_zeros(())
    return {"base": own, "forced": forced, "free": rounds, "sum": forced + recipe.rounds_weight * rounds + weight * own}


def train_drafter(
    drafter: BlockDiffusionModel, head: XPressHead, table: Tensor, lessons: Lessons, recipe: DrafterRecipe, folder: Path
) -> None:
    """Train both in place for `recipe.minutes` in `folder`, from which it resumes.

    table [V, H] is the target's tied input and output table, frozen.
    """
    torch.manual_seed(recipe.seed)
    model = Drafts(drafter, head).to(torch.bfloat16)
    session = Session(folder, MasterWeights(model, recipe.rates), recipe.minutes)
    table = table.bfloat16()
    loss_of = torch.compile(slot_loss, dynamic=True)
    generator = torch.Generator().manual_seed(recipe.seed + session.step)

    def backward(progress: float) -> dict[str, Any]:
        wide = float(torch.rand((), generator=generator)) < recipe.wide
        blocks = draw_blocks(lessons, recipe, recipe.block_sizes[wide], generator)
        parts = losses(model, table, blocks, recipe, progress, loss_of)
        parts["sum"].backward()
        return {"block": blocks.tokens.shape[-1]} | {
            name: round(float(part.detach()), 4) for name, part in parts.items()
        }

    session.run(1.0, backward)
