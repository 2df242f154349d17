"""The labelled lines under the table of a report: speed-ups, time per step, acceptance, levels, what went wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from xpress_bench.analyse.compare import SpeedUp
from xpress_bench.analyse.controls import Controlled
from xpress_bench.analyse.cost import Cost
from xpress_bench.analyse.digits import decimals, fixed, shown, significant, size
from xpress_bench.analyse.intervals import Interval, Measure, Unknown
from xpress_bench.analyse.parity import Divergence
from xpress_bench.analyse.summary import DIRECT, ArmSummary, ConditionSummary, Summary
from xpress_bench.records import Cell, Memory

BATCHED = (
    "speed-ups, tokens/s and stability are of whole batches, which last as long as their last request; latency, times "
    "per step and costs are of a request among the others; first turns only, without traces and controls"
)
NAMED = 5  # prompts or places that are named before the rest is only counted
Line = tuple[str, str]  # label, text


def condition_lines(of: ConditionSummary) -> Iterator[Line]:
    """Everything the table of a condition has no room for, the expected first and the faults last."""
    for speed in of.speed_ups:
        yield from _speed_up(speed)
    for lines_of in (_stages, _positions, memory_line, _levels, _parity):
        for one in of.arms:
            yield from lines_of(of, one)
    yield from _faults(of)


def closing_lines(summary: Summary) -> Iterator[Line]:
    """Skipped prompts with their reasons, whether the journal is whole, where the run is and what to do next."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for one in summary.header.skipped:
        groups[one.reason].append(one.prompt)
    for reason, prompts in groups.items():
        yield "skipped", f"{count(len(prompts), 'prompt')}: {reason} ({named(prompts)})"
    if not summary.complete:
        yield "incomplete", "the journal has no footer that says it is complete: the run did not end by itself"
    if summary.header.settings.get("compile"):
        arms = (f"{arm.name}: {', '.join(arm.compiled) or 'nothing'}" for arm in summary.header.arms)
        yield "compiled", "; ".join(arms)
    if batches := summary.header.batches:
        yield "batch", f"{count(len(batches), 'batch')} of {summary.header.rows} prompts: {BATCHED}"
    for control in summary.controls:
        yield from _control(control)
    for sentence in summary.served:
        yield "served", sentence
    for note in summary.notes:
        yield "sitting", note
    yield "run", f"{summary.folder}/"
    yield "next", f"xpress-bench report {summary.folder} --by category"


def _control(one: Controlled) -> Iterator[Line]:
    same = f"same ids on {one.same} of {count(one.prompts, 'prompt')}"
    if not one.prompts and isinstance(one.ratio, Unknown):
        yield "control", f"{one.arm}, {one.against}: not measured, {one.ratio.reason}"
    elif one.against == "generate":
        yield "control", f"{one.arm} is {shown(one.ratio)}x as fast as transformers' generate, {same}"
    else:
        fault = "; that disturbs, do not believe the times per step" if one.disturbs else ""
        yield "control", f"{one.arm} takes {shown(one.ratio)}x as long for having its stages timed, {same}{fault}"


def count(n: int, noun: str) -> str:
    """A number with its noun: 1 prompt, 2 prompts, 2 launches."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}{'es' if noun.endswith('ch') else 's'}"


def named(names: Iterable[str]) -> str:
    """The first few distinct names, and how many more there are."""
    distinct = list(dict.fromkeys(names))
    more = f" and {len(distinct) - NAMED} more" if len(distinct) > NAMED else ""
    return ", ".join(distinct[:NAMED]) + more


def printable(text: str) -> str:
    """Text without control characters, which could move the cursor or colour a terminal."""
    return "".join(c if c.isprintable() else " " for c in text)


def printable_lines(lines: Iterable[Line]) -> Iterator[Line]:
    """Lines whose text is printable."""
    return ((label, printable(text)) for label, text in lines)


def _speed_up(speed: SpeedUp) -> Iterator[Line]:
    kind = "exploratory" if speed.exploratory else "Holm"
    chance = "" if speed.p_adjusted is None else f", p {_p_value(speed.p_adjusted)} ({kind})"
    ratios = f"{shown(speed.gmean_paired)}, by total time {shown(speed.total_time)}"
    yield "speed-up", f"{speed.arm} vs {speed.base}: {ratios}{chance}"
    if len(speed.by_launch) > 1:
        least, most = (significant(one, 3) for one in (min(speed.by_launch), max(speed.by_launch)))
        launches = f"{speed.arm} vs {speed.base}: {least} to {most} in {count(len(speed.by_launch), 'launch')}"
        yield "by launch", f"{launches}; what they differ by is in no interval"
    if speed.missing:
        yield "not paired", f"{speed.arm} vs {speed.base}: {named(speed.missing)}"


def _p_value(p: float) -> str:
    return "< 0.0001" if p < 1e-4 else significant(p, 2)


def _stages(_: ConditionSummary, one: ArmSummary) -> Iterator[Line]:
    split = one.stages
    if isinstance(split, Unknown):
        return
    parts = {part: getattr(split, f"{part}_s") * 1e3 for part in ("draft", "refine", "verify", "rest", "prefill")}
    times = ", ".join(f"{part} {significant(time_ms, 3)} ms" for part, time_ms in parts.items() if time_ms)
    share = "" if isinstance(one.cost, Unknown) else f"; {_paying(one.cost)}"
    fault = "" if split.reliable else "; unreliable, the parts do not add up to the latency"
    yield "per step", f"{one.arm.name}: {times}{share}{fault}"


def _paying(cost: Cost) -> str:
    even, share = cost.break_even_tokens_per_step, cost.efficiency.estimate
    efficiency = "" if share is None else f", efficiency {share:.2f} of the stage-cost limit"
    return f"breaks even at {shown(even, bounds=False)} tokens/step{efficiency}"


def _positions(_: ConditionSummary, one: ArmSummary) -> Iterator[Line]:
    if one.acceptance.accept_marginal_step:
        yield "accepted by position", f"{one.arm.name}: {' '.join(map(_share, one.acceptance.accept_marginal_step))}"


def _share(measure: Measure) -> str:
    if isinstance(measure, Unknown):
        return "?" if measure.estimate is None else f"{measure.estimate:.2f}".removeprefix("0")
    return fixed(measure.estimate, min(2, max(1, decimals(measure)))).removeprefix("0")


def memory_line(_: ConditionSummary, one: ArmSummary) -> Iterator[Line]:
    """What parts hold and stages need, as far as it is known; why something is not stands in the CSV."""
    if isinstance(one.memory, Unknown):
        return
    parts, peaks = (
        ", ".join(f"{name} {size(held)}" for name, held in found.items() if held is not None)
        for found in (one.memory.parts_bytes, one.memory.stage_peak_bytes)
    )
    if parts:
        yield "memory", f"{one.arm.name}: {parts}" + (f"; allocated at most in {peaks}" if peaks else "")


def _levels(of: ConditionSummary, one: ArmSummary) -> Iterator[Line]:
    if one.arm.name == DIRECT:
        return
    levels = of.levels(one)
    lone = ", spread of repeats unknown" if of.stability.spread is None else ""
    runs = f"1 runs: {_yes(levels.runs)} ({of.usable}/{of.expected})   2 quality: {levels.quality}"
    timing = f"3 latency: {levels.latency}   4 stable: {_yes(levels.stable)}{lone}"
    yield "levels", f"{one.arm.name}: {runs}   {timing}"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _parity(_: ConditionSummary, one: ArmSummary) -> Iterator[Line]:
    judged = one.parity
    if isinstance(judged, Unknown):
        return
    if judged.divergences:
        yield "differs", f"{one.arm.name}: {named(map(_place, judged.divergences))}"
        yield "noise floor", _floor(judged.noise_floor)
    if judged.failed:
        yield "not compared", f"{one.arm.name}: {named(judged.failed)}"
    if isinstance(judged.score_difference, Interval) and isinstance(judged.identical, Unknown):
        yield "score", f"{one.arm.name} less direct: {shown(judged.score_difference)}"


def _place(place: Divergence) -> str:
    direct, here = ("the end" if token is None else str(token) for token in (place.direct_token, place.arm_token))
    word = "not judged" if place.verdict is None else place.verdict.replace("_", "-")
    gap = "" if place.gap is None else f", gap {place.gap:.3g}"
    tolerance = "" if place.tolerance is None else f", tolerance {place.tolerance:.3g}"
    return f"{place.prompt} at token {place.position} (direct {direct}, here {here}: {word}{gap}{tolerance})"


def _floor(floor: Measure) -> str:
    if isinstance(floor, Unknown):
        return f"unknown: {floor.reason}"
    return f"direct agrees with its own repeats on {round(floor.estimate * floor.n)} of {floor.n} prompts"


def _faults(of: ConditionSummary) -> Iterator[Line]:
    trends = {"the order of arms": of.stability.order, "the time in a launch": of.stability.drift}
    if known := [f"{what} {trend.correlation:+.2f}" for what, trend in trends.items() if trend]:
        yield "timing", f"rank correlation of latency with {', with '.join(known)}"
    for flag in of.stability.flags:
        yield "timing", flag
    yield from _unknowns(of)
    yield from left_out("failed", of.failed)
    yield from left_out("short", of.short)


def _unknowns(of: ConditionSummary) -> Iterator[Line]:
    groups: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for one in of.arms:
        values = [("latency", one.latency_s), ("peak memory", one.memory), ("score", one.score)]
        if one.arm.name != DIRECT:
            values.append(("acceptance", one.tokens_per_step))
        for what, value in values:
            if isinstance(value, (Unknown, Memory)) and value.reason:
                groups[what, value.reason].append(one.arm.name)
    for (what, reason), arms in groups.items():
        yield "not known", f"{what} of {', '.join(arms)}: {reason}"


def left_out(label: str, cells: Iterable[Cell]) -> Iterator[Line]:
    """Requests that no average counts, by arm and reason."""
    groups: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for cell in cells:
        groups[cell.arm, cell.error or "ended although neither a stop id nor a limit asked for it"].append(cell.prompt)
    for (arm, reason), prompts in groups.items():
        yield label, f"{count(len(prompts), 'request')} of {arm}, not averaged: {reason} ({named(prompts)})"
