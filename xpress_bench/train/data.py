"""Token streams that the embedded target learns from: our own tasks in chat format, and licence-clean prose.

Both are kept as flat arrays on disk: a training step is one slice. Task prompts weigh less than answers: invented
names in a prompt are noise that nobody has to predict.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerFast

from xpress_bench.train.tasks import sample
from xpress_bench.train.tasks.core import Example
from xpress_bench.train.tokenizer import END_OF_TEXT

PROMPT_WEIGHT = 0.2
CHUNK = 2000  # documents per tokenizer call: bounds memory


@dataclass(frozen=True, slots=True)
class Stream:
    """Token ids [n] and their loss weights [n]."""

    ids: NDArray[np.uint16]
    weights: NDArray[np.float16]

    def save(self, file: Path) -> None:
        np.savez(file, ids=self.ids, weights=self.weights)

    @classmethod
    def load(cls, file: Path) -> Stream:
        with np.load(file) as arrays:
            return cls(arrays["ids"], arrays["weights"])


def chat_prompt(tokenizer: Any, text: str) -> str:
    """A user's turn and the opening of the answer, as the chat template renders them."""
    rendered = tokenizer.apply_chat_template(
        [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
    )
    return str(rendered)


def chat_halves(tokenizer: PreTrainedTokenizerFast, example: Example) -> tuple[str, str]:
    """Prompt and answer as the chat template renders them; the answer carries the end-of-turn token."""
    return chat_prompt(tokenizer, example.prompt), f"{example.answer}{tokenizer.eos_token}"


def task_stream(tokenizer: PreTrainedTokenizerFast, tokens: int, seed: int) -> Stream:
    """At least `tokens` tokens of train-split examples, one after another, each closed by END_OF_TEXT."""
    rng = random.Random(seed)
    ids: list[NDArray[np.uint16]] = []
    weights: list[NDArray[np.float16]] = []
    count = 0
    end = tokenizer.convert_tokens_to_ids(END_OF_TEXT)
    while count < tokens:
        halves = [chat_halves(tokenizer, sample(rng, "train")) for _ in range(CHUNK)]
        prompts = tokenizer([prompt for prompt, _ in halves], add_special_tokens=False)["input_ids"]
        answers = tokenizer([answer for _, answer in halves], add_special_tokens=False)["input_ids"]
        for prompt, answer in zip(prompts, answers, strict=True):
            ids.append(np.array([*prompt, *answer, end], dtype=np.uint16))
            weights.append(np.array([PROMPT_WEIGHT] * len(prompt) + [1.0] * len(answer) + [0.0], dtype=np.float16))
            count += len(ids[-1])
    return Stream(np.concatenate(ids), np.concatenate(weights))


def prose_stream(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> Stream:
    """All documents one after another, each closed by END_OF_TEXT."""
    end = tokenizer.convert_tokens_to_ids(END_OF_TEXT)
    parts = []
    for start in range(0, len(texts), CHUNK):
        encoded = tokenizer(texts[start : start + CHUNK], add_special_tokens=False)["input_ids"]
        parts += [np.array([*document, end], dtype=np.uint16) for document in encoded]
    ids = np.concatenate(parts)
    return Stream(ids, np.ones(len(ids), dtype=np.float16))


def batches(
    streams: dict[str, tuple[Stream, float]], rows: int, length: int, seed: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Endless ids [rows, length + 1] and weights of the same shape; each row from one stream, drawn by its share."""
    rng = np.random.default_rng(seed)
    names = list(streams)
    shares = np.array([streams[name][1] for name in names])
    while True:
        picked = rng.choice(len(names), size=rows, p=shares / shares.sum())
        ids, weights = [], []
        for stream in (streams[names[index]][0] for index in picked):
            start = int(rng.integers(0, len(stream.ids) - length - 1))
            ids.append(stream.ids[start : start + length + 1].astype(np.int64))
            weights.append(stream.weights[start : start + length + 1].astype(np.float32))
        yield np.stack(ids), np.stack(weights)
