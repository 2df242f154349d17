"""Software manuals: SQLite, PostgreSQL, Python and Django."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from xpress_bench.train.corpus.html import html_paragraphs, join_items
from xpress_bench.train.corpus.rst import rst_paragraphs
from xpress_bench.train.corpus.text import Pages, finish

_SQLITE_SKIP = (
    r"releaselog/|syntax|requirements|doc_|consortium_agreement|copyright-release|keyword_index|"
    r"sitemap|toc|cves|hp1|fullsql|np1|c3ref/\w+list$|session/\w+list$|"
    r"search|index$|docs$|chronology"
)


def extract_sqlite(folder: Path) -> Pages:
    """SQLite documentation pages, without indexes, release logs and legal forms."""
    yield from _pages(folder / "usr/share/doc/sqlite3", ".html", _from_html, _SQLITE_SKIP)


def extract_postgresql(folder: Path) -> Pages:
    """PostgreSQL manual pages, without release notes and the bare index."""
    for root in sorted((folder / "usr/share/doc").glob("postgresql-doc-*/html")):
        yield from _pages(root, ".html", _from_html, r"release-|bookindex|index$")


def extract_python(folder: Path) -> Pages:
    """Python documentation sources, without licence texts and contents pages."""
    for root in sorted((folder / "usr/share/doc").glob("python3*[0-9]/html/_sources")):
        yield from _pages(root, ".rst.txt", rst_paragraphs, r"license|contents|copyright")


def extract_django(folder: Path) -> Pages:
    """Django documentation, without the manual page, themes and contents pages."""
    for root in sorted(folder.glob("[dD]jango-*/docs")):
        yield from _pages(root, ".txt", rst_paragraphs, r"man/|requirements|contents|_|.*/_theme")


def _from_html(page: str) -> list[str]:
    return join_items(html_paragraphs(page))


def _pages(root: Path, suffix: str, paragraphs: Callable[[str], list[str]], skip: str) -> Pages:
    """Every page under `root` whose name does not begin with a match of `skip`."""
    seen: set[str] = set()
    for path in sorted(root.rglob("*" + suffix)):
        name = path.relative_to(root).as_posix().removesuffix(suffix)
        if not re.match(skip, name):
            yield name, finish(paragraphs(path.read_text(encoding="utf-8", errors="replace")), seen)
