"""What checkpoints with a refiner's head beside the drafter have in common, whatever the head computes."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from xpress_bench.checkpoints.files import tensor_names
from xpress_bench.errors import MisfitError
from xpress_bench.targets import Target


class Sizes(Protocol):
    """What a head's config says of its target."""

    @property
    def hidden_size(self) -> int: ...

    @property
    def vocab_size(self) -> int: ...


def holds(folder: Path, prefix: str) -> bool:
    """Whether the folder's weights contain a head: tensors under its prefix."""
    return any(name.startswith(prefix) for name in tensor_names(folder))


def check_target(name: str, sizes: Sizes, target: Target, folder: Path) -> None:
    """Refuse a head that was made for another target, naming both numbers."""
    for what, head, own in (
        ("hidden size", sizes.hidden_size, target.hidden_size),
        ("vocabulary", sizes.vocab_size, target.vocab_size),
    ):
        if head != own:
            raise MisfitError(f"{folder}: {what} of the {name} head is {head}, but target {target.name!r} has {own}")
