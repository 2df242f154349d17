"""A page as GitHub Markdown, for a README or a CI summary."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from xpress_bench.publish.lines import Line
from xpress_bench.publish.page import Page, Section, Table

_ACTIVE = re.compile(
    r"([\\`*_|~]|<(?=[a-zA-Z/!?]))|(?<=\])(?=\()"
)  # escaped one by one; the second part takes links apart


def markdown(page: Page) -> str:
    """The page as Markdown with the content of the terminal report."""
    return "\n\n".join(_blocks(page)) + "\n"


def _blocks(page: Page) -> Iterator[str]:
    yield " · ".join(map(_escaped, page.title))
    for section in page.sections:
        yield from _section(section)
    yield _lines(page.lines)


def _section(section: Section) -> Iterator[str]:
    if section.heading:
        yield f"### {_escaped(section.heading)}"
    yield f"**{_escaped(section.verdict)}**"
    yield _table(section.table)
    if section.breakdown:
        yield _table(section.breakdown)
    if section.lines:
        yield _lines(section.lines)


def _table(table: Table) -> str:
    rule = "|".join(["---"] * len(table.columns))
    return "\n".join([_row(table.columns), f"|{rule}|", *map(_row, table.rows)])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(_escaped, cells))} |"


def _lines(lines: Iterable[Line]) -> str:
    return "\n".join(f"- {_escaped(label)}: {_escaped(text)}" for label, text in lines)


def _escaped(text: str) -> str:
    return _ACTIVE.sub(r"\\\1", text)
