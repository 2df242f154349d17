"""What was computed of submissions before: reading a journal takes seconds, and a site has many.

A shelf is kept outside the repository, where no submission can put anything on it. An entry is found by the bytes of
its bundle and of the code that made it, so it is never stale.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path

import msgspec

import xpress_bench
from xpress_bench.errors import UsageError
from xpress_bench.publish.bundle import Bundle, RefusedError
from xpress_bench.publish.standings import Entry, entry_of
from xpress_bench.publish.submissions import admitted
from xpress_bench.suites import folder as suites_folder

PARTS = ("*.py", "analyse/*.py", "publish/**/*.py", "suites/*.py")  # of the package: what an entry depends on
MANY, CHUNK = 32, 4  # bundles: worth other processes, and given to one at a time
LIBRARIES = ("numpy", "scipy", "sacrebleu")


class Shelf:
    """Entries by bundle."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / code_sha256()[:16]

    def fill(self, bundles: Iterable[Bundle]) -> None:
        """Compute what is missing on all CPUs, if it is much. One that is not admitted stays missing."""
        missing = [bundle for bundle in bundles if not self._file(bundle).is_file()]
        if len(missing) >= MANY:
            with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
                for _ in pool.map(self._try, missing, chunksize=CHUNK):
                    pass

    def entry(self, bundle: Bundle) -> Entry:
        """The entry of a bundle, computed if it is not here. Raises UsageError if the bundle is not admitted."""
        file = self._file(bundle)
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            part = file.with_suffix(f".{os.getpid()}")
            part.write_bytes(msgspec.json.encode(_computed(bundle)))
            part.replace(file)
        return msgspec.json.decode(file.read_bytes(), type=Entry)

    def _try(self, bundle: Bundle) -> None:
        with suppress(UsageError):  # whoever asks for the entry is told
            self.entry(bundle)

    def _file(self, bundle: Bundle) -> Path:
        # The declaration holds the hash of the journal.
        return self._folder / f"{hashlib.sha256(msgspec.json.encode(bundle.declaration)).hexdigest()}.json"


def _computed(bundle: Bundle) -> Entry:
    submission = admitted(bundle)
    try:
        return entry_of(submission, bundle.journal_sha256)
    except Exception as error:  # of a journal that keeps every rule and still cannot be shown
        raise RefusedError(
            "page", f"{bundle.folder}: cannot be shown ({type(error).__name__})", "measure again"
        ) from error


def code_sha256() -> str:
    """Of everything but the bundle that an entry depends on."""
    package = Path(xpress_bench.__file__).parent
    files = sorted(file for pattern in PARTS for file in package.glob(pattern))
    digest = hashlib.sha256()
    for file in (*files, suites_folder() / "MANIFEST.json"):
        digest.update(file.read_bytes())
    for name in LIBRARIES:
        digest.update(f"{name} {_version(name)}".encode())
    return digest.hexdigest()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
