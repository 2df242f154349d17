"""Random weights: any architecture from its config alone, so that the cost of a pair is known before its weights exist.

Parts keep the values that their modules are made with, as at the start of training: of a size that neither overflows
nor dies out, and no zeros, which a device multiplies at lower power. Time per step is that of trained weights of the
same sizes, but for refiners that stop early. What comes out means nothing: nearly every draft is rejected.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from xpress_bench.errors import UsageError
from xpress_bench.sampling import stable_seed

_RANDOM = ContextVar("random weights", default=False)
BYTES_PER_TOKEN = 4  # of English prose, by the tokenizers of large models


def are_random() -> bool:
    """Whether what is being loaded keeps the values it was made with; no file of weights is looked for then."""
    return _RANDOM.get()


@contextmanager
def random_weights() -> Iterator[None]:
    """Whatever is loaded inside has random weights, the same in every process."""
    token = _RANDOM.set(True)
    try:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            yield
    finally:
        _RANDOM.reset(token)


def random_causal_lm(where: str, device: str, options: dict[str, Any]) -> Any:
    """A transformers causal LM of a config's sizes, made on its device. `options`: those of `from_pretrained`."""
    if "gguf_file" in options:
        raise UsageError("target.gguf_file names trained weights: leave it out, or take --weights trained")
    of_config = {name: options[name] for name in ("revision", "trust_remote_code")}
    config = AutoConfig.from_pretrained(where, **of_config)
    kept = {name: options[name] for name in ("dtype", "trust_remote_code", "attn_implementation") if name in options}
    with torch.device(device):
        return AutoModelForCausalLM.from_config(config, **kept)


class RandomIds:
    """Stands in for a tokenizer that is not there: random ids, as many as a text of that length usually has."""

    chat_template = None

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size

    def __call__(self, text: str) -> dict[str, list[int]]:
        """The same ids for the same text."""
        generator = torch.Generator().manual_seed(stable_seed("ids", text))
        count = max(1, len(text.encode()) // BYTES_PER_TOKEN)
        return {"input_ids": torch.randint(self.vocab_size, (count,), generator=generator).tolist()}

    def decode(self, ids: list[int], **_: Any) -> str:
        """As much text as so many ids usually make, for the history of a conversation."""
        return " " * (BYTES_PER_TOKEN * len(ids))

    def get_vocab(self) -> dict[str, int]:
        return {}
