"""Suite items -> token ids of one target, rendered once; every arm gets the same ids or the run refuses."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from xpress_bench.records import Skipped
from xpress_bench.settings import TargetSettings
from xpress_bench.suites import Item, Suite


@dataclass(frozen=True, slots=True)
class Prompt:
    """An item as the target reads it, and how many new tokens it may answer with."""

    item: Item
    ids: tuple[int, ...]
    budget: int

    @property
    def sha256(self) -> str:
        return hashlib.sha256(" ".join(map(str, self.ids)).encode()).hexdigest()


def render(item: Item, tokenizer: Any, settings: TargetSettings) -> tuple[int, ...]:
    """Token ids of an item: through the chat template if the tokenizer has one and the settings want it.

    A template writes its own special tokens, so none are added to it; plain text gets the tokenizer's own.
    """
    if settings.chat_template and tokenizer.chat_template:
        encoded = tokenizer.apply_chat_template(
            [{"role": "user", "content": item.prompt}],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            enable_thinking=settings.thinking,
        )
        return tuple(encoded["input_ids"])
    return tuple(tokenizer(item.prompt)["input_ids"])


def prepare(
    suite: Suite, tokenizer: Any, settings: TargetSettings, context: int, max_new_tokens: int | None
) -> tuple[list[Prompt], list[Skipped]]:
    """Prompts that fit the context with their whole budget; those that do not, with the reason (C41). None is cut."""
    kept, skipped = [], []
    for item in suite.items:
        prompt = Prompt(item, render(item, tokenizer, settings), max_new_tokens or suite.budget(item))
        need = len(prompt.ids) + prompt.budget
        if need > context:
            skipped.append(Skipped(item.id, f"with its budget longer than the context of {context} tokens", need))
        else:
            kept.append(prompt)
    return kept, skipped
