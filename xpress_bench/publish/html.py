"""A report as one HTML file: tables, plots, logs, the command and where every number comes from.

It loads nothing and runs no script; the template escapes all text, and the page forbids whatever else it could load.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from xpress_bench.analyse.digits import NONE
from xpress_bench.analyse.evidence import again
from xpress_bench.analyse.intervals import Unknown
from xpress_bench.publish.canvas import INK, file_of
from xpress_bench.publish.lines import Line, printable
from xpress_bench.publish.logs import logs
from xpress_bench.publish.page import Table
from xpress_bench.publish.plots import PLOTS, drawn
from xpress_bench.publish.view import Report, View
from xpress_bench.records import Header

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ID = re.compile(r'(?<=\bid=")|(?<=href="#)|(?<=url\(#)')


class Picture(NamedTuple):
    """A plot inside the page."""

    name: str
    caption: str
    svg: Markup


class Parts(NamedTuple):
    """What a section of the page has besides its tables. `absent`: plots that had nothing to draw, and why."""

    plots: tuple[Picture, ...]
    absent: tuple[Line, ...]
    logs: tuple[tuple[str, Table], ...]


def html(report: Report) -> str:
    """The whole file. The run was read with the steps of its cells."""
    page = report.page
    sections = zip(page.sections, report.views, strict=True)
    environment = Environment(
        loader=PackageLoader("xpress_bench.publish"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(
        page=page,
        sections=[(section, _parts(view, at)) for at, (section, view) in enumerate(sections)],
        command=printable(again(report.header, {})),
        provenance=[tuple(map(printable, line)) for line in _provenance(report.header)],
    )


def _parts(view: View, at: int) -> Parts:
    figures = drawn(view)
    pictures = tuple(
        Picture(name, PLOTS[name].caption, _inline(figure, PLOTS[name].caption, f"{name}-{at}-"))
        for name, figure in figures.items()
        if not isinstance(figure, Unknown)
    )
    absent = tuple((f"no plot of {name}", one.reason) for name, one in figures.items() if isinstance(one, Unknown))
    return Parts(pictures, absent, logs(view))


def _inline(figure: Figure, caption: str, prefix: str) -> Markup:
    """The figure as an element of a page: in the page's own ink, its ids unlike those of every other figure."""
    svg = file_of(figure, "svg", transparent=True).decode()
    svg = _ID.sub(prefix, svg[svg.index("<svg") :]).replace(INK, "currentColor")
    return Markup(svg.replace("<svg", f'<svg role="img" aria-label="{escape(caption)}"', 1))  # matplotlib escaped it


def _provenance(header: Header) -> Iterator[Line]:
    yield from (("run", header.run), ("begun", header.created_utc), ("profile", header.profile))
    for arm in header.arms:
        yield from _flat(f"weights of {arm.name}", arm.checkpoints)
    for name in ("suite", "target", "versions", "git", "machine", "settings"):
        yield from _flat(name, getattr(header, name))
    yield "settings sha256", header.settings_sha256


def _flat(name: str, value: Any) -> Iterator[Line]:
    """A line for each value inside nested ones."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{name} {key}", inner)
    elif isinstance(value, list | tuple):
        yield name, ", ".join(map(str, value)) or NONE
    else:
        yield name, NONE if value is None else str(value)
