"""Prompts without answers: open questions and requests, made up or around a stretch of prose.

A drafter must know what its target says to questions that nobody trained the target for, because most prompts of a
benchmark are of that kind. Nothing here is scored, and nothing here is learnt by the target.
"""

import random

from . import facts, invent
from .core import article, cap, join
from .knowledge import RULES
from .translate import translate

THINGS = (
    "bridge harbour orchestra glacier volcano candle compass telescope library railway orchard lantern windmill "
    "violin kitchen desert island forest village castle engine clock battery mirror tunnel cathedral magnet river "
    "planet comet beetle whale falcon oak mushroom coral cactus loaf cheese blanket bicycle sailboat garden"
).split()
SUBJECTS = (
    "the first printed books;the colours of the sunset;the history of paper;the movement of the tides;"
    "life in a small harbour town;the work of a beekeeper;the invention of the wheel;the sound of thunder;"
    "the habits of migrating birds;the rules of chess;the use of salt in cooking;the growth of a forest;"
    "the night sky in winter;the building of stone walls;the making of glass;the taste of fresh bread;"
    "the care of old tools;learning a new language;a long journey by train;a market on a rainy morning"
).split(";")
DEEDS = (
    "invented discovered built wrote painted designed founded described measured composed explored repaired"
).split()  # fmt: skip
QUALITIES = "largest smallest oldest longest heaviest fastest rarest tallest deepest hottest brightest".split()
WORLDS = ("on Earth", "in Europe", "in the world", "in the sea", "in the solar system", "in the human body", "in Asia")
KINDS = (
    "animal metal river city instrument tree gas language planet bird insect mineral organ ocean mountain fruit tool "
    "number sport material colour substance scientist writer desert"
).split()  # fmt: skip
USES = (
    "is used to measure {}", "is needed to make {}", "is found in {}", "is made from {}", "lives near {}",
    "grows best without {}", "was first seen in {}", "protects {}", "is named after {}", "comes before {}",
)  # fmt: skip
STUFF = (
    "wind light salt iron milk paper glass sugar heat steam silver wool rubber cotton blood sand copper honey ink "
    "cement bread soap leather"
).split()  # fmt: skip
FORMS = (
    "a short story", "two paragraphs", "a letter to a friend", "a simple poem of eight lines", "five short tips",
    "a list of six points", "an introduction", "a description for a child", "a speech of one minute", "a summary",
)  # fmt: skip
LANGUAGES = ("German", "French", "Spanish", "Italian")
VERBS = ("explain", "describe", "summarise", "outline", "introduce", "compare two views of", "give advice on")


def open_prompt(rng: random.Random) -> str:
    """A made-up question with a rule for the form of its answer, or a made-up request for some text."""
    return rng.choice((question, question, place, request, paragraph))(rng)


def question(rng: random.Random) -> str:
    """A short question of general knowledge, sensible or not."""
    kind, thing, stuff = rng.choice(KINDS), rng.choice(THINGS), rng.choice(STUFF)
    asked = rng.choice((
        f"Which {kind} {rng.choice(USES).format(stuff)}?",
        f"What is the {rng.choice(QUALITIES)} {kind} {rng.choice(WORLDS)}?",
        f"Who {rng.choice(DEEDS)} the {rng.choice(('first', 'famous', 'old', 'modern'))} {thing}?",
        f"In which year was the first {thing} {rng.choice(('built', 'described', 'sold', 'found'))}?",
        f"How many {stuff} atoms, parts or kinds does {article(thing)} usually have?",
        f"What do we call {article(kind)} that {rng.choice(USES).format(stuff)}?",
        f"Why does {article(thing)} need {stuff}?",
        f"What happens to {stuff} when it meets {rng.choice(STUFF)}?",
    ))  # fmt: skip
    return f"{asked}{rng.choice((' ', chr(10) * 2))}{rng.choice(RULES)}"


def place(rng: random.Random) -> str:
    """A question about a country that is real or invented, with no text that would answer it."""
    country = rng.choice(facts.pairs(facts.COUNTRIES))[0] if rng.random() < 0.6 else invent.name(rng)
    asked = rng.choice((
        "What is the highest point of {}?", "Name the highest mountain in {}.", "Which countries border {} by land?",
        "Which countries share a border with {}?", "When did {} become independent?", "What is the currency of {}?",
        "On which date did {} gain its independence?", "How large is {}?", "Which languages are spoken in {}?",
        "Which city is the seat of government of {}?", "What are the main exports of {}?", "Who leads {}?",
    )).format(country)  # fmt: skip
    last = ("Answer: that lists all of them, separated by commas.", "Answer: DAY MONTH YEAR.", "Answer: VALUE.")
    rule = f"Answer in one short sentence, then end with a line {rng.choice(last)}"
    return f"{asked}{rng.choice((' ', chr(10) * 2))}{rng.choice((rule, *RULES))}"


def request(rng: random.Random) -> str:
    """A request for a text of some length."""
    subject = rng.choice((rng.choice(SUBJECTS), f"{article(rng.choice(THINGS))} and {article(rng.choice(THINGS))}"))
    return rng.choice((
        f"Write {rng.choice(FORMS)} about {subject}.",
        f"{cap(rng.choice(VERBS))} {subject} in {rng.choice(('two', 'three', 'four', 'five'))} sentences.",
        f"Please {rng.choice(VERBS)} {subject}.",
        f"Make a table with {join(rng.sample(KINDS, 3))} as columns and {rng.randint(3, 5)} rows.",
        f"What should I know about {subject} before I begin?",
        f"{invent.person(rng)} asks {invent.person(rng)} about {subject}. Write their conversation.",
    ))  # fmt: skip


def paragraph(rng: random.Random) -> str:
    """Something to do with a few sentences that mean nothing to the target."""
    text = " ".join(invent.remark(rng) for _ in range(rng.randint(2, 9)))
    if rng.random() < 0.4:
        text = translate(rng, "train").prompt.split("\n")[-1]
    return rng.choice((
        f"Translate into {rng.choice(LANGUAGES)}:\n\n{text}",
        f"Summarise this in two sentences.\n\n{text}",
        f"{text}\n\nContinue the text.",
        f"Rewrite the following in simpler words.\n\n{text}",
        f"Read the text and write three questions about it.\n\n{text}",
    ))  # fmt: skip


STARTS = (
    "Explain: {}", "Why is it that {}?", "How can it be that {}?", "What do you think of this? {}", "Imagine that {}",
    "Give me advice. {}", "Tell me more about this: {}", "Is it true that {}?", "{} What should I do?", "{} Why?",
    "{} What happens next?", "{}", "Write a story in which {}", "Write a letter that says: {}",
    "Write a poem about this: {}", "Make a list of ten ideas. {}", "Write an email. {}",
    "Write a conversation about this: {}", "Describe this to a friend. {}", "How would you put this politely? {}",
)  # fmt: skip
ABOUT = (
    "Summarise the text in five sentences.", "What is this text about?", "Continue with the next paragraph.",
    "Read the text and explain it to a newcomer.", "Write a short briefing about it.", "What matters most in it?",
    "Compare what the text says first with what it says last.", "Tell what happens here and who takes part.",
)  # fmt: skip


def any_prompt(rng: random.Random, prose: list[str]) -> str:
    """An open prompt of any kind."""
    draw = rng.random()
    return programming(rng) if draw < 0.1 else open_prompt(rng) if draw < 0.5 else prose_prompt(rng, prose)


def prose_prompt(rng: random.Random, prose: list[str]) -> str:
    """A short stretch of prose as a question or request; one in five is longer, with something to do about it."""
    draw = rng.random()
    if draw < 0.8:
        return rng.choice(STARTS).format(stretch(rng, prose, rng.randint(6, 45)))
    words = rng.randint(60, 250) if draw < 0.96 else rng.randint(400, 900)
    about, text = rng.choice(ABOUT), stretch(rng, prose, words)
    return rng.choice((f"{about}\n\n{text}", f"{text}\n\n{about}", f"{about}\n\n---\n{text}\n---\n\n{about}"))


def stretch(rng: random.Random, prose: list[str], words: int) -> str:
    """So many words from somewhere in a document, line breaks as they are."""
    text = rng.choice(prose)
    start = rng.randrange(max(1, len(text) - 12 * words))
    start = text.find(" ", start) + 1
    found = text[start : start + 12 * words].split(" ")[:words]
    return " ".join(found).strip()


CODE_DEEDS = (
    "reads {}", "sorts {}", "counts {}", "finds the longest of {}", "merges {}", "removes doubles from {}",
    "prints {}", "checks {}", "adds up {}", "reverses {}", "compares {}", "computes the mean of {}",
)  # fmt: skip
CODE_THINGS = (
    "a list of numbers", "two strings", "all files of a folder", "words in a text", "a binary tree", "pairs",
    "the lines of a file", "dates", "a matrix", "the primes below n", "nested lists", "a queue of tasks",
)  # fmt: skip


def programming(rng: random.Random) -> str:
    """A request for some code."""
    language = rng.choice(("Python", "Python", "C++", "JavaScript", "Rust"))
    thing = rng.choice(("function", "program", "class", "script", "one-liner", "method"))
    deed = rng.choice(CODE_DEEDS).format(rng.choice(CODE_THINGS))
    return rng.choice((
        f"Write a {language} {thing} that {deed}.", f"Implement a {thing} in {language} that {deed}.",
        f"Can you show me a {language} {thing} that {deed}, with a docstring?", f"A {thing} in {language} that {deed}.",
    ))  # fmt: skip
