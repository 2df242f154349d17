"""Our own training text: every task draws fresh examples and keeps a tenth of all contents for evaluation."""

import random

from .arithmetic import arithmetic_number_only, arithmetic_steps
from .core import Example, Split, Task
from .instruct import instruct
from .knowledge import knowledge
from .profile import profile
from .translate import translate

__all__ = ["SPOKEN", "TASKS", "WEIGHTS", "Example", "Split", "Task", "sample"]

TASKS: dict[str, Task] = {
    "arithmetic_number_only": arithmetic_number_only,
    "arithmetic_steps": arithmetic_steps,
    "profile": profile,
    "knowledge": knowledge,
    "translate": translate,
    "instruct": instruct,
}
# Share of examples, not of tokens: a profile costs twelve times a bare number, and most of it is invented names. A bare
# number is two tokens to learn from and the hardest to learn, so it comes most often.
WEIGHTS: dict[str, int] = {
    "arithmetic_number_only": 45,
    "arithmetic_steps": 20,
    "profile": 3,
    "knowledge": 5,
    "translate": 8,
    "instruct": 5,
}
# What a drafter learns from: it needs answers of some length, and a bare number gives it nothing to draft.
SPOKEN: dict[str, int] = WEIGHTS | {"arithmetic_number_only": 2, "translate": 14, "instruct": 10, "knowledge": 8}


def sample(rng: random.Random, split: Split, weights: dict[str, int] = WEIGHTS) -> Example:
    """One example of a task drawn by weight."""
    (chosen,) = rng.choices(list(weights), weights=list(weights.values()))
    return TASKS[chosen](rng, split)
