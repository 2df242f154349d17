"""Problems in plain arithmetic: sums, differences, products, mixed expressions, percentages."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from . import working


@dataclass(frozen=True, slots=True)
class Problem:
    """A question, the lines that solve it, and the result as it should be printed. `key` names the content."""

    key: str
    question: str
    lines: tuple[str, ...]
    result: str


Family = Callable[[random.Random, int], Problem]
"""A drawing function; the int is the size of the numbers, 1 (easy, to be done in the head) or 2 (with working)."""


def problem(key: str, question: str, lines: list[str], result: int | str) -> Problem:
    """Shorthand that freezes the lines and prints the result."""
    return Problem(key, question, tuple(lines), str(result))


def asked(rng: random.Random, expression: str) -> str:
    """One of several ways to ask for the value of an expression."""
    return rng.choice(ASKED).format(expression)


ASKED = (
    "What is {}?",
    "Work out {}.",
    "Calculate {}.",
    "How much is {}?",
    "Find the value of {}.",
    "Compute {}.",
    "Please work out {}.",
    "Tell me the value of {}.",
)


def sums(rng: random.Random, size: int) -> Problem:
    """Two or three numbers added."""
    top = 99 if size == 1 else 999
    a, b = rng.randint(11, top), rng.randint(11, top)
    key = f"add {sorted((a, b))}"
    if size == 1 or rng.random() < 0.6:
        return problem(key, asked(rng, f"{a} + {b}"), working.add(a, b), a + b)
    c = rng.randint(11, 99)
    lines = working.add(a, b) + working.add(a + b, c)
    return problem(f"add {sorted((a, b, c))}", asked(rng, f"{a} + {b} + {c}"), lines, a + b + c)


def differences(rng: random.Random, size: int) -> Problem:
    """A smaller number taken from a larger one."""
    top = 99 if size == 1 else 999
    small, large = sorted((rng.randint(11, top), rng.randint(11, top)))
    expression = f"{large} - {small}"
    if rng.random() < 0.3:
        question = rng.choice(("What is left when {1} is taken from {0}?", "Subtract {1} from {0}."))
        return problem(
            f"sub {expression}", question.format(large, small), working.subtract(large, small), large - small
        )
    return problem(f"sub {expression}", asked(rng, expression), working.subtract(large, small), large - small)


def products(rng: random.Random, size: int) -> Problem:
    """One digit by up to 12, or two digits by one or two digits."""
    if size == 1:
        a, b = rng.randint(2, 25), rng.randint(2, 12)
    else:
        a, b = rng.randint(12, 99), rng.choice((rng.randint(3, 9), rng.randint(12, 45)))
    lines = working.multiply(a, b)
    if a > 9 and len(str(b)) == 1:
        lines = [f"Split {a} into tens and ones.", *lines]
    phrase = asked(rng, rng.choice((f"{a} x {b}", f"{a} times {b}")))
    return problem(f"mul {sorted((a, b))}", phrase, lines, a * b)


def mixed(rng: random.Random, size: int) -> Problem:
    """A product and a sum or difference, with or without brackets."""
    a, b = rng.randint(2, 12), rng.randint(2, 9 if size == 1 else 12)
    c = rng.randint(2, 20 if size == 1 else 99)
    if rng.random() < 0.5:
        expression, value = f"{a} x {b} + {c}", a * b + c
        lines = [f"The product comes first: {a} x {b} = {a * b}.", *working.add(a * b, c)]
    elif a * b > c and rng.random() < 0.6:
        expression, value = f"{a} x {b} - {c}", a * b - c
        lines = [f"The product comes first: {a} x {b} = {a * b}.", *working.subtract(a * b, c)]
    else:
        expression, value = f"({a} + {c}) x {b}", (a + c) * b
        lines = [f"The bracket comes first: {a} + {c} = {a + c}.", *working.multiply(a + c, b)]
    return problem(f"mixed {expression}", asked(rng, expression), lines, value)


def percentages(rng: random.Random, size: int) -> Problem:
    """A percentage with a whole-number result, or a price after a reduction."""
    percent = rng.choice((10, 20, 25, 50) if size == 1 else (5, 10, 15, 20, 25, 30, 40, 50, 60, 75))
    base = rng.randint(2, 12 if size == 1 else 30) * 20
    part = base * percent // 100
    lines = working.percent(percent, base)
    if size == 1 or rng.random() < 0.5:
        return problem(f"percent {percent} {base}", asked(rng, f"{percent} % of {base}"), lines, part)
    question = (
        f"A {rng.choice(GOODS)} costs {base} dollars. The price falls by {percent} %. What is the new price in dollars?"
    )
    return problem(f"reduced {percent} {base}", question, lines + working.subtract(base, part), base - part)


GOODS = ("lamp", "table", "chair", "bicycle", "coat", "carpet", "radio", "clock", "tent", "kettle", "desk", "mirror")

PLAIN: dict[str, Family] = {
    "sums": sums,
    "differences": differences,
    "products": products,
    "mixed": mixed,
    "percentages": percentages,
}
