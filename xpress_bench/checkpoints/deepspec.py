"""Configs that DeepSpec writes (methods.md 3.2): z-lab's keys at the top level, shift layout, no options."""

from __future__ import annotations

from typing import Any

from xpress_bench.checkpoints.dflash import BlockConfig
from xpress_bench.checkpoints.formats import DSPARK
from xpress_bench.errors import MisfitError


def to_config(config: BlockConfig) -> dict[str, Any]:
    """The config.json of a drafter without heads. Its tensors must come with `embed_tokens` and `lm_head`."""
    plain = BlockConfig(
        config.qwen3,
        config.block_size,
        config.mask_token_id,
        config.target_layer_ids,
        config.num_target_layers,
        format=config.format,
        layout="shift",
    )
    if config != plain or config.sliding:
        raise MisfitError("the DeepSpec format knows only the shift layout, full attention and no options")
    return config.qwen3.to_dict() | {
        "architectures": [DSPARK],
        "model_type": "qwen3",
        "block_size": config.block_size,
        "num_target_layers": config.num_target_layers,
        "target_layer_ids": list(config.target_layer_ids),
        "mask_token_id": config.mask_token_id,
        "num_anchors": 512,
        "markov_rank": 0,
        "enable_confidence_head": False,
        "tie_word_embeddings": False,
    }
