"""Our own training text: every task draws fresh examples and keeps a tenth of all contents for evaluation."""

import random

from .arithmetic import arithmetic_number_only, arithmetic_steps
from .core import Example, Split, Task
from .instruct import instruct
from .knowledge import knowledge
from .profile import profile
from .translate import translate

__all__ = ["TASKS", "WEIGHTS", "Example", "Split", "Task", "sample"]

TASKS: dict[str, Task] = {
    "arithmetic_number_only": arithmetic_number_only,
    "arithmetic_steps": arithmetic_steps,
    "profile": profile,
    "knowledge": knowledge,
    "translate": translate,
    "instruct": instruct,
}
# Share of examples, not of tokens: bare numbers are cheap, profiles are long.
WEIGHTS: dict[str, int] = {
    "arithmetic_number_only": 10,
    "arithmetic_steps": 25,
    "profile": 18,
    "knowledge": 12,
    "translate": 20,
    "instruct": 15,
}


def sample(rng: random.Random, split: Split) -> Example:
    """One example of a task drawn by weight."""
    (chosen,) = rng.choices(list(WEIGHTS), weights=list(WEIGHTS.values()))
    return TASKS[chosen](rng, split)
