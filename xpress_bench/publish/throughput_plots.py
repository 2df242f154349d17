"""Throughput and speed-up against batch size, drawn, and all of it as files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

from xpress_bench.analyse.intervals import Interval, Measure, Unknown
from xpress_bench.analyse.summary import Summary
from xpress_bench.analyse.throughput import Curve, Point, names
from xpress_bench.analyse.throughput import curves as curves_of
from xpress_bench.publish import canvas, folder
from xpress_bench.publish.canvas import INK, LOOKS, name
from xpress_bench.publish.latex import latex
from xpress_bench.publish.markdown import markdown
from xpress_bench.publish.page import Page
from xpress_bench.publish.throughput import csv
from xpress_bench.records import Condition

if TYPE_CHECKING:
    from matplotlib.figure import Figure


APART = 0.04  # doublings between the bars of two arms, which would hide each other


def files(content: Page, summaries: Sequence[Summary], conditions: Sequence[Condition]) -> Iterator[tuple[str, bytes]]:
    """throughput.md, .tex, .csv and the plots of each condition."""
    yield "throughput.md", markdown(content).encode()
    yield "throughput.tex", latex(content).encode()
    yield "throughput.csv", csv(summaries, conditions).encode()
    for condition in conditions:
        heading = None if len(conditions) == 1 else str(condition)
        yield from folder.plots(drawn(curves_of(summaries, condition)), heading)


def drawn(curves: Sequence[Curve]) -> dict[str, Figure | Unknown]:
    """Both plots by name."""
    with canvas.styled():
        return {"throughput": rates(curves), "batch-speed-ups": speed_ups(curves)}


def rates(curves: Sequence[Curve]) -> Figure | Unknown:
    """Tokens per second of each arm against batch size, with 95 % bars."""
    return _against_batch(curves, lambda point: point.tokens_per_s, "tokens per second")


def speed_ups(curves: Sequence[Curve]) -> Figure | Unknown:
    """Speed-up of each arm over direct against batch size, with 95 % bars; it pays above the line."""
    figure = _against_batch(curves, lambda point: point.speed_up, "speed-up vs direct (times)")
    if not isinstance(figure, Unknown):
        figure.axes[0].axhline(1, color=INK, linewidth=0.8)
    return figure


def _against_batch(curves: Sequence[Curve], value: Callable[[Point], Measure], what: str) -> Figure | Unknown:
    figure, axes = canvas.sheet(3.2)
    sizes = set[int]()
    for at, (curve, label, look) in enumerate(zip(curves, names(curves), cycle(LOOKS), strict=False)):
        aside = 2 ** (APART * (at - (len(curves) - 1) / 2))
        measures = {point.batch_size: value(point) for point in curve.points}
        known = {size: one.estimate for size, one in measures.items() if one.estimate is not None}
        if known:
            axes.plot([size * aside for size in known], list(known.values()), **canvas.line(look), label=name(label))
        for size, one in measures.items():
            if isinstance(one, Interval):
                axes.plot([size * aside] * 2, [one.low, one.high], color=look.colour, linewidth=1)
        sizes |= known.keys()
    if not sizes:
        return Unknown("nothing was timed")
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted(sizes), list(map(str, sorted(sizes))))
    axes.set(xlabel="batch size (requests decoded together), log scale", ylabel=what)
    axes.set_ylim(bottom=0)
    axes.legend()
    return figure
