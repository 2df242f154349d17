"""How every plot looks, and how it becomes a file. With `plots` the only file that knows matplotlib.

Colours are those of Okabe and Ito (2008), which colour-blind people tell apart; arms also differ in marker, line and
hatch, for print in grey. A figure gives the same bytes whenever it is saved.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from io import BytesIO
from typing import Any, Literal, NamedTuple

from xpress_bench.errors import UsageError
from xpress_bench.publish.lines import printable
from xpress_bench.publish.view import View

try:
    from matplotlib import rc_context
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator, PercentFormatter
except ImportError:
    raise UsageError("plots need matplotlib: pip install 'xpress-bench[plots]'") from None

INK = "#1b1f24"  # text, axes and the first arm; a page replaces it by its own colour of text
WIDTH = 6.4  # inches: a column of text
STYLE: Any = {  # matplotlib's own type lists every key of one version
    "font.size": 9,
    "axes.titlesize": 9,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.handlelength": 3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "hatch.linewidth": 0.6,
    "text.parse_math": False,  # names may hold dollar signs
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "xpress-bench",
    "pdf.fonttype": 42,  # many publishers refuse Type 3 fonts
}
Format = Literal["svg", "pdf", "png"]
FORMATS: tuple[Format, ...] = ("svg", "pdf", "png")
METADATA: Mapping[Format, dict[str, None]] = {
    "svg": dict.fromkeys(("Creator", "Date", "Format", "Type")),
    "pdf": dict.fromkeys(("Creator", "Producer", "CreationDate")),
    "png": {"Software": None},
}
PNG_DPI = 200
LONGEST = 28  # characters of a name


class Look(NamedTuple):
    """How an arm is drawn."""

    colour: str
    marker: str
    line: str
    hatch: str


LOOKS = (
    Look(INK, "o", "-", ""),
    Look("#0072B2", "s", "--", "////"),
    Look("#D55E00", "^", "-.", "----"),
    Look("#009E73", "D", ":", "xxx"),
    Look("#CC79A7", "v", "-", "\\\\"),
    Look("#E69F00", "P", "--", "|||"),
    Look("#56B4E9", "X", "-.", "+++"),
)


def styled() -> AbstractContextManager[None]:
    """Figures are drawn inside it."""
    return rc_context(STYLE)


def file_of(figure: Figure, layout: Format, transparent: bool = False) -> bytes:
    """The figure as a file, white behind it or nothing."""
    out = BytesIO()
    with styled(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # of a name in a script that the font lacks
        figure.savefig(out, format=layout, dpi=PNG_DPI, metadata=METADATA[layout], transparent=transparent)
    return out.getvalue()


def sheet(height: float) -> tuple[Figure, Axes]:
    """A figure of the width of a column, `height` in inches."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.add_subplot()


def looks(view: View) -> dict[str, Look]:
    return {one.arm.name: LOOKS[at % len(LOOKS)] for at, one in enumerate(view.of.arms)}


def line(look: Look) -> dict[str, Any]:
    return {"color": look.colour, "linestyle": look.line, "marker": look.marker, "markersize": 4, "linewidth": 1.4}


def fill(look: Look) -> dict[str, Any]:
    """Of a bar: pale inside, so that the hatch is seen."""
    return {"facecolor": (look.colour, 0.45), "edgecolor": look.colour, "hatch": look.hatch, "linewidth": 0.8}


def name(text: str) -> str:
    """Untrusted text of a length that fits; matplotlib would drop a legend that begins with an underscore."""
    told = printable(text)
    return f" {told}" if told.startswith("_") else told if len(told) <= LONGEST else f"{told[: LONGEST - 1]}…"


def logarithmic(axes: Axes, values: Sequence[float], pad: float) -> None:
    """The x axis, logarithmic from the least to the most of `values` with numbers that people write, like 1.5."""
    low, high = min(values) / (1 + pad), max(values) * (1 + pad)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    subs = (1, 1.5, 2, 3, 5, 8) if high < 10 * low else (1, 2, 5)
    axes.xaxis.set_major_locator(LogLocator(subs=subs) if high > 2 * low else MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    plain(axes.xaxis)


def plain(axis: Axis) -> None:
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def whole(axis: Axis) -> None:
    """Ticks at whole numbers."""
    axis.set_major_locator(MaxNLocator(integer=True))


def per_cent(axis: Axis) -> None:
    """Shares as per cent."""
    axis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
