"""Targets: the autoregressive models whose output must not change."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

from xpress_bench.errors import MisfitError
from xpress_bench.registry import Registry
from xpress_bench.settings import TargetSettings

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from xpress_bench.trees import Tree


class Target(Protocol):
    """A causal language model that owns its cache, for one request at a time; `targets.batched` has several.

    Between calls the cache holds every committed token but the last, the anchor. One that is no transformers model
    brings its tokenizer as an attribute `tokenizer`.
    """

    name: str
    vocab_size: int  # V: rows of the output table; padding rows are kept, exactly as `generate` keeps them (C27)
    hidden_size: int  # H
    layers: int
    context: int  # positions it may be asked for
    stop_ids: tuple[int, ...]
    device: torch.device
    dtype: torch.dtype

    def prefill(self, ids: Tensor, taps: tuple[int, ...]) -> tuple[Tensor, Tensor | None]:
        """Start a request with ids [b, n]. Returns the last logits [b, 1, V] and features [b, n, len(taps) * H]."""
        ...

    def verify(self, ids: Tensor, taps: tuple[int, ...]) -> Tensor:
        """Logits [b, 1 + N, V] for the anchor and N draft tokens, in one forward at the next positions."""
        ...

    def commit(self, keep: int) -> Tensor | None:
        """Keep the first `keep` rows of the last `verify`, roll back the rest. Returns their features [b, keep, _]."""
        ...

    def embed(self, ids: Tensor) -> Tensor:
        """Rows of the input table, [b, n, H]."""
        ...

    def head(self, hidden: Tensor) -> Tensor:
        """Logits [b, n, V] of hidden states [b, n, H]."""
        ...


class TreeTarget(Target, Protocol):
    """A target that also verifies drafts that branch. It may refuse with a MisfitError, at the first one."""

    def verify_tree(self, ids: Tensor, tree: Tree, taps: tuple[int, ...]) -> Tensor:
        """As `verify`, of ids [1, 1 + n]: a row sees the cache and its own path, and stands as deep as it is there."""
        ...

    def commit_path(self, path: Tensor) -> Tensor | None:
        """Keep the rows of the last `verify_tree` that `path` [c] lists, as if they alone had been verified in turn.

        Returns their features [1, c, _].
        """
        ...


def verifying_trees(target: Target) -> TreeTarget:
    """The target; MisfitError if it verifies chains only."""
    if not hasattr(target, "verify_tree"):
        raise MisfitError(f"target {target.name!r} verifies chains, no trees; use candidates.merge=best")
    return cast("TreeTarget", target)


TargetFactory = Callable[[TargetSettings, "str", "str"], Target]  # settings, device, dtype

TARGETS: Registry[TargetFactory] = Registry("targets")
TARGETS.add("embedded", "xpress_bench.targets.hf:embedded", "small Qwen3 model that ships with the package")
TARGETS.add("toy", "xpress_bench.targets.toy:load", "Markov chain over bytes with a known law, for tests and plug-ins")
