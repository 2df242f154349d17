"""What refiners with a trained head have in common: where its output rows stand among the target's ids."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from xpress_bench.drafters import Drafter
from xpress_bench.errors import MisfitError


def output_ids(draft_vocab_size: int | None, drafter: Drafter, folder: Path) -> Tensor | None:
    """The target's ids [D] of a head's D output rows; None where they are all V, in order.

    A reduced vocabulary is the drafter's of the same checkpoint. Raises MisfitError if the drafter has another.
    """
    if draft_vocab_size is None:
        return None
    ids: Tensor | None = getattr(getattr(drafter, "vocabulary", None), "ids", None)
    if ids is None or len(ids) != draft_vocab_size:
        raise MisfitError(
            f"{folder}: the head has a reduced vocabulary of {draft_vocab_size} ids, which the drafter does not share; "
            "take the drafter of the same checkpoint"
        )
    return ids


def corrected(logits: Tensor, bias: Tensor, ids: Tensor | None) -> Tensor:
    """Logits [b, n, V] with the corrections [b, n, D] of `ids` [D] added; None: D is V."""
    return logits + bias if ids is None else logits.index_add(-1, ids, bias)
