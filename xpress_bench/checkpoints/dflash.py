"""DFlash checkpoints in the z-lab format (methods.md 2.2): a Qwen3 config plus where the drafter taps its target."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import nn
from transformers import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3MLP, Qwen3RotaryEmbedding

from xpress_bench.checkpoints.files import LARGEST, architectures, load_into, read_json, whole
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.targets import Target

ARCHITECTURE = "DFlashDraftModel"
DSPARK = "Qwen3DSparkModel"  # the same drafter with a Markov head beside it
HEADS = ("xpress_head.", "markov_head.", "confidence_head.", "candidate_selector.")  # other parts of a checkpoint
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
# Options of newer checkpoints that change what the network computes: refused until they are built, never ignored.
UNSUPPORTED = {
    "output_multiplier": 1.0,
    "final_logit_softcapping": None,
    "input_embedding_scale": 1.0,
    "is_causal": False,
}


@dataclass(frozen=True, slots=True)
class BlockConfig:
    """What a DFlash checkpoint says. `target_layer_ids` are zero-based decoder layers whose outputs it reads."""

    qwen3: Qwen3Config
    block_size: int
    mask_token_id: int
    target_layer_ids: tuple[int, ...]
    num_target_layers: int | None


def read_config(folder: Path) -> BlockConfig:
    """Parse config.json. Keys are looked up in `dflash_config` first, then at the top level."""
    file = folder / "config.json"
    body = read_json(file)
    nested = body.get("dflash_config") or {}
    if not isinstance(nested, dict):
        raise UsageError(f"{file}: dflash_config is a {type(nested).__name__}, not an object")
    _refuse_other_formats(body, nested, file)

    def find(key: str) -> Any:
        value = nested.get(key, body.get(key))
        if value is None:
            raise UsageError(f"{file}: has no {key!r}, neither in dflash_config nor at the top level")
        return value

    taps, layers = find("target_layer_ids"), body.get("num_target_layers")
    if not isinstance(taps, list) or not taps:
        raise UsageError(f"{file}: target_layer_ids is {taps!r}, not a list of layers")
    return BlockConfig(
        qwen3=_qwen3(body, file),
        block_size=_whole(find("block_size"), "block_size", 2, file),
        mask_token_id=_whole(find("mask_token_id"), "mask_token_id", 0, file),
        target_layer_ids=tuple(_whole(tap, "target_layer_ids", 0, file) for tap in taps),
        num_target_layers=None if layers is None else _whole(layers, "num_target_layers", 1, file),
    )


def _qwen3(body: dict[str, Any], file: Path) -> Qwen3Config:
    sizes = {key: _whole(body.get(key), key, 1, file, most) for key, most in SIZES.items()}
    try:
        config = Qwen3Config(**sizes, **{key: body[key] for key in OPTIONS if key in body})
        with torch.device("meta"):  # these look options up, which they may not know
            Qwen3MLP(config), Qwen3RotaryEmbedding(config)
    except (StrictDataclassError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise UsageError(f"{file}: not a Qwen3 config ({' '.join(str(error).split())})") from error
    sliding = [kind for kind in config.layer_types if kind != "full_attention"]
    if sliding:
        raise UsageError(f"{file}: has {sliding[0]} layers; only full attention is read yet")
    return config


def _refuse_other_formats(body: dict[str, Any], nested: dict[str, Any], file: Path) -> None:
    if "speculators_model_type" in body:
        kind = body["speculators_model_type"]
        raise UsageError(f"{file}: a speculators checkpoint ({kind}); only z-lab's format is read yet")
    for key, neutral in UNSUPPORTED.items():
        value = nested.get(key, body.get(key))
        if value is not None and value != neutral:
            raise UsageError(f"{file}: sets {key}={value!r}, which this version does not compute")
    refuse_shift(body, file, "drafter")


def refuse_shift(body: dict[str, Any], file: Path, part: str) -> None:
    """Refuse the layout whose slot 0 predicts too (methods.md 1); DeepSpec's own configs mean it without saying so."""
    flag = body.get("sample_from_anchor")
    if flag or (flag is None and DSPARK in architectures(body, file)):
        said = "true" if flag else f"absent, which is true for {DSPARK}"
        raise MisfitError(
            f"{file}: block layout is shift (sample_from_anchor is {said}), and this {part} is fill-in; "
            "use a checkpoint with sample_from_anchor=false"
        )


def _whole(value: Any, key: str, least: int, file: Path, most: int = LARGEST) -> int:
    if not whole(value, least, most):
        raise UsageError(f"{file}: {key} is {value!r}, not a whole number from {least} to {most}")
    return value


def check_fit(config: BlockConfig, target: Target, folder: Path) -> None:
    """Refuse a drafter that was made for another target, naming both numbers."""
    _equal("hidden size", config.qwen3.hidden_size, target.hidden_size, folder, target)
    _equal("vocabulary", config.qwen3.vocab_size, target.vocab_size, folder, target)
    if config.num_target_layers is not None:
        _equal("number of target layers", config.num_target_layers, target.layers, folder, target)
    deepest = max(config.target_layer_ids)
    if deepest >= target.layers:
        raise MisfitError(
            f"{folder}: taps layer {deepest}, but target {target.name!r} has layers 0..{target.layers - 1}"
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
    """Fill a `BlockDiffusionModel`; heads in the same file are left to their own loaders."""
    load_into(model, folder, prefix="", ignore=HEADS)


def to_config(config: BlockConfig) -> dict[str, Any]:
    """The config.json of a drafter in the z-lab format."""
    body: dict[str, Any] = config.qwen3.to_dict()
    body |= {
        "architectures": [ARCHITECTURE],
        "model_type": "qwen3",
        "block_size": config.block_size,
        "num_target_layers": config.num_target_layers,
        "dflash_config": {
            "mask_token_id": config.mask_token_id,
            "target_layer_ids": list(config.target_layer_ids),
        },
    }
    return body
