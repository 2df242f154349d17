"""Sentences to rewrite: past tense, plural, capitals, one word replaced, two sentences joined."""

import random

from . import english
from .core import cap
from .grammar import Clause, Tense
from .lexicon import PEOPLE, PRONOUNS
from .sentences import some_clause
from .stories import NAMES


def _said(clause: Clause, tense: Tense) -> str:
    """The clause in another tense, as a sentence."""
    other = Clause(clause.subject, clause.verb, tense, clause.thing, clause.place, None, clause.negative)
    return f"{cap(english.clause_words(other))}."


def _clauses(rng: random.Random, count: int) -> list[Clause]:
    return [some_clause(rng, rng.choice((*PEOPLE, *PRONOUNS)), "present", with_time=False) for _ in range(count)]


def past(rng: random.Random) -> tuple[str, str]:
    """Present to past, or present to future."""
    clauses = _clauses(rng, rng.choice((3, 3, 4)))
    name, tense = rng.choice((("past", "past"), ("future", "future")))
    ask = rng.choice(
        (
            "Rewrite this in the {} tense: {}",
            "Put these sentences into the {} tense. {}",
            "Change the verbs to the {} tense: {}",
        )
    )
    now = " ".join(_said(clause, "present") for clause in clauses)
    changed = " ".join(_said(clause, "past" if tense == "past" else "future") for clause in clauses)
    return ask.format(name, now), changed


PLURALS = (
    ("dog", "dogs"), ("child", "children"), ("teacher", "teachers"), ("cat", "cats"), ("woman", "women"),
    ("farmer", "farmers"),
    ("baker", "bakers"), ("horse", "horses"), ("man", "men"), ("bird", "birds"), ("pupil", "pupils"),
    ("sailor", "sailors"),
)  # fmt: skip
DOINGS = (
    ("sleeps", "sleep"), ("waits", "wait"), ("runs", "run"), ("eats", "eat"), ("plays", "play"), ("sings", "sing"),
    ("sits", "sit"), ("stands", "stand"), ("rests", "rest"), ("works", "work"), ("is", "are"), ("stays", "stay"),
)  # fmt: skip
WHERE = (
    "in the garden",
    "near the river",
    "under the old tree",
    "behind the house",
    "in the yard",
    "on the bridge",
    "by the door",
)
LOOKS = ("small", "old", "young", "tired", "quiet", "tall", "happy", "hungry")


def plural(rng: random.Random) -> tuple[str, str]:
    """Every noun that stands for one becomes a noun for many."""
    one, many = [], []
    for _ in range(rng.choice((3, 3, 4))):
        (noun, nouns), (does, do), where, look = (
            rng.choice(PLURALS),
            rng.choice(DOINGS),
            rng.choice(WHERE),
            rng.choice(LOOKS),
        )
        one.append(f"The {look} {noun} {does} {where}.")
        many.append(f"The {look} {nouns} {do} {where}.")
    ask = rng.choice(
        ("Rewrite with a plural subject in each sentence: {}", "Make the subject of every sentence plural: {}")
    )
    return ask.format(" ".join(one)), " ".join(many)


def _text(rng: random.Random) -> str:
    return " ".join(_said(clause, "past") for clause in _clauses(rng, 3))


def upper(rng: random.Random) -> tuple[str, str]:
    """Capitals throughout, or the words of a sentence one on each line."""
    text = _text(rng)
    if rng.random() < 0.5:
        return rng.choice(("Write this in capital letters: {}", "Put this text into upper case. {}")).format(
            text
        ), text.upper()
    return f"Copy these three sentences, each on its own line: {text}", text.replace(". ", ".\n")


def replaced(rng: random.Random) -> tuple[str, str]:
    """One name replaced by another in a short text."""
    old, new = rng.sample(NAMES, 2)
    clauses = _clauses(rng, 2)
    text = f"{old} came home late. {' '.join(_said(clause, 'past') for clause in clauses)} Then {old} went to bed."
    ask = rng.choice(
        (f"Replace {old} by {new} in this text: ", f"Write this text again, but call the person {new} and not {old}: ")
    )
    return ask + text, text.replace(old, new)


LINKS = (("because", "because"), ("but", ", but"), ("and", "and"), ("while", "while"), ("so", ", so"))


def joined(rng: random.Random) -> tuple[str, str]:
    """Two pairs of sentences joined by a conjunction."""
    word, link = rng.choice(LINKS)
    asked, made = [], []
    for _ in range(2):
        first, second = (
            english.clause_words(Clause(c.subject, c.verb, "past", c.thing, c.place)) for c in _clauses(rng, 2)
        )
        asked.append(f"{cap(first)}. {cap(second)}.")
        made.append(f"{cap(first)} {link} {second}.".replace(" ,", ","))
    return f'Join each pair of sentences with "{word}".\n1. {asked[0]}\n2. {asked[1]}', f"1. {made[0]}\n2. {made[1]}"
