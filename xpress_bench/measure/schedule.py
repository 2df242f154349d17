"""In which order a launch does its work: seeded, balanced, and written down.

Arms are interleaved within each prompt and seed, so that whatever drifts meets all of them alike. Orders come as cyclic
rotations of random permutations: every arm stands equally often in every place.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from xpress_bench.records import Condition


@dataclass(frozen=True, slots=True)
class Slot:
    """One request to make: `order` is its place within (condition, prompt, seed, repeat)."""

    condition: Condition
    prompt: str
    seed: int
    repeat: int
    arm: str
    order: int
    turn: int = 1
    batch: int | None = None  # the number of its batch, if it has mates

    @property
    def key(self) -> tuple[str, int]:
        """Prompt and turn."""
        return self.prompt, self.turn


def schedule(
    arms: Sequence[str],
    conditions: Sequence[Condition],
    prompts: Sequence[tuple[str, int]],
    seeds: Sequence[int],
    repeats: int,
    launch: int,
) -> Iterator[Slot]:
    """Every slot of one launch. `prompts` are (id, turn). They are shuffled anew per condition, seed and repeat."""
    alone = [(prompt,) for prompt in prompts]
    return chain.from_iterable(schedule_batches(arms, conditions, alone, seeds, repeats, launch))


def schedule_batches(
    arms: Sequence[str],
    conditions: Sequence[Condition],
    batches: Sequence[Sequence[tuple[str, int]]],
    seeds: Sequence[int],
    repeats: int,
    launch: int,
) -> Iterator[tuple[Slot, ...]]:
    """The same of prompts that are decoded together: an arm runs a whole batch, then the next arm runs it."""
    rng = random.Random(f"schedule/{launch}")
    orders = _balanced_orders(arms, rng)
    for condition in conditions:
        for seed in seeds:
            for repeat in range(repeats):
                for number in rng.sample(range(len(batches)), len(batches)):
                    batch = number if len(batches[number]) > 1 else None
                    for place, arm in enumerate(next(orders)):
                        yield tuple(
                            Slot(condition, prompt, seed, repeat, arm, place, turn, batch)
                            for prompt, turn in batches[number]
                        )


def _balanced_orders(arms: Sequence[str], rng: random.Random) -> Iterator[list[str]]:
    while True:
        base = rng.sample(arms, len(arms))
        rotations = [base[shift:] + base[:shift] for shift in range(len(base))]
        rng.shuffle(rotations)
        yield from rotations
