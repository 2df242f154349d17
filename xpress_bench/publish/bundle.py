"""A submission as a folder in git: the packed journal and what its submitter declares of it.

Whoever sends one is a stranger. Only two plain files may lie in the folder, each below a size; the journal is unpacked
as a stream that ends at the first byte too many; and a name from outside is never used as a path.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from xpress_bench.analyse.streaming import read_reduced
from xpress_bench.errors import UsageError
from xpress_bench.journals import MAX_JOURNAL_BYTES
from xpress_bench.publish.anonymous import anonymous
from xpress_bench.records import JOURNAL, PACKED, Run

DECLARATION = "declaration.json"
MAX_BYTES = {DECLARATION: 100_000, PACKED: 95_000_000}  # hosts of git repositories refuse files of 100 MB
MAX_LINE_BYTES = 16_000_000
CHUNK_BYTES = 2**20
URL = r"^https://[!-~]{1,190}\Z"  # \Z: a dollar sign lets a line break pass
NAME = r"^[a-z0-9]+(-[a-z0-9]+)*\Z"
Number = float | None
Text = Annotated[str, msgspec.Meta(max_length=200)]


class RefusedError(UsageError):
    """A submission that is not admitted. `code` names the rule."""

    def __init__(self, code: str, what: str, remedy: str) -> None:
        super().__init__(f"[{code}] {what}: {remedy}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Headline:
    """What is said of one arm under one condition. `speed_up`: over direct, as estimate and interval."""

    condition: str
    arm: str
    speed_up: tuple[float, float, float] | None
    latency_s: Number
    tokens_per_step: Number
    identical: Number


@dataclass(frozen=True, slots=True)
class Declaration:
    """Who submits what. `package`: version that made the bundle; `sha256`: of every other file in it."""

    name: Annotated[str, msgspec.Meta(pattern=NAME, max_length=64)]
    contact: Text | None
    url: Annotated[str, msgspec.Meta(pattern=URL)] | None
    package: Text
    headline: Annotated[tuple[Headline, ...], msgspec.Meta(max_length=256)]
    sha256: dict[Text, Text]


@dataclass(frozen=True, slots=True)
class Bundle:
    """A folder whose files are the two that belong there, and whose journal is the one declared."""

    folder: Path
    declaration: Declaration

    @property
    def journal_sha256(self) -> str:
        return self.declaration.sha256[PACKED]


def open_bundle(folder: Path) -> Bundle:
    """Look at a folder without unpacking anything. Raises RefusedError."""
    try:
        _refuse_other_files(folder)
        body = (folder / DECLARATION).read_bytes()
        sha256 = sha256_of(folder / PACKED)
    except OSError as error:
        raise RefusedError("files", f"{folder}: {error.strerror}", "submit the run again") from error
    try:
        declaration = msgspec.json.decode(body, type=Declaration)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise RefusedError(
            "declaration", f"{folder / DECLARATION}: {error}", "let `xpress-bench submit` write it"
        ) from error
    if declaration.name != folder.name:
        raise RefusedError(
            "declaration", f"{folder}: declares the name {declaration.name}", "give the folder its own name"
        )
    if declaration.sha256 != {PACKED: sha256}:
        raise RefusedError(
            "hashes", f"{folder}: the declared hashes are not those of its files", "submit the run again"
        )
    return Bundle(folder, declaration)


def read_bundle(bundle: Bundle) -> Run:
    """The journal of a bundle, reduced. Raises RefusedError before it takes more room than a journal may."""
    packed = bundle.folder / PACKED
    with tempfile.TemporaryDirectory(prefix="xpress-bench-") as scratch:
        file = Path(scratch) / JOURNAL
        try:
            with file.open("wb") as plain:
                for chunk in unpacked(packed):
                    plain.write(chunk)
            return read_reduced(file)
        except UsageError as error:
            if isinstance(error, RefusedError):
                raise
            raise RefusedError("schema", str(error).replace(str(file), str(packed)), "submit the run again") from error


def unpacked(packed: Path) -> Iterator[bytes]:
    """The journal in pieces. Raises RefusedError at the first byte beyond a journal's size or a line's."""
    size = line = 0
    try:
        with gzip.open(packed) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                end = chunk.find(b"\n")  # only the line that goes on from the last piece can be longer than this one
                longest = line + (end if end >= 0 else len(chunk))
                line = len(chunk) - 1 - chunk.rfind(b"\n") if end >= 0 else longest
                size += len(chunk)
                for what, is_bytes, most in (("journal", size, MAX_JOURNAL_BYTES), ("line", longest, MAX_LINE_BYTES)):
                    if is_bytes > most:
                        raise RefusedError(
                            "size", f"{packed}: a {what} of more than {most} bytes", "measure a smaller suite"
                        )
                yield chunk
    except (OSError, EOFError, zlib.error) as error:
        raise RefusedError("files", f"{packed}: not gzip ({error})", "submit the run again") from error


def pack(journal: Path, folder: Path) -> str:
    """Write a journal into `folder` without what is nobody's business (see `anonymous`); returns its sha256."""
    packed = folder / PACKED
    with (
        journal.open("rb") as lines,
        packed.open("wb") as raw,
        # Neither a name nor a time: the same journal gives the same bytes.
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as stream,
    ):
        for line in lines:
            if line.endswith(b"\n"):  # a torn last line does not count
                stream.write(anonymous(line))
    return sha256_of(packed)


def sha256_of(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def declare(folder: Path, declaration: Declaration) -> None:
    """Write the declaration of a bundle."""
    (folder / DECLARATION).write_text(json.dumps(asdict(declaration), indent=1) + "\n", encoding="utf-8")


def slug(text: str) -> str:
    """A name for a submission from any text."""
    return re.sub("[^a-z0-9]+", "-", text.lower()).strip("-")[:64].strip("-")


def _refuse_other_files(folder: Path) -> None:
    if folder.is_symlink():
        raise RefusedError("files", f"{folder}: a link", "submit a folder")
    with os.scandir(folder) as entries:
        found = {entry.name: entry for entry in entries}
    for name, entry in found.items():
        if name not in MAX_BYTES or not entry.is_file(follow_symlinks=False):
            raise RefusedError(
                "files", f"{folder}: holds {name!r}", f"a bundle is {' and '.join(MAX_BYTES)}, plain files, and no more"
            )
        if entry.stat(follow_symlinks=False).st_size > MAX_BYTES[name]:
            raise RefusedError(
                "size", f"{folder / name}: larger than {MAX_BYTES[name]} bytes", "measure a smaller suite"
            )
    missing = MAX_BYTES.keys() - found.keys()
    if missing:
        raise RefusedError("files", f"{folder}: lacks {min(missing)}", "submit the run again")
