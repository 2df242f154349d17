"""Targets without weights: a scripted chain and a Markov chain with a known law. For tests and for trying plug-ins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from xpress_bench.errors import UsageError
from xpress_bench.settings import TargetSettings
from xpress_bench.trees import Tree

BYTES = 256


class ToyTarget:
    """Keeps the ids it was shown as its cache and answers from a table; subclasses give the logits of one prefix.

    Counts what it was asked for, so that tests can check positions and repeated work.
    """

    hidden_size = 1
    layers = 1
    device = torch.device("cpu")
    dtype = torch.float64
    batchable = True

    def __init__(
        self, vocab_size: int, stop_ids: tuple[int, ...] = (), context: int = 1 << 20, name: str = "toy"
    ) -> None:
        self.name = name
        self.vocab_size = vocab_size
        self.stop_ids = stop_ids
        self.context = context
        self.prompt_tokens_seen = 0
        self.forwards = 0
        self.deepest_position = -1
        self._cache: list[int] = []
        self._rows = 0
        self._paths: list[list[int]] = []

    def row(self, prefix: list[int]) -> Tensor:
        """Logits [V] of the token after `prefix`."""
        raise NotImplementedError

    def prefill(self, ids: Tensor, taps: tuple[int, ...]) -> tuple[Tensor, Tensor | None]:
        self._cache = []
        self.prompt_tokens_seen += ids.shape[1]
        return self.verify(ids, taps)[:, -1:], None

    def verify(self, ids: Tensor, taps: tuple[int, ...]) -> Tensor:
        self.forwards += 1
        self._rows = ids.shape[1]
        rows = []
        for token in ids[0].tolist():
            self._cache.append(token)
            rows.append(self.row(self._cache))
        self.deepest_position = max(self.deepest_position, len(self._cache) - 1)
        return torch.stack(rows)[None]

    def verify_tree(self, ids: Tensor, tree: Tree, taps: tuple[int, ...]) -> Tensor:
        self.forwards += 1
        self._rows = 0  # none of them is in the cache before `commit_path`
        self._paths = [[*self._cache, *ids[0, seen].tolist()] for seen in tree.reach]
        self.deepest_position = max(self.deepest_position, *(len(path) - 1 for path in self._paths))
        return torch.stack([self.row(path) for path in self._paths])[None]

    def commit_path(self, path: Tensor) -> Tensor | None:
        self._cache = self._paths[int(path[-1])]
        return None

    def commit(self, keep: int) -> Tensor | None:
        del self._cache[len(self._cache) - self._rows + keep :]
        return None

    def embed(self, ids: Tensor) -> Tensor:
        return torch.zeros(*ids.shape, self.hidden_size, dtype=self.dtype)

    def head(self, hidden: Tensor) -> Tensor:
        return torch.zeros(*hidden.shape[:2], self.vocab_size, dtype=self.dtype)

    @property
    def cached(self) -> int:
        return len(self._cache)


class ScriptedTarget(ToyTarget):
    """Continues any prompt of `prompt_length` tokens with a fixed chain of ids."""

    def __init__(self, chain: list[int], prompt_length: int, vocab_size: int = 128, **options: object) -> None:
        super().__init__(vocab_size, **options)  # type: ignore[arg-type]
        self.chain = chain
        self.prompt_length = prompt_length

    def row(self, prefix: list[int]) -> Tensor:
        place = len(prefix) - self.prompt_length
        logits = torch.zeros(self.vocab_size, dtype=self.dtype)
        if 0 <= place < len(self.chain):
            logits[self.chain[place]] = 10.0
        return logits


class MarkovTarget(ToyTarget):
    """The next token depends on the last one only: transition [V, V] holds the probabilities."""

    def __init__(self, transition: Tensor, **options: object) -> None:
        super().__init__(transition.shape[0], **options)  # type: ignore[arg-type]
        self.logits = transition.to(self.dtype).log()

    def row(self, prefix: list[int]) -> Tensor:
        return self.logits[prefix[-1]]


class ByteTokenizer:
    """One id per byte of UTF-8; no chat template."""

    chat_template = None
    name_or_path = "toy"

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": list(text.encode())}

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        return bytes(ids).decode("latin-1")

    def get_vocab(self) -> dict[str, int]:
        return {f"<{byte}>": byte for byte in range(BYTES)}


class ToyChain(MarkovTarget):
    """The target `toy`: every byte is followed by a few others, with probabilities that are the same everywhere."""

    tokenizer = ByteTokenizer()

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        own, popular = (torch.rand(rows, BYTES, dtype=torch.float64, generator=generator) for rows in (BYTES, 1))
        super().__init__((8 * (own.pow(8) + popular.pow(8))).softmax(-1), stop_ids=(0,), context=4096)


def load(settings: TargetSettings, device: str, dtype: str) -> ToyChain:
    """The registered target `toy`: float64 on a CPU, whatever `dtype` says of others."""
    if device != "cpu":
        raise UsageError(f"device {device!r}: the toy target runs on cpu")
    return ToyChain()
