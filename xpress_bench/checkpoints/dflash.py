"""DFlash checkpoints (methods.md 2.2): a Qwen3 config plus where the drafter taps its target.

One parser reads every format of the family: DeepSpec has the same keys at the top level, and `formats.read` gives those
of speculators in z-lab's words.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import nn
from transformers import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3MLP, Qwen3RotaryEmbedding

from xpress_bench.checkpoints import formats
from xpress_bench.checkpoints.files import LARGEST, load_into, whole
from xpress_bench.checkpoints.formats import DFLASH, DFLASH2, Format, Layout
from xpress_bench.checkpoints.speculators import DFLASH2_KEYS
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.targets import Target

HEADS = ("xpress_head.", "refiner_head.", "markov_head.", "confidence_head.")  # other parts of a checkpoint
TABLES = ("embed_tokens.", "lm_head.", "verifier_lm_head.", "verifier_norm.", "d2t", "t2d")  # see drafters.vocabulary
# What the network is made from. No other key reaches transformers, which would act on some of them.
SIZES = {"num_hidden_layers": 1000} | dict.fromkeys(
    ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size"),
    LARGEST,
)  # with the largest that is believed
OPTIONS = (
    "hidden_act",
    "layer_types",
    "max_position_embeddings",
    "max_window_layers",
    "rms_norm_eps",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "sliding_window",
    "use_sliding_window",
)
NEUTRAL = {
    "is_causal": None,
    "input_embedding_scale": 1.0,
    "output_multiplier": 1.0,
    "final_logit_softcapping": None,
}  # options of newer checkpoints, and what their absence means


@dataclass(frozen=True, slots=True)
class DFlash2Config:
    """What DFlash 2 adds: taps of its convolutions, channels that share a kernel; rank and candidates of its choice."""

    kernel_size: int
    group_size: int
    rank: int
    top_k: int


@dataclass(frozen=True, slots=True)
class Sight:
    """What a row of a block sees in one layer, besides being in the block or before it.

    window: how far back, None without end; counted from the anchor if `from_anchor`, else from the row itself, itself
    included, and then as far forward too. causal: no later row of the block.
    """

    window: int | None
    causal: bool
    from_anchor: bool


@dataclass(frozen=True, slots=True)
class BlockConfig:
    """What a DFlash checkpoint says.

    target_layer_ids: zero-based decoder layers whose outputs it reads, -1 the embeddings. is_causal: z-lab's key, None
    makes sliding layers causal and only them; of speculators, whether sliding layers are. Logits are multiplied by
    output_multiplier, then capped. draft_vocab_size: rows of a reduced vocabulary, None for the target's.
    """

    qwen3: Qwen3Config
    block_size: int
    mask_token_id: int
    target_layer_ids: tuple[int, ...]
    num_target_layers: int | None
    format: Format = "z-lab"
    layout: Layout = "fill_in"
    is_causal: bool | None = None
    input_embedding_scale: float = 1.0
    output_multiplier: float = 1.0
    final_logit_softcapping: float | None = None
    draft_vocab_size: int | None = None
    dflash2: DFlash2Config | None = None

    @property
    def drafts(self) -> int:
        """Draft tokens of a whole block, as `drafters.most_drafts` has them of a drafter."""
        return self.block_size - (self.layout == "fill_in")

    @property
    def sliding(self) -> bool:
        """Whether any layer has a window."""
        return "sliding_attention" in self.qwen3.layer_types

    def sight(self, layer: int) -> Sight:
        """What rows see in a draft layer, as dflash 0.1.0 and speculators 0.9.0 mask it."""
        sliding = self.qwen3.layer_types[layer] == "sliding_attention"
        window = self.qwen3.sliding_window if sliding else None
        if self.format == "speculators":
            return Sight(window, causal=window is not None and bool(self.is_causal), from_anchor=True)
        return Sight(window, causal=sliding if self.is_causal is None else self.is_causal, from_anchor=False)


def read_config(folder: Path) -> BlockConfig:
    """Parse config.json. Keys are looked up in `dflash_config` first, then at the top level."""
    file = folder / "config.json"
    found, body = formats.read(folder)
    if found.layout is None:
        raise UsageError(f"{file}: architecture {found.kind!r} is no block drafter")
    nested = body.get("dflash_config") or {}
    if not isinstance(nested, dict):
        raise UsageError(f"{file}: dflash_config is a {type(nested).__name__}, not an object")
    keys = body | {key: value for key, value in nested.items() if value is not None}
    for key in ("block_size", "mask_token_id", "target_layer_ids"):
        if keys.get(key) is None:
            raise UsageError(f"{file}: has no {key!r}, neither in dflash_config nor at the top level")
    taps, layers = keys["target_layer_ids"], keys.get("num_target_layers")
    if not isinstance(taps, list) or not taps:
        raise UsageError(f"{file}: target_layer_ids is {taps!r}, not a list of layers")
    shape = _qwen3(body, file)
    block_size = _whole(keys["block_size"], "block_size", 2, file)
    return BlockConfig(
        qwen3=shape,
        block_size=block_size,
        mask_token_id=_whole(keys["mask_token_id"], "mask_token_id", 0, file),
        target_layer_ids=tuple(_whole(tap, "target_layer_ids", -1, file) for tap in taps),
        num_target_layers=None if layers is None else _whole(layers, "num_target_layers", 1, file),
        format=found.format,
        layout=found.layout,
        is_causal=_flag(keys.get("is_causal"), "is_causal", file),
        input_embedding_scale=_number(keys, "input_embedding_scale", file) or 1.0,
        output_multiplier=_number(keys, "output_multiplier", file) or 1.0,
        final_logit_softcapping=_number(keys, "final_logit_softcapping", file),
        draft_vocab_size=_reduced(keys.get("draft_vocab_size"), shape.vocab_size, file),
        dflash2=_dflash2(keys, shape, block_size, file) if found.drafter == "dflash2" else None,
    )


def _qwen3(body: dict[str, Any], file: Path) -> Qwen3Config:
    sizes = {key: _whole(body.get(key), key, 1, file, most) for key, most in SIZES.items()}
    try:
        config = Qwen3Config(**sizes, **{key: body[key] for key in OPTIONS if key in body})
        with torch.device("meta"):  # these look options up, which they may not know
            Qwen3MLP(config), Qwen3RotaryEmbedding(config)
    except (StrictDataclassError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise UsageError(f"{file}: not a Qwen3 config ({' '.join(str(error).split())})") from error
    unread = set(config.layer_types) - {"full_attention", "sliding_attention"}
    if unread:
        raise UsageError(f"{file}: has {min(unread)} layers; full_attention and sliding_attention are read")
    if config.sliding_window is not None:
        _whole(config.sliding_window, "sliding_window", 1, file)
    return config


def _dflash2(keys: dict[str, Any], shape: Qwen3Config, block_size: int, file: Path) -> DFlash2Config:
    limits = (block_size, shape.hidden_size, LARGEST, shape.vocab_size)
    found = [_whole(keys.get(key), key, 1, file, most) for key, most in zip(DFLASH2_KEYS, limits, strict=True)]
    if shape.hidden_size % found[1]:
        raise UsageError(
            f"{file}: conv_group_size is {found[1]}, which does not divide hidden_size {shape.hidden_size}"
        )
    return DFlash2Config(*found)


def _reduced(value: Any, vocab_size: int, file: Path) -> int | None:
    """The size of a reduced vocabulary; some name that of the whole one."""
    return None if value in (None, vocab_size) else _whole(value, "draft_vocab_size", 1, file, vocab_size)


def _whole(value: Any, key: str, least: int, file: Path, most: int = LARGEST) -> int:
    if not whole(value, least, most):
        raise UsageError(f"{file}: {key} is {value!r}, not a whole number from {least} to {most}")
    return value


def _flag(value: Any, key: str, file: Path) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise UsageError(f"{file}: {key} is {value!r}, not true or false")


def _number(keys: dict[str, Any], key: str, file: Path) -> float | None:
    value = keys.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise UsageError(f"{file}: {key} is {value!r}, not a number above 0")
    return float(value)


def check_fit(config: BlockConfig, target: Target, folder: Path) -> None:
    """Refuse a drafter that was made for another target, naming both numbers."""
    _equal("hidden size", config.qwen3.hidden_size, target.hidden_size, folder, target)
    _equal("vocabulary", config.qwen3.vocab_size, target.vocab_size, folder, target)
    if config.num_target_layers is not None:
        _equal("number of target layers", config.num_target_layers, target.layers, folder, target)
    # Their code reads the last layer before the final norm; transformers gives it behind, as z-lab's code reads it.
    deepest, last = max(config.target_layer_ids), target.layers - 1 - (config.format in ("deepspec", "speculators"))
    if deepest > last:
        raise MisfitError(
            f"{folder}: taps layer {deepest}, but of target {target.name!r} a {config.format} drafter can read "
            f"layers 0..{last}"
        )
    if config.mask_token_id >= target.vocab_size:
        raise MisfitError(
            f"{folder}: mask token id {config.mask_token_id} is outside "
            f"the {target.vocab_size} rows of target {target.name!r}"
        )


def _equal(what: str, drafter: int, target: int, folder: Path, whom: Target) -> None:
    if drafter != target:
        raise MisfitError(
            f"{folder}: {what} is {drafter}, but target {whom.name!r} has {target}; it was made for another model"
        )


def load_drafter(model: nn.Module, folder: Path) -> None:
    """Fill a `BlockDiffusionModel`; heads and vocabulary tables in the same file are left to their own loaders."""
    load_into(model, folder, prefix="", ignore=HEADS + TABLES)


def to_config(config: BlockConfig) -> dict[str, Any]:
    """The config.json of a drafter in the z-lab format."""
    if config.layout == "shift" or config.draft_vocab_size is not None:
        raise MisfitError("the z-lab format knows neither the shift layout nor a reduced vocabulary")
    if config.format == "speculators" and config.sliding:
        raise MisfitError("the z-lab format counts a sliding window from each row, speculators from the anchor")
    body: dict[str, Any] = config.qwen3.to_dict()
    body |= {
        "architectures": [DFLASH2 if config.dflash2 else DFLASH],
        "model_type": "qwen3",
        "block_size": config.block_size,
        "num_target_layers": config.num_target_layers,
        "dflash_config": {
            "mask_token_id": config.mask_token_id,
            "target_layer_ids": list(config.target_layer_ids),
        },
    }
    # At the top level, where dflash 0.1.0 looks for all of them; only where they are not what their absence means.
    options = {key: getattr(config, key) for key, neutral in NEUTRAL.items() if getattr(config, key) != neutral}
    if config.format == "speculators":
        options.pop("is_causal", None)  # there it is about sliding layers, of which there are none
    return body | options | (dict(zip(DFLASH2_KEYS, astuple(config.dflash2), strict=True)) if config.dflash2 else {})
