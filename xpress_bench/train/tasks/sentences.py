"""Whole sentences in three languages, built from the lexicon; every builder takes the random source and a subject."""

import random
from collections.abc import Callable

from . import english, french, german
from .core import cap
from .grammar import Adjective, Clause, Noun, Phrase, Subject, Tense, Thing, Verb, parts
from .lexicon import (
    ADJECTIVES,
    AFTER,
    BEFORE,
    FURNITURE,
    HABIT_STATES,
    HABITS,
    MONTHS,
    MOVES,
    NOUNS,
    PAST_STATES,
    PEOPLE,
    PLACES,
    RIDES,
    SPEECH,
    VERBS,
    WALKS,
)

Builder = Callable[[random.Random, Subject], Phrase]
TIMES: dict[Tense, tuple[Phrase, ...]] = {"present": HABITS, "past": BEFORE, "future": AFTER}
TENSES: tuple[Tense, ...] = ("present", "past", "future")
OBJECTS = {verb: tuple(noun for noun in NOUNS if noun.tags & verb.tags) for verb in VERBS}
FITTING = {noun: tuple(adjective for adjective in ADJECTIVES if adjective.tags & noun.tags) for noun in NOUNS}
DESTINATIONS = {"walk": WALKS, "ride": RIDES, "rest": PLACES}


def sentence(en: str, fr: str, de: str) -> Phrase:
    """Capital letter and full stop in each language."""
    return Phrase(*(f"{cap(text)}." for text in (en, fr, de)))


def some_thing(rng: random.Random, noun: Noun, counted: bool) -> Thing:
    """A noun phrase of the noun: often with an adjective, sometimes counted."""
    adjective = rng.choice(FITTING[noun]) if rng.random() < 0.5 else None
    draw = rng.random()
    if counted and draw < 0.3 and "meal" not in noun.tags:
        return Thing(noun, "number", adjective, rng.randint(2, 20), rng.random() < 0.4)
    return Thing(noun, "the" if draw < 0.65 else "a", adjective)


def some_date(rng: random.Random, tense: Tense) -> Phrase:
    """A date with its year; French has its ordinal only for the first of the month."""
    day, month = rng.randint(1, 28), rng.choice(MONTHS)
    year = rng.randint(1990, 2020) if tense == "past" else rng.randint(2030, 2060)
    first = "1er" if day == 1 else str(day)
    return Phrase(f"on {day} {month.en} {year}", f"le {first} {month.fr} {year}", f"am {day}. {month.de} {year}")


def some_time(rng: random.Random, tense: Tense) -> Phrase:
    """A time that fits the tense."""
    return some_date(rng, tense) if tense != "present" and rng.random() < 0.2 else rng.choice(TIMES[tense])


def clock(rng: random.Random) -> Phrase:
    """A full or half hour from two to eleven."""
    hour = rng.randint(2, 11)
    en, fr, de = english.number(hour), french.number(hour), german.number(hour)
    if rng.random() < 0.4:
        return Phrase(f"at half past {en}", f"à {fr} heures et demie", f"um halb {german.number(hour + 1)}")
    if rng.random() < 0.4:
        en = fr = de = str(hour)
    return Phrase(f"at {en} o'clock", f"à {fr} heures", f"um {de} Uhr")


def denied(rng: random.Random, tense: Tense, time: Phrase | None) -> bool:
    """One clause in five is negative; never a habit, where the scope of not would differ between the languages."""
    return rng.random() < 0.2 and not (tense == "present" and time)


def movement(rng: random.Random, subject: Subject, tense: Tense, time: Phrase | None) -> Clause:
    """Going, coming or staying somewhere."""
    verb: Verb = rng.choice(MOVES)
    place = rng.choice(DESTINATIONS[rng.choice(sorted(verb.tags))])
    return Clause(subject, verb, tense, None, place, time, denied(rng, tense, time))


def some_clause(rng: random.Random, subject: Subject, tense: Tense, with_time: bool = True) -> Clause:
    """Any clause of the grammar with this subject and tense."""
    time = some_time(rng, tense) if with_time and rng.random() < 0.75 else None
    if rng.random() < 0.25:
        return movement(rng, subject, tense, time)
    verb = rng.choice(VERBS)
    negative = denied(rng, tense, time)
    thing = some_thing(rng, rng.choice(OBJECTS[verb]), not negative) if verb.tags else None
    place = rng.choice(PLACES) if thing is None or rng.random() < 0.35 else None
    return Clause(subject, verb, tense, thing, place, time, negative)


def plain(rng: random.Random, subject: Subject) -> Phrase:
    """A main clause, sometimes with its time in front."""
    clause, front = some_clause(rng, subject, rng.choice(TENSES)), rng.random() < 0.4
    return sentence(
        english.clause_words(clause, front), french.clause_words(clause, front), german.main_clause(clause, front)
    )


def because(rng: random.Random, subject: Subject) -> Phrase:
    """A main clause in the past with a reason."""
    clause, reason = some_clause(rng, subject, "past"), rng.choice(PAST_STATES)
    return sentence(
        f"{english.clause_words(clause)} because {reason.en}",
        f"{french.clause_words(clause)} {french.elide('parce que', reason.fr)}",
        f"{german.main_clause(clause)}, weil {reason.de}",
    )


def when(rng: random.Random, subject: Subject) -> Phrase:
    """A habit with wenn, or one event in the past with als."""
    past = rng.random() < 0.5
    clause = some_clause(rng, subject, "past" if past else "present", with_time=False)
    state = rng.choice(PAST_STATES if past else HABIT_STATES)
    return sentence(
        f"when {state.en}, {english.clause_words(clause)}",
        f"quand {state.fr}, {french.clause_words(clause)}",
        f"{'als' if past else 'wenn'} {state.de}, {german.inverted_clause(clause)}",
    )


def condition(rng: random.Random, subject: Subject) -> Phrase:
    """If, with the consequence in the future, before or after the main clause."""
    clause, state = some_clause(rng, subject, "future"), rng.choice(HABIT_STATES)
    if rng.random() < 0.5:
        return sentence(
            f"if {state.en}, {english.clause_words(clause)}",
            f"{french.if_clause(state.fr)}, {french.clause_words(clause)}",
            f"wenn {state.de}, {german.inverted_clause(clause)}",
        )
    return sentence(
        f"{english.clause_words(clause)} if {state.en}",
        f"{french.clause_words(clause)} {french.if_clause(state.fr)}",
        f"{german.main_clause(clause)}, wenn {state.de}",
    )


def report(rng: random.Random, subject: Subject) -> Phrase:
    """Somebody says that something happened or will happen."""
    speaker = rng.choice([person for person in PEOPLE if person.person == 1 and person != subject]).phrase
    verb, clause = rng.choice(SPEECH), some_clause(rng, subject, rng.choice(("past", "future")))
    return sentence(
        f"{speaker.en} {verb.en} that {english.clause_words(clause)}",
        f"{speaker.fr} {verb.fr} {french.elide('que', french.clause_words(clause))}",
        f"{speaker.de} {verb.de}, dass {german.subordinate_clause(clause)}",
    )


def quality(rng: random.Random, _: Subject) -> Phrase:
    """The thing is, was or is not something."""
    thing = Thing(rng.choice([noun for noun in NOUNS if "meal" not in noun.tags]), "the")
    adjective: Adjective = rng.choice(FITTING[thing.noun])
    fr = french.agree(adjective, thing.noun.fr_gender == "f", False)
    (en_is, fr_is, de_is) = rng.choice((
        ("is", "est", "ist"), ("was", "était", "war"), ("is not", "n'est pas", "ist nicht"),
        ("is very", "est très", "ist sehr"), ("was too", "était trop", "war zu"),
    ))  # fmt: skip
    return sentence(
        f"{english.noun_phrase(thing)} {en_is} {adjective.en}",
        f"{french.noun_phrase(thing)} {fr_is} {fr}",
        f"{german.noun_phrase(thing, 'nominative')} {de_is} {adjective.de}",
    )


POSITIONS = (
    Phrase("on", "sur", "auf"),
    Phrase("under", "sous", "unter"),
    Phrase("behind", "derrière", "hinter"),
    Phrase("in front of", "devant", "vor"),
)


def location(rng: random.Random, _: Subject) -> Phrase:
    """One thing, or a number of them, on, under, behind or before a piece of furniture."""
    where, base = rng.choice(POSITIONS), Thing(rng.choice(FURNITURE), "the")
    noun = rng.choice([noun for noun in NOUNS if noun.tags & {"small", "food"} and noun != base.noun])
    place = Phrase(
        f"{where.en} {english.noun_phrase(base)}",
        f"{where.fr} {french.noun_phrase(base)}",
        f"{where.de} {german.noun_phrase(base, 'dative')}",
    )
    if rng.random() < 0.5:
        many = Thing(noun, "number", None, rng.randint(2, 20), rng.random() < 0.4)
        counted = german.noun_phrase(many, "nominative")
        return sentence(
            f"there are {english.noun_phrase(many)} {place.en}",
            f"il y a {french.noun_phrase(many)} {place.fr}",
            f"{place.de} sind {counted}",
        )
    one = Thing(noun, "the", rng.choice((None, rng.choice(FITTING[noun]))))
    return sentence(
        f"{english.noun_phrase(one)} is {place.en}",
        f"{french.noun_phrase(one)} est {place.fr}",
        f"{german.noun_phrase(one, 'nominative')} ist {place.de}",
    )


PRICES = tuple(price for price in range(2, 70) if price % 10 != 1)


def price(rng: random.Random, _: Subject) -> Phrase:
    """What a thing costs, in euros."""
    noun = rng.choice([noun for noun in NOUNS if noun.tags & {"thing"}])
    thing = Thing(noun, "the", rng.choice((None, rng.choice(FITTING[noun]))))
    amount = rng.choice(PRICES)
    en, fr, de = english.number(amount), french.number(amount), german.number(amount)
    if rng.random() < 0.4:
        en = fr = de = str(amount)
    return sentence(
        f"{english.noun_phrase(thing)} costs {en} euros",
        f"{french.noun_phrase(thing)} coûte {fr} euros",
        f"{german.noun_phrase(thing, 'nominative')} kostet {de} Euro",
    )


EVENTS = (
    Phrase("the concert", "le concert", "das Konzert"),
    Phrase("the meeting", "la réunion", "die Besprechung"),
    Phrase("the film", "le film", "der Film"),
    Phrase("the party", "la fête", "das Fest"),
    Phrase("the lesson", "le cours", "der Unterricht"),
    Phrase("the match", "le match", "das Spiel"),
)


def appointment(rng: random.Random, _: Subject) -> Phrase:
    """An event begins at an hour on a date."""
    event, at = rng.choice(EVENTS), clock(rng)
    tense = rng.choice(("past", "future"))
    on = some_date(rng, "past" if tense == "past" else "future")
    (en_begin, fr_begin, de_begin, de_end) = {
        "past": ("began", "a commencé", "hat", "begonnen"),
        "future": ("will begin", "commencera", "wird", "beginnen"),
    }[tense]
    return sentence(
        f"{event.en} {en_begin} {at.en} {on.en}",
        f"{event.fr} {fr_begin} {at.fr} {on.fr}",
        parts(event.de, de_begin, on.de, at.de, de_end),
    )


BUILDERS: tuple[Builder, ...] = (
    plain, plain, plain, because, when, condition, report, report, quality, location, price, appointment,
)  # fmt: skip
