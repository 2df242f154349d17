"""The page of `compare`: run B against run A, or one arm of a run against another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xpress_bench.analyse.between import Between
from xpress_bench.analyse.contrast import Comparison, Contrast
from xpress_bench.analyse.digits import NONE, seconds, shown, significant, size
from xpress_bench.analyse.headers import Difference
from xpress_bench.analyse.intervals import Interval, Measure, Unknown
from xpress_bench.analyse.power import detectable_speed_up, needed_for_margin
from xpress_bench.analyse.similarity import MARGIN
from xpress_bench.analyse.summary import DIRECT
from xpress_bench.analyse.verdict import described
from xpress_bench.publish.lines import Line, count, named, printable, printable_lines
from xpress_bench.publish.page import Page, Section, Table
from xpress_bench.records import Memory

SESSIONS = (
    "two runs are two sessions: what drifts between them (clocks, heat, neighbours) is in no interval here, and on a "
    "shared machine it has been 20 %, in the ratio to direct 12 %. A latency difference of that size is no evidence; "
    "arms of one run are told apart more finely, and `gate --against` measures two revisions in turn"
)
POWERS = (0.8, 0.9)
HASH_LENGTH = 12  # of a hash on the page


def page(found: Between) -> Page:
    """Verdict, table and lines for every arm and condition; then what differs, the warnings and where the runs are."""
    sections = tuple(_section(found, one) for one in found.comparisons)
    return Page(tuple(map(printable, _title(found))), sections, tuple(printable_lines(_closing(found))))


def _title(found: Between) -> Iterator[str]:
    header = found.runs[0].header
    if len(found.runs) == 2:
        yield from (f"{label} {run.header.run}" for label, run in zip("AB", found.runs, strict=True))
    else:
        yield f"run {header.run}"
    yield f"suite {header.suite['name']} (sha256 {header.suite['sha256'][:6]})"
    batches = f", by whole batches of {header.rows}" if header.batches else ""
    yield f"target {header.target['name']} {header.target['dtype']}{batches}"


def _section(found: Between, one: Comparison) -> Section:
    conditions = {each.condition for each in found.comparisons}
    heading = [one.name] if len(found.runs) == 2 else []
    heading += [str(one.condition)] if len(conditions) > 1 else []
    return Section(
        heading=printable(", ".join(heading)) or None,
        verdict=printable(_verdict(found, one)),
        table=Table(
            tuple(map(printable, ("", one.base, one.arm, f"{one.arm} vs {one.base}"))), tuple(_rows(found, one))
        ),
        lines=tuple(printable_lines(_lines(found, one))),
        breakdown=None,
    )


def _verdict(found: Between, one: Comparison) -> str:
    if not one.prompts:
        return f"{one.arm} against {one.base}: no request is in both, so nothing can be said."
    parts = [_faster(found, one), *_more_per_step(one)]
    parts.insert(len(parts) if _all_identical(one) else 0, f"output {_identical(one)}")
    return f"{'; '.join(parts)}."


def _all_identical(one: Comparison) -> bool:
    return isinstance(one.identical, Interval) and one.identical.estimate == 1


def _faster(found: Between, one: Comparison) -> str:
    ratio = one.latency_s.change
    if one.within is None:
        subject = f"{one.name} of {one.arm}"
        if isinstance(ratio, Unknown):
            return f"{subject} not compared in speed with {one.base} ({ratio.reason})"
        return f"{subject} has {_times(ratio)} the speed of {one.base}"
    header = found.runs[0].header
    arm, base = (described(next(a for a in header.arms if a.name == name)) for name in (one.arm, one.base))
    if isinstance(ratio, Unknown):
        return f"{arm} is not shown to be faster than {base} ({ratio.reason})"
    words = {"faster": "is faster than", "slower": "is slower than", "not shown": "is not shown to be faster than"}
    return (
        f"{arm} {words.get(one.within.latency, 'makes no practical difference from')} {base}, {_times(ratio)} its speed"
    )


def _times(ratio: Interval) -> str:
    times, bounds = shown(ratio).split(" ", 1)
    return f"{times}x {bounds}"


def _more_per_step(one: Comparison) -> Iterator[str]:
    steps = one.tokens_per_step
    if isinstance(steps.change, Interval):
        before, after = (shown(side, bounds=False) for side in (steps.base, steps.arm))
        yield f"{after} tokens per step against {before}, difference {shown(steps.change)}"


def _identical(one: Comparison) -> str:
    share = one.identical
    if isinstance(share, Unknown):
        return f"not compared by ids ({share.reason})"
    return f"identical on {round(share.estimate * share.n)} of {share.n} prompts"


def _rows(found: Between, one: Comparison) -> Iterator[tuple[str, ...]]:
    latency, steps, rate = one.latency_s, one.tokens_per_step, one.draft_accept_rate
    yield "median latency", seconds(latency.base), seconds(latency.arm), f"speed-up {shown(latency.change)}"
    yield "total time", NONE, NONE, f"speed-up {shown(one.total_time)}"
    if one.over_direct:
        yield "speed-up vs direct", *_sides(one.over_direct), f"ratio {shown(one.over_direct.change)}"
    if isinstance(steps.base, Interval) or isinstance(steps.arm, Interval):
        yield "tokens/step", *_sides(steps), f"ratio {shown(one.tokens_per_step_ratio)}"
        yield "accepted, %", *_sides(rate, 100), f"difference {shown(rate.change, 100)}"
    if isinstance(one.identical, Interval):
        bound = significant(100 * one.identical.low, 3)
        yield "identical output", NONE, NONE, f"{_identical(one).removeprefix('identical on ')}, at least {bound} %"
    if isinstance(one.score.change, Interval):
        yield "score", *_sides(one.score), f"difference {shown(one.score.change)}"
    if any(isinstance(memory, Memory) for memory in one.memory):
        yield _peak(found, one)


def _sides(of: Contrast, scale: float = 1.0) -> tuple[str, str]:
    return shown(of.base, scale), shown(of.arm, scale)


def _peak(found: Between, one: Comparison) -> tuple[str, ...]:
    known = [memory for memory in one.memory if isinstance(memory, Memory)]
    kinds = {memory.quantity for memory in known}
    name = kinds.pop().replace("_", " ") if len(kinds) == 1 else "peak memory"
    peaks = [memory.peak_bytes if isinstance(memory, Memory) else None for memory in one.memory]
    texts = [NONE if peak is None else size(peak) for peak in peaks]
    comparable = not kinds and found.same_machine
    ratio = f"ratio {significant(peaks[1] / peaks[0], 3)}" if comparable and peaks[0] and peaks[1] else NONE
    return printable(name), texts[0], texts[1], ratio


def _lines(found: Between, one: Comparison) -> Iterator[Line]:
    margin = found.runs[0].header.suite.get("parity_margin")
    if one.within and one.within.p_value is not None:
        yield (
            "test",
            f"p {significant(one.within.p_value, 2) if one.within.p_value >= 1e-4 else '< 0.0001'}, of this pair",
        )
    yield from _detectable(one)
    if isinstance(one.score.change, Interval) and margin is not None and not _all_identical(one):
        yield "score", _against_margin(one, one.score.change, margin)
    if isinstance(one.first_divergence, Interval) or one.first_divergence.estimate is not None:
        yield "first differs", f"at token {shown(one.first_divergence)}, median over the prompts that differ"
        yield "similarity", _similarity(one)
    for reason, prompts in one.unpaired.items():
        yield "not paired", f"{count(len(prompts), 'prompt')} {reason}: {named(prompts)}"
    yield from _unknowns(one)


def _detectable(one: Comparison) -> Iterator[Line]:
    timed = one.latency_s.change.n if isinstance(one.latency_s.change, Interval) else 0
    changes = [detectable_speed_up(one.log_ratio_sd, timed, power) for power in POWERS]
    texts = [f"{significant(100 * (change - 1), 2)} %" for change in changes if isinstance(change, float)]
    if texts:
        drift = "" if one.within else ", drift between the runs left out"
        yield "detectable", f"a speed-up of {texts[0]} with power 80 %, {texts[1]} with 90 %{drift}"


def _against_margin(one: Comparison, change: Interval, margin: float) -> str:
    if change.low > -margin:
        return f"not lower by the margin {margin:g}"
    if change.high < -margin:
        return f"lower by more than the margin {margin:g}"
    prompts = needed_for_margin(margin, one.score_sd, POWERS[-1])
    enough = "" if isinstance(prompts, Unknown) else f"; {prompts} would, with power 90 % at this spread"
    return f"{change.n} prompts cannot exclude a score lower by the margin {margin:g}{enough}"


def _similarity(one: Comparison) -> str:
    alike = one.likeness
    if isinstance(alike.difference, Unknown):
        return f"chrF {shown(alike.chrf)}; not judged: {alike.difference.reason}"
    words = {"shown": "as alike as", "refuted": "less alike than", "not shown": "not shown to be as alike as"}
    itself = f"{one.base} is with itself, {shown(alike.floor)}"
    return f"chrF {shown(alike.chrf)}, {words[alike.outcome]} {itself} (margin {MARGIN:g})"


def _unknowns(one: Comparison) -> Iterator[Line]:
    values: list[tuple[str, Measure | Memory]] = [
        ("speed-up", one.latency_s.change),
        ("identical output", one.identical),
        ("score", one.score.change),
        *((f"peak memory of {label}", memory) for label, memory in zip((one.base, one.arm), one.memory, strict=True)),
    ]
    if DIRECT not in (one.base, one.name):  # direct has no verify steps
        values.append(("tokens per step", one.tokens_per_step.change))
    for what, value in values:
        if isinstance(value, Unknown | Memory) and value.reason:
            yield "not known", f"{what}: {value.reason}"


def _closing(found: Between) -> Iterator[Line]:
    for one in found.differs:
        yield "what differs", _difference(one)
    if not found.differs:
        yield "what differs", "nothing that the journals record"
    for one in found.warned:
        yield "warning", _difference(one)
    for text in found.weakened:
        yield "warning", text
    if len(found.runs) == 2:
        yield "sessions", SESSIONS
        yield from _drift(found)
    for run in found.runs:
        yield "run", f"{run.folder}/"


def _drift(found: Between) -> Iterator[Line]:
    controls = [one for one in found.controls if isinstance(one.latency_s.change, Interval)]
    speeds = [f"{one.name} ({one.condition}) {shown(one.latency_s.change)}" for one in controls]
    if speeds:
        yield "drift", f"speed-up of the arms with the same parts in both runs: {', '.join(speeds)}"


def _difference(one: Difference) -> str:
    return f"{one.what}: {_value(one.base)} | {_value(one.arm)}"


def _value(value: Any) -> str:
    if value is None:
        return NONE
    if isinstance(value, list | tuple):
        return ", ".join(map(_value, value)) or NONE
    text = str(value)
    return text[:HASH_LENGTH] if len(text) in (40, 64) and set(text) <= set("0123456789abcdef") else text
