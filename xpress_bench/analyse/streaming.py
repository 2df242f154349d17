"""Journals of any size: every cell is reduced while its line is read, and its trace is dropped.

Of the steps of a request a `Tally` is left. What repeats between cells (outputs, texts, names) is held once. So memory
grows with cells and with what is distinct in them, not with the length of traces, and a line takes microseconds.
Whatever needs no single step is content with that: a report and a comparison are, `explain` is not.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast, get_type_hints

import msgspec
from msgspec import Raw

from xpress_bench.journals import Record, from_line, read_run
from xpress_bench.records import Cell, Condition, Count, Header, Run, Steps
from xpress_bench.tally import Tally, counted

CELL = b'{"kind":"cell",'  # how `to_line` begins a cell; one that begins otherwise is read in full and then reduced
TIMES = ("draft_s", "refine_s", "verify_s")
RECENT = 2**13  # outputs and traces looked up by their text, not parsed again; a launch of 2,000 requests repeats them
T = TypeVar("T")


@contextmanager
def no_collector() -> Iterator[None]:
    """Without Python's search for cycles: it would walk a million cells again and again, and they are in none."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@no_collector()
def read_reduced(path: Path) -> Run:
    """`journals.read_run` with a `Tally` for the steps of each cell: asking for a single one raises AttributeError."""
    return read_run(path, Reducer().record)


class Reducer:
    """Makes records of lines as `journals.from_line` does, cells reduced and equal values held once."""

    def __init__(self) -> None:
        self._held: dict[Any, Any] = {}
        self._condition = lru_cache(RECENT)(self._parsed_condition)
        self._ids = lru_cache(RECENT)(self._parsed_ids)
        self._counts = lru_cache(RECENT)(self._parsed_counts)

    def record(self, line: bytes) -> Record:
        """The record of one line. Raises ValueError, KeyError or TypeError on anything else."""
        if not line.startswith(CELL):
            return self._other(from_line(line))
        cell, once = _line(line), self._held.setdefault
        cell.prompt, cell.arm = once(cell.prompt, cell.prompt), once(cell.arm, cell.arm)
        cell.text, cell.prompt_sha256 = once(cell.text, cell.text), once(cell.prompt_sha256, cell.prompt_sha256)
        cell.condition, cell.ids = self._condition(bytes(cell.condition)), self._ids(bytes(cell.ids))
        cell.steps = self._tally(cell.steps)
        return Cell(*msgspec.structs.astuple(cell))

    def _other(self, record: Record) -> Record:
        if isinstance(record, Header):
            for condition in record.conditions:
                self._once(condition)  # so that those of its cells are the same objects
        return replace(record, steps=cast("Any", record.steps.tally)) if isinstance(record, Cell) else record

    def _once(self, value: T) -> T:
        return self._held.setdefault(value, value)  # type: ignore[no-any-return]

    def _tally(self, steps: Any) -> Tally:
        counts = bytes(steps.offered), bytes(steps.accepted), bytes(steps.committed), bytes(steps.matched)
        return self._counts(*counts).timed(steps.draft_s, steps.refine_s, steps.verify_s)

    def _parsed_condition(self, text: bytes) -> Condition:
        return self._once(Condition(**msgspec.json.decode(text)))

    def _parsed_ids(self, text: bytes) -> tuple[int, ...]:
        return self._once(tuple(map(self._once, _integers(text))))

    def _parsed_counts(self, *texts: bytes) -> Tally:
        tally = counted(*map(_step_counts, texts))
        return tally._replace(rounds=self._once(tuple(map(self._once, tally.rounds))))


def _twin(record: type[Any], types: dict[str, Any], **options: Any) -> Any:
    """A type to decode a record into: its fields and no other, those in `types` as something else."""
    kinds = get_type_hints(record, include_extras=True) | types
    columns = [(one.name, kinds[one.name], *_default(one, kinds[one.name])) for one in fields(record)]
    return msgspec.defstruct(f"{record.__name__}Line", columns, forbid_unknown_fields=True, gc=False, **options)


def _default(one: Field[Any], kind: Any) -> tuple[Any, ...]:
    if one.default is MISSING and one.default_factory is MISSING:
        return ()
    if kind is Raw:
        return (Raw(b"[]"),)
    return (msgspec.field(default_factory=kind),) if one.default is MISSING else (one.default,)


# Raw is JSON that was looked over and not taken apart.
_STEPS = _twin(Steps, {one.name: Raw for one in fields(Steps) if one.name not in TIMES})
_line = msgspec.json.Decoder(
    _twin(Cell, {"condition": Raw, "ids": Raw, "steps": _STEPS}, tag_field="kind", tag="cell")
).decode
_integers = msgspec.json.Decoder(tuple[int, ...]).decode
_step_counts = msgspec.json.Decoder(tuple[Count, ...]).decode
