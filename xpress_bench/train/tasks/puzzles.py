"""Problems that need counting or a calendar: dates, weekdays, units, counting in lists, ordering."""

import random
from datetime import date, timedelta
from itertools import pairwise, permutations

from . import working
from .problems import Problem, problem
from .stories import NAMES

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


def written(day: date) -> str:
    """`4 March 2027`, without the locale."""
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def days_between(rng: random.Random, size: int) -> Problem:
    """Days from one date to another, in the same month or in the next."""
    start = date(rng.randint(2001, 2049), rng.randint(1, 12), rng.randint(1, 27))
    gap = rng.randint(3, 20) if size == 1 else rng.randint(18, 75)
    end = start + timedelta(days=gap)
    question = rng.choice((
        f"How many days is it from {written(start)} to {written(end)}?",
        f"A trip starts on {written(start)} and ends on {written(end)}. How many days later is the end?",
    ))  # fmt: skip
    return problem(f"days {start} {gap}", question, _count_days(start, end), gap)


def _count_days(start: date, end: date) -> list[str]:
    lines, steps, at = [], list[int](), start
    while at < end:
        following = min(end, (at.replace(day=1) + timedelta(days=32)).replace(day=1))
        steps.append((following - at).days)
        lines.append(f"From {_short(at)} to {_short(following)}: {steps[-1]} days.")
        at = following
    total = " + ".join(str(step) for step in steps)
    return [*lines, f"Together: {total} = {sum(steps)}."] if len(steps) > 1 else lines


def _short(day: date) -> str:
    return f"{day.day} {MONTHS[day.month - 1]}"


def weekday_after(rng: random.Random, _: int) -> Problem:
    """The weekday some days after, or before, a weekday. The result is a word, so there is no easy form."""
    today, gap = rng.randrange(7), rng.randint(9, 60)
    sign = rng.choice((1, -1))
    rest = gap % 7
    result = WEEKDAYS[(today + sign * gap) % 7]
    walk = [WEEKDAYS[(today + sign * i) % 7] for i in range(rest + 1)]
    lines = [f"Seven days change nothing, and {gap} = {gap // 7} x 7 + {rest}.", f"Count {rest}: {', '.join(walk)}."]
    asked = f"will it be in {gap} days" if sign == 1 else f"was it {gap} days ago"
    question = rng.choice((
        f"Today is {WEEKDAYS[today]}. Which weekday {asked}?",
        f"Which weekday comes {gap} days {'after' if sign == 1 else 'before'} a {WEEKDAYS[today]}?",
    ))  # fmt: skip
    return problem(f"weekday {today} {sign * gap}", question, lines, result)


UNITS = (
    ("hour", "minutes", 60), ("minute", "seconds", 60), ("day", "hours", 24), ("week", "days", 7),
    ("metre", "centimetres", 100),
    ("kilometre", "metres", 1000), ("kilogram", "grams", 1000), ("litre", "millilitres", 1000),
    ("centimetre", "millimetres", 10),
    ("dozen", "pieces", 12), ("year", "months", 12), ("foot", "inches", 12), ("pound", "ounces", 16),
    ("tonne", "kilograms", 1000),
)  # fmt: skip
IRREGULAR = {"foot": "feet", "dozen": "dozen"}


def units(rng: random.Random, size: int) -> Problem:
    """A whole number of large units, with or without some small ones, in small units."""
    large, small, factor = rng.choice(UNITS)
    count = rng.randint(2, 9 if size == 1 else 25)
    many = IRREGULAR.get(large, f"{large}s")
    product = count * factor
    # Powers of ten need no columns: zeros are written behind the count, and the rest fills them.
    round_factor = factor in {10, 100, 1000}
    times = [f"{count} x {factor} = {product}."] if round_factor else working.multiply(factor, count)
    lines = [f"1 {large} is {factor} {small}.", *times]
    if size == 1 or rng.random() < 0.4:
        question = rng.choice(("How many {1} are {0}?", "Convert {0} into {1}.", "{0} is how many {1}?"))
        return problem(f"unit {large} {count}", question.format(f"{count} {many}", small), lines, product)
    extra = rng.randint(2, factor - 1)
    question = rng.choice(("How many {2} are {0} and {1} {2}?", "Convert {0} and {1} {2} into {2}."))
    lines += [f"{product} + {extra} = {product + extra}."] if round_factor else working.add(product, extra)
    return problem(
        f"unit {large} {count} {extra}", question.format(f"{count} {many}", extra, small), lines, product + extra
    )


COUNTED = tuple("apple pear fig lemon stone leaf shell feather coin key cup spoon ring bell brick nail".split())
COLOURS = ("red", "blue", "green", "white", "black", "yellow", "brown", "grey")


def counting(rng: random.Random, size: int) -> Problem:
    """How often a word stands in a list."""
    words = rng.sample(COUNTED if rng.random() < 0.6 else COLOURS, 4)
    length = rng.randint(5, 8 if size == 1 else 14)
    row = [rng.choice(words) for _ in range(length)]
    wanted = rng.choice(row)
    seen, marks = 0, []
    for word in row:
        seen += word == wanted
        marks.append(f"{word} {seen if word == wanted else 'no'}")
    listed = ", ".join(row)
    question = rng.choice((
        f"How many times does the word {wanted} appear in this list: {listed}?",
        f"Count the word {wanted} in the list {listed}. How many are there?",
        f"Here is a list: {listed}. How often is {wanted} in it?",
    ))  # fmt: skip
    lines = [
        "Go through the list: " + ", ".join(marks) + ".",
        f"The word {wanted} appears {seen} time{'s' * (seen != 1)}.",
    ]
    return problem(f"count {listed} / {wanted}", question, lines, seen)


RELATIONS = (
    ("taller than", "shorter than", "from the tallest to the shortest"),
    ("older than", "younger than", "from the oldest to the youngest"),
    ("faster than", "slower than", "from the fastest to the slowest"),
    ("richer than", "poorer than", "from the richest to the poorest"),
    ("ahead of", "behind", "from the front to the back"),
)


def orders(people: list[str], clues: list[tuple[str, str]]) -> list[tuple[str, ...]]:
    """Every order of `people` that agrees with all clues (earlier, later)."""
    return [row for row in permutations(people) if all(row.index(a) < row.index(b) for a, b in clues)]


def ordering(rng: random.Random, size: int) -> Problem:
    """Place of one person in a line of three to five that the clues fix; clues between neighbours make it unique."""
    row = rng.sample(NAMES, 3 if size == 1 else rng.choice((4, 5)))
    clues = list(pairwise(row))
    if len(orders(sorted(row), clues)) != 1:
        raise AssertionError("neighbour clues must fix one order")
    rng.shuffle(clues)
    more, less, direction = rng.choice(RELATIONS)
    said = [f"{a} is {more} {b}." if rng.random() < 0.6 else f"{b} is {less} {a}." for a, b in clues]
    person = rng.choice(row)
    place = row.index(person) + 1
    question = f"{' '.join(said)} They stand in a line {direction}. In which place (1, 2, 3, ...) is {person}?"
    lines = [f"{a} comes before {b}." for a, b in clues]
    lines += [f"The line is {', '.join(row)}.", f"{person} is number {place}."]
    return problem(f"order {row} {person}", question, lines, place)


PUZZLES = {"days": days_between, "weekday": weekday_after, "units": units, "counting": counting, "ordering": ordering}
WORD_RESULT = frozenset({"weekday"})
