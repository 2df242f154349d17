"""EAGLE-3: a decoder layer over the target's features continues them token by token (Li et al. 2025), as a chain.

Row i of the network stands for token i + 1: it reads that token's embedding and, beside it, the target's fused features
of token i, or where the target has not been yet the network's own state of the row before. It predicts token i + 2.
Tensor names are those of speculators 0.9.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from xpress_bench.checkpoints import eagle3 as checkpoint
from xpress_bench.checkpoints.dflash import TABLES, check_fit
from xpress_bench.checkpoints.eagle3 import FAMILIES, Eagle3Config
from xpress_bench.checkpoints.files import load_into, locate
from xpress_bench.drafters import Context, Draft, vocabulary
from xpress_bench.drafters.block_diffusion import Rotary
from xpress_bench.drafters.vocabulary import Vocabulary
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.sampling import Sampling, pick
from xpress_bench.settings import DrafterSettings
from xpress_bench.targets import Target
from xpress_bench.targets.cache import growing_cache


class Eagle3Model(nn.Module):
    """The drafter's network. Names of parameters are the checkpoint's."""

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        self.config = config
        shape, taps = config.base.qwen3, len(config.base.target_layer_ids)
        width, eps = shape.hidden_size, shape.rms_norm_eps
        self.fc = nn.Linear(taps * width, width, bias=False)
        self.input_norm = Qwen3RMSNorm(taps * width, eps=eps) if config.norm_before_fc else None
        norms = nn.ModuleList(Qwen3RMSNorm(width, eps=eps) for _ in range(taps)) if config.fc_norm else None
        self.fc_norm = cast("Sequence[nn.Module] | None", norms)
        layers = nn.ModuleList(FAMILIES[shape.model_type](shape, index) for index in range(shape.num_hidden_layers))
        self.layers = cast("Sequence[Any]", layers)
        first = self.layers[0]
        first.hidden_norm = Qwen3RMSNorm(width, eps=eps)
        for name in ("q_proj", "k_proj", "v_proj"):  # the first layer reads embeddings and states side by side
            old = getattr(first.self_attn, name)
            setattr(first.self_attn, name, nn.Linear(2 * width, old.out_features, bias=old.bias is not None))
        self.norm = Qwen3RMSNorm(width, eps=eps)
        self.rotary = Rotary(shape)

    def fuse(self, features: Tensor) -> Tensor:
        """States [b, n, H] of target features [b, n, taps * H]."""
        if self.input_norm is not None:
            features = self.input_norm(features)
        if self.fc_norm is not None:
            parts = features.chunk(len(self.fc_norm), dim=-1)
            features = torch.cat([norm(part) for norm, part in zip(self.fc_norm, parts, strict=True)], dim=-1)
        return self.fc(features)  # type: ignore[no-any-return]

    def forward(self, embedded: Tensor, states: Tensor, cache: Any) -> tuple[Tensor, Tensor]:
        """New rows behind the cached ones, of embeddings and states [1, n, H] -> what the next step reads in place of
        `states`, and what the head reads."""
        past, rows = cache.get_seq_length(), states.shape[1]
        positions = torch.arange(past, past + rows, device=states.device)[None]
        seen = torch.ones(rows, past + rows, dtype=torch.bool, device=states.device).tril(past)
        options = {
            "position_embeddings": self.rotary(states, positions),
            "attention_mask": seen[None, None],
            "cache": cache,
        }
        first, *others = self.layers
        normed = first.hidden_norm(states)
        mixed, _ = first.self_attn(torch.cat([first.input_layernorm(embedded), normed], dim=-1), **options)
        states = (normed if self.config.norm_before_residual else states) + mixed
        states = states + first.mlp(first.post_attention_layernorm(states))
        for layer in others:
            states = layer(states, **options)
        read = self.norm(states)
        return read if self.config.norm_output else states, read


class Eagle3:
    """The network behind the `Drafter` seam. Each token is drawn from the network's law given all before it."""

    denoising_steps = 1

    def __init__(self, model: Eagle3Model, vocabulary: Vocabulary, block_size: int, folder: Path | None = None) -> None:
        self.model = model
        self.vocabulary = vocabulary
        self.block_size = block_size
        self.folder = folder
        self.taps = model.config.base.target_layer_ids

    def start(self, target: Target, prompt: Tensor, features: Tensor | None) -> None:
        self._cache = growing_cache(self.model.config.base.qwen3)
        self._guessed = 0  # the last rows of the cache: those that read states of the network's own
        self.observe(features)

    def propose(self, context: Context, sampling: Sampling) -> Draft:
        states, rows = self._take_in(context.tokens)
        count = min(self.block_size, context.room) - 1
        if count < 1:
            return Draft(context.anchor[:, None][:, :0])
        noise = sampling.draft.at(context.position + 1, count, rows)
        logits, drawn = [rows], list[Tensor]()
        for slot in range(count):
            if slot:
                states, read = self.model(self.vocabulary.embed(drawn[-1]), states, self._cache)
                logits.append(self.vocabulary.logits(read))
            shared = None if noise is None else noise[:, slot : slot + 1]
            drawn.append(pick(logits[-1], sampling.temperature, shared))
        self._guessed = count - 1
        return Draft(torch.cat(drawn, dim=1), torch.cat(logits, dim=1), None, noise, point_mass=noise is None)

    def observe(self, features: Tensor | None) -> None:
        if features is None:
            raise MisfitError("eagle3 reads target features, and this target gave none")
        self._features = features

    def _take_in(self, tokens: list[int]) -> tuple[Tensor, Tensor]:
        """Rows of the features observed last, in place of those guessed: the last one's state and logits, [1, 1, _]."""
        self._cache.crop(-self._guessed)
        self._guessed = 0
        fused = self.model.fuse(self._features)
        after = torch.tensor([tokens[-fused.shape[1] :]], device=fused.device)  # each row's next token, the anchor last
        states, read = self.model(self.vocabulary.embed(after), fused, self._cache)
        return states[:, -1:], self.vocabulary.logits(read[:, -1:])


def load(settings: DrafterSettings, target: Target, block_size: int | None) -> Eagle3:
    """The drafter of a checkpoint folder or hub id in the speculators format."""
    if settings.denoising_steps != 1 or settings.params:
        raise UsageError("eagle3 drafts token by token: it has no denoising_steps and no drafter.params")
    if not settings.path:
        raise UsageError(f"eagle3 needs a head trained for target {target.name!r}: drafter.path=FOLDER or HUB_ID")
    folder = locate(settings.path, settings.revision)
    config = checkpoint.read_config(folder, target.layers)
    check_fit(config.base, target, folder)
    model = Eagle3Model(config).to(device=target.device, dtype=target.dtype).eval()
    load_into(model, folder, prefix="", ignore=TABLES)
    own = vocabulary.load(folder, config.base, target)
    return Eagle3(model, own, block_size or config.base.block_size, folder)
