"""Train what drafts and refines, against a frozen target: DFlash alone, DFlash with xPress, a Markov head.

All three learn from the same blocks with the same loss (methods.md 2.3, 3.3, 4.4). The xPress head learns to correct
from true tokens (teacher forcing) and from its own (free-running rounds) while the drafter keeps a loss of its own, so
that it stays a good drafter without the head. The Markov head learns beside a drafter that no longer moves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from xpress_bench.drafters.block_diffusion import BlockDiffusionModel
from xpress_bench.refiners.markov import MarkovHead
from xpress_bench.refiners.xpress import XPressHead
from xpress_bench.train.blocks import Blocks, Draw, draft_states, draw_blocks, slot_loss
from xpress_bench.train.distil import Lessons
from xpress_bench.train.fresh import Tables
from xpress_bench.train.progressive import MasterWeights, Rates, Session, fast_dtype


@dataclass(frozen=True, slots=True)
class DrafterRecipe:
    """One of the three trainings. `rounds`: free-running rounds of the xPress head, which weigh `rounds_weight`.

    `base_weight`: weight of the drafter's own loss beside the head's, at the start and at the end.
    """

    minutes: float
    rates: Rates = Rates(adam_lr=2e-3, weight_decay=0.05, decay_from=0.3)
    draw: Draw = field(default_factory=Draw)
    ce: float = 0.4
    l1: float = 0.6
    rounds: int = 1
    rounds_weight: float = 0.3
    base_weight: tuple[float, float] = (0.8, 0.5)
    seed: int = 3


class Lesson:
    """One batch of blocks with what every loss needs of it: the drafter's states and base logits, and the loss.

    hidden [n, B, H], base [n, B-1, V] and tokens [n, B] for n blocks.
    """

    def __init__(self, drafter: BlockDiffusionModel, tables: Tables, blocks: Blocks, recipe: DrafterRecipe) -> None:
        self.hidden = draft_states(drafter, tables.embed, blocks)
        self.base = self.hidden[:, 1:] @ tables.head.t()
        self.tokens = blocks.tokens.flatten(0, 1)
        self._previous = blocks.previous.flatten()[:, None]
        self._weights, self._recipe = blocks.weights.flatten(), recipe
        with torch.no_grad():
            self._law = (blocks.law_states.flatten(0, 2) @ tables.head.t()).float().softmax(-1)

    def loss(self, logits: Tensor, loss_of: Callable[..., Tensor]) -> Tensor:
        """Loss of logits [n, B-1, V]."""
        labels = self.tokens[:, 1:].flatten()
        return loss_of(logits.flatten(0, 1), labels, self._law, self._weights, self._recipe.ce, self._recipe.l1)

    def previous(self, current: Tensor) -> Tensor:
        """Ids before each of the B slots [n, B], if the block's tokens behind the anchor were `current` [n, B-1]."""
        return torch.cat([self._previous, self.tokens[:, :1], current[:, :-1]], dim=1)


Losses = Callable[[Lesson, float, Callable[..., Tensor]], dict[str, Tensor]]  # "sum" is what is minimised


def drafter_losses(lesson: Lesson, progress: float, loss_of: Callable[..., Tensor] = slot_loss) -> dict[str, Tensor]:
    """The drafter's own loss."""
    own = lesson.loss(lesson.base, loss_of)
    return {"base": own, "sum": own}


def xpress_losses(head: XPressHead, recipe: DrafterRecipe) -> Losses:
    """The teacher-forced pass, the free-running rounds from the drafter's argmax, and the drafter's own loss."""

    def losses(lesson: Lesson, progress: float, loss_of: Callable[..., Tensor] = slot_loss) -> dict[str, Tensor]:
        shared = head.block_part(lesson.hidden)

        def corrected(current: Tensor) -> Tensor:
            return lesson.base + head.bias(shared, lesson.previous(current))[:, 1:]

        own, forced = lesson.loss(lesson.base, loss_of), lesson.loss(corrected(lesson.tokens[:, 1:]), loss_of)
        current, free = lesson.base.argmax(-1), []
        for _ in range(recipe.rounds):
            logits = corrected(current)
            free.append(lesson.loss(logits, loss_of))
            current = logits.argmax(-1)
        rounds = torch.stack(free).mean() if free else own.new_zeros(())
        first, last = recipe.base_weight
        weight = first + (last - first) * progress
        return {
            "base": own, "forced": forced, "free": rounds,
            "sum": forced + recipe.rounds_weight * rounds + weight * own,
        }  # fmt: skip

    return losses


def markov_losses(head: MarkovHead) -> Losses:
    """The teacher-forced pass; exact, because a Markov head at work sees its own tokens one by one."""

    def losses(lesson: Lesson, progress: float, loss_of: Callable[..., Tensor] = slot_loss) -> dict[str, Tensor]:
        forced = lesson.loss(lesson.base + head.bias(lesson.tokens[:, :-1]), loss_of)
        return {"forced": forced, "sum": forced}

    return losses


def train_blocks(
    drafter: BlockDiffusionModel,
    head: nn.Module | None,
    losses: Losses,
    tables: Tables,
    lessons: Lessons,
    recipe: DrafterRecipe,
    folder: Path,
) -> None:
    """Train in place for `recipe.minutes` in `folder`, from which it resumes. Frozen parameters stay as they are."""
    torch.manual_seed(recipe.seed)
    device = tables.embed.device
    dtype = fast_dtype(device)
    model = nn.ModuleDict({"drafter": drafter} | ({"head": head} if head is not None else {})).to(device, dtype)
    session = Session(folder, MasterWeights(model, recipe.rates), recipe.minutes)
    tables = tables.to(device, dtype)
    loss_of = torch.compile(slot_loss, dynamic=True)
    generator = torch.Generator().manual_seed(recipe.seed + session.step)

    def backward(progress: float) -> dict[str, Any]:
        blocks = draw_blocks(lessons, recipe.draw, generator).to(device, dtype)
        parts = losses(Lesson(drafter, tables, blocks, recipe), progress, loss_of)
        parts["sum"].backward()
        values = {name: round(float(part.detach()), 4) for name, part in parts.items()}
        return {"block": blocks.tokens.shape[-1]} | values

    session.run(1.0, backward)
