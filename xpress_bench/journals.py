"""Records <-> the lines of a journal, and a run read back from its file."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, fields
from functools import partial
from itertools import chain
from math import isinf
from pathlib import Path
from typing import Any

import msgspec

from xpress_bench.errors import UsageError
from xpress_bench.records import (
    JOURNAL,
    PACKED,
    SCHEMA,
    Cell,
    Condition,
    Control,
    Counts,
    Footer,
    Header,
    Launch,
    Memory,
    Replay,
    Run,
    Steps,
    Trace,
)


class _Named(msgspec.Struct):
    name: str


class _Settings(msgspec.Struct):
    """What every reader relies on in a header's settings; they may hold more."""

    suite: str
    seeds: tuple[int, ...]
    repeats: int
    launches: int
    target: _Named
    drafter: _Named
    refiner: _Named


class _Suite(msgspec.Struct):
    name: str
    sha256: str
    items: int
    selected: int


class _Target(msgspec.Struct):
    name: str
    dtype: str
    device: str


_TABLES = {"settings": _Settings, "suite": _Suite, "target": _Target}
BUFFER = 2**18  # bytes read at a time: some hundred lines
MAX_LINE_BYTES = 100_000_000
MAX_JOURNAL_BYTES = 2**30  # of one that comes packed: a megabyte can hold a thousand times as much
Record = Header | Launch | Cell | Memory | Replay | Trace | Control | Footer
_KINDS: dict[str, type[Any]] = {
    "header": Header,
    "launch": Launch,
    "cell": Cell,
    "memory": Memory,
    "replay": Replay,
    "trace": Trace,
    "control": Control,
    "footer": Footer,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
# Fields without a word for most runs, whose lines are as they always were.
_SILENT = {"batch": None, "batches": (), "counts": None}


def to_line(record: Record) -> str:
    """One strict-JSON line, without the newline. Raises ValueError on NaN or Infinity.

    What UTF-8 cannot hold, as of a file name in another encoding, becomes a question mark.
    """
    told = {name: value for name, value in asdict(record).items() if name not in _SILENT or value != _SILENT[name]}
    body = {"kind": _NAMES[type(record)], **told}
    line = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return line.encode("utf-8", "replace").decode()


def from_line(line: str | bytes) -> Record:
    """The record of one line. Raises ValueError, KeyError or TypeError on anything else, or on a field's wrong type."""
    text = line.decode("utf-8") if isinstance(line, bytes) else line
    body = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    if not isinstance(body, dict):
        raise TypeError(f"holds a {type(body).__name__}, not an object")
    kind = _KINDS[body.pop("kind")]
    for made, part in ((kind, body), *((one, body.get(one.__name__.lower())) for one in (Steps, Counts, Condition))):
        if isinstance(part, dict) and (unknown := part.keys() - {one.name for one in fields(made)}):
            raise ValueError(f"a {made.__name__.lower()} has no field {min(unknown)!r}")
    try:
        record = msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    if isinstance(record, Cell) and len({len(of) for of in _aligned(record.steps)} - {0}) > 1:
        raise ValueError("the steps of a cell have one entry per step in every field that is not empty")
    return record  # type: ignore[no-any-return]


def _aligned(steps: Steps) -> list[tuple[object, ...]]:
    return [getattr(steps, one.name) for one in fields(steps)]


def read_run(path: Path, parse: Callable[[bytes], Record] = from_line) -> Run:
    """Read a run folder, a submission or a journal file, packed or not. A torn last line is dropped; any other bad line
    is a UsageError.

    `parse` makes a record of a line and raises what `from_line` raises; `analyse.streaming` has one for huge journals.
    """
    file = journal_of(path)
    if not file.is_file():
        raise UsageError(f"no journal at {file}; give the run folder that `xpress-bench --suite ...` printed")
    records = counting(_records(file, parse))
    of: defaultdict[type[Record], list[Any]] = defaultdict(list)
    for record in records:
        of[type(record)].append(record)
    headers: list[Header] = of[Header]
    if len(headers) != 1 or records[0] is not headers[0]:
        raise UsageError(f"{file}: a journal starts with exactly one header, this one has {len(headers)}")
    if headers[0].schema != SCHEMA:
        raise UsageError(f"{file}: written in schema {headers[0].schema}, this version reads schema {SCHEMA}")
    _refuse_lean(headers[0], file)
    return Run(
        header=headers[0],
        cells=tuple(of[Cell]),
        memory=tuple(of[Memory]),
        replays=tuple(of[Replay]),
        footer=of[Footer][-1] if of[Footer] else None,
        folder=file.parent,
        traces=tuple(of[Trace]),
        controls=tuple(of[Control]),
        launches=tuple(of[Launch]),
    )


def journal_of(path: Path) -> Path:
    """The journal in a run folder or in a submission's; any other path is one itself."""
    if not path.is_dir():
        return path
    packed = path / PACKED
    return packed if packed.is_file() and not (path / JOURNAL).is_file() else path / JOURNAL


def _refuse_lean(header: Header, file: Path) -> None:
    for name, table in _TABLES.items():
        try:
            msgspec.convert(getattr(header, name), table)
        except (msgspec.ValidationError, UnicodeError) as error:  # a lone surrogate is no text
            raise UsageError(f"{file}: the header's {name} cannot be used ({error})") from None


def counting(records: Iterable[Record]) -> list[Record]:
    """The records that count: the last attempt at a launch, unless it is void, and no footer that one came after.

    What belongs to the whole run and what to each launch come together, in their order.
    """
    kept: defaultdict[int | None, list[Record]] = defaultdict(list)  # by launch
    at = None
    for record in records:
        if isinstance(record, Launch):
            at = record.launch
            if record.event in ("started", "void"):
                kept[at].clear()
                kept[None] = [one for one in kept[None] if not isinstance(one, Footer)]
        whole = isinstance(record, (Header, Memory, Footer))
        kept[None if whole else at].append(record)
    return list(chain.from_iterable(kept.values()))


def _records(file: Path, parse: Callable[[bytes], Record]) -> Iterator[Record]:
    for number, line in enumerate(_lines(file), start=1):
        if line.endswith(b"\n"):
            try:
                yield parse(line)
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise UsageError(f"{file}, line {number}: not a journal record ({error})") from error
        elif len(line) > MAX_LINE_BYTES:
            raise UsageError(f"{file}, line {number}: longer than {MAX_LINE_BYTES} bytes")
        elif number == 1:  # any later line without an end was cut while it was written, and is dropped
            raise UsageError(f"{file}: holds no complete line")


def _lines(file: Path) -> Iterator[bytes]:
    """The lines of a journal, none longer than one byte more than a line may have."""
    with file.open("rb", buffering=BUFFER) as raw:
        if file.suffix != ".gz":
            yield from iter(partial(raw.readline, MAX_LINE_BYTES + 1), b"")
            return
        size = 0
        try:
            with gzip.open(raw) as lines:
                for line in iter(partial(lines.readline, MAX_LINE_BYTES + 1), b""):
                    size += len(line)
                    if size > MAX_JOURNAL_BYTES:
                        raise UsageError(
                            f"{file}: holds more than {MAX_JOURNAL_BYTES} bytes; if you trust it, unpack it first"
                        )
                    yield line
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise UsageError(f"{file}: its gzip data is damaged or cut short ({error})") from error


def _finite(text: str) -> float:
    value = float(text)
    if isinf(value):
        raise ValueError(f"{text} is no finite number")
    return value


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")
