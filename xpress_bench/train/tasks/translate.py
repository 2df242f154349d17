"""English to French and to German over a synchronous grammar, so that every reference is exact."""

import random

from .core import Example, Keyed, task
from .grammar import Phrase, Subject
from .lexicon import HE, PEOPLE, PRONOUNS, SHE, THEY
from .sentences import BUILDERS

INSTRUCTIONS = (
    "Translate into {language}: {text}",
    "Translate the following text into {language}.\n\n{text}",
    "Translate this from English into {language}:\n{text}",
    "Please translate into {language}. Write only the translation.\n\n{text}",
    "How do you say this in {language}? {text}",
    "Give the {language} translation of this text: {text}",
    "Put this into {language}: {text}",
)


def pronoun(subject: Subject) -> Subject:
    """The pronoun that takes up a subject; German and French genders agree for every person in the lexicon."""
    if subject.person == 3:
        return THEY
    if subject.person == 1:
        return SHE if subject.feminine else HE
    return subject


def passage(rng: random.Random) -> Phrase:
    """Two or three sentences, mostly about one person."""
    subject = rng.choice(PEOPLE) if rng.random() < 0.7 else rng.choice(PRONOUNS)
    sentences = []
    for _ in range(rng.choice((2, 2, 3))):
        sentences.append(rng.choice(BUILDERS)(rng, subject))
        subject = pronoun(subject) if rng.random() < 0.6 else rng.choice(PEOPLE)
    return Phrase(*(" ".join(texts) for texts in zip(*sentences, strict=True)))


def translation(rng: random.Random) -> Keyed:
    """The key is the English text, so a held-out text is unseen in both languages."""
    text, into_french = passage(rng), rng.random() < 0.5
    language, answer = ("French", text.fr) if into_french else ("German", text.de)
    prompt = rng.choice(INSTRUCTIONS).format(language=language, text=text.en)
    return text.en, Example(prompt, answer, "translation", answer, "text")


translate = task(translation)
