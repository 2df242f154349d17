"""Journals: any record comes back from its line, and any damage to a file is dropped, read or refused in one line."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpress_bench.errors import UsageError
from xpress_bench.journals import Record, from_line, read_run, to_line
from xpress_bench.records import JOURNAL, Arm, Cell, Condition, Footer, Header, Memory, Replay, Run, Skipped, Steps

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
WHOLE = st.integers(0, 2**40)
SECONDS = st.floats(0, 1e6)
IDS = st.lists(WHOLE, max_size=6).map(tuple)
TABLE = st.dictionaries(TEXT, st.none() | st.booleans() | WHOLE | SECONDS | TEXT, max_size=3)
CONDITIONS = st.builds(Condition, SECONDS, st.sampled_from(["greedy", "coupled", "rejection"]))
STEPS = st.integers(0, 3).flatmap(lambda count: _steps(count))
ARMS = st.builds(
    Arm, TEXT, TEXT | st.none(), TEXT | st.none(), WHOLE | st.none(), WHOLE | st.none(), WHOLE | st.none(),
    st.dictionaries(TEXT, TEXT | st.none(), max_size=2),
)  # fmt: skip
CELLS = st.builds(
    Cell, WHOLE, TEXT, WHOLE, TEXT, WHOLE, WHOLE, CONDITIONS, WHOLE, TEXT, IDS, TEXT,
    st.sampled_from(["eos", "length", "short", None]), SECONDS | st.none(), SECONDS | st.none(), SECONDS | st.none(),
    SECONDS | st.none(), STEPS, TEXT | st.none(), st.integers(1, 9),
)  # fmt: skip
SKIPPED = st.lists(st.builds(Skipped, TEXT, TEXT, WHOLE | st.none()), max_size=2).map(tuple)
PART = {"name": "x"}
SETTINGS, SUITE, TARGET = (  # any table with what readers rely on
    TABLE.map(lambda more, held=held: more | held)
    for held in (
        {"suite": "qa", "seeds": [0], "repeats": 1, "launches": 1, "target": PART, "drafter": PART, "refiner": PART},
        {"name": "qa", "sha256": "0", "items": 1, "selected": 1},
        {"name": "x", "dtype": "float64", "device": "cpu"},
    )
)
HEADERS = st.builds(
    Header, TEXT, TEXT, st.lists(TEXT, max_size=3).map(tuple), SETTINGS, TEXT, SUITE, TARGET,
    st.lists(ARMS, max_size=2).map(tuple), st.lists(CONDITIONS, max_size=2).map(tuple),
    st.lists(TEXT, max_size=3).map(tuple), SKIPPED,
    st.dictionaries(TEXT, TEXT | st.none(), max_size=2), TABLE, TABLE, TEXT, st.booleans(),
    turns=st.dictionaries(TEXT, WHOLE, max_size=2),
)  # fmt: skip
MEMORIES = st.builds(Memory, TEXT, st.just("process_peak_rss"), WHOLE | st.none(), reason=TEXT | st.none())
REPLAYS = st.builds(
    Replay, TEXT, WHOLE, TEXT, CONDITIONS, WHOLE, WHOLE, WHOLE | st.none(), SECONDS | st.none(), SECONDS | st.none(),
    st.sampled_from(["tie", "near_tie", "real"]),
)  # fmt: skip
FOOTERS = st.builds(Footer, WHOLE, WHOLE, st.booleans(), SECONDS)


def _steps(count: int) -> st.SearchStrategy[Steps]:
    counts, times, blocks = (
        st.lists(of, min_size=count, max_size=count).map(tuple) for of in (st.integers(0, 8), SECONDS, IDS)
    )
    return st.builds(Steps, counts, counts, counts, blocks, blocks, times, times, times, counts, counts)


@given(st.text())
def test_any_text_can_be_written(text: str) -> None:
    whole = text.encode("utf-8", "replace").decode()
    raw = to_line(Memory(text, "process_peak_rss", None)).encode()
    assert from_line(raw.decode()) == Memory(whole, "process_peak_rss", None)


@given(HEADERS | CELLS | MEMORIES | REPLAYS | FOOTERS)
def test_any_record_comes_back_from_its_one_line(record: Record) -> None:
    line = to_line(record)
    assert "\n" not in line
    assert from_line(line.encode().decode()) == record


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


def read(folder: Path, raw: bytes) -> Run | None:
    """What is read of those bytes, None if they are refused; nothing but a UsageError may be raised."""
    (folder / JOURNAL).write_bytes(raw)
    try:
        return read_run(folder)
    except UsageError:
        return None


@given(HEADERS, st.lists(CELLS, max_size=3), FOOTERS, st.data())
def test_whatever_is_cut_off_the_end_the_whole_lines_before_it_are_read(
    folder: Path, header: Header, cells: list[Cell], footer: Footer, data: st.DataObject
) -> None:
    raw = "".join(to_line(one) + "\n" for one in (header, *cells, footer)).encode()
    length = data.draw(st.integers(0, len(raw)))
    found, whole = read(folder, raw[:length]), raw[:length].count(b"\n")
    assert (found is None) == (whole == 0)
    if found:
        assert found.cells == tuple(cells[: whole - 1])
        assert found.footer == (footer if whole == len(cells) + 2 else None)


@given(HEADERS, CELLS, st.integers())
def test_damage_anywhere_is_read_or_refused(folder: Path, header: Header, cell: Cell, seed: int) -> None:
    rng, raw = random.Random(seed), bytearray(f"{to_line(header)}\n{to_line(cell)}\n".encode())
    for _ in range(rng.randint(1, 4)):
        raw[rng.randrange(len(raw))] = rng.randrange(256)
    read(folder, bytes(raw))
