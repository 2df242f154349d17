"""Records of a file, and items of our own format. Every refusal names the file, the line and the field.

Lines are read one at a time, so that an over-long one is refused before it fills the memory. A gzip file is told by its
first bytes; a file whose name ends in .json may hold one list instead of lines.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from xpress_bench.errors import UsageError
from xpress_bench.suites.items import Item

MAX_LINE_BYTES = 4_000_000
MAX_LINES = 1_000_000
MAX_BYTES = 1_000_000_000  # of all lines, unpacked: a gzip file of a megabyte can hold a thousand times as much
MAX_LIST_BYTES = 100_000_000
BOM = b"\xef\xbb\xbf"
GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Row:
    """One record and where it stands: `number` of its `unit` (line, record, row) in `source`, from 1."""

    source: str
    unit: str
    number: int
    fields: Mapping[str, Any]

    def wrong(self, what: str) -> UsageError:
        """The error that says where `what` was found."""
        return UsageError(f"{self.source}, {self.unit} {self.number}: {what}")

    def need(self, key: str) -> Any:
        """The field's value. UsageError if there is none."""
        value = self.fields.get(key)
        if value is None or (isinstance(value, str) and not value.strip()):
            raise self.wrong(f"field {key!r} is missing or empty")
        return value

    def text(self, key: str) -> str:
        """A text that is not blank."""
        value = self.need(key)
        if not isinstance(value, str):
            raise self.wrong(f"field {key!r} is {type(value).__name__}, not text")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """At least one text, none of them blank."""
        value = self.need(key)
        if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
            raise self.wrong(f"field {key!r} is not a list of texts")
        if not value or not all(part.strip() for part in value):
            raise self.wrong(f"field {key!r} is empty or holds an empty text")
        return tuple(value)

    def label(self, key: str) -> str:
        """A text or a whole number, as text."""
        value = self.need(key)
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise self.wrong(f"field {key!r} is {type(value).__name__}, not text or a whole number")
        return str(value)


Convert = Callable[[Row, int], Item]  # a row and its position, from 1, among the rows


def read(file: Path) -> tuple[list[Row], str]:
    """The file's records and the sha256 of its bytes, unpacked if it is a gzip file.

    A BOM, CRLF and blank lines are tolerated; blank lines are counted (C42).
    """
    hashed = hashlib.sha256()
    try:
        with file.open("rb") as raw, gzip.open(raw) if raw.peek(2).startswith(GZIP) else raw as stream:
            return list(_rows(stream, file, hashed.update)), hashed.hexdigest()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UsageError(f"{file}: its gzip data is damaged or cut short ({error})") from error
    except IsADirectoryError as error:
        raise UsageError(f"suite {file}: is a directory; give FILE.jsonl, or hf:./FOLDER for a dataset") from error
    except OSError as error:
        raise UsageError(f"suite {file}: {(error.strerror or str(error)).lower()}") from error


def stem(file: Path) -> str:
    """The file's name without its ending, and without .gz before that."""
    return Path(file.name.removesuffix(".gz")).stem


def items_of(rows: Sequence[Row], convert: Convert) -> tuple[Item, ...]:
    """One item per row. UsageError if an id stands twice."""
    seen: dict[str, Row] = {}
    items = []
    for position, row in enumerate(rows, start=1):
        item = convert(row, position)
        if item.id in seen:
            first = seen[item.id]
            raise row.wrong(f"id {item.id!r} stands on {first.unit} {first.number} already")
        seen[item.id] = row
        items.append(item)
    return tuple(items)


def own_format(name: str) -> Convert:
    """Items of our own format: a `prompt`, and any other field of an item; ids default to `name` and the line."""

    def convert(row: Row, _position: int) -> Item:
        known: dict[str, Any] = {"id": f"{name}-{row.number:04d}", "prompt": row.text("prompt")}
        for key in Item.__slots__:
            value = row.fields.get(key)
            if value is not None:
                known[key] = _checked(row, key, value)
        item = Item(**known)
        if item.turns and item.turns[0] != item.prompt:
            raise row.wrong("field 'turns' does not begin with the prompt")
        return item

    return convert


def _checked(row: Row, key: str, value: Any) -> Any:
    if key in ("references", "turns"):
        if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
            raise row.wrong(f"field {key!r} is not a list of texts")
        return tuple(value)
    if not isinstance(value, str):
        raise row.wrong(f"field {key!r} is {type(value).__name__}, not text")
    return value


def _rows(stream: io.BufferedIOBase, file: Path, tell: Callable[[bytes], None]) -> Iterator[Row]:
    """Rows of an open file; every byte is also told to `tell`."""
    if file.name.removesuffix(".gz").endswith(".json"):
        raw = stream.read(MAX_LIST_BYTES + 1)
        if len(raw) > MAX_LIST_BYTES:
            raise UsageError(f"{file}: longer than {MAX_LIST_BYTES} bytes; give one record per line in a .jsonl file")
        if raw.removeprefix(BOM).lstrip().startswith(b"["):
            tell(raw)
            records = _parsed(raw.removeprefix(BOM), f"{file}")
            yield from (_row(file, "record", number, record) for number, record in enumerate(records, start=1))
            return
        stream = io.BytesIO(raw)
    left = MAX_BYTES
    for number in count(1):
        line = stream.readline(len(BOM) + MAX_LINE_BYTES + 1)
        if not line:
            return
        left -= len(line)
        if left < 0 or number > MAX_LINES:
            raise UsageError(f"{file}: more than {MAX_LINES} lines or {MAX_BYTES} bytes; give fewer prompts")
        tell(line)
        line = line.removeprefix(BOM if number == 1 else b"").removesuffix(b"\n")
        where = f"{file}, line {number}"
        if len(line) > MAX_LINE_BYTES:
            raise UsageError(f"{where}: longer than {MAX_LINE_BYTES} bytes")
        if line.strip():
            yield _row(file, "line", number, _parsed(line, where))


def _row(file: Path, unit: str, number: int, record: Any) -> Row:
    row = Row(str(file), unit, number, record)
    if not isinstance(record, dict):
        raise row.wrong(f"holds a {type(record).__name__}, not an object")
    return row


def _parsed(raw: bytes, where: str) -> Any:
    try:
        body = json.loads(raw.decode("utf-8"))
        json.dumps(body, ensure_ascii=False).encode("utf-8")  # half of an escaped pair, \ud800, is no text
    except UnicodeDecodeError as error:
        raise UsageError(f"{where}: not UTF-8 (byte {error.start})") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not JSON ({error})") from error
    return body
