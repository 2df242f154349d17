"""The training tasks: references that are right, splits that never meet, the same examples for the same seed."""

import random
import re
import runpy
import time
from pathlib import Path

import pytest

from xpress_bench.suites import load_suite
from xpress_bench.train.corpus import shared_ngrams
from xpress_bench.train.tasks import TASKS, WEIGHTS, Example, english, french, german, sample, working
from xpress_bench.train.tasks.core import side
from xpress_bench.train.tasks.grammar import Clause, Thing
from xpress_bench.train.tasks.lexicon import (
    ADJECTIVES,
    BEFORE,
    HABITS,
    MOVES,
    NOUNS,
    PEOPLE,
    PLACES,
    PRONOUNS,
    RIDES,
    VERBS,
)
from xpress_bench.train.tasks.open_prompts import any_prompt, stretch

# Loaded by its path, so that it does not matter how pytest puts test folders on the import path.
recompute = runpy.run_path(str(Path(__file__).with_name("solving.py")))["recompute"]
ARITHMETIC = ("arithmetic_number_only", "arithmetic_steps")


def draw(name: str, count: int, split: str = "train", seed: int = 7) -> list[Example]:
    rng = random.Random(seed)
    return [TASKS[name](rng, "held_out" if split == "held_out" else "train") for _ in range(count)]


def final(answer: str) -> str:
    """The value of the last answer line."""
    return answer.rsplit("Answer: ", 1)[1]


@pytest.mark.parametrize("name", TASKS)
def test_same_seed_gives_same_examples(name: str) -> None:
    assert draw(name, 40) == draw(name, 40)
    assert draw(name, 40) != draw(name, 40, seed=8)


@pytest.mark.parametrize("name", TASKS)
def test_splits_never_share_a_prompt(name: str) -> None:
    seen = {example.prompt for example in draw(name, 1500)}
    assert not seen & {example.prompt for example in draw(name, 150, "held_out")}


def test_about_a_tenth_is_held_out() -> None:
    share = sum(side(str(number)) == "held_out" for number in range(10_000)) / 10_000
    assert 0.08 < share < 0.12


def test_split_is_fixed_across_machines() -> None:
    assert [a for a in range(11, 40) if side(f"add [{a}, 50]") == "held_out"] == [15, 18, 33]


def test_every_task_is_sampled() -> None:
    rng = random.Random(1)
    assert set(WEIGHTS) == set(TASKS)
    assert {sample(rng, "train").category for _ in range(500)} == {
        "arithmetic_number_only", "arithmetic_steps", "context", "knowledge", "translation", "instruct",
    }  # fmt: skip


def test_fast_enough_to_generate_while_training() -> None:
    rng, start = random.Random(1), time.process_time()
    for _ in range(1500):
        sample(rng, "train")
    assert time.process_time() - start < 1.0


@pytest.mark.parametrize("name", TASKS)
def test_texts_are_clean(name: str) -> None:
    for example in draw(name, 300):
        for text in (example.prompt, example.answer):
            assert text == text.strip()
            assert not re.search(r"(?<=\S)[ ]{2,}|[{}]{2}|None| ,", text), text


@pytest.mark.parametrize("name", ["arithmetic_steps", "profile", "knowledge"])
def test_answer_line_is_the_reference(name: str) -> None:
    for example in draw(name, 300):
        assert example.answer.count("Answer: ") == 1
        assert final(example.answer) == example.reference


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_references_are_recomputed(name: str) -> None:
    for example in draw(name, 3000):
        assert example.reference == recompute(example.prompt), example.prompt


def test_every_line_of_the_working_is_true() -> None:
    lines = [line for example in draw("arithmetic_steps", 2000) for line in example.answer.split("\n")]
    stated = [re.search(r"(?<!\d )((?:\d+ [-+x/] )+\d+) = (?:[\d+ ]+ = )?(\d+)[.,]", line) for line in lines]
    true = [(match[1], match[2]) for match in stated if match]
    assert len(true) > 3000
    assert all(eval(left.replace("x", "*")) == int(right) for left, right in true)


def test_column_working() -> None:
    assert working.add(47, 86) == [
        "Ones: 7 + 6 = 13, write 3, carry 1.",
        "Tens: 4 + 8 + 1 = 13, write 3, carry 1.",
        "So 47 + 86 = 133.",
    ]
    assert working.subtract(50, 7)[-1] == "So 50 - 7 = 43."
    assert working.multiply(24, 13)[-1] == "So 24 x 13 = 312."
    assert working.divide(96, 4) == ["4 x 20 = 80, and 96 - 80 = 16.", "4 x 4 = 16.", "So 96 / 4 = 24."]


def test_profile_answers_stand_in_the_profile() -> None:
    examples = draw("profile", 400)
    for example in examples:
        profile = example.prompt.split("\n\nQuestion:")[0]
        assert example.reference is not None
        assert (example.reference in profile) == (example.reference != "not stated")
    missing = sum(example.reference == "not stated" for example in examples)
    assert 0.08 < missing / len(examples) < 0.25


def test_profiles_vary_in_length() -> None:
    words = sorted(len(example.prompt.split()) for example in draw("profile", 500))
    assert words[0] < 90
    assert words[len(words) // 2] < 250
    assert 600 < words[-1] < 1400


PERSON = {person.phrase.en: person for person in (*PEOPLE, *PRONOUNS)}
VERB = {verb.en: verb for verb in (*VERBS, *MOVES)}
NOUN = {noun.en: noun for noun in NOUNS}
ADJECTIVE = {adjective.en: adjective for adjective in ADJECTIVES}
TIME = {phrase.en: phrase for phrase in (*BEFORE, *HABITS)}
PLACE = {phrase.en: phrase for phrase in (*PLACES, *RIDES)}

SENTENCES = [
    (Clause(PERSON["I"], VERB["buy"], "past", Thing(NOUN["umbrella"], "a", ADJECTIVE["red"]), None, TIME["yesterday"]),
     "I bought a red umbrella yesterday", "j'ai acheté un parapluie rouge hier",
     "ich habe gestern einen roten Regenschirm gekauft"),
    (Clause(PERSON["Nora"], VERB["read"], "present", Thing(NOUN["story"], "the", ADJECTIVE["long"]),
            PLACE["in the garden"]),
     "Nora reads the long story in the garden", "Nora lit la longue histoire dans le jardin",
     "Nora liest die lange Geschichte im Garten"),
    (Clause(PERSON["she"], VERB["write"], "future", Thing(NOUN["letter"], "number", ADJECTIVE["sad"], 3)),
     "she will write three sad letters", "elle écrira trois lettres tristes",
     "sie wird drei traurige Briefe schreiben"),
    (Clause(PERSON["the teacher"], VERB["eat"], "past", Thing(NOUN["apple"], "a"), None, None, True),
     "the teacher did not eat an apple", "le professeur n'a pas mangé de pomme",
     "der Lehrer hat keinen Apfel gegessen"),
    (Clause(PERSON["my sister"], VERB["come"], "past", None, PLACE["to Vienna by train"], TIME["last year"]),
     "my sister came to Vienna by train last year", "ma sœur est venue à Vienne en train l'année dernière",
     "meine Schwester ist letztes Jahr mit dem Zug nach Wien gekommen"),
    (Clause(PERSON["we"], VERB["find"], "past", Thing(NOUN["clock"], "the", ADJECTIVE["big"]), None, None, True),
     "we did not find the big clock", "nous n'avons pas trouvé la grande horloge",
     "wir haben die große Uhr nicht gefunden"),
    (Clause(PERSON["the children"], VERB["stay"], "past", None, PLACE["at home"]),
     "the children stayed at home", "les enfants sont restés à la maison", "die Kinder sind zu Hause geblieben"),
]  # fmt: skip


@pytest.mark.parametrize(("clause", "en", "fr", "de"), SENTENCES)
def test_translations_written_by_hand(clause: Clause, en: str, fr: str, de: str) -> None:
    assert (english.clause_words(clause), french.clause_words(clause), german.main_clause(clause)) == (en, fr, de)


def test_german_verb_positions() -> None:
    clause = SENTENCES[0][0]
    assert german.subordinate_clause(clause) == "ich gestern einen roten Regenschirm gekauft habe"
    assert german.main_clause(clause, time_first=True) == "gestern habe ich einen roten Regenschirm gekauft"
    assert german.inverted_clause(clause) == "habe ich gestern einen roten Regenschirm gekauft"


def test_french_elision() -> None:
    assert french.elide("que", "il dort") == "qu'il dort"
    assert french.elide("parce que", "Anna dort") == "parce qu'Anna dort"
    assert french.elide("de", "pomme") == "de pomme"
    assert (french.if_clause("il pleut"), french.if_clause("elle dort")) == ("s'il pleut", "si elle dort")
    assert french.noun_phrase(Thing(NOUN["egg"], "the")) == "l'œuf"
    assert french.noun_phrase(Thing(NOUN["egg"], "number", ADJECTIVE["fresh"], 2)) == "deux œufs frais"


def test_numbers_in_words() -> None:
    assert [german.number(n) for n in (17, 21, 46)] == ["siebzehn", "einundzwanzig", "sechsundvierzig"]
    assert [french.number(n) for n in (16, 22, 60)] == ["seize", "vingt-deux", "soixante"]
    assert [english.number(n) for n in (12, 40, 99)] == ["twelve", "forty", "ninety-nine"]


def test_translations_have_the_asked_length() -> None:
    words = sorted(len(example.answer.split()) for example in draw("translate", 500))
    assert words[0] >= 6
    assert words[len(words) // 2] > 15
    assert words[-1] <= 60


PROSE = ["It was a fine morning, and the whole village went down to the river to see the boats come in. " * 40]


def test_open_prompts_of_every_kind_are_not_the_suites() -> None:
    rng = random.Random(5)
    drawn = [any_prompt(rng, PROSE) for _ in range(1500)]
    assert len(set(drawn)) > 1300
    assert sum(PROSE[0][:40].split(",")[0] in one or "river" in one for one in drawn) > 400
    items = [item.prompt for suite in ("short", "qa", "long") for item in load_suite(suite).items]
    assert shared_ngrams([one for one in drawn if "Answer:" not in one], items) == set()


def test_a_stretch_has_as_many_words_as_asked() -> None:
    assert len(stretch(random.Random(1), PROSE, 12).split()) == 12
