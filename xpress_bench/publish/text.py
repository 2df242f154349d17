"""A page in the terminal, or as plain text where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from xpress_bench.publish.lines import Line
from xpress_bench.publish.page import Page, Section, Table

PLAIN_WIDTH = 200  # columns of plain text: files and CI logs scroll, a table cut to 80 columns is lost


def show(page: Page, console: Console | None = None) -> None:
    """Print a page; without a terminal it is plain text, neither styled nor cut to a width."""
    console = console or Console()
    if not console.is_terminal:
        console.file.write(plain(page))
        return
    for part in _parts(page, console):
        console.print(part, highlight=False)


def plain(page: Page, width: int = PLAIN_WIDTH) -> str:
    """The page as plain text of at most `width` columns."""
    console = Console(file=StringIO(), width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        for part in _parts(page, console):
            console.print(part, highlight=False)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def _parts(page: Page, console: Console) -> Iterator[RenderableType]:
    # Text, never str: rich reads markup in a str, and prompt ids and error messages may hold brackets.
    yield Text("   ".join(page.title), style="dim")
    for section in page.sections:
        yield from _section(section, console)
    yield Text()
    yield _indented(_lines(page.lines))


def _section(section: Section, console: Console) -> Iterator[RenderableType]:
    yield Text()
    if section.heading:
        yield Text(section.heading, style="bold underline")
    yield _indented(Text(section.verdict, style="bold"))
    yield Text()
    yield _indented(_fitting(section.table, console))
    yield Text()
    if section.breakdown:
        yield _indented(_fitting(section.breakdown, console))
        yield Text()
    yield _indented(_lines(section.lines))


def _fitting(table: Table, console: Console) -> RichTable:
    """The table as it is, or with arms as columns where the terminal is too narrow for its row."""
    wide = _grid((table.columns, *table.rows))
    if Measurement.get(console, console.options, wide).maximum + 2 <= console.width:
        return wide
    return _grid(tuple(zip(table.columns, *table.rows, strict=True)))


def _grid(rows: tuple[tuple[str, ...], ...]) -> RichTable:
    grid = RichTable.grid(padding=(0, 3, 0, 0))
    for at, row in enumerate(rows):
        grid.add_row(*(Text(cell, style="dim" if at == 0 else "") for cell in row))
    return grid


def _lines(lines: tuple[Line, ...]) -> RichTable:
    grid = RichTable.grid(padding=(0, 3, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    previous = None
    for label, text in lines:
        grid.add_row(Text("" if label == previous else label, style="dim"), Text(text))
        previous = label
    return grid


def _indented(part: RenderableType) -> Padding:
    return Padding(part, (0, 0, 0, 2))
