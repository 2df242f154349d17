"""A small autoregressive model with the target's tokenizer drafts token by token: classic speculative decoding.

The rival every block drafter has to beat (Leviathan et al. 2023, Chen et al. 2023; `assistant_model` in transformers).
"""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from xpress_bench.drafters import Context, Draft, Drafter
from xpress_bench.drafters.translated import Translated
from xpress_bench.drafters.whole_model import checkpoint, over_target
from xpress_bench.errors import UsageError
from xpress_bench.options import checked, switch
from xpress_bench.sampling import Sampling, pick
from xpress_bench.settings import DrafterSettings, TargetSettings
from xpress_bench.targets import Target, hf
from xpress_bench.targets.hf import HfTarget

BLOCK_SIZE = 8
EMBEDDED = Path(__file__).parent.parent / "embedded" / "draft_model"


class DraftModel:
    """A causal LM behind the `Drafter` seam; each token is drawn from the model's own law given all before it.

    `vocab_size` is the target's V. `tokenizer` is the draft model's own, to be compared with the target's.
    """

    taps: tuple[int, ...] = ()
    denoising_steps = 1

    def __init__(
        self, model: HfTarget, vocab_size: int, block_size: int, folder: Path | None = None, tokenizer: Any = None
    ) -> None:
        self.model = model
        self.vocab_size = vocab_size
        self.block_size = block_size
        self.folder = folder
        self.tokenizer = tokenizer

    def start(self, target: Target, prompt: Tensor, features: Tensor | None) -> None:
        """The first `propose` reads the prompt, in one forward with the first anchor."""
        self._position = 0  # rows of the cache before the last block, all committed
        self._block = prompt[:, :0]  # ids [1, n] of the rows after them: the last anchor and the drafts fed

    def propose(self, context: Context, sampling: Sampling) -> Draft:
        # Token i is drawn from the row at position + i - 1, which the draft model's own context must still have.
        count = min(min(self.block_size, context.room) - 1, self.model.context - context.position)
        if count < 1:
            return Draft(context.anchor[:, None][:, :0])
        rows, drawn = [self._take_in(context.tokens)], [context.anchor[:, None]]
        noise = sampling.draft.at(context.position + 1, count, rows[0])
        for slot in range(count):
            if slot:
                rows.append(self._over(self.model.verify(drawn[-1], ())))
            shared = None if noise is None else noise[:, slot : slot + 1]
            drawn.append(pick(rows[-1], sampling.temperature, shared))
        self._position, self._block = context.position, torch.cat(drawn[:-1], dim=1)
        return Draft(torch.cat(drawn[1:], dim=1), torch.cat(rows, dim=1), None, noise, point_mass=noise is None)

    def observe(self, features: Tensor | None) -> None:
        """Nothing to keep: the context carries the tokens."""

    def rewind(self, count: int) -> None:
        """Forget all but the first `count` tokens of what was read, because those after them have changed."""
        if count < self._position:
            self._position, self._block = count, self._block[:, :0]

    def _take_in(self, tokens: list[int]) -> Tensor:
        """Logits [1, 1, V] after `tokens`. Rows of accepted drafts stay, the others go; the anchor is always fed."""
        pairs = zip(self._block[0].tolist(), tokens[self._position : -1], strict=False)
        keep = self._position + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        new = torch.tensor([tokens[keep:]], device=self.model.device).clamp_max(self.model.vocab_size - 1)
        if keep == 0:
            return self._over(self.model.prefill(new, ())[0])
        self.model.drop(self.model.cached - keep)
        return self._over(self.model.verify(new, ())[:, -1:])

    def _over(self, logits: Tensor) -> Tensor:
        return over_target(logits, self.vocab_size)


def load(settings: DrafterSettings, target: Target, block_size: int | None) -> Drafter:
    """The causal LM of a folder or hub id, on the target's device and in its dtype.

    `drafter.params.translate` lets it have a tokenizer of its own: see `Translated`.
    """
    if settings.denoising_steps != 1:
        raise UsageError(f"drafter.denoising_steps is {settings.denoising_steps}: draft_model has no denoising")
    translate = checked(settings, {"translate": switch()}).get("translate", False)
    folder, tokenizer = checkpoint(_where(settings, target), settings.revision)
    model = hf.load(TargetSettings(str(folder)), str(target.device), str(target.dtype).removeprefix("torch."))
    block_size = block_size or BLOCK_SIZE
    if translate:
        return Translated(DraftModel(model, model.vocab_size, block_size, folder), tokenizer)
    return DraftModel(model, target.vocab_size, block_size, folder, tokenizer)


def _where(settings: DrafterSettings, target: Target) -> str:
    if settings.path:
        return settings.path
    if target.name == "embedded" and EMBEDDED.is_dir():
        return str(EMBEDDED)
    missing = f" (none is embedded in {EMBEDDED})" if target.name == "embedded" else ""
    raise UsageError(
        f"draft_model needs a small causal LM with the tokenizer of target {target.name!r}: "
        f"--drafter FOLDER or HUB_ID{missing}"
    )
