"""The plots of a sweep: what each value of a factor reaches, with its interval and the knee."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xpress_bench.analyse.contest import Contest
from xpress_bench.analyse.intervals import Interval, Measure
from xpress_bench.analyse.sweep import Factor, Measured, Sweep
from xpress_bench.publish import canvas
from xpress_bench.publish.canvas import INK, LOOKS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def drawn(sweep: Sweep) -> dict[str, Figure]:
    """Figures by name: for each factor tokens per step, and the speed-up where it was timed."""
    found = {}
    with canvas.styled():
        for at, factor in enumerate(sweep.factors, start=1):
            if not factor.measured:
                continue
            name = f"{at}-{'-'.join(key.rpartition('.')[2] for key in factor.keys)}"
            tokens = {job: one.tokens_per_step for job, one in factor.measured.items()}
            found[f"{name}-tokens-per-step"] = _figure(factor, factor.by_tokens, tokens, "tokens per verify step")
            if not factor.counts:
                speeds = {job: one.speed_up for job, one in factor.measured.items()}
                found[f"{name}-speed-up"] = _figure(factor, factor.by_speed, speeds, "speed-up vs direct (times)")
    return found


def _figure(factor: Factor, contest: Contest, measures: dict[str, Measure], label: str) -> Figure:
    figure, axes = canvas.sheet(3.2)
    for at, point in enumerate(factor.points):
        if isinstance(point.found, Measured):
            _point(axes, at, measures[point.job.name], point.job.name in contest.undecided)
    jobs = [point.job.name for point in factor.points]
    if len(factor.keys) == 1 and contest.separates:
        axes.axvline(jobs.index(contest.knee), color=INK, linewidth=0.8, linestyle=":", zorder=0)
        axes.annotate(
            "knee",
            (jobs.index(contest.knee), 1),
            (3, -9),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            fontsize=8,
        )
    labels = [", ".join(point.job.values[key] for key in factor.keys) for point in factor.points]
    turned = 90 if len(factor.keys) > 1 else 0
    axes.set_xticks(range(len(labels)), list(map(canvas.name, labels)), rotation=turned)
    axes.set(xlabel=", ".join(map(canvas.name, factor.keys)), ylabel=label, xlim=(-0.5, len(labels) - 0.5))
    return figure


def _point(axes: Axes, at: int, measure: Measure, undecided: bool) -> None:
    """Filled: the best, or not shown to be worse than it."""
    look = LOOKS[1]
    if isinstance(measure, Interval):
        axes.plot([at, at], [measure.low, measure.high], color=look.colour, linewidth=1.4)
    if measure.estimate is not None:
        inside = look.colour if undecided else "white"
        axes.plot([at], [measure.estimate], look.marker, color=look.colour, markerfacecolor=inside, markersize=5)
