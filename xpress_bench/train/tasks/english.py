"""English wording of the shared clauses."""

from .core import article
from .grammar import Clause, Thing, parts

ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


def number(value: int) -> str:
    """A number below 100 in words."""
    if value < 20:
        return ONES[value]
    return TENS[value // 10] + (f"-{ONES[value % 10]}" if value % 10 else "")


def noun_phrase(thing: Thing) -> str:
    """`the red book`, `an apple`, `three red books`."""
    adjective = thing.adjective.en if thing.adjective else None
    if thing.determiner == "number":
        return parts(str(thing.count) if thing.in_digits else number(thing.count), adjective, thing.noun.en_plural)
    words = parts(adjective, thing.noun.en)
    return article(words) if thing.determiner == "a" else f"the {words}"


def verb_phrase(clause: Clause) -> str:
    """The verb with tense and negation."""
    verb, third = clause.verb, clause.subject.person == 1
    if clause.tense == "future":
        return f"will not {verb.en}" if clause.negative else f"will {verb.en}"
    if clause.tense == "past":
        return f"did not {verb.en}" if clause.negative else verb.en_past
    if clause.negative:
        return f"{'does' if third else 'do'} not {verb.en}"
    return verb.en_third if third else verb.en


def clause_words(clause: Clause, time_first: bool = False) -> str:
    """The clause without its full stop; a fronted time takes a comma."""
    thing = noun_phrase(clause.thing) if clause.thing else None
    time = clause.time.en if clause.time else None
    place = clause.place.en if clause.place else None
    body = (clause.subject.phrase.en, verb_phrase(clause), thing, place)
    return parts(f"{time},", *body) if time and time_first else parts(*body, time)
