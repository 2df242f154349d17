"""French wording: agreement, elision, place of the adjective, negation around the finite verb."""

from .grammar import Adjective, Clause, Thing, parts

ONES = (
    "zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix", "onze", "douze",
    "treize", "quatorze", "quinze", "seize", "dix-sept", "dix-huit", "dix-neuf",
)  # fmt: skip
TENS = ("", "", "vingt", "trente", "quarante", "cinquante", "soixante")
FUTURE = ("ai", "a", "ons", "ont")
HAVE = ("ai", "a", "avons", "ont")
BE = ("suis", "est", "sommes", "sont")
# Every h in the lexicon is mute; numbers are never elided against because the grammar puts none after de, le or que.
VOWELS = "aeiouyéèêàâîôœh"


def number(value: int) -> str:
    """A number from 2 to 69 in words, masculine."""
    if value < 20:
        return ONES[value]
    tens, ones = TENS[value // 10], value % 10
    return tens if not ones else f"{tens} et un" if ones == 1 else f"{tens}-{ONES[ones]}"


def elide(word: str, following: str) -> str:
    """`le` + `arbre` = `l'arbre`; also for la, de, ne, je, que, parce que."""
    return f"{word[:-1]}'{following}" if following[0].lower() in VOWELS else f"{word} {following}"


def if_clause(following: str) -> str:
    """`si` loses its vowel before il and ils only."""
    return f"s'{following}" if following.split()[0] in {"il", "ils"} else f"si {following}"


def agree(adjective: Adjective, feminine: bool, plural: bool) -> str:
    """The adjective in its gender and number."""
    word = adjective.fr_feminine if feminine else adjective.fr_masculine
    return word + ("s" if plural and word[-1] not in "sx" else "")


def bare_noun(thing: Thing) -> str:
    """The noun with its adjective, without a determiner."""
    noun = thing.noun.fr_plural if thing.plural else thing.noun.fr
    if thing.adjective is None:
        return noun
    adjective = agree(thing.adjective, thing.noun.fr_gender == "f", thing.plural)
    return f"{adjective} {noun}" if thing.adjective.fr_before else f"{noun} {adjective}"


def noun_phrase(thing: Thing) -> str:
    """With the definite article, the indefinite article or a number."""
    words, feminine = bare_noun(thing), thing.noun.fr_gender == "f"
    if thing.determiner == "number":
        return f"{thing.count if thing.in_digits else number(thing.count)} {words}"
    if thing.determiner == "a":
        return f"{'une' if feminine else 'un'} {words}"
    return elide("la" if feminine else "le", words)


def object_phrase(clause: Clause) -> str | None:
    """The object; an indefinite one becomes `pas de` under negation."""
    if clause.thing is None:
        return None
    if clause.negative and clause.thing.determiner == "a":
        return elide("de", bare_noun(clause.thing))
    return noun_phrase(clause.thing)


def participle(clause: Clause) -> str:
    """Agrees with the subject for verbs of movement, whose auxiliary is être."""
    word, subject = clause.verb.fr_participle, clause.subject
    if not clause.verb.moves:
        return word
    return word + "e" * subject.feminine + "s" * (subject.person >= 2)


def verb_words(clause: Clause) -> tuple[str, str]:
    """(finite verb, rest): `a`, `acheté` or `achètera`, ``."""
    person, verb = clause.subject.person, clause.verb
    if clause.tense == "past":
        return (BE if verb.moves else HAVE)[person], participle(clause)
    if clause.tense == "future":
        return verb.fr_future_stem + FUTURE[person], ""
    return verb.fr_present[person], ""


def subject_and_verb(clause: Clause) -> str:
    """Subject, finite verb with its negation, participle."""
    finite, rest = verb_words(clause)
    middle = f"{elide('ne', finite)} pas" if clause.negative else finite
    words = parts(middle, rest)
    return elide("je", words) if clause.subject.person == 0 else f"{clause.subject.phrase.fr} {words}"


def clause_words(clause: Clause, time_first: bool = False) -> str:
    """The clause without its full stop; a fronted time takes a comma."""
    time = clause.time.fr if clause.time else None
    place = clause.place.fr if clause.place else None
    body = (subject_and_verb(clause), object_phrase(clause), place)
    return parts(f"{time},", *body) if time and time_first else parts(*body, time)
