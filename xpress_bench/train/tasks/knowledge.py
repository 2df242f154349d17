"""Questions without a source text over small tables of facts: one sentence, then the answer line.

A fact cannot be inferred from others, so what is kept away from training is the pair of a fact and a way to ask for it:
most held-out questions ask for a known fact in new words.
"""

import random
from dataclasses import dataclass
from itertools import pairwise
from string import ascii_uppercase

from . import english, facts
from .core import Example, Keyed, article, cap, task


@dataclass(frozen=True, slots=True)
class Topic:
    """Facts of one kind: ways to ask about {0}, and the sentence that answers with {1} (or {2}, with its article)."""

    questions: tuple[str, ...]
    sentence: str
    facts: tuple[tuple[str, str], ...]


def topic(questions: str, sentence: str, rows: list[tuple[str, str]]) -> Topic:
    """Questions are separated by bars."""
    return Topic(tuple(questions.split("|")), sentence, tuple(rows))


def _with_article(table: str) -> list[tuple[str, str]]:
    return [(article(subject), answer) for subject, answer in facts.pairs(table)]


def _ordinals(words: list[str]) -> list[tuple[str, str]]:
    names = "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
    return list(zip(names, words, strict=False))


def _neighbours(letters: str) -> list[tuple[str, str]]:
    return list(pairwise(letters))


def _tables() -> list[tuple[str, str]]:
    spelt = english.number
    return [(f"{spelt(a)} times {spelt(b)}", spelt(a * b)) for a in range(2, 11) for b in range(2, 11) if a * b < 100]


def _sums() -> list[tuple[str, str]]:
    spelt = english.number
    return [(f"{spelt(a)} plus {spelt(b)}", spelt(a + b)) for a in range(2, 20) for b in range(2, 20)]


_PLANETS = facts.PLANETS.split()
_PLACES = [(country, *both.split("/")) for country, both in facts.pairs(facts.COUNTRIES)]
_CAPITALS = [(country, capital) for country, capital, _ in _PLACES]

TOPICS = (
    topic("How many sides does {0} have?|What is the number of sides of {0}?|"
          "Count the sides of {0}. How many are there?",
          "{0} has {1} sides.", _with_article(facts.POLYGONS)),
    topic("How many days are there in {0}?|How long is {0}, in days?|What is the number of days in {0}?",
          "{0} has {1} days.", facts.pairs(facts.MONTH_DAYS)),
    topic("Which month comes after {0}?|What month follows {0}?|Name the month right after {0}.",
          "the month after {0} is {1}.", facts.pairs(facts.MONTH_AFTER)),
    topic("Which month comes before {0}?|What month is right before {0}?",
          "the month before {0} is {1}.", [(b, a) for a, b in facts.pairs(facts.MONTH_AFTER)]),
    topic("Which day comes after {0}?|What day follows {0}?|Name the day after {0}.",
          "the day after {0} is {1}.", facts.pairs(facts.WEEKDAY_AFTER)),
    topic("Which letter comes after {0} in the English alphabet?|What letter follows {0} in the alphabet?",
          "the letter after {0} is {1}.", _neighbours(ascii_uppercase)),
    topic("Which letter comes before {0} in the English alphabet?|What letter is right before {0} in the alphabet?",
          "the letter before {0} is {1}.", _neighbours(ascii_uppercase[::-1])),
    topic("What is the plural of {0}?|Give the plural of the word {0}.|How is the plural of {0} written?",
          "the plural of {0} is {1}.", facts.pairs(facts.PLURALS)),
    topic("What is the singular of {0}?|Give the singular of the word {0}.",
          "the singular of {0} is {1}.", [(b, a) for a, b in facts.pairs(facts.PLURALS)]),
    topic("What is the past tense of {0}?|Give the simple past of the verb {0}.|"
          "How is the past tense of to {0} written?",
          "the past tense of {0} is {1}.", facts.pairs(facts.PASTS)),
    topic("What is the opposite of {0}?|Give the opposite of the word {0}.|Which word means the opposite of {0}?",
          "the opposite of {0} is {1}.", facts.pairs(facts.OPPOSITES)),
    topic("What is a young {0} called?|What do we call the young of the {0}?|Give the name of a young {0}.",
          "a young {0} is called {2}.", facts.pairs(facts.YOUNG)),
    topic("What is the home of the {0} called?|Where does the {0} live?",
          "the home of the {0} is called {2}.", facts.pairs(facts.HOMES)),
    topic("What colour is {0}?|Which colour does {0} have?|Name the usual colour of {0}.",
          "the colour of {0} is {1}.", facts.pairs(facts.COLOURS)),
    topic("Which colour do you get when you mix {0}?|What colour do {0} make together?",
          "mixing {0} gives {1}.", facts.pairs(facts.MIXTURES)),
    topic("Which is the {0} planet from the Sun?|Name the {0} planet, counted from the Sun.",
          "the {0} planet from the Sun is {1}.", _ordinals(_PLANETS)),
    topic("Which planet comes next after {0}, going away from the Sun?|What planet is just outside the orbit of {0}?",
          "the planet after {0} is {1}.", list(pairwise(_PLANETS))),
    topic("Which is the {0} month of the year?|Name the {0} month of the year.",
          "the {0} month of the year is {1}.", _ordinals([a for a, _ in facts.pairs(facts.MONTH_AFTER)])),
    topic("What is the chemical symbol of {0}?|Give the chemical symbol for {0}.|"
          "Which symbol does {0} have in the periodic table?",
          "the chemical symbol of {0} is {1}.", facts.pairs(facts.ELEMENTS)),
    topic("Which element has the symbol {0}?|Name the element with the chemical symbol {0}.",
          "the element with the symbol {0} is {1}.", [(b, a) for a, b in facts.pairs(facts.ELEMENTS)]),
    topic("What is the SI unit of {0}?|In which SI unit is {0} measured?",
          "the SI unit of {0} is the {1}.", facts.pairs(facts.MEASURES)),
    topic("What is the number of {0}?|Tell me the number of {0}.|Do you know the number of {0}?",
          "the number of {0} is {1}.", facts.pairs(facts.COUNTS)),
    topic("What is the capital of {0}?|Which city is the capital of {0}?|Name the capital of {0}.",
          "the capital of {0} is {1}.", _CAPITALS),
    topic("Which country has {0} as its capital?|{0} is the capital of which country?|"
          "Of which country is {0} the capital?",
          "{0} is the capital of {1}.", [(b, a) for a, b in _CAPITALS]),
    topic("On which continent is {0}?|To which continent does {0} belong?",
          "{0} is in {1}.", [(a, c) for a, _, c in _PLACES]),
    topic("How much is {0}?|What is {0}, in words?", "{0} is {1}.", _tables() + _sums()),
)  # fmt: skip
# Larger topics hold more facts to learn; the square root keeps the sums from crowding out the rest.
TOPIC_WEIGHTS = [len(each.facts) ** 0.5 for each in TOPICS]

RULES = (
    "Answer in one short sentence, then end with a line of the form Answer: VALUE.",
    "Reply with one short sentence and then a last line that starts with Answer: and gives the answer alone.",
    "Give one or two short sentences, and finish with a line Answer: followed by the answer.",
    "Write one short sentence, then a final line with Answer: and the answer.",
)


def fact(rng: random.Random) -> Keyed:
    """One fact, one way to ask for it; the key is the question without the rule for the form."""
    (chosen,) = rng.choices(TOPICS, weights=TOPIC_WEIGHTS)
    subject, value = rng.choice(chosen.facts)
    question = cap(rng.choice(chosen.questions).format(subject))
    sentence = cap(chosen.sentence.format(subject, value, article(value)))
    return question, Example(
        f"{question} {rng.choice(RULES)}", f"{sentence}\nAnswer: {value}", "knowledge", value, "exact"
    )


knowledge = task(fact)
