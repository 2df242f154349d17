"""What was computed of submissions before: reading a journal takes seconds, and a site has many.

A shelf is kept outside the repository, where no submission can put anything on it. An entry is found by the bytes of
its bundle and of the code that made it, so it is never stale.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import msgspec

import xpress_bench
from xpress_bench.analyse.intervals import Unknown
from xpress_bench.publish.bundle import Bundle, RefusedError
from xpress_bench.publish.checks.submission import Submission
from xpress_bench.publish.standings import Entry, entry_of
from xpress_bench.publish.submissions import admitted
from xpress_bench.suites import folder as suites_folder

PARTS = ("*.py", "analyse/*.py", "publish/**/*.py", "suites/*.py")  # of the package: what an entry depends on
LIBRARIES = ("numpy", "scipy", "sacrebleu", "matplotlib")


@dataclass(frozen=True, slots=True)
class Picture:
    """A plot: `file` is its name in the folder of its entry."""

    title: str
    caption: str
    file: str


@dataclass(frozen=True, slots=True)
class Stored:
    """An entry with its plots."""

    entry: Entry
    pictures: tuple[Picture, ...] = ()


class Shelf:
    """Entries by bundle, each in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / code_sha256()[:16]

    def folder_of(self, bundle: Bundle) -> Path:
        """Where the plots of a bundle lie."""
        # The declaration holds the hash of the journal.
        return self._folder / hashlib.sha256(msgspec.json.encode(bundle.declaration)).hexdigest()

    def stored(self, bundle: Bundle) -> Stored:
        """The entry of a bundle, computed if it is not here. Raises UsageError if the bundle is not admitted."""
        file = self.folder_of(bundle) / "entry.json"
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            part = file.with_suffix(".part")
            part.write_bytes(msgspec.json.encode(_computed(bundle, file.parent)))
            part.replace(file)
        return msgspec.json.decode(file.read_bytes(), type=Stored)


def _computed(bundle: Bundle, folder: Path) -> Stored:
    submission = admitted(bundle)
    try:
        return Stored(entry_of(submission, bundle.journal_sha256), tuple(_pictures(submission, folder)))
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


def _pictures(submission: Submission, folder: Path) -> Iterator[Picture]:
    """Every plot of a run, none where matplotlib is not installed."""
    if _version("matplotlib") is None:
        return
    from xpress_bench.publish import canvas, plots
    from xpress_bench.publish.view import views

    for at, view in enumerate(views(submission.run, submission.summary, {})):
        for title, figure in plots.drawn(view).items():
            if not isinstance(figure, Unknown):
                file = folder / f"{at}-{title}.svg"
                file.write_bytes(canvas.file_of(figure, "svg"))
                yield Picture(f"{title.replace('-', ' ')}, {view.of.condition}", plots.PLOTS[title].caption, file.name)
