"""The labelled lines under the table of a report: speed-ups, time per step, acceptance, levels, what went wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from xpress_bench.analyse.compare import SpeedUp
from xpress_bench.analyse.digits import decimals, fixed, shown, significant
from xpress_bench.analyse.intervals import Interval, Measure, Unknown
from xpress_bench.analyse.parity import Divergence
from xpress_bench.analyse.summary import DIRECT, ArmSummary, ConditionSummary, Summary
from xpress_bench.records import Cell, Memory

NAMED = 5  # prompts or places that are named before the rest is only counted
Line = tuple[str, str]  # label, text


def condition_lines(of: ConditionSummary) -> Iterator[Line]:
    """Everything the table of a condition has no room for, the expected first and the faults last."""
    for speed in of.speed_ups:
        yield from _speed_up(speed)
    for lines_of in (_stages, _positions, _levels, _parity):
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
    for note in summary.notes:
        yield "sitting", note
    yield "run", f"{summary.folder}/"
    yield "next", f"xpress-bench report {summary.folder} --by category"


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
    share = "" if isinstance(one.efficiency, Unknown) else f"; efficiency {one.efficiency:.2f} of the stage-cost limit"
    fault = "" if split.reliable else "; unreliable, the parts do not add up to the latency"
    yield "per step", f"{one.arm.name}: {times}{share}{fault}"


def _positions(_: ConditionSummary, one: ArmSummary) -> Iterator[Line]:
    if one.acceptance.accept_marginal_step:
        yield "accepted by position", f"{one.arm.name}: {' '.join(map(_share, one.acceptance.accept_marginal_step))}"


def _share(measure: Measure) -> str:
    if isinstance(measure, Unknown):
        return "?" if measure.estimate is None else f"{measure.estimate:.2f}".removeprefix("0")
    return fixed(measure.estimate, min(2, max(1, decimals(measure)))).removeprefix("0")


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
    for flag in of.stability.flags:
        yield "timing", flag
    yield from _unknowns(of)
    yield from _left_out("failed", of.failed)
    yield from _left_out("short", of.short)


def _unknowns(of: ConditionSummary) -> Iterator[Line]:
    groups: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for one in of.arms:
        values = [("latency", one.latency_s), ("peak memory", one.memory), ("score", one.score)]
        if one.arm.name != DIRECT:
            values.append(("acceptance", one.acceptance.tokens_per_step_committed_step))
        for what, value in values:
            if isinstance(value, (Unknown, Memory)) and value.reason:
                groups[what, value.reason].append(one.arm.name)
    for (what, reason), arms in groups.items():
        yield "not known", f"{what} of {', '.join(arms)}: {reason}"


def _left_out(label: str, cells: Iterable[Cell]) -> Iterator[Line]:
    groups: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for cell in cells:
        groups[cell.arm, cell.error or "ended although neither a stop id nor a limit asked for it"].append(cell.prompt)
    for (arm, reason), prompts in groups.items():
        yield label, f"{count(len(prompts), 'request')} of {arm}, not averaged: {reason} ({named(prompts)})"
