"""What a drafter learns from: the target's own answers, and what the target saw and believed while giving them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from xpress_bench.train.data import Stream, chat_halves
from xpress_bench.train.tasks import sample


@dataclass(frozen=True, slots=True)
class Answer:
    """Token ids of a prompt and of the target's answer to it, its stop token included if it came to one."""

    prompt: list[int]
    answer: list[int]


@dataclass(frozen=True, slots=True)
class AnswerRecipe:
    """How many answers, and of which kind. `sampled`: share drawn at temperature 1; the others are greedy."""

    answers: int = 9_000
    sampled: float = 0.35
    prose: float = 0.15
    rows: int = 96
    max_prompt: int = 320
    max_new_tokens: int = 160
    prose_new_tokens: int = 96
    seed: int = 11


def prompts(tokenizer: PreTrainedTokenizerFast, prose: Stream, recipe: AnswerRecipe) -> list[tuple[list[int], int]]:
    """(prompt ids, budget) of train-split tasks in chat format and of prose to be continued, shortest first."""
    rng = random.Random(recipe.seed)
    found: list[tuple[list[int], int]] = []
    while len(found) < recipe.answers:
        if rng.random() < recipe.prose:
            length = rng.randint(24, 128)
            start = rng.randrange(len(prose.ids) - length)
            found.append((prose.ids[start : start + length].tolist(), recipe.prose_new_tokens))
            continue
        prompt = tokenizer(chat_halves(tokenizer, sample(rng, "train"))[0], add_special_tokens=False)["input_ids"]
        if len(prompt) <= recipe.max_prompt:
            found.append((prompt, recipe.max_new_tokens))
    return found


def answer_all(
    model: Any, tokenizer: PreTrainedTokenizerFast, wanted: list[tuple[list[int], int]], recipe: AnswerRecipe
) -> Iterator[list[Answer]]:
    """Answers of the target, one batch of `recipe.rows` prompts at a time, in an order shuffled over batches.

    Batches hold prompts of like length, so that padding is small; a part of the batches is sampled at temperature 1.
    """
    ordered = sorted(wanted, key=lambda pair: (pair[1], len(pair[0])))
    batches = [ordered[start : start + recipe.rows] for start in range(0, len(ordered), recipe.rows)]
    rng = random.Random(recipe.seed + 1)
    rng.shuffle(batches)
    torch.manual_seed(recipe.seed)
    for batch in batches:
        yield answer_batch(model, tokenizer, batch, sampled=rng.random() < recipe.sampled)


@torch.inference_mode()
def answer_batch(
    model: Any, tokenizer: PreTrainedTokenizerFast, batch: list[tuple[list[int], int]], sampled: bool
) -> list[Answer]:
    """One left-padded `generate` call."""
    width = max(len(prompt) for prompt, _ in batch)
    pad, stop = int(tokenizer.pad_token_id), int(tokenizer.eos_token_id)
    ids = torch.tensor([[pad] * (width - len(prompt)) + prompt for prompt, _ in batch])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt, _ in batch])
    options: dict[str, Any] = {"do_sample": True, "top_k": 0, "top_p": 1.0} if sampled else {"do_sample": False}
    budget = max(budget for _, budget in batch)
    output = model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=budget, pad_token_id=pad, **options)
    return [
        Answer(prompt, _until(row, stop)) for (prompt, _), row in zip(batch, output[:, width:].tolist(), strict=True)
    ]


def _until(ids: list[int], stop: int) -> list[int]:
    return ids[: ids.index(stop) + 1] if stop in ids else ids


@dataclass(frozen=True, slots=True)
class Lessons:
    """All answers, one after another, with what the frozen target computed on them.

    ids, positions, documents [n]; is_answer [n]; features [n, taps * H] at the tapped layers; final [n, H], the
    state from which the target's head predicts the next token.
    """

    ids: Tensor
    positions: Tensor
    documents: Tensor
    is_answer: Tensor
    features: Tensor
    final: Tensor

    def save(self, file: Path) -> None:
        torch.save({name: getattr(self, name) for name in self.__slots__}, file)

    @classmethod
    def load(cls, file: Path) -> Lessons:
        return cls(**torch.load(file, weights_only=True))


@torch.inference_mode()
def teach(model: Any, answers: list[Answer], taps: tuple[int, ...], rows: int = 32) -> Lessons:
    """Run the target once over every answer. Features are kept in bfloat16: they are inputs, not labels."""
    ordered = sorted(answers, key=lambda answer: len(answer.prompt) + len(answer.answer))
    pieces: list[tuple[Tensor, Tensor]] = []
    for start in range(0, len(ordered), rows):
        batch = [answer.prompt + answer.answer for answer in ordered[start : start + rows]]
        width = max(map(len, batch))
        ids = torch.tensor([ids + [0] * (width - len(ids)) for ids in batch])
        output = model.model(input_ids=ids, use_cache=False, output_hidden_states=[tap + 1 for tap in taps])
        features = torch.cat([output.hidden_states[tap + 1] for tap in taps], dim=-1).bfloat16()
        final = output.last_hidden_state.bfloat16()
        pieces += [(features[row, : len(ids)], final[row, : len(ids)]) for row, ids in enumerate(batch)]
    order = list(range(len(ordered)))
    random.Random(5).shuffle(order)
    chosen = [ordered[index] for index in order]
    lengths = [len(answer.prompt) + len(answer.answer) for answer in chosen]
    return Lessons(
        ids=torch.tensor([token for answer in chosen for token in answer.prompt + answer.answer]),
        positions=torch.cat([torch.arange(length) for length in lengths]),
        documents=torch.repeat_interleave(torch.arange(len(chosen)), torch.tensor(lengths)),
        is_answer=torch.tensor(
            [flag for answer in chosen for flag in [False] * len(answer.prompt) + [True] * len(answer.answer)]
        ),
        features=torch.cat([pieces[index][0] for index in order]),
        final=torch.cat([pieces[index][1] for index in order]),
    )
