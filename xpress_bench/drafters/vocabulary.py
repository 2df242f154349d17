"""Ids to rows and states to logits for a DFlash drafter: the target's tables, or those that its checkpoint brings.

DeepSpec and speculators store `embed_tokens` and `lm_head`, as a rule frozen copies of the target's. They are part of
the drafter as published, so they are used where they differ; a copy that is equal would only take memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from xpress_bench.checkpoints.dflash import BlockConfig
from xpress_bench.checkpoints.files import read_tensors
from xpress_bench.errors import MisfitError
from xpress_bench.targets import Target
from xpress_bench.weights import are_random


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """table [V, H] embeds and head [D, H] makes logits, both None for the target's own.

    ids [D] are the target's ids of the head's rows; None: D is V, in order.
    """

    target: Target
    config: BlockConfig
    table: Tensor | None = None
    head: Tensor | None = None
    ids: Tensor | None = None

    def embed(self, ids: Tensor) -> Tensor:
        """Raw rows [b, n, H] of the table, scaled as the checkpoint says."""
        rows = self.target.embed(ids) if self.table is None else F.embedding(ids, self.table)
        scale = self.config.input_embedding_scale
        return rows if scale == 1 else rows * scale

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [b, n, V] of states [b, n, H]; -inf for what a reduced vocabulary does not have."""
        logits = self.target.head(hidden) if self.head is None else F.linear(hidden, self.head)
        factor, cap = self.config.output_multiplier, self.config.final_logit_softcapping
        if factor != 1:
            logits = logits * factor
        if cap is not None:
            logits = torch.tanh(logits / cap) * cap
        if self.ids is None:
            return logits
        everything = logits.new_full((*logits.shape[:-1], self.target.vocab_size), -torch.inf)
        return everything.index_copy(-1, self.ids, logits)


def load(folder: Path, config: BlockConfig, target: Target) -> Vocabulary:
    """What the checkpoint brings of its own, on the target's device and in its type. Raises MisfitError."""
    V, H = target.vocab_size, target.hidden_size
    names = ("embed_tokens.weight", "lm_head.weight", "d2t", "t2d")
    found = read_tensors(folder, lambda name: name in names)
    if are_random() and config.draft_vocab_size:
        found = {"d2t": torch.zeros(config.draft_vocab_size), "lm_head.weight": torch.randn(config.draft_vocab_size, H)}
    ids = _ids(found, config, folder)
    table = _own(found, "embed_tokens.weight", (V, H), target, folder)
    head = _own(found, "lm_head.weight", (config.draft_vocab_size or V, H), target, folder)
    if ids is not None and head is None:
        raise MisfitError(f"{folder}: has a reduced vocabulary, but no lm_head.weight for it")
    if table is not None and _equal(table, lambda rows: target.embed(rows[None])[0]):
        table = None
    if head is not None and ids is None and _equal(head.T, lambda rows: _head_columns(target, rows)):
        head = None
    return Vocabulary(target, config, table, head, None if ids is None else ids.to(target.device))


def _own(found: dict[str, Tensor], name: str, shape: tuple[int, int], target: Target, folder: Path) -> Tensor | None:
    if name not in found:
        return None
    if tuple(found[name].shape) != shape:
        raise MisfitError(f"{folder}: {name} has shape {tuple(found[name].shape)}, its config asks for {shape}")
    tensor = found[name].to(device=target.device, dtype=target.dtype)
    if not bool(torch.isfinite(tensor).all()):
        raise MisfitError(f"{folder}: {name} is not finite; speculators leaves NaN in a table that was never filled")
    return tensor


def _ids(found: dict[str, Tensor], config: BlockConfig, folder: Path) -> Tensor | None:
    """The target's id of each row of a reduced vocabulary: `d2t` holds offsets, `t2d` says which ids there are."""
    if config.draft_vocab_size is None:
        return None
    if "d2t" not in found or tuple(found["d2t"].shape) != (config.draft_vocab_size,):
        raise MisfitError(f"{folder}: needs d2t for each of the {config.draft_vocab_size} rows of its vocabulary")
    ids = torch.arange(config.draft_vocab_size) + found["d2t"].long()
    present = torch.zeros(config.qwen3.vocab_size, dtype=torch.bool)
    if int(ids.min()) >= 0 and int(ids.max()) < len(present):
        present[ids] = True
    said = found.get("t2d", present).bool()
    if int(present.sum()) != len(ids) or not torch.equal(said, present):
        raise MisfitError(f"{folder}: d2t and t2d do not give each row an id of its own below {len(present)}")
    return ids


def _equal(own: Tensor, theirs: Callable[[Tensor], Tensor]) -> bool:
    """Whether `theirs` has the rows of `own`, looked at in parts that take little memory."""
    with torch.inference_mode():
        parts = torch.split(torch.arange(len(own), device=own.device), 256)
        return all(torch.equal(theirs(rows), own[rows]) for rows in parts)


def _head_columns(target: Target, rows: Tensor) -> Tensor:
    """Columns [n, V] of the target's head: its logits of unit vectors, which no rounding touches."""
    units = torch.zeros(len(rows), target.hidden_size, device=target.device, dtype=target.dtype)
    units[torch.arange(len(rows)), rows] = 1
    return target.head(units[None])[0]
