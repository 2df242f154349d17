"""Two-step word problems: a frame per pair of operations, filled with varied names, things and places."""

import random
from collections.abc import Callable

from . import working
from .problems import Problem, problem

NAMES = tuple(
    "Ada Ben Cora Dan Ella Finn Gina Hugo Iris Jon Kira Leo Mara Ned Olga Paul Rosa Sam Tess Umar Vera Will Yara Zoe "
    "Amir Bea Carl Dora Emil Faye Gus Hana Ivan June Karl Lena Max Nora Otto Pia Rolf Sara Tim Ursula Viktor "
    "Wanda".split()
)
THINGS = tuple(
    "apples pears plums books stamps marbles shells coins cards buttons tickets eggs pencils stickers nuts lemons "
    "candles badges tiles ribbons beads cups postcards roses tomatoes onions".split()
)
BOXES = (
    ("box", "boxes"), ("bag", "bags"), ("basket", "baskets"), ("shelf", "shelves"), ("drawer", "drawers"),
    ("tray", "trays"), ("crate", "crates"), ("jar", "jars"), ("packet", "packets"), ("tin", "tins"),
)  # fmt: skip
GAIN = ("buys", "finds", "collects", "picks up", "is given", "wins")
LOSS = ("gives away", "sells", "loses", "uses", "throws out", "lends out")

Story = Callable[[random.Random, int], Problem]


def _cast(rng: random.Random) -> tuple[str, str, str]:
    name, other = rng.sample(NAMES, 2)
    return name, other, rng.choice(THINGS)


def gain_and_loss(rng: random.Random, size: int) -> Problem:
    """start + gain - loss."""
    name, _, things = _cast(rng)
    top = 40 if size == 1 else 300
    start, gain = rng.randint(12, top), rng.randint(5, top)
    loss = rng.randint(3, start + gain - 1)
    question = rng.choice((
        f"{name} has {start} {things}. {name} {rng.choice(GAIN)} {gain} more and then {rng.choice(LOSS)} {loss}. "
        f"How many {things} does {name} have now?",
        f"There are {start} {things} in {name}'s shop. In the morning {gain} more arrive, and by the evening "
        f"{loss} are sold. "
        f"How many {things} are left?",
        f"{name} starts the week with {start} {things}, {rng.choice(GAIN)} {gain} on Tuesday and "
        f"{rng.choice(LOSS)} {loss} "
        f"on Friday. How many {things} are there at the end of the week?",
    ))  # fmt: skip
    lines = [
        "First add what comes in.",
        *working.add(start, gain),
        "Then take away what goes.",
        *working.subtract(start + gain, loss),
    ]
    return problem(f"gain {start} {gain} {loss}", question, lines, start + gain - loss)


def groups_and_more(rng: random.Random, size: int) -> Problem:
    """groups x each + extra."""
    name, _, things = _cast(rng)
    box, boxes = rng.choice(BOXES)
    groups, each = rng.randint(3, 9), rng.randint(3, 9 if size == 1 else 36)
    extra = rng.randint(2, 20 if size == 1 else 90)
    question = rng.choice((
        f"{name} fills {groups} {boxes} with {each} {things} each and has {extra} {things} left over. "
        f"How many {things} are there in total?",
        f"There are {each} {things} in every {box}. {name} has {groups} {boxes} and {extra} loose {things}. "
        f"How many {things} is that altogether?",
        f"A shop orders {groups} {boxes} of {each} {things}. It already had {extra} {things}. How many {things} "
        f"does it have now?",
    ))  # fmt: skip
    lines = [
        f"First count the {boxes}.",
        *working.multiply(each, groups),
        "Then add the rest.",
        *working.add(groups * each, extra),
    ]
    return problem(f"groups {groups} {each} {extra}", question, lines, groups * each + extra)


def groups_less_some(rng: random.Random, size: int) -> Problem:
    """groups x each - gone."""
    name, other, things = _cast(rng)
    _, boxes = rng.choice(BOXES)
    groups, each = rng.randint(3, 9), rng.randint(4, 9 if size == 1 else 36)
    gone = rng.randint(2, groups * each - 1)
    question = rng.choice((
        f"{name} has {groups} {boxes} with {each} {things} in each. {name} gives {gone} {things} to {other}. "
        f"How many {things} does {name} still have?",
        f"{groups} {boxes} hold {each} {things} each. {other} takes {gone} {things} out. How many {things} remain?",
        f"{name} needs {gone} of the {things} from {groups} {boxes}, each holding {each}. How many {things} will "
        f"be left?",
    ))  # fmt: skip
    lines = [f"First count all the {things}.", *working.multiply(each, groups), f"Then take away {gone}."]
    return problem(
        f"less {groups} {each} {gone}", question, lines + working.subtract(groups * each, gone), groups * each - gone
    )


def share(rng: random.Random, size: int) -> Problem:
    """(have + more) / people, exact."""
    name, other, things = _cast(rng)
    people, each = rng.randint(2, 9), rng.randint(3, 9 if size == 1 else 40)
    total = people * each
    have = rng.randint(2, total - 1)
    question = rng.choice((
        f"{name} has {have} {things} and {other} has {total - have}. They put them together and share them "
        f"equally among "
        f"{people} people. How many {things} does each person get?",
        f"{name} picks {have} {things}, {other} brings {total - have}, and all of them go into {people} equal piles. "
        f"How many {things} are in one pile?",
    ))  # fmt: skip
    lines = [
        "First put them together.",
        *working.add(have, total - have),
        "Then divide.",
        *working.divide(total, people),
    ]
    return problem(f"share {have} {total} {people}", question, lines, each)


def change(rng: random.Random, size: int) -> Problem:
    """paid - count x price, in dollars."""
    name, _, things = _cast(rng)
    count, price = rng.randint(2, 9), rng.randint(2, 8 if size == 1 else 24)
    cost = count * price
    paid = next(note for note in (20, 50, 100, 200, 500) if note > cost)
    one = things[:-1] if things != "tomatoes" else "tomato"
    question = rng.choice((
        f"One {one} costs {price} dollars. {name} buys {count} {things} and pays with {paid} dollars. "
        f"How many dollars does {name} get back?",
        f"{name} has {paid} dollars and buys {count} {things} at {price} dollars each. How many dollars are left?",
    ))  # fmt: skip
    lines = [
        "First find the cost.",
        *working.multiply(price, count),
        "Then take it from the money.",
        *working.subtract(paid, cost),
    ]
    return problem(f"change {count} {price} {paid}", question, lines, paid - cost)


def journey(rng: random.Random, size: int) -> Problem:
    """hours x speed + rest, in kilometres."""
    name, _, _ = _cast(rng)
    hours, speed = rng.randint(2, 6), rng.randint(4, 12 if size == 1 else 90)
    rest = rng.randint(2, 30 if size == 1 else 95)
    how = rng.choice(("drives", "travels", "goes"))
    question = rng.choice((
        f"{name} {how} for {hours} hours at {speed} km per hour, and then {rest} km more. How many kilometres is "
        f"that in all?",
        f"A train runs at {speed} km per hour for {hours} hours and covers another {rest} km before it stops. "
        f"How many kilometres has it covered?",
    ))  # fmt: skip
    lines = [
        "First the timed part.",
        *working.multiply(speed, hours),
        "Then the rest.",
        *working.add(hours * speed, rest),
    ]
    return problem(f"journey {hours} {speed} {rest}", question, lines, hours * speed + rest)


def comparison(rng: random.Random, size: int) -> Problem:
    """a + (a + more)."""
    name, other, things = _cast(rng)
    a, more = rng.randint(5, 45 if size == 1 else 300), rng.randint(3, 30 if size == 1 else 150)
    question = rng.choice((
        f"{name} has {a} {things}. {other} has {more} more than {name}. How many {things} do they have together?",
        f"In one hour {name} counts {a} {things}, and {other} counts {more} more than that. How many do the two "
        f"count in all?",
    ))  # fmt: skip
    lines = [f"First find how many {other} has.", *working.add(a, more), "Then add both.", *working.add(a, a + more)]
    return problem(f"compare {a} {more}", question, lines, 2 * a + more)


STORIES: tuple[Story, ...] = (gain_and_loss, groups_and_more, groups_less_some, share, change, journey, comparison)


def stories(rng: random.Random, size: int) -> Problem:
    """Any of the two-step word problems."""
    return rng.choice(STORIES)(rng, size)
