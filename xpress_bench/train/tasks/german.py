"""German wording: cases, adjective endings, second place and final place of the verb."""

from typing import Literal

from .grammar import Clause, Thing, parts

Case = Literal["nominative", "accusative", "dative"]

ONES = (
    "null", "ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf",
    "dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn",
)  # fmt: skip
TENS = ("", "", "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig")
DEFINITE = {
    "nominative": {"m": "der", "f": "die", "n": "das"},
    "accusative": {"m": "den", "f": "die", "n": "das"},
    "dative": {"m": "dem", "f": "der", "n": "dem"},
}
INDEFINITE = {
    "nominative": {"m": "ein", "f": "eine", "n": "ein"},
    "accusative": {"m": "einen", "f": "eine", "n": "ein"},
    "dative": {"m": "einem", "f": "einer", "n": "einem"},
}
# Adjective endings where they are not -en: after the definite article, then after ein and kein.
WEAK = {
    ("nominative", "m"): "e",
    ("nominative", "f"): "e",
    ("nominative", "n"): "e",
    ("accusative", "f"): "e",
    ("accusative", "n"): "e",
}
MIXED = {
    ("nominative", "m"): "er",
    ("nominative", "f"): "e",
    ("nominative", "n"): "es",
    ("accusative", "f"): "e",
    ("accusative", "n"): "es",
}
HAVE = ("habe", "hat", "haben")
BE = ("bin", "ist", "sind")
WILL = ("werde", "wird", "werden")


def number(value: int) -> str:
    """A number from 2 to 99 in words."""
    if value < 20:
        return ONES[value]
    tens, ones = TENS[value // 10], value % 10
    return tens if not ones else f"{ONES[ones]}und{tens}"


def noun_phrase(thing: Thing, case: Case, negative: bool = False) -> str:
    """With article or number; `negative` turns ein into kein. Counted things are never dative here."""
    noun, adjective = thing.noun, thing.adjective.de if thing.adjective else None
    if thing.determiner == "number":
        count = str(thing.count) if thing.in_digits else number(thing.count)
        return parts(count, f"{adjective}e" if adjective else None, noun.de_plural)
    definite = thing.determiner == "the"
    ending = (WEAK if definite else MIXED).get((case, noun.de_gender), "en")
    determiner = (DEFINITE if definite else INDEFINITE)[case][noun.de_gender]
    return parts("k" * negative + determiner, adjective + ending if adjective else None, noun.de)


def verb_words(clause: Clause) -> tuple[str, str]:
    """(finite verb, rest at the end): `hat`, `gekauft`."""
    form, verb = min(clause.subject.person, 2), clause.verb
    if clause.tense == "past":
        return (BE if verb.moves else HAVE)[form], verb.de_participle
    if clause.tense == "future":
        return WILL[form], verb.de_present[2]
    return verb.de_present[form], ""


def middle(clause: Clause, with_time: bool) -> str:
    """What stands between the finite verb and the end: time, object, nicht, place."""
    none_of_it = clause.negative and clause.thing is not None and clause.thing.determiner == "a"
    thing = noun_phrase(clause.thing, "accusative", none_of_it) if clause.thing else None
    time = clause.time.de if clause.time and with_time else None
    return parts(
        time, thing, "nicht" if clause.negative and not none_of_it else None, clause.place.de if clause.place else None
    )


def main_clause(clause: Clause, time_first: bool = False) -> str:
    """Finite verb second, without the full stop."""
    finite, rest = verb_words(clause)
    if clause.time and time_first:
        return parts(clause.time.de, finite, clause.subject.phrase.de, middle(clause, False), rest)
    return parts(clause.subject.phrase.de, finite, middle(clause, True), rest)


def inverted_clause(clause: Clause) -> str:
    """The main clause after a subordinate one: the finite verb comes first."""
    finite, rest = verb_words(clause)
    return parts(finite, clause.subject.phrase.de, middle(clause, True), rest)


def subordinate_clause(clause: Clause) -> str:
    """Finite verb last, without the conjunction."""
    finite, rest = verb_words(clause)
    return parts(clause.subject.phrase.de, middle(clause, True), rest, finite)
