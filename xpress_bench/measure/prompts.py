"""Suite items -> token ids of one target, rendered once; every arm gets the same ids or the run refuses."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xpress_bench.errors import UsageError
from xpress_bench.records import Skipped
from xpress_bench.settings import TargetSettings
from xpress_bench.suites import Item, Suite, spread


@dataclass(frozen=True, slots=True)
class Prompt:
    """One turn of an item as the target reads it, and how many new tokens it may answer with."""

    item: Item
    ids: tuple[int, ...]
    budget: int
    turn: int = 1

    @property
    def key(self) -> tuple[str, int]:
        """Item and turn."""
        return self.item.id, self.turn

    @property
    def sha256(self) -> str:
        return hashlib.sha256(" ".join(map(str, self.ids)).encode()).hexdigest()


def render(history: Sequence[str], tokenizer: Any, settings: TargetSettings) -> tuple[int, ...]:
    """Token ids of what was said, the user first and last: through the chat template if there is one and it is wanted.

    A template writes its own special tokens, so none are added to it; plain text gets the tokenizer's own.
    """
    if settings.chat_template and tokenizer.chat_template:
        encoded = tokenizer.apply_chat_template(
            [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(history)],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            enable_thinking=settings.thinking,
        )
        return tuple(encoded["input_ids"])
    return tuple(tokenizer("\n\n".join(history))["input_ids"])


def too_long(prompt: Prompt, context: int) -> Skipped | None:
    """What to write down of a prompt that with its budget does not fit the context (C41); None if it does."""
    need = len(prompt.ids) + prompt.budget
    if need <= context:
        return None
    name = prompt.item.id if prompt.turn == 1 else f"{prompt.item.id}, turn {prompt.turn}"
    return Skipped(name, f"with its budget longer than the context of {context} tokens", need)


def prepare(
    suite: Suite, tokenizer: Any, settings: TargetSettings, context: int, max_new_tokens: int | None
) -> tuple[list[Prompt], list[Skipped]]:
    """First turns that fit the context with their whole budget; those that do not, with the reason. None is cut."""
    kept, skipped = list[Prompt](), list[Skipped]()
    for item in suite.items:
        prompt = Prompt(item, render([item.prompt], tokenizer, settings), max_new_tokens or suite.budget(item))
        left = too_long(prompt, context)
        if left:
            skipped.append(left)
        else:
            kept.append(prompt)
    return kept, skipped


def batched(prompts: Sequence[Prompt], size: int) -> list[list[Prompt]]:
    """Prompts in batches of `size`, which divides their number. The draw is seeded: the same prompts, the same batches.

    A suite lies in order of category, and what is decoded together should be as unlike as what comes to a server.
    """
    drawn = list(prompts) if size == 1 else random.Random("batches").sample(prompts, len(prompts))
    return [drawn[at : at + size] for at in range(0, len(drawn), size)]


def whole_batches(prompts: Sequence[Prompt], size: int) -> tuple[Sequence[Prompt], list[Skipped]]:
    """As many prompts as fill batches of `size`, spread evenly, and those left over. UsageError if none is filled."""
    count = len(prompts) // size * size
    if not count:
        told = "1 prompt" if len(prompts) == 1 else f"{len(prompts)} prompts"
        raise UsageError(f"batch_size {size}: {told} of the suite would be run and fill no batch; choose a smaller one")
    kept = spread(prompts, count)
    names = {prompt.key for prompt in kept}
    return kept, [Skipped(one.item.id, f"fills no batch of {size}") for one in prompts if one.key not in names]


def prompt_lengths(items: Sequence[Item], target: str) -> tuple[dict[str, int], int | None]:
    """Tokens of each item's first turn for a target, by item id, and the target's context; loads no weights."""
    from transformers import AutoConfig

    from xpress_bench.parts import load_tokenizer
    from xpress_bench.targets.hf import EMBEDDED

    settings = TargetSettings(target)
    tokenizer = load_tokenizer(settings)
    config = AutoConfig.from_pretrained(EMBEDDED if target == "embedded" else target).get_text_config()
    lengths = {item.id: len(render([item.prompt], tokenizer, settings)) for item in items}
    return lengths, getattr(config, "max_position_embeddings", None)
