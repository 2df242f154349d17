"""Short instructions with answers of 30 to 120 tokens, composed so that few answers ever repeat."""

import random
from collections.abc import Callable

from . import code, composed, letters, rewrite
from .causes import CAUSES, KINDS
from .core import Example, Keyed, cap, join, task
from .english import number
from .stories import NAMES

Pair = tuple[str, str]


def listing(rng: random.Random) -> Pair:
    """N things of a kind, bulleted, numbered or in a sentence, sometimes in alphabetical order."""
    kind, words = rng.choice(list(KINDS.items()))
    count = rng.randint(3, 6)
    chosen = rng.sample(words.split(), count)
    ask = rng.choice(
        (
            "Make a list of {n} {kind}",
            "Name {n} {kind}",
            "Give me {n} {kind}",
            "Write down {n} {kind}",
            "List {n} different {kind}",
        )
    )
    if rng.random() < 0.3:
        chosen.sort()
        ask += " in alphabetical order"
    form, lines = rng.choice((
        ("as a numbered list", [f"{i}. {cap(word)}" for i, word in enumerate(chosen, 1)]),
        ("with one on each line", [f"- {word}" for word in chosen]),
        ("in one sentence", [f"{cap(number(count))} {kind} are {join(chosen)}."]),
    ))  # fmt: skip
    return f"{ask.format(n=rng.choice((str(count), number(count))), kind=kind)}, {form}.", "\n".join(lines)


def two_lists(rng: random.Random) -> Pair:
    """Words of two kinds to be sorted into their groups."""
    (kind_a, words_a), (kind_b, words_b) = rng.sample(list(KINDS.items()), 2)
    other_a, other_b = set(words_a.split()) - set(words_b.split()), set(words_b.split()) - set(words_a.split())
    a, b = rng.sample(sorted(other_a), rng.randint(2, 4)), rng.sample(sorted(other_b), rng.randint(2, 4))
    mixed = a + b
    rng.shuffle(mixed)
    in_order = [[word for word in mixed if word in group] for group in (a, b)]
    prompt = rng.choice((f"Sort these words into {kind_a} and {kind_b}: {', '.join(mixed)}.",
                         f"Which of these are {kind_a} and which are {kind_b}? {', '.join(mixed)}"))  # fmt: skip
    return prompt, f"{cap(kind_a)}: {', '.join(in_order[0])}\n{cap(kind_b)}: {', '.join(in_order[1])}"


def explanation(rng: random.Random) -> Pair:
    """Why something happens, in two sentences."""
    what, first, second = rng.choice(CAUSES.strip().split("\n\n")).split("\n")
    listener = rng.choice((" to a child", f" to {rng.choice(NAMES)}", " to a friend", "", ""))
    prompt = rng.choice((
        f"Explain{listener} in two sentences why {what}.",
        f"In two sentences, explain{listener} why {what}.",
        f"Write two sentences{listener.replace(' to', ' for')} that explain why {what}.",
        f"Tell me in two sentences why {what}.",
    ))  # fmt: skip
    return prompt, f"{first} {second}"


def dialogue(rng: random.Random) -> Pair:
    """Four lines between two people about buying or borrowing a thing."""
    a, b = rng.sample(NAMES, 2)
    thing = rng.choice("book lamp ladder map tent radio basket kettle camera guitar".split())
    day, hour = rng.choice("Monday Tuesday Wednesday Thursday Friday".split()), number(rng.randint(2, 10))
    wish = rng.choice(("borrow", "buy", "see", "repair", "use"))
    prompt = rng.choice((
        f"Write a short dialogue in which {a} asks {b} to {{}} a {thing} on {day} at {hour}.",
        f"Write four lines of dialogue between {a} and {b}. {a} wants to {{}} a {thing} on {day} at {hour}.",
    ))  # fmt: skip
    answer = [
        f"{a}: {rng.choice(('Hello', 'Hi', 'Good morning'))}, {b}. Could I {wish} your {thing} on {day}?",
        f"{b}: {rng.choice(('Yes, of course', 'Sure', 'I think so'))}. "
        f"{rng.choice(('When will you come', 'What time suits you'))}?",
        f"{a}: {rng.choice(('I can be there', 'I will come'))} at {hour}.",
        f"{b}: {rng.choice(('Good', 'Fine', 'All right'))}, I will have the {thing} ready for you.",
    ]
    return prompt.replace("asks " + b + " to {}", f"asks {b} if it is possible to {wish}").replace(
        "{}", wish
    ), "\n".join(answer)


KINDS_OF_TASK: tuple[Callable[[random.Random], Pair], ...] = (
    listing,
    two_lists,
    explanation,
    dialogue,
    letters.note,
    letters.email,
    letters.json_record,
    letters.table,
    rewrite.past,
    rewrite.plural,
    rewrite.upper,
    rewrite.replaced,
    rewrite.joined,
    code.function,
    composed.story,
    composed.day_plan,
    composed.directions,
    composed.recipe,
    composed.description,
    composed.comparison,
)


def instruction(rng: random.Random) -> Keyed:
    """Any of the kinds; the key is the prompt. Nothing is scored, because many answers would be right."""
    prompt, answer = rng.choice(KINDS_OF_TASK)(rng)
    return prompt, Example(prompt, answer, "instruct", None, "none")


instruct = task(instruction)
