"""In which order a launch does its work: seeded, balanced, and written down.

Arms are interleaved within each prompt and seed, so that whatever drifts meets all of them alike. Orders come as cyclic
rotations of random permutations: every arm stands equally often in every place.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
    rng = random.Random(f"schedule/{launch}")
    orders = _balanced_orders(arms, rng)
    for condition in conditions:
        for seed in seeds:
            for repeat in range(repeats):
                for prompt, turn in rng.sample(prompts, len(prompts)):
                    for place, arm in enumerate(next(orders)):
                        yield Slot(condition, prompt, seed, repeat, arm, place, turn)


def _balanced_orders(arms: Sequence[str], rng: random.Random) -> Iterator[list[str]]:
    while True:
        base = rng.sample(arms, len(arms))
        rotations = [base[shift:] + base[:shift] for shift in range(len(base))]
        rng.shuffle(rotations)
        yield from rotations
