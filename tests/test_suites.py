"""Suite files: what is tolerated, what is refused with file, line and field, and how a few prompts are drawn."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from xpress_bench import suites
from xpress_bench.errors import UsageError
from xpress_bench.suites import Item, Suite, load_suite, spread

FOUR = b'{"prompt": "a"}\n{"prompt": "b"}\n{"prompt": "c"}\n{"prompt": "d"}\n'


def loaded(folder: Path, raw: bytes) -> Suite:
    (folder / "own.jsonl").write_bytes(raw)
    return load_suite(str(folder / "own.jsonl"))


def refused(folder: Path, raw: bytes) -> str:
    with pytest.raises(UsageError) as caught:
        loaded(folder, raw)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_prompt_is_all_that_a_line_needs(tmp_path: Path) -> None:
    suite = loaded(tmp_path, FOUR)
    assert (suite.name, suite.version) == ("own", "user")
    assert suite.items[1] == Item(id="own-0002", prompt="b")
    assert suite.budget(suite.items[0]) == 128


def test_c42_b_a_bom_hides_nothing(tmp_path: Path) -> None:
    assert [item.prompt for item in loaded(tmp_path, b"\xef\xbb\xbf" + FOUR).items] == ["a", "b", "c", "d"]


def test_c42_c_crlf_and_blank_lines_are_ignored_but_counted(tmp_path: Path) -> None:
    raw = b'{"prompt": "a"}\r\n\r\n{"prompt": "b"}\r\n  \r\n'
    assert [item.id for item in loaded(tmp_path, raw).items] == ["own-0001", "own-0003"]
    assert "line 5:" in refused(tmp_path, raw + b"{")


def test_c42_g_unusual_characters_stay(tmp_path: Path) -> None:
    text = "one\u2028line \U0001f600\u0000"
    assert loaded(tmp_path, json.dumps({"prompt": text}).encode()).items[0].prompt == text
    plain = text.removesuffix("\0")
    assert loaded(tmp_path, f'{{"prompt": "{plain}"}}'.encode()).items[0].prompt == plain


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b'{"prompt": "a"}\n{"prompt": "b"}\n{"prompt": \n', "own.jsonl, line 3: not JSON"),  # a
        (b'{"prompt": "a"}\n{"text": "b"}\n', "line 2: field 'prompt' is missing"),  # d
        (b'{"id": "x", "prompt": "a"}\n\n{"id": "x", "prompt": "b"}', "line 3: id 'x' stands on line 1"),  # e
        (b"", "own.jsonl: the suite is empty"),  # f
        (b"\xef\xbb\xbf\r\n \n", "the suite is empty"),
        (b'{"prompt": " "}', "line 1: field 'prompt'"),
        (b'{"prompt": 3}', "line 1: field 'prompt'"),
        (b'["a"]', "line 1: holds a list"),
        (b'{"prompt": "a", "id": 7}', "line 1: field 'id' is int"),
        (b'{"prompt": "a", "references": "x"}', "field 'references' is not a list of texts"),
        (b'{"prompt": "a", "references": [1]}', "field 'references' is not a list of texts"),
        (b'{"prompt": "caf\xe9"}', "line 1: not UTF-8 (byte 15)"),
        (b'{"prompt": "a\x00b"}', "line 1: not JSON"),
        ('{"prompt": "a"}'.encode("utf-16"), "line 1: not UTF-8"),
        (b'{"prompt": "\\ud800"}', "line 1: not JSON"),
        (b"[" * 100_000, "line 1: not JSON"),
    ],
)
def test_c42_a_bad_line_is_named(tmp_path: Path, raw: bytes, told: str) -> None:
    assert told in refused(tmp_path, raw)


def test_an_over_long_line_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suites, "MAX_LINE_BYTES", 20)
    assert "line 2: longer than 20 bytes" in refused(tmp_path, b'{"prompt": "a"}\n{"prompt": "aaaaaaaaaaaaa"}')


@pytest.mark.parametrize("name", ["gone.jsonl", "folder.jsonl"])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(UsageError, match=name):
        load_suite(str(tmp_path / name))


def test_an_unknown_name_says_what_there_is() -> None:
    with pytest.raises(UsageError, match=r"no suite called 'qaa'; did you mean qa\?.*FILE.jsonl"):
        load_suite("qaa")


def test_c02_another_text_is_another_suite(tmp_path: Path) -> None:
    assert loaded(tmp_path, FOUR).sha256 != loaded(tmp_path, FOUR.replace(b"d", b"e")).sha256


def test_how_it_is_run_lies_beside_it(tmp_path: Path) -> None:
    how = tmp_path / "own.suite.yaml"
    how.write_text("output_budget: {all: 7}\nscorers: {all: contains}\nparity_margin: 0.1\n")
    suite = loaded(tmp_path, FOUR)
    assert (suite.budget(suite.items[0]), suite.scorers, suite.parity_margin) == (7, {"all": "contains"}, 0.1)
    for text in ("output_budget: {all: many}", "output_budget: 7", "[1]", "a: [", "scorers: {all: 3}"):
        how.write_text(text)
        refused(tmp_path, FOUR)


def test_a_draw_keeps_the_share_of_each_category() -> None:
    items = tuple(Item(str(i), "?", category="ab"[i >= 30]) for i in range(40))  # 30 of a, 10 of b
    drawn = spread(items, 8)
    assert Counter(item.category for item in drawn) == {"a": 6, "b": 2}
    assert len(set(drawn)) == 8
    assert spread(items, None) == spread(items, 40) == spread(items, 99) == items


def test_our_suite_is_refused_when_its_bytes_are_not_the_manifest_s(tmp_path: Path) -> None:
    (tmp_path / "qa.jsonl").write_bytes(FOUR)
    (tmp_path / "MANIFEST.json").write_text(json.dumps({"qa": {"sha256": "0" * 64}}))
    with pytest.raises(UsageError, match="not those of the manifest"):
        suites._ours("qa", tmp_path / "qa.jsonl")
