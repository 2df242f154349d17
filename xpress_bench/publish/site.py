"""The leaderboard as static pages: no server, no request to anywhere else, readable without JavaScript."""

from __future__ import annotations

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
from xpress_bench.analyse.board import MIN_LAUNCHES, MIN_PROMPTS
from xpress_bench.errors import UsageError
from xpress_bench.journals import MAX_JOURNAL_BYTES
from xpress_bench.publish import methods
from xpress_bench.publish.bundle import MAX_BYTES, MAX_LINE_BYTES, Bundle, open_bundle
from xpress_bench.publish.charts import Axis, charts_of
from xpress_bench.publish.checks import FIRST, THEN
from xpress_bench.publish.shelf import Shelf
from xpress_bench.publish.standings import Entry, Standing, boards
from xpress_bench.records import PACKED

TEMPLATES = Path(__file__).parent / "templates" / "site"
ASSETS = ("site.css", "site.js")
MARK = ".xpress-bench-site"  # in a folder whose pages may be replaced
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
    """A submission on the site: its packed journal, and its entry."""

    journal: Path
    entry: Entry


@dataclass(frozen=True, slots=True)
class Built:
    """What came of a build. `refused`: one line for each submission that is not on the site."""

    submissions: int
    ranked: int
    refused: tuple[str, ...]


def build(submissions: Path, out: Path, cache: Path) -> Built:
    """Build the site of all submissions in a folder; those that break a rule are left out and named.

    `cache`: what was computed of a bundle before. UsageError where `out` holds something else.
    """
    if not submissions.is_dir():
        raise UsageError(f"{submissions}: no folder of submissions; `xpress-bench submit RUN` makes the first")
    shelf, bundles, shown, refused = Shelf(cache), list[Bundle](), list[Shown](), list[str]()
    for folder in sorted(path for path in submissions.iterdir() if path.is_dir() and not path.name.startswith(".")):
        try:
            bundles.append(open_bundle(folder))
        except UsageError as error:
            refused.append(str(error))
    shelf.fill(bundles)
    for bundle in bundles:
        try:
            shown.append(Shown(bundle.folder / PACKED, shelf.entry(bundle)))
        except UsageError as error:
            refused.append(str(error))
    render(shown, out)
    ranked = sum(row.unranked is None for one in shown for row in one.entry.rows)
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
    standings = boards(one.entry for one in shown)
    spans = {board: [one.row.span for one in rows if one.row.span] for board, rows in standings.items()}
    axes = {board: Axis.of(chain.from_iterable(found)) for board, found in spans.items()}
    env.globals.update(version=xpress_bench.__version__, submissions=len(shown), axes=axes)
    for asset in ASSETS:
        shutil.copyfile(TEMPLATES / asset, out / asset)
    choices = {name: sorted({getattr(board, name) for board in standings}) for name in CHOICES}
    _write(out / "index.html", env.get_template("index.html"), boards=standings, choices=choices)
    _write(out / "methods.html", env.get_template("methods.html"), methods=methods, checks=FIRST + THEN, limits=LIMITS)
    own = _by_name(standings.values())
    template = env.get_template("submission.html")
    for one in shown:
        _submission(one, own[one.entry.name], template, out / "submissions" / one.entry.name)


def _submission(shown: Shown, standings: Sequence[Standing], template: Template, folder: Path) -> None:
    folder.mkdir(parents=True)
    shutil.copyfile(shown.journal, folder / PACKED)
    entry = shown.entry
    command = shlex.join(["xpress-bench", *entry.argv])
    _write(
        folder / "index.html",
        template,
        packed=PACKED,
        entry=entry,
        standings=standings,
        command=command,
        charts=charts_of(entry),
    )


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
