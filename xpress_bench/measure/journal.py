"""Write a journal line by line. What is written stays: lines are flushed one by one and never rewritten."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from xpress_bench.errors import RunError, UsageError
from xpress_bench.records import JOURNAL, Record, to_line


def new_run_folder(out: Path, name: str) -> Path:
    """Make `out/name`, or `out/name-2` and so on. Raises UsageError if the place cannot be written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for suffix in ("", *(f"-{number}" for number in range(2, 1000))):
            folder = out / f"{name}{suffix}"
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            (folder / JOURNAL).touch()
            return folder
    except OSError as error:
        raise UsageError(f"output folder {out}: {error.strerror}; choose another with --out FOLDER") from error
    raise UsageError(f"output folder {out}: holds {name} a thousand times already")


class Journal:
    """Appends records to a run's journal."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / JOURNAL
        self._handle: IO[str] | None = None

    def __enter__(self) -> Self:
        _drop_torn_line(self.file)
        self._handle = self.file.open("a", encoding="utf-8")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle is not None:
            with suppress(OSError):  # what could not be written has been told by `write`
                self._handle.close()

    def write(self, record: Record) -> None:
        """One line, handed to the operating system before this returns. Raises RunError when the disk refuses."""
        if self._handle is None:
            raise RunError(f"{self.file}: written outside its `with` block")
        try:
            self._handle.write(to_line(record) + "\n")
            self._handle.flush()
        except OSError as error:
            name = os.strerror(error.errno) if error.errno else str(error)
            raise RunError(
                f"{self.file}: {name}; what was written before stays readable with `xpress-bench report`"
            ) from error


def _drop_torn_line(file: Path) -> None:
    """A writer that was killed may have left half a line; the next line must not be glued to it."""
    if file.is_file() and not (held := file.read_bytes()).endswith(b"\n"):
        os.truncate(file, held.rfind(b"\n") + 1)
