"""Checkpoints with a confidence head (methods.md 3.1, 3.2): `confidence_head.*`, beside a Markov head or alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import nn

from xpress_bench.checkpoints import formats, heads, markov
from xpress_bench.checkpoints.files import load_into, read_json
from xpress_bench.errors import UsageError
from xpress_bench.targets import Target

PREFIX = "confidence_head."


@dataclass(frozen=True, slots=True)
class ConfidenceConfig:
    """Sizes of a confidence head: hidden size H, and vocabulary V and rank r of the W1 that it reads, r 0 if none."""

    hidden_size: int
    vocab_size: int
    rank: int


def holds_head(folder: Path) -> bool:
    """Whether the folder's weights contain a confidence head."""
    return heads.holds(folder, PREFIX)


def read_config(folder: Path) -> ConfidenceConfig:
    """Parse the head's keys; a config that does not say so means a head that reads W1, as speculators' default does."""
    file = folder / "config.json"
    body = read_json(file)
    reads_tokens = body.get("confidence_head_with_markov", True)
    if not isinstance(reads_tokens, bool):
        raise UsageError(f"{file}: confidence_head_with_markov is {reads_tokens!r}, neither true nor false")
    network = formats.read(folder)[1]
    hidden_size, vocab_size = (heads.size(network, key, file, "confidence") for key in ("hidden_size", "vocab_size"))
    rank = heads.size(body, "markov_rank", file, "confidence") if reads_tokens else 0
    return ConfidenceConfig(hidden_size, vocab_size, rank)


def check_fit(config: ConfidenceConfig, target: Target, folder: Path) -> None:
    """Refuse a head that was made for another target, naming both numbers."""
    heads.check_target("confidence", config, target, folder)


def load_head(proj: nn.Module, table: nn.Module | None, folder: Path) -> None:
    """Fill the two parts of a `ConfidenceHead`; `table` is W1 of the Markov head beside it, None if it reads none."""
    load_into(proj, folder, prefix=f"{PREFIX}proj.")
    if table is not None:
        load_into(table, folder, prefix=f"{markov.PREFIX}markov_w1.")
