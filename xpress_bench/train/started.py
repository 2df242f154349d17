"""A drafter that is trained already, to go on with: one of our own work folder, or anybody's DFlash checkpoint."""

from __future__ import annotations

from pathlib import Path

from xpress_bench.checkpoints import dflash, xpress
from xpress_bench.checkpoints.files import locate
from xpress_bench.drafters import vocabulary
from xpress_bench.drafters.block_diffusion import BlockDiffusionModel
from xpress_bench.errors import MisfitError
from xpress_bench.refiners.xpress import XPressHead
from xpress_bench.targets import Target


def find(where: str, target: Target) -> Path:
    """The folder of a drafter, from a folder or a hub id. MisfitError unless it fits the target and can be trained."""
    folder = locate(where, None)
    config = dflash.read_config(folder)
    dflash.check_fit(config, target, folder)
    own = vocabulary.load(folder, config, target)
    sights = [config.sight(layer) for layer in range(config.qwen3.num_hidden_layers)]
    beyond = {
        "blocks in the shift layout": config.layout != "fill_in",
        "convolutions (DFlash 2)": config.dflash2 is not None,
        "sliding or causal layers": any(sight.causal or sight.window is not None for sight in sights),
        "scaled or capped logits or embeddings": (
            (config.input_embedding_scale, config.output_multiplier, config.final_logit_softcapping) != (1.0, 1.0, None)
        ),
        "token tables that are not the target's": own.table is not None or own.head is not None,
    }
    found = [what for what, there in beyond.items() if there]
    if found:
        raise MisfitError(
            f"{folder}: has {' and '.join(found)}, which training does not compute; "
            "start from a drafter like those of `train drafter`, or leave start out"
        )
    return folder


def drafter(folder: Path) -> BlockDiffusionModel:
    """The drafter of a checkpoint in float32, whatever else lies there."""
    model = BlockDiffusionModel(dflash.read_config(folder))
    dflash.load_drafter(model, folder)
    return model


def head(folder: Path) -> XPressHead | None:
    """The xPress head of a checkpoint in float32; None if there is none."""
    if not xpress.holds_head(folder):
        return None
    found = XPressHead(xpress.read_config(folder))
    xpress.load_head(found, folder)
    return found
