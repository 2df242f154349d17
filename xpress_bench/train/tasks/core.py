"""What a training task is, and the rule that keeps a tenth of all contents away from training."""

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

Split = Literal["train", "held_out"]
T = TypeVar("T")

HELD_OUT_ONE_IN = 10


@dataclass(frozen=True, slots=True)
class Example:
    """One prompt with the answer to learn; `reference` is the part a scorer compares, None if nothing is checkable."""

    prompt: str
    answer: str
    category: str
    reference: str | None
    answer_type: str


Keyed = tuple[str, Example]
Draw = Callable[[random.Random], Keyed]
Task = Callable[[random.Random, Split], Example]


def side(key: str) -> Split:
    """Split to which a content key belongs: stable across processes, machines and Python versions."""
    digest = hashlib.sha256(key.encode()).digest()
    return "held_out" if int.from_bytes(digest[:8], "big") % HELD_OUT_ONE_IN == 0 else "train"


def task(draw: Draw) -> Task:
    """Make a task from a drawing function that returns (content key, example); draws again until the side is right."""

    def example(rng: random.Random, split: Split) -> Example:
        while True:
            key, drawn = draw(rng)
            if side(key) == split:
                return drawn

    return example


def join(words: Sequence[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def cap(text: str) -> str:
    """Upper-case the first letter and leave the rest alone."""
    return text[:1].upper() + text[1:]


def article(noun: str) -> str:
    """The noun with `a` or `an`, by its first letter; the word lists avoid `hour`, `unit` and the like."""
    return f"{'an' if noun[0].lower() in 'aeiou' else 'a'} {noun}"
