"""What a run needs, without weights: a target that counts upwards, a tokenizer, a clock, settings, a suite."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from xpress_bench.drafters import Context, Draft
from xpress_bench.drafters.toy import ScriptedDrafter
from xpress_bench.measure.prompts import Prompt
from xpress_bench.measure.requests import Requests
from xpress_bench.measure.schedule import Slot
from xpress_bench.parts import Parts, PlannedArm
from xpress_bench.records import Arm, Condition
from xpress_bench.sampling import Sampling
from xpress_bench.settings import DrafterSettings, RefinerSettings, Settings, TargetSettings
from xpress_bench.suites import Item
from xpress_bench.targets.toy import ToyTarget

VOCAB = 128
GREEDY = Condition(0.0, "greedy")


class Counting(ToyTarget):
    """Answers every id with the next one; notes how many rows each forward had."""

    def __init__(self, **options: Any) -> None:
        super().__init__(VOCAB, **options)
        self.rows: list[int] = []

    def row(self, prefix: list[int]) -> Tensor:
        return torch.nn.functional.one_hot(torch.tensor((prefix[-1] + 1) % VOCAB), VOCAB).double() * 10

    def verify(self, ids: Tensor, taps: tuple[int, ...]) -> Tensor:
        self.rows.append(ids.shape[1])
        return super().verify(ids, taps)


def ahead(tokens: list[int]) -> list[int]:
    """What `Counting` will say next: right for two slots, then wrong."""
    return [(tokens[-1] + step) % VOCAB for step in (1, 2)] + [0] * 6


class Fixing:
    """A refiner that puts the right token into the third slot."""

    causal = True
    passes = 1

    def refine(self, draft: Draft, context: Context, sampling: Sampling) -> Draft:
        tokens = draft.tokens.clone()
        tokens[:, 2:3] = (tokens[:, 1:2] + 1) % VOCAB
        return Draft(tokens)


class Letters:
    """A tokenizer with one id per letter and no chat template."""

    chat_template = None

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": [ord(letter) % VOCAB for letter in text]}

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        return " ".join(map(str, ids))

    def get_vocab(self) -> dict[str, int]:
        return {chr(index): index for index in range(VOCAB)}


class Ticks:
    """A clock on which every look takes a second."""

    def __init__(self) -> None:
        self.time = 0.0

    def synchronize(self) -> None:
        """Nothing is queued."""

    def now(self) -> float:
        self.time += 1.0
        return self.time

    stamp = now

    def seconds(self, start: Any, end: Any) -> float:
        return float(end - start)


def planned(name: str, drafter: Any = None, refiners: tuple[Any, ...] = ()) -> PlannedArm:
    kind, refiner = ("scripted" if drafter else None), ("fixing" if refiners else None)
    return PlannedArm(Arm(name, kind, refiner, drafter and drafter.block_size, None, None), drafter, refiners)


def parts(target: Any = None, drafter: Any = None, refiner: Any = None) -> Parts:
    """Direct, draft and refine on the counting target, blocks of 4."""
    drafter, refiner = drafter or ScriptedDrafter(ahead, 4), refiner or Fixing()
    arms = (planned("direct"), planned("draft", drafter), planned("refine", drafter, (refiner,)))
    return Parts(target or Counting(), Letters(), arms)


def prompt(name: str = "p", length: int = 3, budget: int = 8) -> Prompt:
    return Prompt(Item(name, "?"), tuple(range(1, length + 1)), budget)


def requests(prompts: list[Prompt], clock: Any = None, deadline_s: float = 60.0, **changes: Any) -> Requests:
    made = parts(**changes)
    return Requests(made.target, made.tokenizer, made.arms, prompts, clock or Ticks(), deadline_s)


def slot(arm: str, prompt: str = "p", seed: int = 0) -> Slot:
    return Slot(GREEDY, prompt, seed, 0, arm, 0)


def suite(folder: Path, *prompts: str, name: str = "own") -> Path:
    """A user's suite; ids are the prompts themselves."""
    file = folder / f"{name}.jsonl"
    file.write_text("".join(json.dumps({"id": text, "prompt": text}) + "\n" for text in prompts), encoding="utf-8")
    return file


def settings(**changes: Any) -> Settings:
    plain: dict[str, Any] = {
        "suite": "qa",
        "target": TargetSettings("toy"),
        "drafter": DrafterSettings("scripted"),
        "refiner": RefinerSettings("none"),
        "block_size": None,
        "verifiers": ("coupled",),
        "temperatures": (0.0,),
        "seeds": (0,),
        "repeats": 1,
        "launches": 1,
        "limit": None,
        "turns": None,
        "max_new_tokens": 8,
        "batch_size": 1,
        "device": "cpu",
        "dtype": "float32",
        "threads": 1,
        "warmup": 1,
        "deadline_s": 60,
        "memory": False,
        "trace": 0,
        "profile": "quick",
        "out": "runs",
        "admission": "off",  # what else runs while the tests do decides nothing
    }
    return Settings(**plain | changes)
