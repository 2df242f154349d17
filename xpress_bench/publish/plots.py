"""The plots of a report: each from one condition of a run to a figure, or the reason why there is nothing to draw."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from xpress_bench.analyse.digits import shown, significant
from xpress_bench.analyse.intervals import Interval, Measure, Unknown
from xpress_bench.analyse.knee import STAGES
from xpress_bench.analyse.metrics import NO_STEP
from xpress_bench.analyse.reduce import pair, prompt_latencies
from xpress_bench.publish import canvas
from xpress_bench.publish.canvas import INK, LOOKS, Look, name
from xpress_bench.publish.lines import count
from xpress_bench.publish.view import View

if TYPE_CHECKING:  # `canvas` says what is missing where matplotlib is
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VERDICTS = {"tie": LOOKS[1], "near_tie": LOOKS[5], "real": LOOKS[2]}
WORST = 3  # slower prompts that are named


@dataclass(frozen=True, slots=True)
class Plot:
    """`caption`: what is drawn and how to read it, in words that hold for every run."""

    caption: str
    draw: Callable[[View], Figure | Unknown]


def drawn(view: View) -> dict[str, Figure | Unknown]:
    """Every plot of a condition by its name."""
    with canvas.styled():
        return {title: plot.draw(view) for title, plot in PLOTS.items()}


def speed_ups(view: View) -> Figure | Unknown:
    """Forest plot: every pair of arms over all prompts, below it every arm over the first by group."""
    rows = [(f"{name(one.arm)} vs {name(one.base)}", one.arm, one.gmean_paired) for one in view.of.speed_ups]
    for group, of in view.groups.items() if len(view.groups) > 1 else ():
        found = [of.speed_up(arm, view.base) for arm in view.compared]
        rows += [(f"{name(group)}: {name(one.arm)}", one.arm, one.gmean_paired) for one in found if one]
    if not any(row[2].estimate for row in rows):
        return Unknown("no two arms were timed on the same prompt")
    figure, axes = canvas.sheet(0.9 + 0.24 * len(rows))
    looks = canvas.looks(view)
    for at, (_, arm, speed) in enumerate(rows):
        _point(axes, at, speed, looks[arm])
        axes.annotate(
            shown(speed), (1.02, at), xycoords=("axes fraction", "data"), va="center", fontsize=8, annotation_clip=False
        )
    axes.axvline(1, color=INK, linewidth=0.8)
    if len(rows) > len(view.of.speed_ups):
        axes.axhline(len(view.of.speed_ups) - 0.5, color=INK, linewidth=0.4, linestyle=":")
    axes.set_yticks(range(len(rows)), [label for label, *_ in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    canvas.logarithmic(axes, [1, *chain.from_iterable(_ends(speed) for *_, speed in rows)], pad=0.05)
    axes.set_xlabel("speed-up (times), log scale")
    return figure


def _point(axes: Axes, at: int, speed: Measure, look: Look) -> None:
    if speed.estimate is None:
        return
    axes.plot(_ends(speed), [at] * len(_ends(speed)), color=look.colour, linewidth=1.4)
    inside = look.colour if isinstance(speed, Interval) else "none"  # hollow: a value without an interval
    axes.plot([speed.estimate], [at], look.marker, color=look.colour, markerfacecolor=inside, markersize=5)


def _ends(speed: Measure) -> list[float]:
    if isinstance(speed, Interval):
        return [speed.low, speed.high]
    return [] if speed.estimate is None else [speed.estimate]


def acceptance(view: View) -> Figure | Unknown:
    """Share of verify steps that accepted at least so many drafts, with 95 % bands."""
    marginals = {one.arm.name: one.acceptance.accept_marginal_step for one in view.of.arms}
    if not any(marginals.values()):
        return Unknown(NO_STEP)
    figure, axes = canvas.sheet(3.2)
    for arm, look in canvas.looks(view).items():
        points = [(at, one.estimate) for at, one in enumerate(marginals[arm], 1) if one.estimate is not None]
        band = [(at, one.low, one.high) for at, one in enumerate(marginals[arm], 1) if isinstance(one, Interval)]
        if points:
            axes.plot([at for at, _ in points], [share for _, share in points], **canvas.line(look), label=name(arm))
        if band:
            places, lows, highs = (list(column) for column in zip(*band, strict=True))
            axes.fill_between(places, lows, highs, color=look.colour, alpha=0.2, linewidth=0)
    canvas.whole(axes.xaxis)
    axes.set(xlabel="draft position (tokens after the anchor)", ylabel="share of verify steps", ylim=(0, 1.02))
    axes.legend()
    return figure


def tokens_per_step(view: View) -> Figure | Unknown:
    """Histogram of tokens committed by one verify step."""
    counts = {arm: _committed(view, arm) for arm in canvas.looks(view)}
    stepped = [arm for arm, found in counts.items() if found]
    if not stepped:
        return Unknown(NO_STEP)
    figure, axes = canvas.sheet(3.2)
    width = 0.8 / len(stepped)
    means = {one.arm.name: one.tokens_per_step for one in view.of.arms}
    for nth, arm in enumerate(stepped):
        found, look = counts[arm], canvas.looks(view)[arm]
        places = [tokens + (nth - (len(stepped) - 1) / 2) * width for tokens in found]
        shares = [steps / found.total() for steps in found.values()]
        axes.bar(places, shares, width, label=f"{name(arm)}, mean {shown(means[arm])}", **canvas.fill(look))
    canvas.whole(axes.xaxis)
    canvas.per_cent(axes.yaxis)
    axes.set(xlabel="tokens committed by a verify step", ylabel="verify steps")
    axes.legend()
    return figure


def _committed(view: View, arm: str) -> Counter[int]:
    found: Counter[int] = Counter()
    for tally in view.selection.whole().of(arm).tallies:
        for (_, _, committed, _), steps in tally.rounds:
            found[committed] += steps
    return found


def stage_times(view: View) -> Figure | Unknown:
    """Time of a verify step by stage; prefill and rest are those of the request, over its steps."""
    splits = {one.arm.name: one.stages for one in view.of.arms if not isinstance(one.stages, Unknown)}
    if not splits:
        return Unknown("no verify step was timed")
    figure, axes = canvas.sheet(0.9 + 0.45 * len(splits))
    at, left = range(len(splits)), [0.0] * len(splits)
    for stage, look in zip(STAGES, (*LOOKS[1:4], LOOKS[5], LOOKS[6]), strict=True):
        times_ms = [getattr(split, f"{stage}_s") * 1e3 for split in splits.values()]
        axes.barh(at, times_ms, 0.6, left=left, label=stage, **canvas.fill(look))
        left = [start + time_ms for start, time_ms in zip(left, times_ms, strict=True)]
    for row, total_ms in zip(at, left, strict=True):
        axes.annotate(f" {significant(total_ms, 3)} ms", (total_ms, row), va="center", fontsize=8)
    axes.set_yticks(at, [name(arm) for arm in splits])
    axes.set(xlabel="time per verify step (ms)", xlim=(0, 1.12 * max(left)), ylim=(len(splits) - 0.4, -0.6))
    figure.legend(loc="outside upper center", ncols=len(STAGES))
    return figure


def latencies(view: View) -> Figure | Unknown:
    """Empirical distribution over prompts of the latency of each arm."""
    found = {arm: list(prompt_latencies(view.selection.whole().of(arm)).values()) for arm in canvas.looks(view)}
    if not any(found.values()):
        return Unknown("nothing was timed")
    figure, axes = canvas.sheet(3.2)
    for arm, latencies_s in found.items():
        if latencies_s:
            look = canvas.looks(view)[arm]
            axes.ecdf(latencies_s, color=look.colour, linestyle=look.line, linewidth=1.4, label=name(arm))
    canvas.logarithmic(axes, list(chain.from_iterable(found.values())), pad=0.02)
    axes.set(xlabel="latency of a request (s), log scale", ylabel="share of prompts")
    axes.legend(loc="lower right")
    return figure


def near_ties(view: View) -> Figure | Unknown:
    """Gap of the target's logits at each difference from direct, against the tolerance that the replay measured."""
    judged = [(one.verdict, one.tolerance, abs(one.gap)) for one in view.replays if one.gap is not None]
    found = [(verdict, tolerance, gap) for verdict, tolerance, gap in judged if tolerance is not None]
    if not found:
        return Unknown("no difference from direct generation was replayed")
    figure, axes = canvas.sheet(3.4)
    least = min((value for _, *place in found for value in place if value), default=1.0) / 2
    for verdict, look in VERDICTS.items():
        own = [(max(x, least), max(y, least)) for said, x, y in found if said == verdict]
        label = f"{verdict.replace('_', '-')} ({len(own)})"
        axes.plot([x for x, _ in own], [y for _, y in own], look.marker, color=look.colour, alpha=0.8, label=label)
    axes.set(xscale="log", yscale="log", xlabel="tolerance (logits), log scale", ylabel="gap (logits), log scale")
    canvas.plain(axes.xaxis)
    canvas.plain(axes.yaxis)
    axes.set(xlim=axes.get_xlim(), ylim=axes.get_ylim())  # the line moves no limit
    axes.axline((least, least), (2 * least, 2 * least), color=INK, linewidth=0.8, label="gap = tolerance")
    figure.legend(loc="outside right upper")
    return figure


def prompts(view: View) -> Figure | Unknown:
    """Speed-up of each arm on each prompt; prompts that got slower have a mark and the worst their names."""
    if view.selection.rows > 1:
        return Unknown("a prompt in a batch has no speed-up of its own")
    cells = view.selection.whole().of
    found = {arm: pair(cells(view.base), cells(arm)).log_ratios() for arm in view.compared}
    if not any(found.values()):
        return Unknown("no two arms were timed on the same prompt")
    figure, axes = canvas.sheet(0.7 + 0.9 * len(found))
    for row, (arm, logs) in enumerate(found.items()):
        _strip(axes, row, {prompt: math.exp(ratio) for prompt, ratio in logs.items()}, canvas.looks(view)[arm])
    axes.axvline(1, color=INK, linewidth=0.8)
    slower = {arm: sum(ratio < 0 for ratio in logs.values()) for arm, logs in found.items()}
    labels = [f"{name(arm)}\n{slower[arm]} of {count(len(logs), 'prompt')} slower" for arm, logs in found.items()]
    axes.set_yticks(range(len(found)), labels)
    axes.set_ylim(len(found) - 0.5, -0.5)
    canvas.logarithmic(axes, [1, *(math.exp(ratio) for logs in found.values() for ratio in logs.values())], pad=0.05)
    axes.set_xlabel(f"speed-up of a prompt vs {name(view.base)} (times), log scale")
    return figure


def _strip(axes: Axes, row: int, ratios: Mapping[str, float], look: Look) -> None:
    # Golden-ratio steps spread the points of a row evenly, the same way in every file.
    places = {prompt: row + 0.55 * (nth * 0.618034 % 1 - 0.5) for nth, prompt in enumerate(ratios)}
    slower = sorted((prompt for prompt in ratios if ratios[prompt] < 1), key=ratios.__getitem__)
    others = [prompt for prompt in ratios if ratios[prompt] >= 1]
    axes.plot(*_points(others, ratios, places), look.marker, color=look.colour, markersize=3.5, alpha=0.6)
    axes.plot(*_points(slower, ratios, places), "x", color=INK, markersize=4)
    if slower:
        worst = f"slowest: {', '.join(map(name, slower[:WORST]))}"
        told = axes.annotate(worst, (0.01, row + 0.42), xycoords=("axes fraction", "data"), va="center", fontsize=7)
        told.set_in_layout(False)  # long names may run over the edge, and not squeeze the points


def _points(prompts: Sequence[str], *of: Mapping[str, float]) -> list[list[float]]:
    return [[values[prompt] for prompt in prompts] for values in of]


PLOTS = {
    "speed-ups": Plot(
        "Speed-ups with 95 % intervals, paired by prompt: every pair of arms on all prompts, and below the dotted line "
        "by group over the first arm. Right of 1 is faster; an interval that crosses 1 shows nothing.",
        speed_ups,
    ),
    "prompts": Plot("Speed-up of every single prompt. Crosses got slower; the slowest are named.", prompts),
    "acceptance": Plot(
        "Share of verify steps that accepted at least so many draft tokens, with 95 % bands. A curve that falls late "
        "is a draft that stays right.",
        acceptance,
    ),
    "tokens-per-step": Plot(
        "Tokens that a verify step added, the target's own token included, as a share of all steps.", tokens_per_step
    ),
    "stage-times": Plot(
        "Where the time of a verify step goes. Rest and prefill are the request's, divided by its steps.", stage_times
    ),
    "latencies": Plot(
        "Share of prompts answered within a time. A curve further left is faster on every such share of prompts.",
        latencies,
    ),
    "near-ties": Plot(
        "Places where an output first differs from direct generation: how far the two tokens' logits are apart, "
        "against how far rounding alone moves them. On or below the line is a tie; what is 0 is drawn on the edge.",
        near_ties,
    ),
}
