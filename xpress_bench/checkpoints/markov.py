"""Checkpoints with a Markov head (methods.md 3.1, 3.2): a DFlash checkpoint that also holds `markov_head.*`.

DeepSpec, UIUC and speculators name tensors and keys alike; speculators keeps the sizes of the network apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import nn

from xpress_bench.checkpoints import formats, heads
from xpress_bench.checkpoints.files import load_into, read_json
from xpress_bench.errors import UsageError
from xpress_bench.targets import Target

ARCHITECTURE = formats.DSPARK
PREFIX = "markov_head."
Kind = Literal["vanilla", "gated", "rnn"]
KINDS: tuple[Kind, ...] = ("vanilla", "gated", "rnn")


@dataclass(frozen=True, slots=True)
class MarkovConfig:
    """Sizes of a Markov head: vocabulary V, rank r, hidden size H; and how it makes its correction.

    draft_vocab_size: rows of W2, where that is for a reduced vocabulary.
    """

    vocab_size: int
    rank: int
    hidden_size: int
    kind: Kind = "vanilla"
    draft_vocab_size: int | None = None


def holds_head(folder: Path) -> bool:
    """Whether the folder's weights contain a Markov head."""
    return heads.holds(folder, PREFIX)


def read_config(folder: Path) -> MarkovConfig:
    """Parse the head's keys. Raises UsageError naming the key that is missing or not computed here."""
    file = folder / "config.json"
    body = read_json(file)
    named = body.get("markov_head_type") or "vanilla"
    kind = next((one for one in KINDS if one == named), None)
    if kind is None:
        raise UsageError(
            f"{file}: markov_head_type is {named!r}, none of {', '.join(KINDS)}; "
            "use a checkpoint with one of these heads, or --refiner none"
        )
    network = formats.read(folder)[1]
    vocab_size, hidden_size = (heads.size(network, key, file, "Markov") for key in ("vocab_size", "hidden_size"))
    rank = heads.size(body, "markov_rank", file, "Markov")
    return MarkovConfig(vocab_size, rank, hidden_size, kind, heads.reduced(network))


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
        "markov_head_type": config.kind,
        "sample_from_anchor": False,
    }
