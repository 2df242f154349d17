"""The journal's lines: what is written comes back, nothing else is accepted, and a bad line is named."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from xpress_bench import journals
from xpress_bench.errors import UsageError
from xpress_bench.journals import Record, from_line, read_run, to_line
from xpress_bench.records import (
    JOURNAL,
    PACKED,
    Arm,
    Cell,
    Condition,
    Footer,
    Header,
    Memory,
    Replay,
    Skipped,
    Steps,
    Trace,
)

GREEDY = Condition(0.0, "greedy")
HEADER = Header(
    run="r",
    created_utc="2026-01-31T12:00:00+00:00",
    argv=("--suite", "你好.jsonl"),
    settings={"suite": "qa", "seeds": [0, 1], "repeats": 1, "launches": 1}
    | {part: {"name": part} for part in ("target", "drafter", "refiner")},
    settings_sha256="0",
    suite={"name": "qa", "sha256": "0" * 64, "items": 2, "selected": 2},
    target={"name": "toy", "dtype": "float64", "device": "cpu", "stop_ids": [1, 2]},
    arms=(Arm("draft", "dflash", None, 8, 1, None, {"drafter": "ab"}),),
    conditions=(GREEDY, Condition(0.7, "coupled")),
    prompts=("p", "q"),
    skipped=(Skipped("s", "too long"),),
    versions={"torch": None},
    git={},
    machine={"hard": {"cpu": 2}},
    profile="quick",
    in_process=True,
)
STEPS = Steps((2, 1), (1, 1), (2, 2), ((4, 5), (6,)), ((4, 9), (6,)), (0.1, 0.2), (0.0, 0.1), (0.3, 0.4))
CELL = Cell(0, "p", 1, "draft", 0, 2, GREEDY, 3, "abc", (4, 5, 6), "été\u2028", "eos", 1.5, 0.5, 0.5, 0.1, STEPS)
RECORDS: list[Record] = [
    HEADER,
    CELL,
    Cell(0, "q", 1, "draft", 0, 0, GREEDY, 3, "abc", error="RuntimeError: out of memory"),
    Memory("draft", "process_peak_rss", 7),
    Memory("draft", "nvml_device_peak_minus_idle", None, 1, 2, "GPU-1", "not readable"),
    Replay("p", 1, "draft", GREEDY, 3, 5, None, None, None, "real"),
    Trace("p", 1, "draft", GREEDY, (4, 5, 6), (2, 1), (((4,), (5,)), ()), ((0.5,), ()), ((0.1,), ())),
    Footer(2, 1, True, 3.5),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_comes_back_from_one_line(record: Record) -> None:
    line = to_line(record)
    assert "\n" not in line
    assert from_line(line) == record


def test_nan_is_refused_both_ways() -> None:
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            to_line(Footer(1, 0, True, value))
    for text in ("NaN", "Infinity", "-Infinity"):
        with pytest.raises(ValueError, match=f"{text} is not JSON"):
            from_line(f'{{"kind":"footer","cells":1,"errors":0,"complete":true,"seconds":{text}}}')


def test_what_utf_8_cannot_hold_does_not_stop_the_writing() -> None:
    assert from_line(to_line(Memory("caf\udce9", "process_peak_rss", 7)).encode().decode()).arm == "caf?"


def journal(folder: Path, *lines: str | bytes) -> Path:
    raw = [line.encode() if isinstance(line, str) else line for line in lines]
    (folder / "journal.jsonl").write_bytes(b"\n".join(raw))
    return folder


def test_a_run_is_read_back(tmp_path: Path) -> None:
    folder = journal(tmp_path, *map(to_line, RECORDS), "")
    run = read_run(folder)
    assert (run.header, run.footer, run.folder) == (HEADER, RECORDS[-1], tmp_path)
    assert ([*run.cells], [*run.memory], [*run.replays]) == (RECORDS[1:3], RECORDS[3:5], RECORDS[5:6])
    assert [*run.traces] == RECORDS[6:7]
    assert read_run(folder / "journal.jsonl") == run


@pytest.mark.parametrize("cut", [1, 40, len(to_line(CELL).encode()) - 1])
def test_a_torn_last_line_is_dropped(tmp_path: Path, cut: int) -> None:
    run = read_run(journal(tmp_path, to_line(HEADER), to_line(CELL), to_line(CELL).encode()[:cut]))
    assert (run.cells, run.footer) == ((CELL,), None)


def test_a_line_torn_inside_a_character_is_dropped_too(tmp_path: Path) -> None:
    torn = to_line(CELL).encode().partition("é".encode())[0] + b"\xc3"
    assert read_run(journal(tmp_path, to_line(HEADER), torn)).cells == ()


@pytest.mark.parametrize(
    "bad",
    [
        b'{"kind":"cell"',
        b"5",
        b"[]",
        b"",
        b"\xff",
        b'{"kind":"cake"}',
        b'{"cells":1}',
        b'{"kind":"footer","cells":1,"errors":0,"complete":true,"seconds":NaN}',
        b'{"kind":"footer","cells":1,"errors":0,"complete":true,"seconds":1,"more":2}',
        b'{"kind":"footer","cells":1,"errors":0,"complete":true,"seconds":1e999}',
        b'{"kind":"footer","cells":"1","errors":0,"complete":true,"seconds":1}',
        b'{"kind":"footer","cells":1,"errors":0,"complete":null,"seconds":1}',
        to_line(CELL).replace('"latency_s":1.5', '"latency_s":-1.5').encode(),
        to_line(CELL).replace('"offered":[2,1]', '"offered":[2,-1]').encode(),
        to_line(CELL).replace('"offered":[2,1]', '"offered":null').encode(),
        to_line(CELL).replace('"offered":', '"offred":').encode(),
        to_line(CELL).replace('"ids":[4,5,6]', '"ids":[4,"5",6]').encode(),
        to_line(CELL).replace('"stop_reason":"eos"', '"stop_reason":"bored"').encode(),
        b'{"kind":"cell","steps":' + b"[" * 100_000,
    ],
)
def test_a_bad_line_elsewhere_is_named(tmp_path: Path, bad: bytes) -> None:
    with pytest.raises(UsageError, match=r"journal\.jsonl, line 2: not a journal record") as caught:
        read_run(journal(tmp_path, to_line(HEADER), bad, to_line(CELL), ""))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], "has 0"),
        ([to_line(HEADER)[:50]], "no complete line"),
        ([to_line(CELL), to_line(HEADER), ""], "starts with exactly one header"),
        ([to_line(HEADER), to_line(HEADER), ""], "has 2"),
        ([to_line(HEADER).replace('"schema":1', '"schema":99'), ""], "schema 99"),
    ],
)
def test_a_journal_without_its_header_is_refused(tmp_path: Path, lines: list[Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        read_run(journal(tmp_path, *lines))


def test_a_missing_journal_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give the run folder"):
        read_run(tmp_path)


def packed(folder: Path, data: bytes) -> Path:
    (folder / PACKED).write_bytes(data)
    return folder


def test_a_packed_journal_is_read_as_the_plain_one(tmp_path: Path) -> None:
    text = "".join(f"{to_line(one)}\n" for one in RECORDS).encode()
    run = read_run(packed(tmp_path, gzip.compress(text)))
    assert run == read_run(tmp_path / PACKED)
    (tmp_path / JOURNAL).write_bytes(text)
    assert read_run(tmp_path / JOURNAL) == run
    (tmp_path / PACKED).write_bytes(b"of another time")
    assert read_run(tmp_path) == run  # where both are, the plain one is the run's own


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: b"plain", lambda data: data[:20] + data[40:]])
def test_a_damaged_packed_journal_is_refused(tmp_path: Path, damage: Any) -> None:
    data = gzip.compress(f"{to_line(HEADER)}\n{to_line(CELL)}\n".encode())
    with pytest.raises(UsageError, match="damaged or cut short"):
        read_run(packed(tmp_path, damage(data)))


def test_a_packed_journal_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals, "MAX_JOURNAL_BYTES", 2**20)
    endless = zlib.compressobj(9, zlib.DEFLATED, 31)
    line = f"{to_line(CELL)}\n".encode()
    data = endless.compress(f"{to_line(HEADER)}\n".encode() + line * (2**20 // len(line) + 1)) + endless.flush()
    with pytest.raises(UsageError, match="more than 1048576 bytes"):
        read_run(packed(tmp_path, data))


def test_steps_that_do_not_line_up_are_refused() -> None:
    uneven = replace(CELL, steps=replace(CELL.steps, accepted=(*CELL.steps.accepted, 1)))
    with pytest.raises(ValueError, match="one entry per step"):
        from_line(to_line(uneven))


@pytest.mark.parametrize("name", ["settings", "suite", "target"])
def test_a_header_without_what_readers_rely_on_is_refused_by_name(tmp_path: Path, name: str) -> None:
    file = tmp_path / JOURNAL
    file.write_text(to_line(replace(HEADER, **{name: {}})) + "\n")
    with pytest.raises(UsageError, match=f"the header's {name} cannot be used"):
        read_run(file)


def test_a_header_with_half_a_character_is_refused(tmp_path: Path) -> None:
    file = tmp_path / JOURNAL
    file.write_text(to_line(HEADER).replace('"name":"qa"', '"name":"qa","\\ud800":1') + "\n")
    with pytest.raises(UsageError, match="the header's suite cannot be used"):
        read_run(file)
