"""xPress checkpoints as released (methods.md 4.3): a DFlash checkpoint that also holds `xpress_head.*`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from xpress_bench.checkpoints import heads
from xpress_bench.checkpoints.dflash import refuse_shift
from xpress_bench.checkpoints.files import load_into, read_json, whole
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.targets import Target

ARCHITECTURE = "Qwen3XPressModel"
PREFIX = "xpress_head."


@dataclass(frozen=True, slots=True)
class HeadConfig:
    """Sizes of an xPress head: hidden H, vocabulary V, rank r, SwiGLU width, largest block B, default passes K."""

    hidden_size: int
    vocab_size: int
    rank: int
    mlp_hidden: int
    block_size: int
    passes: int


def holds_head(folder: Path) -> bool:
    """Whether the folder's weights contain an xPress head."""
    return heads.holds(folder, PREFIX)


def read_config(folder: Path) -> HeadConfig:
    """Parse the `xpress_*` keys. Raises UsageError naming the key that is missing or wrong."""
    file = folder / "config.json"
    body = read_json(file)
    refuse_shift(body, file, "refiner")
    if body.get("xpress_candidate_topc"):
        raise UsageError(
            f"{file}: sets xpress_candidate_topc={body['xpress_candidate_topc']}, which this version does not compute"
        )
    found = {
        name: body.get(key)
        for name, key in (
            ("hidden_size", "hidden_size"),
            ("vocab_size", "vocab_size"),
            ("rank", "xpress_rank"),
            ("mlp_hidden", "xpress_mlp_hidden"),
            ("block_size", "xpress_block_size"),
            ("passes", "xpress_num_passes"),
        )
    }
    for name, value in found.items():
        if not whole(value):
            raise UsageError(
                f"{file}: {name} of the xPress head is {value!r}; "
                "the keys are xpress_rank, xpress_mlp_hidden, xpress_block_size and xpress_num_passes"
            )
    return HeadConfig(**{name: int(value) for name, value in found.items() if value is not None})


def check_fit(config: HeadConfig, target: Target, drafter_block: int, folder: Path) -> None:
    """Refuse a head that does not align with the target or with the drafter's block."""
    heads.check_target("xPress", config, target, folder)
    if drafter_block > config.block_size:
        raise MisfitError(
            f"{folder}: the xPress head mixes at most {config.block_size} slots, and block_size is {drafter_block}; "
            f"set block_size={config.block_size} or less"
        )


def load_head(head: nn.Module, folder: Path) -> None:
    load_into(head, folder, prefix=PREFIX)


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
