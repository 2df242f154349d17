"""Checkpoints with a vanilla Markov head (methods.md 3.1, 3.2): a DFlash checkpoint that also holds `markov_head.*`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from xpress_bench.checkpoints import dflash, heads
from xpress_bench.checkpoints.files import load_into, read_json, whole
from xpress_bench.errors import UsageError
from xpress_bench.targets import Target

ARCHITECTURE = dflash.DSPARK
PREFIX = "markov_head."


@dataclass(frozen=True, slots=True)
class MarkovConfig:
    """Sizes of a Markov head: vocabulary V and rank r; hidden size H tells which target it was made for."""

    vocab_size: int
    rank: int
    hidden_size: int


def holds_head(folder: Path) -> bool:
    """Whether the folder's weights contain a Markov head."""
    return heads.holds(folder, PREFIX)


def read_config(folder: Path) -> MarkovConfig:
    """Parse the head's keys. Raises UsageError naming the key that is missing or not computed here."""
    file = folder / "config.json"
    body = read_json(file)
    kind = body.get("markov_head_type")
    if kind not in (None, "vanilla"):
        raise UsageError(
            f"{file}: markov_head_type is {kind!r}, and this version computes only 'vanilla'; "
            "use a checkpoint with a vanilla head, or --refiner none"
        )
    dflash.refuse_shift(body, file, "refiner")
    return MarkovConfig(*(_size(body, key, file) for key in ("vocab_size", "markov_rank", "hidden_size")))


def _size(body: dict[str, Any], key: str, file: Path) -> int:
    value = body.get(key)
    if not whole(value):
        raise UsageError(
            f"{file}: {key} is {value!r}, and a Markov head needs a whole number of at least 1; "
            "correct it, or use --refiner none"
        )
    return value


def check_fit(config: MarkovConfig, target: Target, folder: Path) -> None:
    """Refuse a head that was made for another target, naming both numbers."""
    heads.check_target("Markov", config, target, folder)


def load_head(head: nn.Module, folder: Path) -> None:
    """Fill a `MarkovHead`; other parts of the file, such as `confidence_head.*`, are left alone."""
    load_into(head, folder, prefix=PREFIX)


def to_config(drafter: dict[str, Any], config: MarkovConfig) -> dict[str, Any]:
    """config.json of a fill-in Markov checkpoint: the drafter's config with the head's keys."""
    return drafter | {
        "architectures": [ARCHITECTURE],
        "markov_rank": config.rank,
        "sample_from_anchor": False,
    }
