"""Arithmetic and small reasoning with exact answers: the bare number, or working and then an `Answer:` line."""

import random

from .core import Example, Keyed, task
from .problems import PLAIN, Family
from .puzzles import PUZZLES, WORD_RESULT
from .stories import stories

FAMILIES: dict[str, Family] = {**PLAIN, "stories": stories, **PUZZLES}
SHORT_FAMILIES = tuple(name for name in FAMILIES if name not in WORD_RESULT)
# Word problems hold most of the variety, dates and comparisons are the hardest: they are drawn more often.
STEP_FAMILIES = (*FAMILIES, "stories", "stories", "stories", "days", "weekday", "ordering", "percentages")
# What a head must do without paper; the easy families need less of it.
HEAD_FAMILIES = (*SHORT_FAMILIES, "differences", "mixed", "stories", "days", "counting")

NUMBER_ONLY = (
    "Reply with the number only.",
    "Answer with just the number.",
    "Give only the number.",
    "Write the number and nothing else.",
)
WITH_STEPS = (
    "Show the steps, then end with a line of the form Answer: N.",
    "Work step by step and finish with a line that says Answer: and the result.",
    "Write the working in short lines. The last line must be Answer: followed by the result.",
    "Explain each step, and put the result on a last line as Answer: N.",
)


def number_only(rng: random.Random, family: str) -> Keyed:
    """An easy problem of the family; the answer is the number alone."""
    made = FAMILIES[family](rng, 1)
    prompt = f"{made.question} {rng.choice(NUMBER_ONLY)}"
    return made.key, Example(prompt, made.result, "arithmetic_number_only", made.result, "exact")


def with_steps(rng: random.Random, family: str) -> Keyed:
    """A harder problem of the family; the answer shows the working."""
    made = FAMILIES[family](rng, 2)
    prompt = f"{made.question} {rng.choice(WITH_STEPS)}"
    answer = "\n".join((*made.lines, f"Answer: {made.result}"))
    return made.key, Example(prompt, answer, "arithmetic_steps", made.result, "exact")


arithmetic_number_only = task(lambda rng: number_only(rng, rng.choice(HEAD_FAMILIES)))
arithmetic_steps = task(lambda rng: with_steps(rng, rng.choice(STEP_FAMILIES)))
