"""Write a journal line by line. What is written stays: lines are flushed one by one and never rewritten."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from xpress_bench.errors import RunError, UsageError
from xpress_bench.journals import Record, from_line, to_line
from xpress_bench.records import JOURNAL, Header

SETTINGS = "settings.json"  # beside the journal: what the child processes of a run read, and whoever resumes it


def stamped(what: str, sha256: str) -> str:
    """The name of a new folder: when, what, and the first of the hash of what was asked for."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%SZ}-{what}-{sha256[:4]}"


def new_folder(out: Path, name: str) -> Path:
    """Make `out/name`, or `out/name-2` and so on: two of one second do not meet.

    Raises UsageError if the place cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        for suffix in ("", *(f"-{number}" for number in range(2, 1000))):
            folder = out / f"{name}{suffix}"
            with suppress(FileExistsError):
                folder.mkdir()
                return folder
    except OSError as error:
        raise UsageError(f"output folder {out}: {error.strerror}; choose another with --out FOLDER") from error
    raise UsageError(f"output folder {out}: holds {name} a thousand times already")


def new_run_folder(out: Path, name: str, settings: str) -> Path:
    """A new folder with the run's settings (JSON) and an empty journal. Raises as `new_folder`, RunError if full."""
    folder = new_folder(out, name)
    write_whole(folder / SETTINGS, settings)
    write_whole(folder / JOURNAL, "")
    return folder


def write_whole(file: Path, text: str) -> None:
    """Write a file so that it holds all of `text` or is not there, whenever the process dies. Raises RunError."""
    part = file.with_suffix(".part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(file)
    except OSError as error:
        raise RunError(f"{file}: {_reason(error)}") from error


@contextmanager
def locked(folder: Path) -> Iterator[int]:
    """Keep a run for this process, and for the children that are given the descriptor, until the last of them ends.

    Raises UsageError if others have it. A lock goes with its process, so none is ever left behind.
    """
    with ExitStack() as stack:
        try:
            handle = stack.enter_context((folder / JOURNAL).open("ab"))
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"{folder}: another process is measuring into it; wait until it has ended") from error
        except OSError as error:
            raise UsageError(f"{folder}: {_reason(error)}") from error
        yield handle.fileno()


class Journal:
    """Appends records to a run's journal, or lines to another file beside it."""

    def __init__(self, folder: Path, name: str = JOURNAL) -> None:
        self.file = folder / name
        self._handle: IO[str] | None = None

    def __enter__(self) -> Self:
        try:
            drop_torn_line(self.file)
            self._handle = self.file.open("a", encoding="utf-8")
        except OSError as error:
            raise self._refused(error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle is not None:
            with suppress(OSError):  # what could not be written has been told by `write`
                self._handle.close()

    def write(self, record: Record) -> None:
        """A record as its line; see `append`."""
        self.append(to_line(record))

    def append(self, line: str) -> None:
        """One line, handed to the operating system before this returns. Raises RunError when the disk refuses."""
        if self._handle is None:
            raise RunError(f"{self.file}: written outside its `with` block")
        try:
            self._handle.write(line + "\n")
            self._handle.flush()
        except OSError as error:
            raise self._refused(error) from error

    def _refused(self, error: OSError) -> RunError:
        kept = "what was written before stays readable with `xpress-bench report`"
        return RunError(f"{self.file}: {_reason(error)}; {kept}")


def header_of(folder: Path) -> Header | None:
    """The header of a run without reading the rest; None as long as nothing is written. Raises XpressError."""
    file = folder / JOURNAL
    try:
        with file.open("rb") as handle:
            line = handle.readline()
    except OSError as error:
        raise RunError(f"{file}: {_reason(error)}") from error
    if not line.endswith(b"\n"):
        return None
    try:
        header = from_line(line.decode("utf-8"))
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{file}, line 1: not a journal record ({error})") from error
    if not isinstance(header, Header):
        raise UsageError(f"{file}, line 1: a journal starts with its header")
    return header


def drop_torn_line(file: Path) -> int:
    """Cut the part of a line that a killed writer left, so that the next is not glued to it. Returns its bytes."""
    size = file.stat().st_size if file.is_file() else 0
    if not size:
        return 0
    with file.open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as held:
        whole = held.rfind(b"\n") + 1
    if whole < size:
        os.truncate(file, whole)
    return size - whole


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)
