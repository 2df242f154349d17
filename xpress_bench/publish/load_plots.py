"""The plots of a load run: latency and throughput against clients, and how latencies of a stage are spread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from xpress_bench.analyse.intervals import Interval, Measure, Unknown
from xpress_bench.analyse.load import ArmLoad, StageLoad
from xpress_bench.publish import canvas
from xpress_bench.publish.canvas import LOOKS, Look, name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def drawn(stages: Sequence[StageLoad]) -> dict[str, Figure | Unknown]:
    """Every plot by its name."""
    with canvas.styled():
        found: dict[str, Figure | Unknown] = {
            "throughput": _against_load(stages, lambda one: one.figures.tokens_per_s, "tokens per second"),
            "latency": _against_load(stages, lambda one: one.figures.times["latency"][0], "latency, median (s)"),
            "latency-p90": _against_load(stages, lambda one: one.figures.times["latency"][1], "latency, p90 (s)"),
        }
        return found | {f"latencies-{_file(of)}": _spread(of) for of in stages}


def _file(of: StageLoad) -> str:
    return of.stage.name.replace(" ", "-").replace("/", "-per-")


def _against_load(stages: Sequence[StageLoad], measure: Callable[[ArmLoad], Measure], label: str) -> Figure | Unknown:
    """A line for each arm over the clients of the stages, or over their rate, with 95 % intervals."""
    closed = [of for of in stages if of.stage.clients and of.stage.seconds]
    used = closed or [of for of in stages if of.stage.rate]
    points: dict[str, list[tuple[float, Measure]]] = {}
    for of in used:
        for one in of.arms:
            points.setdefault(one.arm, []).append((of.stage.clients or of.stage.rate or 0.0, measure(one)))
    if not any(value.estimate is not None for found in points.values() for _, value in found):
        return Unknown("no stage with several clients or a rate ended")
    figure, axes = canvas.sheet(3.2)
    for nth, ((arm, found), look) in enumerate(zip(points.items(), LOOKS, strict=False)):
        beside = [(at * 1.02**nth, value) for at, value in found]  # so that intervals do not hide each other
        _line(axes, arm, beside, look)
    places = sorted({at for found in points.values() for at, _ in found})
    axes.set_xscale("log")
    canvas.plain(axes.xaxis)
    axes.set_xticks(places, [f"{at:g}" for at in places])
    axes.set(xlabel="clients" if closed else "requests asked per second", ylabel=label, ylim=(0, None))
    axes.legend()
    return figure


def _line(axes: Axes, arm: str, found: Sequence[tuple[float, Measure]], look: Look) -> None:
    known = [(at, value.estimate) for at, value in found if value.estimate is not None]
    axes.plot([at for at, _ in known], [value for _, value in known], **canvas.line(look), label=name(arm))
    for at, value in found:
        if isinstance(value, Interval):
            axes.plot([at, at], [value.low, value.high], color=look.colour, linewidth=1.0)


def _spread(of: StageLoad) -> Figure | Unknown:
    """Empirical distribution of the latency of each arm."""
    if not any(one.figures.latencies_s for one in of.arms):
        return Unknown("no request was answered")
    figure, axes = canvas.sheet(3.2)
    for one, look in zip(of.arms, LOOKS, strict=False):
        if one.figures.latencies_s:
            axes.ecdf(one.figures.latencies_s, color=look.colour, linestyle=look.line, label=name(one.arm))
    canvas.logarithmic(axes, list(chain.from_iterable(one.figures.latencies_s for one in of.arms)), pad=0.02)
    axes.set(xlabel=f"latency of a request (s), {name(of.stage.name)}, log scale", ylabel="share of requests")
    axes.legend(loc="lower right")
    return figure
