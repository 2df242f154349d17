"""A drafter without weights: proposes fixed blocks, or draws from a fixed law. For tests and for trying plug-ins."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from xpress_bench.drafters import Context, Draft
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.sampling import Sampling, pick
from xpress_bench.settings import DrafterSettings
from xpress_bench.targets import Target
from xpress_bench.targets.toy import MarkovTarget


class ScriptedDrafter:
    """Proposes what `script(tokens so far)` returns, cut to the room that is left."""

    taps: tuple[int, ...] = ()
    denoising_steps = 1
    batchable = True

    def __init__(self, script: Callable[[list[int]], list[int]], block_size: int) -> None:
        self.script = script
        self.block_size = block_size

    def start(self, target: Target, prompt: Tensor, features: Tensor | None) -> None:
        """Nothing to keep."""

    def propose(self, context: Context, sampling: Sampling) -> Draft:
        count = min(self.block_size, context.room) - 1
        return Draft(torch.tensor([self.script(context.tokens)[:count]], dtype=torch.long))

    def observe(self, features: Tensor | None) -> None:
        """Nothing to keep."""


class MarginalDrafter(ScriptedDrafter):
    """Draws every slot independently from `law` [V], as a block diffusion drafter does, and records that law."""

    def __init__(self, law: Tensor, block_size: int) -> None:
        super().__init__(lambda tokens: [], block_size)
        self.logits = law.log()

    def propose(self, context: Context, sampling: Sampling) -> Draft:
        count = min(self.block_size, context.room) - 1
        logits = self.logits.expand(1, count, -1) * (sampling.temperature or 1.0)  # so that dividing gives `law` again
        noise = sampling.draft.at(context.position + 1, count, logits)
        hidden = torch.zeros(1, count + 1, 1, dtype=logits.dtype)
        tokens = pick(logits, sampling.temperature, noise)
        return Draft(tokens, logits, hidden, noise, point_mass=noise is None)


def load(settings: DrafterSettings, target: Target, block_size: int | None) -> MarginalDrafter:
    """The registered drafter `toy`: the mean law of the toy target's rows, the same for every slot."""
    if not isinstance(target, MarkovTarget):
        raise MisfitError(f"drafter 'toy' drafts for --target toy, not for {target.name!r}")
    if settings.params or settings.denoising_steps != 1:
        raise UsageError("drafter 'toy' has no drafter.params and drafts in one step")
    return MarginalDrafter(target.logits.softmax(-1).mean(0), block_size or 4)
