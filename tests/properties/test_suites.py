"""Suite files: items come back as they were written, and any bytes are parsed or refused."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpress_bench.errors import UsageError
from xpress_bench.suites import Item, load_suite

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
FILLED = TEXT.filter(str.strip)
ITEMS = st.lists(
    st.builds(
        Item, id=TEXT, prompt=FILLED, category=TEXT, lang=TEXT, references=st.lists(TEXT, max_size=3).map(tuple),
        answer_type=TEXT, source=TEXT, source_id=TEXT, licence=TEXT, origin=TEXT, memorised=TEXT, suite=TEXT,
    ),
    min_size=1, max_size=4, unique_by=lambda item: item.id,
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*Item.__slots__, "x"]), inner),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("suite") / "own.jsonl"


@given(ITEMS, st.sampled_from([b"\n", b"\r\n", b"\n\n \n"]), st.booleans(), st.booleans())
def test_items_come_back_as_they_were_written(
    file: Path, items: list[Item], end: bytes, bom: bool, escaped: bool
) -> None:
    lines = [json.dumps(asdict(item), ensure_ascii=escaped).encode() + end for item in items]
    file.write_bytes(b"\xef\xbb\xbf" * bom + b"".join(lines))
    assert list(load_suite(str(file)).items) == items


@given(st.lists(JSON.map(json.dumps).map(str.encode) | st.binary(max_size=20), max_size=3))
def test_any_lines_are_parsed_or_refused(file: Path, lines: list[bytes]) -> None:
    file.write_bytes(b"\n".join(lines))
    with suppress(UsageError):
        items = load_suite(str(file)).items
        assert items
        assert all(item.prompt.strip() for item in items)
