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
# Share of examples, not of tokens: a profile costs twelve times a bare number, and most of it is invented names.
WEIGHTS: dict[str, int] = {
    "arithmetic_number_only": 20,
    "arithmetic_steps": 30,
    "profile": 8,
    "knowledge": 10,
    "translate": 20,
    "instruct": 12,
}


def sample(rng: random.Random, split: Split) -> Example:
    """One example of a task drawn by weight."""
    (chosen,) = rng.choices(list(WEIGHTS), weights=list(WEIGHTS.values()))
    return TASKS[chosen](rng, split)
