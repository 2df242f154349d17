"""Suite files: what is tolerated, what is refused with file, line and field, and how a few prompts are drawn."""

from __future__ import annotations

import gzip
import json
import os
import tracemalloc
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from xpress_bench import suites
from xpress_bench.errors import UsageError
from xpress_bench.suites import Item, Suite, jsonl, load_suite, spread

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
        (b'{"prompt": 3}', "line 1: field 'prompt' is int, not text"),
        (b'{"prompt": ["a"]}', "line 1: field 'prompt' is list, not text"),
        (b'{"prompt": null}', "line 1: field 'prompt' is missing"),
        (b"3", "line 1: holds a int"),
        (b"null", "line 1: holds a NoneType"),
        (b'["a"]', "line 1: holds a list"),
        (b'{"prompt": "a", "id": 7}', "line 1: field 'id' is int"),
        (b'{"prompt": "a", "turns": "a"}', "field 'turns' is not a list of texts"),
        (b'\n\r\n{"prompt": "a"}\n \t\n{"prompt": "b", "lang": true}', "line 5: field 'lang' is bool"),
        (b'{"prompt": "a", "references": "x"}', "field 'references' is not a list of texts"),
        (b'{"prompt": "a", "references": [1]}', "field 'references' is not a list of texts"),
        (b'{"prompt": "caf\xe9"}', "line 1: not UTF-8 (byte 15)"),
        (b'{"prompt": "a\x00b"}', "line 1: not JSON"),
        ('{"prompt": "a"}'.encode("utf-16"), "line 1: not UTF-8"),
        (b'{"prompt": "\\ud800"}', "line 1: not JSON"),
        (b"[" * 100_000, "line 1: not JSON"),
        (b"\x00" * 100, "line 1: not JSON"),
        (b'{"prompt": "a"}\n\x00', "line 2: not JSON"),
        (b'{"prompt": "a"} {"prompt": "b"}', "line 1: not JSON"),
        (b'{"prompt": "a"}\r{"prompt": "b"}\r', "line 1: not JSON"),
        (b'{"prompt": "a", "id": ' + b"9" * 5000 + b"}", "line 1: not JSON"),
    ],
)
def test_c42_a_bad_line_is_named(tmp_path: Path, raw: bytes, told: str) -> None:
    assert told in refused(tmp_path, raw)


@pytest.mark.parametrize("key", [key for key in Item.__slots__ if key not in ("prompt", "turns", "references")])
@pytest.mark.parametrize("value", [3, 1.5, True, ["a"], {"a": "b"}])
def test_c42_every_text_field_is_checked(tmp_path: Path, key: str, value: Any) -> None:
    line = json.dumps({"prompt": "a", key: value}).encode()
    assert f"own.jsonl, line 2: field '{key}' is {type(value).__name__}, not text" in refused(tmp_path, b"\n" + line)


def test_a_field_of_null_is_left_at_its_default(tmp_path: Path) -> None:
    line = json.dumps(dict.fromkeys(Item.__slots__) | {"prompt": "a", "unknown": 3}).encode()
    assert loaded(tmp_path, line).items == (Item(id="own-0001", prompt="a"),)


def test_an_item_knows_the_suite_that_it_is_from(tmp_path: Path) -> None:
    assert loaded(tmp_path, b'{"prompt": "a", "suite": "qa"}').items[0].suite == "qa"
    assert {item.suite for item in load_suite("qa").items} == {"qa"}


def test_an_over_long_line_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "MAX_LINE_BYTES", 20)
    assert "line 2: longer than 20 bytes" in refused(tmp_path, b'{"prompt": "a"}\n{"prompt": "aaaaaaaaaaaaa"}')


@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf"])
def test_a_line_may_be_as_long_as_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bytes) -> None:
    line = b'{"prompt": "aaaa"}'
    monkeypatch.setattr(jsonl, "MAX_LINE_BYTES", len(line))
    assert len(loaded(tmp_path, before + line + b"\n" + line).items) == 2
    assert "line 1: longer than" in refused(tmp_path, before + line + b" ")


@pytest.mark.parametrize("limit", ["MAX_LINES", "MAX_BYTES"])
def test_a_file_of_too_many_lines_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(jsonl, limit, 4 if limit == "MAX_LINES" else len(FOUR))
    assert len(loaded(tmp_path, FOUR).items) == 4
    assert "more than" in refused(tmp_path, FOUR + b"\n{")


@pytest.mark.parametrize("packed", [False, True])
def test_an_over_long_line_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    limit, size = 200_000, 8_000_000
    monkeypatch.setattr(jsonl, "MAX_LINE_BYTES", limit)
    raw = b'{"prompt": "' + b"a" * size + b'"}'
    file = tmp_path / "long.jsonl"
    file.write_bytes(gzip.compress(raw) if packed else raw)
    del raw
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match="line 1: longer than 200000 bytes"):
            load_suite(str(file))
        assert tracemalloc.get_traced_memory()[1] < 4 * limit
    finally:
        tracemalloc.stop()


def test_a_packed_file_is_the_same_suite(tmp_path: Path) -> None:
    plain = loaded(tmp_path, FOUR)
    (tmp_path / "own.jsonl.gz").write_bytes(gzip.compress(FOUR))
    assert load_suite(str(tmp_path / "own.jsonl.gz")) == plain
    assert loaded(tmp_path, gzip.compress(FOUR)) == plain  # told by its bytes, not by its name


@pytest.mark.parametrize("broken", [lambda raw: raw[:-12], lambda raw: raw[:20], lambda raw: raw[:-8] + bytes(8)])
def test_damaged_gzip_is_named(tmp_path: Path, broken: Any) -> None:
    raw = gzip.compress(b"\n".join(json.dumps({"prompt": f"a{i * i}"}).encode() for i in range(200)))
    assert "own.jsonl: its gzip data is damaged or cut short" in refused(tmp_path, broken(raw))


def test_a_list_in_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "own.json"
    for text in (
        '\ufeff [{"prompt": "a"},\n {"prompt": "b", "id": "x"}]',
        '{"prompt": "a"}\n{"prompt": "b", "id": "x"}',
    ):
        file.write_text(text, encoding="utf-8")
        assert [item.id for item in load_suite(str(file)).items] == ["own-0001", "x"]
    for text, told in (
        ('[{"prompt": "a"}, 3]', "own.json, record 2: holds a int"),
        ('[{"prompt": "a"}, {"prompt": ""}]', "own.json, record 2: field 'prompt' is missing"),
        ('[{"id": "x", "prompt": "a"}, {"id": "x", "prompt": "b"}]', "record 2: id 'x' stands on record 1 already"),
        ('[{"prompt": "a"},\n{"prompt": ', r"own.json: not JSON (.*line 2"),
        ("[]", "own.json: the suite is empty"),
    ):
        file.write_text(text)
        with pytest.raises(UsageError, match=told.replace("(", r"\(")):
            load_suite(str(file))
    monkeypatch.setattr(jsonl, "MAX_LIST_BYTES", 10)
    file.write_text('[{"prompt": "a"}]')
    with pytest.raises(UsageError, match=r"longer than 10 bytes; give one record per line"):
        load_suite(str(file))


@pytest.mark.parametrize("name", ["gone.jsonl", "gone.jsonl.gz", "gone.json", "folder.jsonl", "folder"])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match=f"{name}: (no such file|is a directory; give FILE.jsonl, or hf:./FOLDER)"):
        load_suite(str(tmp_path / name))


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, opened = tmp_path / "own.jsonl", Path.open

    def forbidden(path: Path, *args: Any, **options: Any) -> Any:
        if path == file:
            raise PermissionError(13, os.strerror(13), str(path))
        return opened(path, *args, **options)

    monkeypatch.setattr(Path, "open", forbidden)  # root may read a file without any mode bits
    with pytest.raises(UsageError, match=r"own.jsonl: permission denied$"):
        load_suite(str(file))


@pytest.mark.parametrize("name", ["a" * 5000, "~nobody-of-this-name/own.jsonl"])
def test_a_name_that_is_no_path(name: str) -> None:
    with pytest.raises(UsageError, match="this is no path"):
        load_suite(name)


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
    assert suite.turns is None
    (tmp_path / "own.jsonl.gz").write_bytes(gzip.compress(FOUR))
    assert load_suite(str(tmp_path / "own.jsonl.gz")).budgets == {"all": 7}
    for text in ("output_budget: {all: many}", "output_budget: 7", "[1]", "a: [", "scorers: {all: 3}"):
        how.write_text(text)
        refused(tmp_path, FOUR)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("output_budget: {all: true}", "'output_budget'"),
        ("output_budget: {all: -5}", "'output_budget'"),
        ("output_budget: {1: 5}", "'output_budget'"),
        ("parity_margin: x", "'parity_margin' is 'x'"),
        ("parity_margin: .nan", "'parity_margin' is nan"),
        ("parity_margin: 2", "'parity_margin' is 2"),
        ("smoke: 3", "'smoke' is 3"),
        ("smoke: [3]", "'smoke' is [3]"),
        ("report: {by: colour}", "'report' is {'by': 'colour'}"),
        ("turns: 2001-99-99", "not YAML (month must be in 1..12)"),
        ("a: " + "9" * 5000, "not YAML"),
        ("[" * 5000, "not YAML"),
        ("a: " + "x" * 100_000, "larger than 100000 bytes"),
        ("a: !!python/object/apply:os.getcwd []", "not YAML"),
    ],
)
def test_a_wrong_setting_is_named_with_its_file(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "own.suite.yaml").write_text(text)
    said = refused(tmp_path, FOUR)
    assert "own.suite.yaml: " in said
    assert told in said


def test_aliases_that_stand_for_a_gigabyte_are_told_in_short(tmp_path: Path) -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]" for before, name in pairwise("abcdefghi")]
    (tmp_path / "own.suite.yaml").write_text("\n".join([*lines, "turns: *i"]))
    assert len(refused(tmp_path, FOUR)) < 500


def test_how_many_turns_are_run(tmp_path: Path) -> None:
    how = tmp_path / "own.suite.yaml"
    how.write_text("turns: 2")
    assert loaded(tmp_path, FOUR).turns == 2
    for value in ("0", "-1", "1.5", "true", "many", "[1]"):
        how.write_text(f"turns: {value}")
        assert "suite setting 'turns' is " in refused(tmp_path, FOUR)


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
