"""Checkpoints with an xPress head (methods.md 4.3): a DFlash checkpoint that also holds one, in UIUC's names or others.

UIUC releases `xpress_head.*`, speculators writes `refiner_head.*`. Both store the mixer raw. A mixer that is already
folded, lower triangle plus identity, is known by the name it has where engines serve it, `mix_L`: a raw one need not
look different, and no config says.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from xpress_bench.checkpoints import formats, heads, speculators
from xpress_bench.checkpoints.files import load_into, read_json
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.targets import Target

ARCHITECTURE = formats.XPRESS
PREFIX = "xpress_head."
SPECULATORS_PREFIX = "refiner_head."
SPECULATORS_NAMES = {
    "w1.weight": "token_embed.weight",
    "w2.weight": "readout.weight",
    "mix.L": "mix_l",
    "mlp.gate_proj.weight": "mlp_gate.weight",
    "mlp.up_proj.weight": "mlp_up.weight",
    "mlp.down_proj.weight": "mlp_down.weight",
}  # by the released names; the others are the same
FOLDED = "mix_L"


@dataclass(frozen=True, slots=True)
class HeadConfig:
    """Sizes of an xPress head: hidden H, vocabulary V, rank r, SwiGLU width, largest block B, default passes K.

    draft_vocab_size: rows of w2, where that is for a reduced vocabulary.
    """

    hidden_size: int
    vocab_size: int
    rank: int
    mlp_hidden: int
    block_size: int
    passes: int
    draft_vocab_size: int | None = None


def holds_head(folder: Path) -> bool:
    """Whether the folder's weights contain an xPress head."""
    return heads.holds(folder, PREFIX) or heads.holds(folder, SPECULATORS_PREFIX)


def read_config(folder: Path) -> HeadConfig:
    """Parse the head's keys. Raises UsageError naming the key that is missing or wrong."""
    file = folder / "config.json"
    body = read_json(file)
    if body.get("xpress_candidate_topc"):
        raise UsageError(
            f"{file}: sets xpress_candidate_topc={body['xpress_candidate_topc']}, which this version does not compute"
        )
    network = formats.read(folder)[1]

    def size(key: str, where: dict[str, Any] = body) -> int:
        return heads.size(where, key, file, "xPress")

    hidden_size, vocab_size, rank = size("hidden_size", network), size("vocab_size", network), size("xpress_rank")
    if speculators.TYPE in body:
        own = rank * size("xpress_mlp_ratio"), size("block_size", network["dflash_config"]), size("num_jacobi_passes")
    else:
        own = size("xpress_mlp_hidden"), size("xpress_block_size"), size("xpress_num_passes")
    return HeadConfig(hidden_size, vocab_size, rank, *own, heads.reduced(network))


def check_fit(config: HeadConfig, target: Target, drafter_block: int, folder: Path) -> None:
    """Refuse a head that does not align with the target or with the drafter's block."""
    heads.check_target("xPress", config, target, folder)
    if drafter_block > config.block_size:
        raise MisfitError(
            f"{folder}: the xPress head mixes at most {config.block_size} slots, and block_size is {drafter_block}; "
            f"set block_size={config.block_size} or less"
        )


def load_head(head: nn.Module, folder: Path) -> None:
    """Fill an `XPressHead` from any of the formats."""
    prefix = PREFIX if heads.holds(folder, PREFIX) else SPECULATORS_PREFIX
    load_into(head, folder, prefix, adapt=_released)


def _released(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under their released names, the mixer raw."""
    released = {theirs: ours for ours, theirs in SPECULATORS_NAMES.items()}
    found = {released.get(name, name): tensor for name, tensor in tensors.items()}
    if FOLDED in found:
        folded = found.pop(FOLDED)
        found["mix.L"] = folded - torch.eye(folded.shape[-1], dtype=folded.dtype)
    return found


def to_config(drafter: dict[str, Any], config: HeadConfig) -> dict[str, Any]:
    """config.json of a released xPress checkpoint: the drafter's config with the head's keys."""
    return drafter | {
        "architectures": [ARCHITECTURE],
        "xpress_rank": config.rank,
        "xpress_mlp_hidden": config.mlp_hidden,
        "xpress_block_size": config.block_size,
        "xpress_num_passes": config.passes,
        "sample_from_anchor": False,
    }


def to_speculators(drafter: dict[str, Any], config: HeadConfig) -> dict[str, Any]:
    """The same in the speculators format, of the drafter's config in it. MisfitError for what the format cannot say."""
    if config.mlp_hidden % config.rank:
        raise MisfitError(
            f"the speculators format needs an MLP width that is a multiple of the rank {config.rank}, "
            f"not {config.mlp_hidden}"
        )
    if config.block_size != drafter["block_size"]:
        raise MisfitError(
            f"the speculators format has one block size, and the head mixes {config.block_size} slots where the "
            f"drafter has {drafter['block_size']}"
        )
    return drafter | {
        speculators.TYPE: "xpress",
        "architectures": ["XPressSpeculator"],
        "xpress_rank": config.rank,
        "xpress_mlp_ratio": config.mlp_hidden // config.rank,
        "num_jacobi_passes": config.passes,
    }
