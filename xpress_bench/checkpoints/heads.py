"""What checkpoints with a refiner's head beside the drafter have in common, whatever the head computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from xpress_bench.checkpoints import formats
from xpress_bench.checkpoints.files import read_json, tensor_names, whole
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.targets import Target
from xpress_bench.weights import are_random


class Sizes(Protocol):
    """What a head's config says of its target."""

    @property
    def hidden_size(self) -> int: ...

    @property
    def vocab_size(self) -> int: ...


def holds(folder: Path, prefix: str) -> bool:
    """Whether the folder's weights contain a head: tensors under its prefix. Random ones have what the config sizes."""
    if are_random():
        return bool(read_json(folder / "config.json").get(f"{prefix.partition('_')[0]}_rank"))
    return any(name.startswith(prefix) for name in tensor_names(folder))


def reduced(network: dict[str, Any]) -> int | None:
    """Rows of a reduced draft vocabulary, None where it is the target's; of a config in z-lab's keys."""
    found: int | None = (network.get("dflash_config") or {}).get("draft_vocab_size")
    return found


def size(body: dict[str, Any], key: str, file: Path, name: str) -> int:
    """A size that the `name` head needs. Raises UsageError naming the key if it is missing or no size."""
    value = body.get(key)
    if not whole(value):
        raise UsageError(
            f"{file}: {key} is {value!r}, and a {name} head needs a whole number of at least 1; "
            "correct it, or use --refiner none"
        )
    return value


def check_layout(folder: Path, drafter: object) -> None:
    """Refuse a head for blocks of the other layout: it would correct every slot for the place of its neighbour."""
    head, own = formats.recognise(folder).layout, getattr(drafter, "layout", "fill_in")
    if head != own:
        raise MisfitError(
            f"{folder}: the head is for blocks of layout {head}, and the drafter's are {own}; take the drafter of the "
            "same checkpoint (sample_from_anchor in its config.json says which it is)"
        )


def check_target(name: str, sizes: Sizes, target: Target, folder: Path) -> None:
    """Refuse a head that was made for another target, naming both numbers."""
    for what, head, own in (
        ("hidden size", sizes.hidden_size, target.hidden_size),
        ("vocabulary", sizes.vocab_size, target.vocab_size),
    ):
        if head != own:
            raise MisfitError(f"{folder}: {what} of the {name} head is {head}, but target {target.name!r} has {own}")
