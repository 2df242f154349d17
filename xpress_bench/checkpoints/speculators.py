"""Configs of the speculators library (0.9.0), translated from and into the keys of z-lab's format (methods.md 2.2).

Tensors have the same names. The drafter's own `lm_head`, `d2t` and `t2d` of a reduced vocabulary are read by
`drafters.vocabulary`.
"""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig

from xpress_bench.checkpoints.files import whole
from xpress_bench.errors import MisfitError, UsageError

if TYPE_CHECKING:
    from xpress_bench.checkpoints.dflash import BlockConfig

TYPE = "speculators_model_type"
DFLASH2_KEYS = ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k")
# Kinds of the DFlash family: z-lab's architecture, and what the library's classes assume where a key is absent.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "dflash": ("DFlashDraftModel", {}),
    "dspark": ("Qwen3DSparkModel", {"sample_from_anchor": True}),
    "xpress": ("Qwen3XPressModel", {}),
    "dflash2": (
        "DFlash2DraftModel",
        {"sliding_window_non_causal": True} | dict(zip(DFLASH2_KEYS, (2, 16, 256, 16), strict=True)),
    ),
}
ABSENT = {
    "sample_from_anchor": False,
    "sliding_window_non_causal": False,
    "block_size": 8,
    "draft_vocab_size": 32000,
}
LAYERS = "transformer_layer_config"


def translated(body: dict[str, Any], file: Path) -> dict[str, Any]:
    """The config `body` of a speculators checkpoint in z-lab's keys. Raises UsageError naming what is not read."""
    kind = body[TYPE]
    if not isinstance(kind, str) or kind not in KINDS:
        raise UsageError(f"{file}: {TYPE} is {kind!r}, and {', '.join(KINDS)} are read")
    architecture, absent = KINDS[kind]
    body = ABSENT | absent | {key: value for key, value in body.items() if value is not None}
    taps, layers = body.get("aux_hidden_state_layer_ids"), _layers(body, file)
    if not isinstance(taps, list) or not all(whole(tap, 0) for tap in taps):
        raise UsageError(f"{file}: aux_hidden_state_layer_ids is {taps!r}, not a list of whole numbers from 0")
    if body.get("target_hidden_size") not in (None, layers.get("hidden_size")):
        raise UsageError(f"{file}: target_hidden_size is not the drafter's own hidden_size; only equal ones are read")
    non_causal = body["sliding_window_non_causal"]
    if not isinstance(non_causal, bool):
        raise UsageError(f"{file}: sliding_window_non_causal is {non_causal!r}, not true or false")
    reduced = body["draft_vocab_size"] != layers.get("vocab_size")
    return layers | {
        "architectures": [architecture],
        "sample_from_anchor": body["sample_from_anchor"],
        "dflash_config": {
            "block_size": body["block_size"],
            "mask_token_id": body.get("mask_token_id"),
            "target_layer_ids": [tap - 1 for tap in taps],  # theirs count the embeddings as layer 0
            "is_causal": not non_causal,
            "draft_vocab_size": body["draft_vocab_size"] if reduced else None,
            **{key: body.get(key) for key in DFLASH2_KEYS},
        },
    }


def _layers(body: dict[str, Any], file: Path) -> dict[str, Any]:
    """The nested config of the draft layers; a key that it leaves out has the default of its own class."""
    layers = body.get(LAYERS)
    if not isinstance(layers, dict):
        raise UsageError(f"{file}: {LAYERS} is {layers!r}, not an object")
    kind = layers.get("model_type", "qwen3")
    try:
        defaults = AutoConfig.for_model(kind).to_dict()
    except (StrictDataclassError, ValueError, TypeError) as error:
        raise UsageError(f"{file}: {LAYERS}.model_type is {kind!r}, no model that transformers knows") from error
    # Made for another number of layers, and for a file that names the frequencies in neither the old nor the new way.
    return {key: value for key, value in defaults.items() if key not in ("layer_types", "rope_parameters")} | layers


def to_config(config: BlockConfig, verifier: str, architectures: list[str]) -> dict[str, Any]:
    """The config.json of a drafter in the speculators format, for the target `verifier` of these `architectures`."""
    if any(getattr(config, key) != 1.0 for key in ("input_embedding_scale", "output_multiplier")):
        raise MisfitError("the speculators format knows no scale of embeddings or logits")
    if config.final_logit_softcapping is not None:
        raise MisfitError("the speculators format knows no final_logit_softcapping")
    if config.format != "speculators" and (config.sliding or config.is_causal):
        raise MisfitError("the speculators format counts a sliding window from the anchor, z-lab from each row")
    kind = "dflash2" if config.dflash2 else "dflash"
    return {
        TYPE: kind,
        "architectures": ["DFlash2DraftModel" if config.dflash2 else "DFlashSpeculator"],
        LAYERS: config.qwen3.to_dict() | {"model_type": "qwen3"},
        "draft_vocab_size": config.draft_vocab_size or config.qwen3.vocab_size,
        "block_size": config.block_size,
        "aux_hidden_state_layer_ids": [tap + 1 for tap in config.target_layer_ids],
        "mask_token_id": config.mask_token_id,
        "sample_from_anchor": config.layout == "shift",
        "sliding_window_non_causal": not config.is_causal,
        "speculators_config": {
            "algorithm": kind,
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": config.drafts}],
            "default_proposal_method": "greedy",
            "verifier": {"name_or_path": verifier, "architectures": architectures},
        },
    } | (dict(zip(DFLASH2_KEYS, astuple(config.dflash2), strict=True)) if config.dflash2 else {})
