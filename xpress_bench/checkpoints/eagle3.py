"""Configs of EAGLE-3 drafters in the format of the speculators library (0.9.0), its `eagle3` kind.

What the first papers published (`midlayer.*`) the library's own converter turns into it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer
from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer, Qwen3RotaryEmbedding

from xpress_bench.checkpoints.dflash import OPTIONS, SIZES, BlockConfig
from xpress_bench.checkpoints.files import read_json, whole
from xpress_bench.checkpoints.speculators import LAYERS, TYPE
from xpress_bench.errors import UsageError

KIND = "eagle3"
FAMILIES = {"llama": LlamaDecoderLayer, "qwen3": Qwen3DecoderLayer}  # by the model_type of the layers
READ = (*SIZES, *OPTIONS, "attention_bias", "mlp_bias")
SWITCHES = ("norm_before_residual", "norm_before_fc", "fc_norm", "norm_output")


@dataclass(frozen=True, slots=True)
class Eagle3Config:
    """What a checkpoint says. `base`: sizes of the layers, taps and vocabulary; its MASK is not used.

    The first layer's residual is the normed state if norm_before_residual. The taps are normed together if
    norm_before_fc, each by itself if fc_norm. A step hands on the normed state if norm_output.
    """

    base: BlockConfig
    norm_before_residual: bool = False
    norm_before_fc: bool = False
    fc_norm: bool = False
    norm_output: bool = False


def read_config(folder: Path, target_layers: int) -> Eagle3Config:
    """Parse config.json. Raises UsageError naming what is not read.

    Taps that it does not name are the library's, which lie by the depth of the target.
    """
    file = folder / "config.json"
    body = {key: value for key, value in read_json(file).items() if value is not None}
    if body.get(TYPE) != KIND:
        raise UsageError(f"{file}: {TYPE} is {body.get(TYPE)!r}, not {KIND!r}; speculators can convert older ones")
    switches = {name: body.get(name, False) for name in SWITCHES}
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise UsageError(f"{file}: {name} is {value!r}, not true or false")
    layers = _layers(body, file)
    taps = body.get("eagle_aux_hidden_state_layer_ids", [2, target_layers // 2, target_layers - 3])
    if not isinstance(taps, list) or not taps or not all(whole(tap) for tap in taps):
        raise UsageError(f"{file}: eagle_aux_hidden_state_layer_ids is {taps!r}, not a list of whole numbers from 1")
    vocab_size = body.get("draft_vocab_size", 32000)
    if not whole(vocab_size, 1, layers.vocab_size):
        raise UsageError(
            f"{file}: draft_vocab_size is {vocab_size!r}, not a whole number from 1 to {layers.vocab_size}"
        )
    if switches["norm_before_fc"] and switches["fc_norm"]:
        raise UsageError(f"{file}: norm_before_fc and fc_norm are both true; only one can be")
    base = BlockConfig(
        qwen3=layers,  # or of Llama: of both, only sizes are read
        block_size=_drafts(body) + 1,
        mask_token_id=0,
        target_layer_ids=tuple(tap - 1 for tap in taps),  # theirs count the embeddings as layer 0
        num_target_layers=None,
        format="speculators",
        draft_vocab_size=None if vocab_size == layers.vocab_size else vocab_size,
    )
    return Eagle3Config(base, **switches)


def _layers(body: dict[str, Any], file: Path) -> Any:
    """The transformers config of the draft layers; a key that it leaves out has the default of its own class."""
    layers = body.get(LAYERS)
    kind = layers.get("model_type", "qwen3") if isinstance(layers, dict) else None
    if not isinstance(layers, dict) or not isinstance(kind, str) or kind not in FAMILIES:
        raise UsageError(f"{file}: {LAYERS} is of {kind!r}, and {' or '.join(FAMILIES)} is read")
    try:
        shape = AutoConfig.for_model(kind, **{key: layers[key] for key in READ if key in layers})
        shape._attn_implementation = "sdpa"
        sizes = {key: getattr(shape, key) for key in SIZES}
        wrong = [key for key, value in sizes.items() if not whole(value, 1, SIZES[key])]
        if not wrong:
            with torch.device("meta"):  # these look options up, which they may not know
                FAMILIES[kind](shape, 0), Qwen3RotaryEmbedding(shape)
    except (StrictDataclassError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise UsageError(f"{file}: {LAYERS} is not understood ({' '.join(str(error).split())})") from error
    if wrong:
        raise UsageError(f"{file}: {wrong[0]} is {sizes[wrong[0]]!r}, not a whole number from 1 to {SIZES[wrong[0]]}")
    if set(getattr(shape, "layer_types", None) or ()) - {"full_attention"}:
        raise UsageError(f"{file}: layer_types is {shape.layer_types}; only full_attention is read")
    if body.get("target_hidden_size") not in (None, shape.hidden_size):
        raise UsageError(f"{file}: target_hidden_size is not the drafter's own hidden_size; only equal ones are read")
    return shape


def _drafts(body: dict[str, Any]) -> int:
    """Tokens that the checkpoint's own settings draft; 3 is what the library's converter writes."""
    try:
        count = body["speculators_config"]["proposal_methods"][0]["speculative_tokens"]
    except (KeyError, IndexError, TypeError):
        return 3
    return count if whole(count) else 3
