"""The leaderboard as static pages: no server, no request to anywhere else, readable without JavaScript."""

from __future__ import annotations

import math
import shlex
import shutil
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

import xpress_bench
from xpress_bench.errors import UsageError
from xpress_bench.publish import methods
from xpress_bench.publish.bundle import MAX_BYTES, MAX_JOURNAL_BYTES, MAX_LINE_BYTES, PACKED, open_bundle
from xpress_bench.publish.checks import FIRST, THEN
from xpress_bench.publish.shelf import Shelf, Stored
from xpress_bench.publish.standings import MIN_LAUNCHES, MIN_PROMPTS, Span, Standing, boards

TEMPLATES = Path(__file__).parent / "templates" / "site"
ASSETS = ("site.css", "site.js")
MARK = ".xpress-bench-site"  # in a folder whose pages may be replaced
BAR = 200  # units of length of a bar's box
WIDEST = 100.0  # speed-up that is drawn, and slow-down: one wild interval must not squeeze all others
CHOICES = ("suite", "condition", "target", "machine")  # of a board: what the index can be narrowed to
LIMITS = {
    "packed journal, bytes": MAX_BYTES[PACKED],
    "journal, bytes": MAX_JOURNAL_BYTES,
    "line of a journal, bytes": MAX_LINE_BYTES,
    "prompts of a ranked row, at least": MIN_PROMPTS,
    "launches of a ranked row, at least": MIN_LAUNCHES,
}


@dataclass(frozen=True, slots=True)
class Shown:
    """A submission on the site: its packed journal, the folder of its plots, and its entry."""

    journal: Path
    plots: Path
    stored: Stored


@dataclass(frozen=True, slots=True)
class Built:
    """What came of a build. `refused`: one line for each submission that is not on the site."""

    submissions: int
    ranked: int
    refused: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """A logarithmic scale for speed-ups that holds 1 and every interval of a board, as far as it is drawn."""

    low: float
    high: float

    @classmethod
    def of(cls, spans: Iterable[Span]) -> Axis:
        ends = [1.0, *(_drawn(end) for span in spans for end in span[1:])]
        return cls(min(ends) / 1.05, max(ends) * 1.05)

    def at(self, ratio: float) -> int:
        """The place of a ratio in a bar's box."""
        return round(BAR * math.log(_drawn(ratio) / self.low) / math.log(self.high / self.low))


def _drawn(ratio: float) -> float:
    return min(max(ratio, 1 / WIDEST), WIDEST)


def build(submissions: Path, out: Path, cache: Path) -> Built:
    """Build the site of all submissions in a folder; those that break a rule are left out and named.

    `cache`: what was computed of a bundle before. UsageError where `out` holds something else.
    """
    if not submissions.is_dir():
        raise UsageError(f"{submissions}: no folder of submissions; `xpress-bench submit RUN` makes the first")
    shelf, shown, refused = Shelf(cache), list[Shown](), list[str]()
    for folder in sorted(path for path in submissions.iterdir() if path.is_dir() and not path.name.startswith(".")):
        try:
            bundle = open_bundle(folder)
            shown.append(Shown(folder / PACKED, shelf.folder_of(bundle), shelf.stored(bundle)))
        except UsageError as error:
            refused.append(str(error))
    render(shown, out)
    ranked = sum(row.unranked is None for one in shown for row in one.stored.entry.rows)
    return Built(len(shown), ranked, tuple(refused))


def render(shown: Sequence[Shown], out: Path) -> None:
    """Write every page. The same submissions give the same bytes."""
    _clear(out)
    env = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    standings = boards(one.stored.entry for one in shown)
    axes = {board: Axis.of(one.row.span for one in rows if one.row.span) for board, rows in standings.items()}
    env.globals.update(version=xpress_bench.__version__, submissions=len(shown), axes=axes)
    for asset in ASSETS:
        shutil.copyfile(TEMPLATES / asset, out / asset)
    choices = {name: sorted({getattr(board, name) for board in standings}) for name in CHOICES}
    _write(out / "index.html", env.get_template("index.html"), boards=standings, choices=choices)
    _write(out / "methods.html", env.get_template("methods.html"), methods=methods, checks=FIRST + THEN, limits=LIMITS)
    own = _by_name(standings.values())
    template = env.get_template("submission.html")
    for one in shown:
        _submission(one, own[one.stored.entry.name], template, out / "submissions" / one.stored.entry.name)


def _submission(shown: Shown, standings: Sequence[Standing], template: Template, folder: Path) -> None:
    folder.mkdir(parents=True)
    shutil.copyfile(shown.journal, folder / PACKED)
    for picture in shown.stored.pictures:
        shutil.copyfile(shown.plots / picture.file, folder / picture.file)
    entry = shown.stored.entry
    command = shlex.join(["xpress-bench", *entry.argv])
    content = {"entry": entry, "pictures": shown.stored.pictures, "standings": standings, "command": command}
    _write(folder / "index.html", template, packed=PACKED, **content)


def _by_name(boards: Iterable[Sequence[Standing]]) -> dict[str, list[Standing]]:
    found: defaultdict[str, list[Standing]] = defaultdict(list)
    for standing in chain.from_iterable(boards):
        found[standing.entry.name].append(standing)
    return found


def _write(file: Path, template: Template, **content: Any) -> None:
    file.write_text(template.render(content), encoding="utf-8")


def _clear(out: Path) -> None:
    """Make `out` ready for new pages; only what an earlier build made is removed."""
    if out.is_dir() and any(out.iterdir()) and not (out / MARK).is_file():
        raise UsageError(f"{out} holds other files; choose an empty folder with --out DIR")
    out.mkdir(parents=True, exist_ok=True)
    (out / MARK).touch()
    shutil.rmtree(out / "submissions", ignore_errors=True)
