"""Any transformers masked language model as a drafter: it fills in masks behind the text, the whole block at once.

It knows nothing of the target but the ids, so its tokenizer must be the target's. Diffusion language models that load
as masked ones, with slot k predicting its own place, are such models.
"""

from __future__ import annotations

from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForMaskedLM

from xpress_bench.drafters import Context, Draft
from xpress_bench.drafters.denoising import OPTIONS, Denoising
from xpress_bench.drafters.whole_model import checkpoint, over_target
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.options import checked, whole
from xpress_bench.sampling import Sampling
from xpress_bench.settings import DrafterSettings
from xpress_bench.targets import Target
from xpress_bench.weights import are_random

BLOCK_SIZE = 8
WINDOW = 256


class MaskedLM:
    """Reads [the last `window` tokens, the anchor among them, MASK x N]; nothing is added around them.

    `vocab_size` is the target's V. There is no cache: every step reads the window anew.
    """

    taps: tuple[int, ...] = ()

    def __init__(
        self,
        model: Any,
        mask_token_id: int,
        vocab_size: int,
        block_size: int,
        window: int = WINDOW,
        denoising: Denoising | None = None,
        folder: Path | None = None,
        tokenizer: Any = None,
    ) -> None:
        self.model = model
        self.mask_token_id = mask_token_id
        self.rows: int = model.get_input_embeddings().weight.shape[0]
        self.vocab_size = vocab_size
        self.block_size = block_size
        self.window = window
        self.denoising = denoising or Denoising()
        self.denoising_steps = self.denoising.steps
        self.folder = folder
        self.tokenizer = tokenizer

    def start(self, target: Target, prompt: Tensor, features: Tensor | None) -> None:
        """Nothing to keep."""

    def propose(self, context: Context, sampling: Sampling) -> Draft:
        count = min(self.block_size, context.room) - 1
        if count < 1:
            return Draft(context.anchor[:, None][:, :0])
        self._window = torch.tensor([context.tokens[-self.window :]], device=context.anchor.device)
        masks = context.anchor.new_full((1, count), self.mask_token_id)
        predict = partial(self.predict, context.anchor)
        return self.denoising.fill(predict, masks, self.mask_token_id, context.position, sampling)

    def predict(self, anchor: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """States [b, 1 + N, H] and logits [b, N, V] of one forward over the window and tokens [b, N], masks or not.

        The window ends with the anchor of the last `propose`, and `anchor` [b] is that one.
        """
        ids = torch.cat([self._window.expand(len(anchor), -1), tokens], dim=1)
        ids = ids.masked_fill(ids >= self.rows, self.mask_token_id)  # ids of the target that the model lacks (C27)
        output = self.model(input_ids=ids, output_hidden_states=True)
        count = tokens.shape[1]
        logits = output.logits[:, -count:]
        logits[..., self.mask_token_id] = -torch.inf  # may be an id of the target's, but is never meant as one here
        return output.hidden_states[-1][:, -count - 1 :], over_target(logits, self.vocab_size)

    def observe(self, features: Tensor | None) -> None:
        """Nothing to keep: the context carries the tokens."""


def load(settings: DrafterSettings, target: Target, block_size: int | None) -> MaskedLM:
    """The masked LM of a folder or hub id, on the target's device and in its dtype."""
    params = checked(settings, OPTIONS | {"window": whole(1)})
    window = params.pop("window", None)
    if not settings.path:
        raise UsageError(
            f"masked_lm needs a masked LM with the tokenizer of target {target.name!r}: drafter.path=FOLDER or HUB_ID"
        )
    size = block_size or BLOCK_SIZE
    denoising = Denoising(settings.denoising_steps, **params)
    denoising.check(size - 1)
    folder, tokenizer = checkpoint(settings.path, settings.revision)
    model = _model(folder, target.dtype).to(target.device).eval()
    mask = _mask(model, tokenizer, folder)
    window = _window(window, size, model, tokenizer, folder)
    return MaskedLM(model, mask, target.vocab_size, size, window, denoising, folder, tokenizer)


def _model(folder: Path, dtype: torch.dtype) -> Any:
    try:
        if are_random():
            return AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(str(folder)), dtype=dtype)
        model, report = AutoModelForMaskedLM.from_pretrained(
            str(folder), dtype=dtype, use_safetensors=True, output_loading_info=True
        )
    except (OSError, ValueError, ImportError, LookupError, RuntimeError) as error:
        raise UsageError(f"{folder}: does not load as a masked LM ({str(error).splitlines()[0]})") from error
    if report["missing_keys"]:  # transformers fills them with random numbers
        raise UsageError(f"{folder}: lacks weights of a masked LM, e.g. {min(report['missing_keys'])}")
    return model


def _mask(model: Any, tokenizer: Any, folder: Path) -> int:
    """The id of MASK."""
    rows: int = model.get_input_embeddings().weight.shape[0]
    mask: int | None = getattr(tokenizer, "mask_token_id", None)
    if mask is None:
        mask = getattr(model.config, "mask_token_id", None)
    if mask is None or not 0 <= mask < rows:
        raise MisfitError(f"{folder}: has no MASK among its {rows} ids (got {mask}): add mask_token to its tokenizer")
    return mask


def _window(asked: int | None, block_size: int, model: Any, tokenizer: Any, folder: Path) -> int:
    """Tokens of context that the model has places for beside a block's masks."""
    places: int = min(model.config.max_position_embeddings, getattr(tokenizer, "model_max_length", inf))
    most = places - (block_size - 1)
    if most < (asked or 1):
        raise UsageError(
            f"{folder}: {asked or 1} tokens of context and a block's {block_size - 1} masks do not fit its {places} "
            "positions; lower drafter.params.window or block_size"
        )
    return min(asked or WINDOW, most)
