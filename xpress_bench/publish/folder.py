"""A report as a folder: the page in three layouts, its plots and its tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from xpress_bench.analyse.intervals import Unknown
from xpress_bench.errors import UsageError
from xpress_bench.publish import canvas, tables_csv
from xpress_bench.publish.html import html
from xpress_bench.publish.latex import latex
from xpress_bench.publish.markdown import markdown
from xpress_bench.publish.plots import drawn
from xpress_bench.publish.view import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_AWKWARD = re.compile(r"[^A-Za-z0-9.]+")  # in the name of a file


def write(out: Path, report: Report) -> None:
    """report.html, report.md, report.tex, tables/*.csv and plots/*.svg, .pdf, .png; errors as `write_all`.

    The run was read with the steps of its cells.
    """
    write_all(out, _files(report))


def write_all(out: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Files by name into a folder. UsageError if `out` cannot be written."""
    try:
        for name, content in files:
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_bytes(content)
    except OSError as error:
        raise UsageError(f"--plot {out}: {error.strerror}; name a folder that can be written") from error


def _files(report: Report) -> Iterator[tuple[str, bytes]]:
    yield "report.md", markdown(report.page).encode()
    yield "report.tex", latex(report.page).encode()
    yield "report.html", html(report).encode()
    for name, text in tables_csv.files(report.header.run, report.views).items():
        yield f"tables/{name}", text.encode()
    for view in report.views:
        yield from plots(drawn(view), view.heading)


def plots(figures: Mapping[str, Figure | Unknown], heading: str | None) -> Iterator[tuple[str, bytes]]:
    """plots/*.svg, .pdf, .png of what there is to draw. `heading`: the condition, None if there is only one."""
    for name, figure in figures.items():
        file = "-".join(filter(None, [name, _AWKWARD.sub("-", heading or "")]))
        if not isinstance(figure, Unknown):
            yield from ((f"plots/{file}.{layout}", canvas.file_of(figure, layout)) for layout in canvas.FORMATS)
