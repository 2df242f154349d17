"""Filling a masked block, in one step or in several through diffusers' scheduler (LLaDA; methods.md section 6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from xpress_bench.drafters import Draft
from xpress_bench.errors import UsageError
from xpress_bench.options import above_zero
from xpress_bench.sampling import Sampling, log_law, pick

# Tokens [b, N], masks or not -> final states [b, S, H] that end with the slots' own, and the slots' logits [b, N, V].
Forward = Callable[[Tensor], tuple[Tensor, Tensor]]


OPTIONS = {"threshold": above_zero(most=1), "editing_threshold": above_zero(most=1)}


@dataclass(frozen=True, slots=True)
class Denoising:
    """How a block is filled: each of `steps` forwards commits an even share of the slots, the most confident first.

    Slots above `threshold` are committed besides, whatever the share; 1 adds none. A committed slot takes another token
    that a later step gives more than `editing_threshold`; None: never. Below a threshold of 1 the filling ends as soon
    as nothing is left to do.
    """

    steps: int = 1
    threshold: float = 1.0
    editing_threshold: float | None = None

    def check(self, slots: int) -> None:
        """UsageError if a block has fewer `slots` to fill than there are steps."""
        if self.steps > slots:
            most = "1" if slots == 1 else f"1..{slots}"
            raise UsageError(f"drafter.denoising_steps is {self.steps}: a block has {slots} to fill; choose {most}")

    def fill(self, forward: Forward, masks: Tensor, mask: int, position: int, sampling: Sampling) -> Draft:
        """The draft of a block of `masks` [b, N], all of them the id `mask`, behind the anchor at `position`.

        In one step every slot is a sample of its own law. In more, a slot depends on later ones that were committed
        before it, so the draft is a point mass. It keeps the logits and states that each token was last picked from: a
        later step sees a committed token as its input, and what it says there is no prediction.
        """
        hidden, logits = forward(masks)
        noise = sampling.draft.at(position + 1, masks.shape[1], logits)
        if self.steps == 1:
            return Draft(pick(logits, sampling.temperature, noise), logits, hidden, noise, point_mass=noise is None)
        scheduler, steps = self._scheduler(masks.shape[1])
        tokens, states, said = masks, hidden, logits
        for step in range(steps):
            if step:
                states, said = forward(tokens)
            scores = _scores(said, mask, sampling.temperature, noise)
            done = scheduler.step(scores, step, tokens, mask_token_id=mask)
            tokens, changed = done.prev_sample, done.transfer_index | done.editing_transfer_index
            logits = torch.where(changed[..., None], said, logits)
            rows = F.pad(changed, (hidden.shape[1] - changed.shape[1], 0), value=True)  # the anchor's: the last step's
            hidden = torch.where(rows[..., None], states, hidden)
            if self._settled(tokens == mask, changed):
                break
        return Draft(tokens, logits, hidden, noise, point_mass=True)

    def _scheduler(self, slots: int) -> tuple[Any, int]:
        """A scheduler that is told its shares (it fills nothing before), and the steps of a block cut to `slots`."""
        from diffusers import BlockRefinementScheduler  # slow to import, and most drafts take one step

        steps = min(self.steps, slots)
        scheduler = BlockRefinementScheduler(threshold=self.threshold, editing_threshold=self.editing_threshold)
        scheduler.set_timesteps(steps, block_length=slots)
        return scheduler, steps

    def _settled(self, open_slots: Tensor, changed: Tensor) -> bool:
        """Whether more steps would change nothing. At a threshold of 1 the shares say so without a read on the host."""
        if self.threshold == 1:
            return False
        editing = self.editing_threshold is not None
        return not bool((open_slots | changed if editing else open_slots).any())


def _scores(logits: Tensor, mask: int, temperature: float, noise: Tensor | None) -> Tensor:
    """What `pick` takes the largest of, without MASK: the scheduler would take one for a slot still open."""
    scores = log_law(logits, temperature, noise)
    scores[..., mask : mask + 1] = -torch.inf  # may be beyond the target's vocabulary
    return scores
