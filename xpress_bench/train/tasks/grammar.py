"""Sentences that exist in English, French and German at once: the parts, before any language orders them."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

Tense = Literal["present", "past", "future"]
Determiner = Literal["the", "a", "number"]


class Phrase(NamedTuple):
    """Fixed wording in the three languages."""

    en: str
    fr: str
    de: str


@dataclass(frozen=True, slots=True)
class Subject:
    """`person` indexes the verb forms: 0 I, 1 he or she, 2 we, 3 they."""

    phrase: Phrase
    person: int
    feminine: bool = False


@dataclass(frozen=True, slots=True)
class Noun:
    """Singular and plural with genders: `m`, `f` in French, `m`, `f`, `n` in German."""

    en: str
    en_plural: str
    fr: str
    fr_gender: str
    fr_plural: str
    de: str
    de_gender: str
    de_plural: str
    tags: frozenset[str]


@dataclass(frozen=True, slots=True)
class Adjective:
    """`fr_before`: the French adjective stands before its noun."""

    en: str
    fr_masculine: str
    fr_feminine: str
    fr_before: bool
    de: str
    tags: frozenset[str]


@dataclass(frozen=True, slots=True)
class Verb:
    """Forms by person: French four, German three (I, he or she, plural = infinitive)."""

    en: str
    en_third: str
    en_past: str
    fr_present: tuple[str, ...]
    fr_participle: str
    fr_future_stem: str
    de_present: tuple[str, ...]
    de_participle: str
    moves: bool
    tags: frozenset[str]


@dataclass(frozen=True, slots=True)
class Thing:
    """A noun phrase; `count` is used by the determiner `number`, written as digits or in words."""

    noun: Noun
    determiner: Determiner
    adjective: Adjective | None = None
    count: int = 1
    in_digits: bool = False

    @property
    def plural(self) -> bool:
        """Only counted things are plural here."""
        return self.determiner == "number"


@dataclass(frozen=True, slots=True)
class Clause:
    """Who does what to what, where and when."""

    subject: Subject
    verb: Verb
    tense: Tense
    thing: Thing | None = None
    place: Phrase | None = None
    time: Phrase | None = None
    negative: bool = False


def parts(*words: str | None) -> str:
    """Join the parts that exist."""
    return " ".join(word for word in words if word)
