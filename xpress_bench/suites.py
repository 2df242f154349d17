"""Prompt suites: fixed lists of prompts with references, budgets and scorers. No torch.

A suite is a JSONL file of items, beside it a YAML file that says how it is run and scored. Ours are inside the package
and checked against their manifest; a user's file needs only a `prompt` per line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from xpress_bench.errors import UsageError
from xpress_bench.registry import Registry

DEFAULT_BUDGET = 128  # new tokens, where a suite does not say
MAX_LINE_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class Item:
    """One prompt. `references` are accepted answers; `answer_type` is exact, set, date, text or none."""

    id: str
    prompt: str
    category: str = "all"
    lang: str = "en"
    turns: tuple[str, ...] | None = None
    references: tuple[str, ...] = ()
    answer_type: str = "none"
    source: str = ""
    source_id: str = "user"
    licence: str = ""
    origin: str = "user"
    memorised: str = "unknown"


@dataclass(frozen=True, slots=True)
class Suite:
    """Items and how to run them. `sha256` is over the bytes of the JSONL file; runs compare only where it matches."""

    name: str
    version: str
    sha256: str
    items: tuple[Item, ...]
    budgets: dict[str, int] = field(default_factory=dict)
    scorers: dict[str, str] = field(default_factory=dict)
    parity_margin: float | None = None
    smoke: tuple[str, ...] = ()

    def budget(self, item: Item) -> int:
        """Most new tokens of an item's answer."""
        return self.budgets.get(item.category, DEFAULT_BUDGET)


T = TypeVar("T")


def spread(things: Sequence[T], limit: int | None) -> Sequence[T]:
    """`limit` of them at even distances: items lie grouped by category, so each category keeps its share."""
    if limit is None or limit >= len(things):
        return things
    return [things[index * len(things) // limit] for index in range(limit)]


SUITES: Registry[Path] = Registry("suites")


def folder() -> Path:
    """Where the package's suites lie: inside the wheel, or at the top of a checkout."""
    inside = Path(__file__).parent / "_suites"
    return inside if inside.is_dir() else Path(__file__).parent.parent / "suites"


for _file in sorted(folder().glob("*.jsonl")):
    SUITES.add(_file.stem, _file, "fixed suite of the package")


def load_suite(name: str) -> Suite:
    """A suite by name, or a JSONL file of a user's. Raises UsageError naming file, line and field."""
    if name in SUITES:
        return _ours(name, SUITES.get(name))
    file = Path(name).expanduser()
    if file.suffix == ".jsonl" or file.is_file():
        return _from_file(file, file.stem, "user")
    raise UsageError(f"{SUITES.unknown(name)}; a file of your own is given as FILE.jsonl")


def _ours(name: str, file: Path) -> Suite:
    manifest = json.loads((file.parent / "MANIFEST.json").read_text(encoding="utf-8"))[name]
    suite = _from_file(file, name, str(manifest.get("version", "1")))
    if suite.sha256 != manifest["sha256"]:
        raise UsageError(
            f"{file}: its bytes are not those of the manifest ({suite.sha256[:12]}, expected {manifest['sha256'][:12]})"
        )
    return suite


def _from_file(file: Path, name: str, version: str) -> Suite:
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise UsageError(f"suite {file}: {(error.strerror or str(error)).lower()}") from error
    items = tuple(_items(raw, file))
    if not items:
        raise UsageError(f"{file}: the suite is empty")
    how = _how(file.with_name(f"{file.stem}.suite.yaml"))
    return Suite(
        name=name,
        version=version,
        sha256=hashlib.sha256(raw).hexdigest(),
        items=items,
        budgets=_table(how, "output_budget", int),
        scorers=_table(how, "scorers", str),
        parity_margin=how.get("parity_margin"),
        smoke=tuple(how.get("smoke", ())),
    )


def _how(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    import yaml

    try:
        body = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not YAML ({' '.join(str(error).split())})") from error
    if not isinstance(body, dict):
        raise UsageError(f"{file}: holds no table of settings")
    return body


def _table(how: dict[str, Any], key: str, kind: type[Any]) -> dict[str, Any]:
    table = how.get(key) or {}
    if not isinstance(table, dict) or not all(isinstance(value, kind) and value for value in table.values()):
        raise UsageError(f"suite setting {key!r} is {table!r}: give one {kind.__name__} per category")
    return table


def _items(raw: bytes, file: Path) -> Iterator[Item]:
    """Items of a JSONL file; a BOM, CRLF and blank lines are tolerated and counted as lines (C42)."""
    seen: dict[str, int] = {}
    for number, line in enumerate(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if not line.strip():
            continue
        item = _item(line, f"{file}, line {number}", f"{file.stem}-{number:04d}")
        if item.id in seen:
            raise UsageError(f"{file}, line {number}: id {item.id!r} stands on line {seen[item.id]} already")
        seen[item.id] = number
        yield item


def _item(line: bytes, where: str, default_id: str) -> Item:
    if len(line) > MAX_LINE_BYTES:
        raise UsageError(f"{where}: longer than {MAX_LINE_BYTES} bytes")
    try:
        body = json.loads(line.decode("utf-8"))
        json.dumps(body, ensure_ascii=False).encode("utf-8")  # half of an escaped pair, \ud800, is no text
    except UnicodeDecodeError as error:
        raise UsageError(f"{where}: not UTF-8 (byte {error.start})") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not JSON ({error})") from error
    if not isinstance(body, dict):
        raise UsageError(f"{where}: holds a {type(body).__name__}, not an object")
    if not isinstance(body.get("prompt"), str) or not body["prompt"].strip():
        raise UsageError(f"{where}: field 'prompt' is missing or empty")
    known: dict[str, Any] = {"id": default_id}
    for key in Item.__slots__:
        value = body.get(key)
        if value is not None:
            known[key] = _checked(key, value, where)
    return Item(**known)


def _checked(key: str, value: Any, where: str) -> Any:
    if key in ("references", "turns"):
        if not isinstance(value, list) or not all(isinstance(part, str) for part in value):
            raise UsageError(f"{where}: field {key!r} is not a list of texts")
        return tuple(value)
    if not isinstance(value, str):
        raise UsageError(f"{where}: field {key!r} is {type(value).__name__}, not text")
    return value
