"""Second solution of the generated problems, from the prompt alone; for the tests of the tasks and of the qa suite."""

import re
from collections.abc import Callable
from datetime import date
from itertools import permutations

MONTHS = "January February March April May June July August September October November December".split()
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
FACTORS = {
    ("hours", "minutes"): 60, ("minutes", "seconds"): 60, ("days", "hours"): 24, ("weeks", "days"): 7,
    ("metres", "centimetres"): 100,
    ("kilometres", "metres"): 1000, ("kilograms", "grams"): 1000, ("litres", "millilitres"): 1000,
    ("centimetres", "millimetres"): 10,
    ("dozen", "pieces"): 12, ("years", "months"): 12, ("feet", "inches"): 12, ("pounds", "ounces"): 16,
    ("tonnes", "kilograms"): 1000,
}  # fmt: skip
BACKWARDS = {"shorter than", "younger than", "slower than", "poorer than", "behind"}
# A phrase that only one kind of word problem has, and what to do with its numbers in order of appearance.
STORIES: tuple[tuple[str, Callable[[int, int, int], int]], ...] = (
    (r"more and then|more arrive|starts the week", lambda a, b, c: a + b - c),
    (r"left over|in every|already had|per hour", lambda a, b, c: a * b + c),
    (r"with \d+ \w+ in each|hold \d+ \w+ each", lambda a, b, c: a * b - c),
    (r"needs \d+ of the", lambda a, b, c: b * c - a),
    (r"share them equally|equal piles", lambda a, b, c: (a + b) // c),
    (r"^One \w+ costs", lambda a, b, c: c - a * b),
    (r"dollars and buys", lambda a, b, c: a - b * c),
)


def recompute(prompt: str) -> str | None:
    """The result as it should be printed; None where no rule fits."""
    for solve in (expression, taken, reduced, days, weekday, converted, counted, ordered, story):
        if (result := solve(prompt)) is not None:
            return str(result)
    return None


def expression(prompt: str) -> int | None:
    match = re.search(
        r"(?:What is|Work out|Calculate|How much is|value of|Compute|work out) (\(?\d[\dx+\-() times%of]*\d)", prompt
    )
    if not match:
        return None
    python = match[1].replace("times", "*").replace("x", "*").replace("% of", "* 0.01 *")
    assert re.fullmatch(r"[\d+\-*(). ]+", python)
    value = eval(python)
    assert abs(value - round(value)) < 1e-6
    return round(value)


def taken(prompt: str) -> int | None:
    match = re.search(r"(?:when|Subtract) (\d+) (?:is taken )?from (\d+)", prompt)
    return int(match[2]) - int(match[1]) if match else None


def reduced(prompt: str) -> int | None:
    match = re.search(r"costs (\d+) dollars. The price falls by (\d+) %", prompt)
    return int(match[1]) * (100 - int(match[2])) // 100 if match else None


def days(prompt: str) -> int | None:
    if not prompt.startswith(("How many days is it", "A trip")):
        return None
    found = re.findall(r"(\d+) ([A-Z]\w+) (\d{4})", prompt)
    start, end = (date(int(year), MONTHS.index(month) + 1, int(day)) for day, month, year in found)
    return (end - start).days


def weekday(prompt: str) -> str | None:
    question = prompt[: prompt.find("?")]
    gap, today = re.search(r"(\d+) days", question), re.search("|".join(WEEKDAYS), question)
    if "Which weekday" not in question or not gap or not today:
        return None
    sign = 1 if " in " in question or " after " in question else -1
    return WEEKDAYS[(WEEKDAYS.index(today[0]) + sign * int(gap[1])) % 7]


def converted(prompt: str) -> int | None:
    for (large, small), factor in FACTORS.items():
        match = re.search(rf"(\d+) {large}(?: and (\d+) {small})?(?: into {small}|\?| is how many {small}\?)", prompt)
        if match and re.search(rf"\b{small}\b", prompt):
            return int(match[1]) * factor + int(match[2] or 0)
    return None


def counted(prompt: str) -> int | None:
    word = re.search(r"the word (\w+)|How often is (\w+)", prompt)
    listed = re.search(r"list:? ((?:\w+, )+\w+)", prompt)
    return listed[1].split(", ").count(word[1] or word[2]) if word and listed else None


def ordered(prompt: str) -> int | None:
    clues = re.findall(
        r"(\w+) is ((?:tall|short|old|young|fast|slow|rich|poor)er than|ahead of|behind) (\w+)\.", prompt
    )
    asked = re.search(r"\) is (\w+)\?", prompt)
    if not clues or not asked:
        return None
    pairs = [(b, a) if relation in BACKWARDS else (a, b) for a, relation, b in clues]
    people = sorted({name for pair in pairs for name in pair})
    (row,) = (row for row in permutations(people) if all(row.index(a) < row.index(b) for a, b in pairs))
    return row.index(asked[1]) + 1


def story(prompt: str) -> int | None:
    numbers = [int(number) for number in re.findall(r"\d+", prompt)]
    if len(numbers) == 2 and " more than " in prompt:
        return 2 * numbers[0] + numbers[1]
    rules = [rule for phrase, rule in STORIES if re.search(phrase, prompt)]
    return rules[0](*numbers) if len(numbers) == 3 and len(rules) == 1 else None
