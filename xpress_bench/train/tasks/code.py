"""Small Python functions from a description."""

import random

NOUNS = "numbers prices scores sizes ages weights heights times marks values".split()
CHECKS = (
    ("greater than {n}", "> {n}"), ("smaller than {n}", "< {n}"), ("equal to {n}", "== {n}"),
    ("at least {n}", ">= {n}"),
    ("different from {n}", "!= {n}"), ("divisible by {n}", "% {n} == 0"),
)  # fmt: skip
RESULTS = (
    ("returns how many of the {nouns} are {check}", "count", "return sum(1 for {x} in {nouns} if {x} {test})"),
    ("returns the {nouns} that are {check}", "keep", "return [{x} for {x} in {nouns} if {x} {test}]"),
    ("returns the sum of the {nouns} that are {check}", "total", "return sum({x} for {x} in {nouns} if {x} {test})"),
    ("returns True if any of the {nouns} is {check}", "any", "return any({x} {test} for {x} in {nouns})"),
    ("returns True if all {nouns} are {check}", "all", "return all({x} {test} for {x} in {nouns})"),
)


def function(rng: random.Random) -> tuple[str, str]:
    """A function over a list with a condition, as a comprehension or as a loop for the counting one."""
    nouns, (words, test) = rng.choice(NOUNS), rng.choice(CHECKS)
    n = rng.randint(2, 99)
    task, verb, line = rng.choice(RESULTS)
    name = f"{verb}_{nouns}"
    description = task.format(nouns=nouns, check=words.format(n=n))
    ask = rng.choice(
        (
            "Write a Python function {} that takes a list of {} and {}.",
            "In Python, define {}, which takes a list called {} and {}.",
        )
    )
    test = test.format(n=n)
    if verb == "count" and rng.random() < 0.6:
        x = nouns[0]
        body = (
            f"    found = 0\n    for {x} in {nouns}:\n        if {x} {test}:\n            found += 1\n    return found"
        )
    else:
        body = "    " + line.format(x=nouns[0], nouns=nouns, test=test)
    return ask.format(
        name, nouns, description
    ), f'def {name}({nouns}):\n    """Take a list of {nouns}: this function {description}."""\n{body}'
