"""From a run to a bundle, and from a bundle back to a run that keeps every rule."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import xpress_bench
from xpress_bench.errors import UsageError
from xpress_bench.publish.bundle import URL, Bundle, Declaration, declare, open_bundle, pack, read_bundle, slug
from xpress_bench.publish.checks import Fault, faults
from xpress_bench.publish.checks.submission import Submission, headline
from xpress_bench.records import JOURNAL, PACKED


def submit(run: Path, out: Path, name: str | None, contact: str | None, url: str | None) -> Path:
    """Make the bundle of a run in `out` and return its folder.

    Raises UsageError, naming every rule that the run breaks; then nothing is left behind.
    """
    journal = run / JOURNAL if run.is_dir() else run
    if not journal.is_file():
        raise UsageError(f"no journal at {journal}; give the run folder that `xpress-bench --suite ...` printed")
    name = name or slug(journal.absolute().parent.name)
    folder = out / name
    if slug(name) != name or not name:
        raise UsageError(f"name {name!r}: give lower-case letters, digits and single hyphens, at most 64: --name NAME")
    if url is not None and not re.match(URL, url):
        raise UsageError(f"url {url!r}: give one that begins with https:// and has less than 200 characters, no blanks")
    if len(contact or "") > 200:
        raise UsageError("contact: give at most 200 characters")
    if folder.exists():
        raise UsageError(f"{folder} is there already; choose another --name")
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out, prefix=".submit-") as scratch:
            part = Path(scratch) / name
            part.mkdir()
            sha256 = pack(journal, part)
            _declare(part, Declaration(name, contact, url, xpress_bench.__version__, (), {PACKED: sha256}))
            part.rename(folder)
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror}; choose another folder with --out DIR") from error
    return folder


def admitted(bundle: Bundle) -> Submission:
    """The submission in a bundle. Raises UsageError if it breaks a rule."""
    submission = Submission(read_bundle(bundle), bundle.declaration)
    _refuse(bundle, faults(submission))
    return submission


def _declare(part: Path, bare: Declaration) -> None:
    """Write the declaration with the figures of the journal beside it."""
    declare(part, bare)
    bundle = open_bundle(part)
    submission = Submission(read_bundle(bundle), bare)
    _refuse(bundle, [fault for fault in faults(submission) if fault.code != "summary"])  # nothing is declared yet
    declare(part, replace(bare, headline=headline(submission.summary)))


def _refuse(bundle: Bundle, found: Sequence[Fault]) -> None:
    if found:
        raise UsageError(f"{bundle.folder.name} is not admitted: {'; '.join(map(str, found))}")
