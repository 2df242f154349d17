"""What `show` says of a suite and of an item."""

from __future__ import annotations

import pytest

from xpress_bench import cli
from xpress_bench.errors import UsageError
from xpress_bench.publish.prompts import COLUMNS, item_of, item_text, suite_page
from xpress_bench.suites import Item, Suite

ITEMS = (
    Item("a1", "one", "sums", references=("2",), answer_type="exact", licence="Apache-2.0", memorised="low"),
    Item("a2", "two\x1b[2J\nlines", "sums", lang="de", references=("3",), answer_type="exact", memorised="high"),
    Item("b1", "talk", "talk", turns=("talk", "more")),
)
SUITE = Suite("own", "1.0.0", "0" * 64, ITEMS, {"sums": 16}, {"sums": "contains"}, 0.02, turns=1)
LENGTHS = {"a1": 3, "a2": 9, "b1": 4}


def test_a_row_per_category_and_the_shares_of_the_whole() -> None:
    page = suite_page(SUITE, LENGTHS, "embedded", context=20)
    (section,) = page.sections
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in section.table.rows]
    assert rows[0] == {
        "category": "sums", "items": "2", "languages": "de, en", "origin": "user", "memorised": "high, low",
        "scorer": "contains", "prompt tokens": "3 to 9, median 6", "new tokens at most": "16",
    }  # fmt: skip
    assert (rows[1]["scorer"], rows[1]["prompt tokens"], rows[1]["new tokens at most"]) == ("-", "4", "128")
    lines = dict(page.lines)
    assert lines["languages"] == "en 2, de 1"
    assert lines["licences"] == "unknown 2, Apache-2.0 1"
    assert lines["turns"] == "1 conversations; the first 1 of each are run unless turns=N says so"
    assert lines["too long"] == "2 prompts with their budget, for a context of 20 tokens"  # 9 + 16 and 4 + 128
    assert section.verdict == "1 of 3 items are texts that large models know by heart"


def test_an_item_is_shown_whole_with_its_lines_but_without_control_characters() -> None:
    text = item_text(SUITE, ITEMS[1], 9)
    assert "--- prompt\ntwo [2J\nlines\n" in text
    assert "--- reference\n3\n" in text
    assert "scorer              contains\n" in text
    assert "--- turn 2\nmore\n" in item_text(SUITE, ITEMS[2], 4)


def test_an_unknown_id_is_told_with_the_nearest() -> None:
    assert item_of(SUITE, "b1") is ITEMS[2]
    with pytest.raises(UsageError, match="suite own has no item 'a3'; did you mean a2 or a1"):
        item_of(SUITE, "a3")


def test_show_counts_with_the_target_s_tokenizer(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", "qa"]) == 0
    shown = capsys.readouterr().out
    assert "160 items" in shown
    assert "prompt tokens of target embedded: 2" in shown
    assert cli.main(["show", "qa", "qa-knowledge-01"]) == 0
    assert "Who wrote the play Hamlet?" in capsys.readouterr().out
    assert cli.main(["show", "qa", "qa-knowlege-01"]) == 2
    assert "did you mean qa-knowledge-01" in capsys.readouterr().err
