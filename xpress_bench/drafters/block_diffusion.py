"""DFlash: a block diffusion drafter over the target's own features (methods.md section 2).

The drafter has no vocabulary of its own: it embeds `[anchor, MASK, ...]` with the target's table, reads the target's
hidden states at a few layers as keys and values, and turns its states into logits with the target's head. Tensor names
are those of the z-lab checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3MLP, Qwen3RMSNorm, Qwen3RotaryEmbedding

from xpress_bench.checkpoints import dflash as checkpoint
from xpress_bench.checkpoints.dflash import BlockConfig
from xpress_bench.checkpoints.files import locate
from xpress_bench.drafters import Context, Draft
from xpress_bench.drafters.denoising import commit, commit_counts
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.sampling import Sampling, pick
from xpress_bench.settings import DrafterSettings
from xpress_bench.targets import Target

EMBEDDED = Path(__file__).parent.parent / "embedded" / "dflash"


class ContextCache:
    """Keys and values of the committed context, one buffer per layer; a block's rows are written behind and dropped.

    Buffers grow by doubling, so appending costs the rows appended.
    """

    def __init__(self, layers: int) -> None:
        self.length = 0
        self._buffers: list[tuple[Tensor, Tensor] | None] = [None] * layers

    def view(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write keys and values [b, heads, n, d] behind the context; returns all [b, heads, length + n, d]."""
        end = self.length + keys.shape[2]
        held = self._buffers[layer]
        if held is None or held[0].shape[2] < end:
            held = (_grown(held and held[0], keys, end), _grown(held and held[1], values, end))
            self._buffers[layer] = held
        held[0][:, :, self.length : end] = keys
        held[1][:, :, self.length : end] = values
        return held[0][:, :, :end], held[1][:, :, :end]


def _grown(old: Tensor | None, like: Tensor, rows: int) -> Tensor:
    batch, heads, _, width = like.shape
    new = like.new_empty(batch, heads, max(256, 2 * rows), width)
    if old is not None:
        new[:, :, : old.shape[2]] = old
    return new


class Attention(nn.Module):
    """Queries from the block only; keys and values from the fused target features and from the block."""

    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        width = config.hidden_size
        self.q_proj = nn.Linear(width, self.heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(width, self.kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(width, self.kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(self.heads * self.head_dim, width, bias=False)
        self.q_norm = Qwen3RMSNorm(self.head_dim, eps=config.rms_norm_eps)
        self.k_norm = Qwen3RMSNorm(self.head_dim, eps=config.rms_norm_eps)

    def keys_values(self, source: Tensor, rotary: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Rotated keys and values [b, kv_heads, n, head_dim] of source rows [b, n, H]."""
        keys = rotate(self.k_norm(_split(self.k_proj(source), self.kv_heads)), rotary)
        return keys, _split(self.v_proj(source), self.kv_heads)

    def queries(self, block: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
        return rotate(self.q_norm(_split(self.q_proj(block), self.heads)), rotary)

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
        """Output rows [b, n, H]. `mask` None: every block row sees all context and the whole block."""
        mixed = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, enable_gqa=True)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class Layer(nn.Module):
    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = Qwen3MLP(config)
        self.input_layernorm = Qwen3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = Qwen3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)


class Rotary(Qwen3RotaryEmbedding):  # type: ignore[misc]
    """Frequencies that stay in float32 when the model goes to 16 bits: rounded ones misplace far tokens."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Rotary:
        return super()._apply(lambda tensor: tensor.to(fn(tensor).device), recurse)  # type: ignore[no-any-return]


class BlockDiffusionModel(nn.Module):
    """The drafter's network. Names of parameters are the checkpoint's."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.config = config
        width = config.qwen3.hidden_size
        self.fc = nn.Linear(len(config.target_layer_ids) * width, width, bias=False)
        self.hidden_norm = Qwen3RMSNorm(width, eps=config.qwen3.rms_norm_eps)
        layers = nn.ModuleList(Layer(config.qwen3) for _ in range(config.qwen3.num_hidden_layers))
        self.layers = cast("Sequence[Layer]", layers)  # torch types its items as bare modules
        self.norm = Qwen3RMSNorm(width, eps=config.qwen3.rms_norm_eps)
        self.rotary = Rotary(config.qwen3)

    def fuse(self, features: Tensor) -> Tensor:
        """Context rows [b, n, H] of target features [b, n, taps * H]; shared by every layer."""
        return self.hidden_norm(self.fc(features))  # type: ignore[no-any-return]

    def append(self, features: Tensor, cache: ContextCache) -> None:
        """Add committed features [b, n, taps * H] at the next positions to the cache of every layer."""
        context = self.fuse(features)
        rotary = self.rotary(context, _positions(cache.length, context))
        for index, layer in enumerate(self.layers):
            cache.view(index, *layer.self_attn.keys_values(context, rotary))
        cache.length += features.shape[1]

    def forward(self, block: Tensor, cache: ContextCache) -> Tensor:
        """Final-norm states [b, B, H] of embedded block rows [b, B, H] that follow the cached context."""
        rotary = self.rotary(block, _positions(cache.length, block))
        for index, layer in enumerate(self.layers):
            rows = layer.input_layernorm(block)
            keys, values = cache.view(index, *layer.self_attn.keys_values(rows, rotary))
            block = block + layer.self_attn.attend(layer.self_attn.queries(rows, rotary), keys, values)
            block = block + layer.mlp(layer.post_attention_layernorm(block))
        return self.norm(block)  # type: ignore[no-any-return]


class BlockDiffusion:
    """The DFlash drafter behind the `Drafter` seam, fill-in layout: slot k predicts position s + k.

    With one denoising step every slot is a sample of its own law. With more, a slot also depends on later slots that
    were committed before it, so the draft is a point mass.
    """

    def __init__(
        self,
        model: BlockDiffusionModel,
        target: Target,
        block_size: int,
        folder: Path | None = None,
        denoising_steps: int = 1,
    ) -> None:
        self.folder = folder
        self.denoising_steps = denoising_steps
        self.model = model
        self.target = target
        self.block_size = block_size
        self.taps = model.config.target_layer_ids
        self._cache = ContextCache(len(model.layers))

    def start(self, target: Target, prompt: Tensor, features: Tensor | None) -> None:
        self._cache.length = 0  # buffers are reused, their rows are not
        self.observe(features)

    def propose(self, context: Context, sampling: Sampling) -> Draft:
        slots = min(self.block_size, context.room)
        if slots < 2:
            return Draft(context.anchor.new_empty(context.anchor.shape[0], 0))
        masks = context.anchor.new_full((context.anchor.shape[0], slots - 1), self.model.config.mask_token_id)
        hidden, logits = self._forward(context.anchor, masks)
        noise = sampling.draft.at(context.position + 1, slots - 1, logits)  # a slot keeps its noise through all steps
        choose = partial(pick, temperature=sampling.temperature, noise=noise)
        if self.denoising_steps > 1:
            hidden, logits = self._denoise(context.anchor, hidden, logits, choose)
        return Draft(choose(logits), logits, hidden, noise, point_mass=noise is None or self.denoising_steps > 1)

    def _denoise(
        self, anchor: Tensor, hidden: Tensor, logits: Tensor, choose: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Go on from the first step's states [b, B, H] and logits [b, N, V]; a slot keeps those that committed it.

        A later step sees a committed slot's token as its input, so what it says there is no prediction.
        """
        committed = torch.zeros_like(logits[..., 0], dtype=torch.bool)
        *counts, _ = commit_counts(logits.shape[1], self.denoising_steps)  # the last step commits all that is left
        for count in counts:
            tokens = choose(logits)
            committed = commit(committed, logits, tokens, count)
            seen = tokens.masked_fill(~committed, self.model.config.mask_token_id)
            new_hidden, new_logits = self._forward(anchor, seen)
            logits = torch.where(committed[..., None], logits, new_logits)
            hidden = torch.where(F.pad(committed, (1, 0))[..., None], hidden, new_hidden)  # the anchor's: the last
        return hidden, logits

    def _forward(self, anchor: Tensor, slots: Tensor) -> tuple[Tensor, Tensor]:
        """States [b, 1 + N, H] of the block of the anchor [b] and slots [b, N], and logits [b, N, V] of its slots."""
        hidden = self.model(self.target.embed(torch.cat([anchor[:, None], slots], dim=1)), self._cache)
        return hidden, self.target.head(hidden[:, 1:])

    def observe(self, features: Tensor | None) -> None:
        if features is None:
            raise MisfitError("dflash reads target features, and this target gave none")
        self.model.append(features, self._cache)


def rotate(rows: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary embedding of rows [b, heads, n, d] by cosines and sines [b, n, d] (half-split convention)."""
    cos, sin = (part[:, None] for part in rotary)
    first, second = rows.chunk(2, dim=-1)
    return rows * cos + torch.cat([-second, first], dim=-1) * sin


def _split(rows: Tensor, heads: int) -> Tensor:
    """[b, n, heads * d] -> [b, heads, n, d]."""
    return rows.view(*rows.shape[:-1], heads, -1).transpose(1, 2)


def _positions(start: int, rows: Tensor) -> Tensor:
    return torch.arange(start, start + rows.shape[1], device=rows.device)[None]


def load(settings: DrafterSettings, target: Target, block_size: int | None) -> BlockDiffusion:
    """Build the drafter of a checkpoint folder or hub id; check that it fits the target before any weight is used."""
    folder = locate(_where(settings, target), settings.revision)
    config = checkpoint.read_config(folder)
    checkpoint.check_fit(config, target, folder)
    if settings.params:
        raise UsageError(f"dflash knows no drafter.params, got {', '.join(sorted(settings.params))}")
    block_size = block_size or config.block_size
    _check_steps(settings.denoising_steps, block_size)
    model = BlockDiffusionModel(config).to(device=target.device, dtype=target.dtype).eval()
    checkpoint.load_drafter(model, folder)
    return BlockDiffusion(model, target, block_size, folder, settings.denoising_steps)


def _check_steps(steps: int, block_size: int) -> None:
    slots = block_size - 1
    if not 1 <= steps <= slots:
        raise UsageError(
            f"drafter.denoising_steps is {steps}: a block of {block_size} slots has {slots} to denoise; "
            f"choose {'1' if slots == 1 else f'1..{slots}'}"
        )


def _where(settings: DrafterSettings, target: Target) -> str:
    if settings.path:
        return settings.path
    if target.name == "embedded":
        return str(EMBEDDED)
    raise UsageError(
        f"dflash needs weights that were trained for target {target.name!r}: --drafter FOLDER or HUB_ID "
        "(z-lab publishes some), or train them with `xpress-bench train`"
    )
