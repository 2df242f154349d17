"""DFlash: a block diffusion drafter over the target's own features (methods.md section 2).

The drafter has no vocabulary of its own: it embeds `[anchor, MASK, ...]` with the target's table, reads the target's
hidden states at a few layers as keys and values, and turns its states into logits with the target's head. Tensor names
are those of the z-lab checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers.models.qwen3.modeling_qwen3 import Qwen3MLP, Qwen3RMSNorm, Qwen3RotaryEmbedding

from xpress_bench.checkpoints import dflash as checkpoint
from xpress_bench.checkpoints.dflash import BlockConfig, Sight
from xpress_bench.checkpoints.files import locate
from xpress_bench.drafters import Context, Draft, most_drafts, vocabulary
from xpress_bench.drafters.attention import Attention, mask_of
from xpress_bench.drafters.denoising import OPTIONS, Denoising
from xpress_bench.drafters.dflash2 import Bare, CandidateSelector, DynamicConvolution
from xpress_bench.drafters.vocabulary import Vocabulary
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.options import checked
from xpress_bench.sampling import Sampling
from xpress_bench.settings import DrafterSettings
from xpress_bench.targets import Target

EMBEDDED = Path(__file__).parent.parent / "embedded" / "dflash"


class ContextCache:
    """Keys and values of the committed context, one buffer per layer; a block's rows are written behind and dropped.

    Buffers grow by doubling, so appending costs the rows appended.
    """

    def __init__(self, layers: int) -> None:
        self.length: Any = 0  # an int; a tensor in `FixedContext`, and one for each row, [b, 1], in `RowsContext`
        self._buffers: list[tuple[Tensor, Tensor] | None] = [None] * layers

    def clear(self) -> None:
        """Forget all rows; the buffers stay."""
        self.length = 0

    def mask(self, sight: Sight, slots: int, device: torch.device) -> Tensor | None:
        """What the rows of a block see: `attention.mask_of`."""
        return mask_of(sight, self.length, slots, device)

    def view(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write keys and values [b, heads, n, d] behind the context; returns all [b, heads, length + n, d].

        Several rows over the context of one request are its candidates; they are put behind a copy.
        """
        end = self.length + keys.shape[2]
        held = self._buffers[layer]
        if held is not None and held[0].shape[0] < keys.shape[0]:
            first, second = (one[:, :, : self.length].expand(keys.shape[0], -1, -1, -1) for one in held)
            return torch.cat([first, keys], dim=2), torch.cat([second, values], dim=2)
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


class Layer(nn.Module):
    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        shape = config.qwen3
        self.self_attn = Attention(shape)
        self.mlp = Qwen3MLP(shape)
        self.input_layernorm = Qwen3RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)
        self.post_attention_layernorm = Qwen3RMSNorm(shape.hidden_size, eps=shape.rms_norm_eps)
        self.attention_conv, self.mlp_conv = (
            DynamicConvolution(config.dflash2, shape.hidden_size) if config.dflash2 else Bare() for _ in range(2)
        )


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
        layers = nn.ModuleList(Layer(config) for _ in range(config.qwen3.num_hidden_layers))
        self.layers = cast("Sequence[Layer]", layers)  # torch types its items as bare modules
        self.sights = [config.sight(index) for index in range(len(self.layers))]
        self.norm = Qwen3RMSNorm(width, eps=config.qwen3.rms_norm_eps)
        self.rotary = Rotary(config.qwen3)
        self.candidate_selector = (
            CandidateSelector(config.dflash2, width, config.qwen3.vocab_size) if config.dflash2 else None
        )

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
        masks = {sight: cache.mask(sight, block.shape[1], block.device) for sight in set(self.sights)}

        def attended(rows: Tensor, index: int) -> Tensor:
            attention = self.layers[index].self_attn
            keys, values = cache.view(index, *attention.keys_values(rows, rotary))
            return attention.attend(attention.queries(rows, rotary), keys, values, masks[self.sights[index]])

        for index, layer in enumerate(self.layers):
            block = block + layer.attention_conv(layer.input_layernorm(block), partial(attended, index=index))
            block = block + layer.mlp_conv(layer.post_attention_layernorm(block), layer.mlp)
        return self.norm(block)  # type: ignore[no-any-return]


class BlockDiffusion:
    """The DFlash drafter behind the `Drafter` seam, for an anchor at position s.

    In the fill-in layout slot k predicts position s + k, and the anchor's slot 0 nothing. In the shift layout slot k
    predicts s + k + 1, so that B slots make B tokens.

    A choice of DFlash 2 is a sample of its own law given the one before.
    """

    def __init__(
        self,
        model: BlockDiffusionModel,
        target: Target,
        block_size: int,
        folder: Path | None = None,
        denoising: Denoising = Denoising(),  # noqa: B008 - it is frozen
        vocabulary: Vocabulary | None = None,
    ) -> None:
        self.folder = folder
        self.denoising = denoising
        self.model = model
        self.vocabulary = vocabulary or Vocabulary(target, model.config)
        self.block_size = block_size
        self.layout = model.config.layout
        self.mask_token_id = model.config.mask_token_id
        self.taps = model.config.target_layer_ids
        self._cache = ContextCache(len(model.layers))

    def start(self, target: Target, prompt: Tensor, features: Tensor | None) -> None:
        self._cache.clear()
        self.observe(features)

    def propose(self, context: Context, sampling: Sampling) -> Draft:
        count = min(most_drafts(self), context.room - 1)
        if count < 1:
            return Draft(context.anchor.new_empty(context.anchor.shape[0], 0))
        masks = context.anchor.new_full((context.anchor.shape[0], count), self.mask_token_id)
        predict = partial(self.predict, context.anchor)
        if not self.model.candidate_selector:
            return self.denoising.fill(predict, masks, self.mask_token_id, context.position, sampling)
        hidden, logits = predict(masks)
        noise = sampling.draft.at(context.position + 1, count, logits)
        tokens, logits = self.model.candidate_selector.walk(
            hidden[:, -count:], logits, context.anchor, sampling.temperature, noise
        )
        return Draft(tokens, logits, hidden, noise, point_mass=noise is None)

    @property
    def denoising_steps(self) -> int:
        return self.denoising.steps

    def predict(self, anchor: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """States [b, S, H] and logits [b, N, V] of one forward over the anchor [b] and tokens [b, N], masks or not.

        The last N states are those of the logits. In the shift layout the last token is predicted, but not seen.
        """
        slots = tokens.shape[1] + (self.layout == "fill_in")
        ids = torch.cat([anchor[:, None], tokens], dim=1)[:, :slots]
        hidden = self.model(self.vocabulary.embed(ids), self._cache)
        return hidden, self.vocabulary.logits(hidden[:, -tokens.shape[1] :])

    def observe(self, features: Tensor | None) -> None:
        if features is None:
            raise MisfitError("dflash reads target features, and this target gave none")
        self.model.append(features, self._cache)


def _positions(start: int | Tensor, rows: Tensor) -> Tensor:
    """Positions [1, n] of rows [b, n, H] from `start` on; [b, n] where each row starts at its own, [b, 1]."""
    places = torch.arange(rows.shape[1], device=rows.device) + start
    return places.view(-1, rows.shape[1])


def load(settings: DrafterSettings, target: Target, block_size: int | None) -> BlockDiffusion:
    """Build the drafter of a checkpoint folder or hub id; check that it fits the target before any weight is used."""
    folder = locate(_where(settings, target), settings.revision)
    config = checkpoint.read_config(folder)
    checkpoint.check_fit(config, target, folder)
    if settings.name == "dflash2" and not config.dflash2:
        raise MisfitError(f"{folder}: holds a drafter of the first kind; use --drafter dflash, or the folder itself")
    params = checked(settings, {} if config.dflash2 else OPTIONS)
    block_size = block_size or config.block_size
    if config.dflash2 and settings.denoising_steps > 1:
        raise UsageError(f"drafter.denoising_steps is {settings.denoising_steps}: a DFlash 2 block is chosen at once")
    denoising = Denoising(settings.denoising_steps, **params)
    denoising.check(block_size - (config.layout == "fill_in"))
    model = BlockDiffusionModel(config).to(device=target.device, dtype=target.dtype).eval()
    checkpoint.load_drafter(model, folder)
    own = vocabulary.load(folder, config, target)
    return BlockDiffusion(model, target, block_size, folder, denoising, own)


def _where(settings: DrafterSettings, target: Target) -> str:
    if settings.path:
        return settings.path
    if target.name == "embedded" and settings.name != "dflash2":
        return str(EMBEDDED)
    raise UsageError(
        f"{settings.name} needs weights that were trained for target {target.name!r}: --drafter FOLDER or HUB_ID "
        "(z-lab publishes some), or train them with `xpress-bench train`"
    )
