"""When requests come and what they ask: drawn before a stage begins from its name alone, the same for every arm."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from xpress_bench.load_records import Stage

T = TypeVar("T")


def arrivals(stage: Stage, repeat: int) -> list[float]:
    """Seconds at which the requests of an open loop come; in a closed loop the first of each client.

    poisson: gaps are exponential with mean 1 / rate. fixed: the first comes at 0, each next 1 / rate later.
    """
    if stage.rate is None:
        return [0.0] * (stage.clients or 1)
    rng = random.Random(f"arrivals/{stage.name}/{repeat}")
    found, at_s = list[float](), rng.expovariate(stage.rate) if stage.arrivals == "poisson" else 0.0
    while at_s < (stage.seconds or 0.0):
        found.append(at_s)
        at_s = at_s + rng.expovariate(stage.rate) if stage.arrivals == "poisson" else len(found) / stage.rate
    return found


def order(stage: Stage, repeat: int, prompts: Sequence[T]) -> list[T]:
    """The order in which prompts are asked, over and over."""
    return random.Random(f"prompts/{stage.name}/{repeat}").sample(prompts, len(prompts))


def order_of_arms(stage: Stage, repeat: int, arms: Sequence[str]) -> list[str]:
    """The order in which arms run a stage."""
    return random.Random(f"arms/{stage.name}/{repeat}").sample(arms, len(arms))
