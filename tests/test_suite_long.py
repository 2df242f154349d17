"""The committed long suite: what it holds, its lengths, its hashes, that references are right and texts kept apart."""

import re
import unicodedata
from collections import Counter
from itertools import combinations
from typing import Any

import pytest
from committed import FIELDS, SUITES, items, manifest, settings

from xpress_bench.analyse.score import score
from xpress_bench.suites import Item
from xpress_bench.train.corpus import austen, held_out

MANIFEST = manifest()
OURS = MANIFEST["long"]
SETTINGS = settings("long")
ITEMS = items("long")

COUNTS = {"summarise": 32, "continue": 20, "introduce": 10, "question": 10, "briefing": 12, "compare": 12}
BY_SOURCE = {"austen": 40, "sqlite": 32, "factbook": 24}
RATES = {"austen": 4.12, "sqlite": 4.16, "factbook": 3.62}
SECTIONS = "Introduction|Geography|People and Society|Government|Economy"
ANSWER_TYPES = {"continue": "text", "question": "exact"}
DISPUTED = {
    "Burma", "Burundi", "Kazakhstan", "Swaziland", "Macedonia", "Israel", "Palau", "Bolivia", "South Africa",
    "Sri Lanka", "Benin", "Cote d'Ivoire", "Malaysia", "Netherlands", "Tanzania", "Chile", "Indonesia", "Sudan",
    "South Sudan", "Kosovo",
}  # fmt: skip


def of(category: str) -> list[dict[str, Any]]:
    return [item for item in ITEMS if item["category"] == category]


def bucket(item: dict[str, Any]) -> int:
    """Thousands of tokens, as the id says."""
    return int(item["id"].rsplit("-", 1)[1].removesuffix("k"))


def text_of(item: dict[str, Any]) -> str:
    """The prompt without a question that is put in it."""
    return "\n\n".join(part for part in item["prompt"].split("\n\n") if "uestion: " not in part)


def fivegrams(text: str) -> set[tuple[str, ...]]:
    words = text.lower().split()
    return {tuple(words[i : i + 5]) for i in range(max(1, len(words) - 4))}


def test_counts() -> None:
    assert len(ITEMS) == OURS["count"] == 96
    assert Counter(item["category"] for item in ITEMS) == COUNTS == OURS["categories"]
    assert Counter(item["source_id"] for item in ITEMS) == BY_SOURCE


def test_buckets_are_equal_and_hold_every_task() -> None:
    assert Counter(map(bucket, ITEMS)) == {1: 24, 2: 24, 4: 24, 8: 24}
    for category in COUNTS:
        shares = Counter(map(bucket, of(category)))
        assert len(shares) == 4
        assert max(shares.values()) - min(shares.values()) <= 1


def test_lengths() -> None:
    for item in ITEMS:
        assert item["approx_tokens"] == round(len(item["prompt"]) / RATES[item["source_id"]])
        assert 0.8 <= item["approx_tokens"] / (1000 * bucket(item)) <= 1.2, item["id"]
    assert (SUITES / "long.jsonl").stat().st_size <= 1_600_000


def test_every_field_of_the_common_record() -> None:
    for item in ITEMS:
        assert list(item) == FIELDS
        assert (item["suite"], item["lang"], item["turns"]) == ("long", "en", None)
        assert (item["licence"], item["origin"]) == ("Public-Domain", "package")
        assert item["answer_type"] == ANSWER_TYPES.get(item["category"], "none")
        assert bool(item["references"]) == (item["category"] in ANSWER_TYPES)
        assert item["memorised"] == ("high" if item["source_id"] == "austen" else "medium")
        assert re.fullmatch(r"long(-[a-z0-9]+)+", item["id"])
        assert f"-{item['category']}-" in item["id"]


def test_licence_text_of_the_novels_package() -> None:
    assert "Julia Silge" in (SUITES / "LICENCES" / "MIT-janeaustenr.txt").read_text(encoding="utf-8")


def test_text_is_clean() -> None:
    for item in ITEMS:
        for text in (item["prompt"], *item["references"]):
            assert text == unicodedata.normalize("NFC", text).strip()
            assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ufffd\u200b-\u200f\ufeff\u00ad]", text), item["id"]
            assert not re.search(r"[ \t]\n|\n{3,}|\w@\w|https?:|www\.|&[a-z]+;(?<!&c;)", text), item["id"]
            assert not re.search(r"last modified|Small\. Fast\. Reliable|Signet|FINIS", text), item["id"]


def test_no_prompt_or_id_twice() -> None:
    assert len({item["id"] for item in ITEMS}) == len(ITEMS)
    assert len({item["prompt"].lower() for item in ITEMS}) == len(ITEMS)


def test_no_near_duplicates() -> None:
    for source in BY_SOURCE:
        grams = [fivegrams(item["prompt"]) for item in ITEMS if item["source_id"] == source]
        assert all(len(left & right) <= 0.6 * len(left | right) for left, right in combinations(grams, 2))


def test_no_paragraph_of_a_novel_stands_in_two_items() -> None:
    """A reference counts as well: it would give the answer away to a reader of the other prompt."""
    seen: Counter[str] = Counter()
    for item in ITEMS:
        if item["source_id"] == "austen":
            parts = [*item["prompt"].split("\n\n"), *item["references"]]
            seen.update({part.removeprefix("---\n").removesuffix("\n---") for part in parts if len(part.split()) >= 40})
    assert len(seen) > 800
    assert [part[:60] for part, count in seen.items() if count > 1] == []


@pytest.mark.parametrize("item", of("question"), ids=lambda item: item["id"])
def test_the_answer_stands_in_the_text_and_passes_its_own_scorer(item: dict[str, Any]) -> None:
    assert item["references"][0] in text_of(item)
    known = Item(**{key: tuple(item[key]) if key == "references" else item[key] for key in Item.__slots__ if item[key]})
    for reference in item["references"]:
        assert score(f"The page says so.\n\nAnswer: {reference}", known, SETTINGS["scorers"]) == 1.0
    assert score("Answer: the page does not say", known, SETTINGS["scorers"]) == 0.0


@pytest.mark.parametrize("item", of("continue"), ids=lambda item: item["id"])
def test_a_continuation_is_not_in_its_prompt(item: dict[str, Any]) -> None:
    (reference,) = item["references"]
    assert 40 <= len(reference.split()) <= 120
    assert reference not in item["prompt"]
    assert len(fivegrams(reference) & fivegrams(item["prompt"])) <= 0.1 * len(fivegrams(reference))


def test_held_out_documents_are_those_shown_and_no_training_book() -> None:
    books = {f"austen/{item['id'].split('-')[2]}" for item in ITEMS if item["source_id"] == "austen"}
    pages = {
        f"sqlite/{page}"
        for item in ITEMS
        if item["source_id"] == "sqlite"
        for page in re.findall(r"\w+\.html", item["source"])
    }
    assert sorted(books | pages) == OURS["held_out_documents"]
    assert books == {"austen/northangerabbey", "austen/persuasion"}
    assert not {book.removeprefix("austen/") for book in books} & austen._BOOKS.keys()
    assert all(held_out(page.removesuffix(".html"), OURS["held_out_documents"]) for page in pages)
    assert len(pages) == 34  # two items show a pair of pages that belong together


def test_countries_are_distinct_and_new() -> None:
    shown = [
        name
        for item in ITEMS
        if item["source_id"] == "factbook"
        for name in re.findall(rf"(?m)^([A-Z][A-Za-z' -]+)\n\n(?=(?:{SECTIONS})\n)", item["prompt"])
    ]
    assert sorted(shown) == OURS["held_out_countries"]
    assert len(set(shown)) == 36
    assert not set(shown) & (DISPUTED | set(MANIFEST["qa"]["held_out_countries"]))


def test_profiles_are_the_only_source_asked_for() -> None:
    for item in of("briefing") + of("compare"):
        assert re.search(r"according to the profiles?\b", item["prompt"], re.IGNORECASE)
        assert not re.search(r"(?m)^(Executive branch: (chief|head)|Political parties)", item["prompt"])


def test_settings() -> None:
    assert SETTINGS["output_budget"].keys() == COUNTS.keys()
    assert SETTINGS["scorers"] == {"question": "contains", "continue": "chrf"}
    assert (SETTINGS["parity_margin"], SETTINGS["temperature"]) == (0.04, 0.0)
    smoke = [item for item in ITEMS if item["id"] in SETTINGS["smoke"]]
    assert len(smoke) == len(SETTINGS["smoke"]) == len({item["category"] for item in smoke}) == 4
    assert {bucket(item) for item in smoke} == {1}
