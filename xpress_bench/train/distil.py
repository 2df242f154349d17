"""What a drafter learns from: the target's own answers, and what the target saw and believed while giving them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.train.data import chat_prompt
from xpress_bench.train.tasks import SPOKEN, TASKS, sample
from xpress_bench.train.tasks.open_prompts import any_prompt

PROSE_EVERY = 10  # of the texts taken as they stand
MOST_DRAWS = 1000  # of a prompt that fits; by then none will


@dataclass(frozen=True, slots=True)
class Wanted:
    """A prompt that the target shall answer. Prompts of one `kind` have answers of like length."""

    ids: list[int]
    budget: int
    kind: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Token ids of a prompt and of the target's answer to it, its stop token included if it came to one."""

    prompt: list[int]
    answer: list[int]


@dataclass(frozen=True, slots=True)
class AnswerRecipe:
    """How many answers, and to what: open prompts, prose to go on with, long profiles, and for the rest our tasks.

    `sampled`: share of answers drawn at temperature 1; the others are greedy. `batch_tokens` bounds a batch's prompt
    and answer tokens together. `given`: texts taken as they stand beside the answers, which costs no generation.
    """

    answers: int = 12_000
    given: int = 9_000
    sampled: float = 0.3
    open: float = 0.6
    prose: float = 0.05
    long: float = 0.05
    batch_tokens: int = 40_000
    max_prompt: int = 1_850
    long_from: int = 500  # prompt tokens of a long profile
    max_new_tokens: int = 160
    seed: int = 11


def prompts(tokenizer: Any, prose: list[str], recipe: AnswerRecipe, excluded: frozenset[str]) -> list[Wanted]:
    """Prompts of every kind as ids. A prompt whose question is in `excluded` (see `asked`) is left out."""
    rng = random.Random(recipe.seed)
    shares = {"open": recipe.open, "prose": recipe.prose, "long": recipe.long}
    shares["task"] = 1 - sum(shares.values())
    kinds = rng.choices(list(shares), weights=list(shares.values()), k=recipe.answers)
    return [
        Wanted(_opening(tokenizer, rng, prose), 96, kind)
        if kind == "prose"
        else _task(tokenizer, rng, kind, prose, recipe, excluded)
        for kind in kinds
    ]


def _task(
    tokenizer: Any, rng: random.Random, kind: str, prose: list[str], recipe: AnswerRecipe, excluded: frozenset[str]
) -> Wanted:
    """A prompt of the kind that fits; drawn again until it does. UsageError if none does."""
    least = recipe.long_from if kind == "long" else 0
    for _ in range(MOST_DRAWS):
        category, text = _prompt(rng, kind, prose)
        ids = chat(tokenizer, text)
        if least <= len(ids) <= recipe.max_prompt and asked(text) not in excluded:
            return Wanted(ids, recipe.max_new_tokens, category)
    raise UsageError(
        f"none of {MOST_DRAWS} {kind} prompts has {least} to {recipe.max_prompt} tokens: raise answers.max_prompt, or "
        f"ask for none{'' if kind == 'task' else f' (answers.{kind}=0)'}"
    )


def asked(prompt: str) -> str:
    """The question of a prompt without what stands around it, in small letters; its first line if it asks nothing."""
    question, mark, _ = prompt.partition("?")
    return (question.split("\n")[-1] if mark else prompt.split("\n")[0]).strip().lower()


def chat(tokenizer: Any, text: str) -> list[int]:
    """Ids of a user's turn and the opening of the answer; the plain text for a tokenizer without a chat template."""
    if tokenizer.chat_template:
        text = chat_prompt(tokenizer, text)
    ids: list[int] = tokenizer(text, add_special_tokens=not tokenizer.chat_template)["input_ids"]
    return ids


def _prompt(rng: random.Random, kind: str, prose: list[str]) -> tuple[str, str]:
    if kind == "open":
        return kind, any_prompt(rng, prose)
    example = TASKS["profile"](rng, "train") if kind == "long" else sample(rng, "train", SPOKEN)
    return (kind if kind == "long" else example.category), example.prompt


def _opening(tokenizer: Any, rng: random.Random, prose: list[str]) -> list[int]:
    """24 to 128 tokens from somewhere in a document."""
    text = rng.choice(prose)
    start = rng.randrange(max(1, len(text) - 800))
    ids: list[int] = tokenizer(text[start : start + 800], add_special_tokens=False)["input_ids"]
    return ids[: rng.randint(24, 128)]


def given(tokenizer: Any, prose: list[str], recipe: AnswerRecipe) -> list[Answer]:
    """Texts as they stand: our tasks with their right answers, and 256 tokens of prose as every PROSE_EVERYth.

    A stretch of prose is some four answers long and has little that can be drafted, so a few go a long way.
    """
    rng = random.Random(recipe.seed + 2)
    return [
        _example(tokenizer, rng, recipe) if index % PROSE_EVERY else _stretch(tokenizer, rng, prose)
        for index in range(recipe.given)
    ]


def _example(tokenizer: Any, rng: random.Random, recipe: AnswerRecipe) -> Answer:
    for _ in range(MOST_DRAWS):
        example = sample(rng, "train", SPOKEN)
        ids = chat(tokenizer, example.prompt)
        if len(ids) <= recipe.max_prompt:
            answer = tokenizer(f"{example.answer}{tokenizer.eos_token}", add_special_tokens=False)["input_ids"]
            return Answer(ids, answer)
    raise UsageError(
        f"none of {MOST_DRAWS} tasks has at most {recipe.max_prompt} tokens: raise answers.max_prompt, or set "
        "answers.given=0"
    )


def _stretch(tokenizer: Any, rng: random.Random, prose: list[str], tokens: int = 256, opening: int = 16) -> Answer:
    text = rng.choice(prose)
    start = rng.randrange(max(1, len(text) - 8 * tokens))
    ids = tokenizer(text[start : start + 8 * tokens], add_special_tokens=False)["input_ids"][:tokens]
    return Answer(ids[:opening], ids[opening:])


def answer_all(model: Any, tokenizer: Any, wanted: list[Wanted], recipe: AnswerRecipe) -> Iterator[list[Answer]]:
    """Answers of the target, a batch at a time, batches in shuffled order.

    A batch holds prompts of one kind and like length, so that it ends together and is padded little; a part of the
    batches is sampled at temperature 1.
    """
    rng = random.Random(recipe.seed + 1)
    batches = list(_batches(sorted(wanted, key=lambda one: (one.kind, len(one.ids))), recipe.batch_tokens))
    rng.shuffle(batches)
    torch.manual_seed(recipe.seed)
    for batch in batches:
        yield answer_batch(model, tokenizer, batch, sampled=rng.random() < recipe.sampled)


def _batches(ordered: list[Wanted], tokens: int) -> Iterator[list[Wanted]]:
    batch: list[Wanted] = []
    for one in ordered:
        width = len(one.ids) + one.budget
        if batch and (one.kind != batch[0].kind or width * (len(batch) + 1) > tokens):
            yield batch
            batch = []
        batch.append(one)
    if batch:
        yield batch


@torch.inference_mode()
def answer_batch(model: Any, tokenizer: Any, batch: list[Wanted], sampled: bool) -> list[Answer]:
    """One left-padded `generate` call."""
    width = max(len(one.ids) for one in batch)
    stop = int(tokenizer.eos_token_id)
    pad = stop if tokenizer.pad_token_id is None else int(tokenizer.pad_token_id)
    ids = torch.tensor([[pad] * (width - len(one.ids)) + one.ids for one in batch], device=model.device)
    mask = torch.tensor([[0] * (width - len(one.ids)) + [1] * len(one.ids) for one in batch], device=model.device)
    options: dict[str, Any] = {"do_sample": True, "top_k": 0, "top_p": 1.0} if sampled else {"do_sample": False}
    budget = max(one.budget for one in batch)
    output = model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=budget, pad_token_id=pad, **options)
    return [Answer(one.ids, _until(row, stop)) for one, row in zip(batch, output[:, width:].tolist(), strict=True)]


def _until(ids: list[int], stop: int) -> list[int]:
    return ids[: ids.index(stop) + 1] if stop in ids else ids


@dataclass(frozen=True, slots=True)
class Lessons:
    """All answers, one after another, with what the frozen target computed on them.

    ids, positions, documents [n]; is_answer [n]; features [n, t * H] at the t tapped layers, whose numbers are
    taps [t]; final [n, H], the state from which the target's head predicts the next token.
    """

    ids: Tensor
    positions: Tensor
    documents: Tensor
    is_answer: Tensor
    features: Tensor
    final: Tensor
    taps: Tensor

    def save(self, file: Path) -> None:
        torch.save({name: getattr(self, name) for name in self.__slots__}, file)

    @classmethod
    def load(cls, file: Path) -> Lessons:
        """Raises MisfitError for what another version wrote."""
        held = torch.load(file, weights_only=True)
        if set(held) != set(cls.__slots__):
            raise MisfitError(f"{file} was made by another version: run `xpress-bench train answers` again")
        return cls(**held)

    def check_fit(self, taps: tuple[int, ...] | None, width: int, file: Path) -> None:
        """MisfitError unless these are what a drafter reads that taps those layers of a target of that hidden size.

        taps None: it reads the target's text alone.
        """
        if taps not in (None, tuple(self.taps.tolist())) or self.final.shape[1] != width:
            raise MisfitError(
                f"{file} holds answers of a target of hidden size {self.final.shape[1]}, read at layers "
                f"{self.taps.tolist()}; this drafter reads {list(taps or ())} of one of {width}: run `xpress-bench "
                "train answers` with the same target.name and start, or use another --work"
            )

    def check_length(self, tokens: int, what: str) -> None:
        """MisfitError if there are no more than `tokens` tokens, which one row takes."""
        if len(self.ids) <= tokens:
            raise MisfitError(
                f"the answers are {len(self.ids)} tokens in all, and a row takes {tokens}: set answers.answers or "
                f"answers.given higher and run `xpress-bench train answers` again, or {what}.length lower"
            )


@torch.inference_mode()
def teach(model: Any, answers: list[Answer], taps: tuple[int, ...], batch_tokens: int = 8_192) -> Lessons:
    """Run the target once over every answer. Features are kept in bfloat16: they are inputs, not labels."""
    ordered = sorted(answers, key=lambda answer: len(answer.prompt) + len(answer.answer))
    pieces: list[tuple[Tensor, Tensor]] = []
    while len(pieces) < len(ordered):
        shortest = len(ordered[len(pieces)].prompt) + len(ordered[len(pieces)].answer)
        rows = ordered[len(pieces) : len(pieces) + max(1, batch_tokens // shortest)]
        batch = [one.prompt + one.answer for one in rows]
        width = max(map(len, batch))
        ids = torch.tensor([ids + [0] * (width - len(ids)) for ids in batch], device=model.device)
        output = model.base_model(input_ids=ids, use_cache=False, output_hidden_states=[tap + 1 for tap in taps])
        features = torch.cat([output.hidden_states[tap + 1] for tap in taps], dim=-1).bfloat16().cpu()
        final = output.last_hidden_state.bfloat16().cpu()
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
        taps=torch.tensor(taps),
    )
