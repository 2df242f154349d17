"""What a report says, as plain strings: the one content that `text` and `markdown` lay out.

Strings that come from models, suites or exceptions are freed of control characters here; escaping is the layout's work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xpress_bench.analyse.cost import random_weights
from xpress_bench.analyse.digits import NONE, seconds, shown, size
from xpress_bench.analyse.intervals import Measure, Unknown
from xpress_bench.analyse.summary import DIRECT, ArmSummary, ConditionSummary, Summary
from xpress_bench.analyse.verdict import verdict
from xpress_bench.publish.lines import Line, closing_lines, condition_lines, count, printable, printable_lines
from xpress_bench.records import Memory

_PEAKS = {"process_peak_rss": "peak RSS", "nvml_device_peak_minus_idle": "peak GPU memory"}


@dataclass(frozen=True, slots=True)
class Table:
    """Column titles and rows of as many cells."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Section:
    """One condition: verdict, table, lines. `heading` is None when the run has a single condition."""

    heading: str | None
    verdict: str
    table: Table
    lines: tuple[Line, ...]
    breakdown: Table | None


@dataclass(frozen=True, slots=True)
class Page:
    """A whole report. `title`: what was run on what; `lines`: skipped prompts, the run folder, what to do next."""

    title: tuple[str, ...]
    sections: tuple[Section, ...]
    lines: tuple[Line, ...]


def page(summary: Summary, breakdown: Mapping[str, Summary] | None = None) -> Page:
    """The report of a run; `breakdown` as `summary.by` gives it adds a table with its rows to every condition."""
    sections = tuple(_section(summary, at, breakdown or {}) for at in range(len(summary.conditions)))
    return Page(title(summary), sections, tuple(printable_lines(closing_lines(summary))))


def title(summary: Summary) -> tuple[str, ...]:
    """What was run on what."""
    return tuple(_title(summary))


def _title(summary: Summary) -> Iterator[str]:
    header = summary.header
    suite, target, settings = header.suite, header.target, header.settings
    threads = f", {settings['threads']} threads" if settings.get("threads") else ""
    yield printable(f"xpress-bench {header.versions.get('xpress-bench') or ''}".strip())
    yield printable(
        f"suite {suite['name']}: {len(header.prompts)} prompts, {_repeats(summary)} (sha256 {suite['sha256'][:6]})"
    )
    made = ", random weights" if random_weights(header) else ""
    made += ", compiled" if settings.get("compile") else ""
    made += f", in batches of {header.rows}" if header.batches else ""
    yield printable(f"target {target['name']} {_parameters(target.get('parameters'))}{target['dtype']}{made}")
    yield printable(f"{target['device']}{threads}")
    yield printable(f"profile {header.profile}{', in one process' if header.in_process else ''}")


def _repeats(summary: Summary) -> str:
    settings = summary.header.settings
    seeds, repeats, launches = len(settings["seeds"]), settings["repeats"], settings["launches"]
    if all(one.condition.temperature == 0 for one in summary.conditions):  # a seed changes nothing there
        return count(seeds * repeats * launches, "repeat")
    counts = [count(seeds, "seed"), count(repeats, "repeat"), count(launches, "launch")]
    return ", ".join(counts if launches > 1 else counts[:2])


def _parameters(count: int | None) -> str:
    if count is None:
        return ""
    return f"{count / 1e9:.1f} B " if count >= 1e9 else f"{count / 1e6:.1f} M "


def _section(summary: Summary, at: int, breakdown: Mapping[str, Summary]) -> Section:
    of = summary.conditions[at]
    return Section(
        heading=str(of.condition) if len(summary.conditions) > 1 else None,
        verdict=printable(verdict(summary, of)),
        table=_table(of),
        lines=tuple(printable_lines(condition_lines(of))),
        breakdown=_breakdown({value: one.conditions[at] for value, one in breakdown.items()}) if breakdown else None,
    )


def _table(of: ConditionSummary) -> Table:
    kinds = {one.memory.quantity for one in of.arms if isinstance(one.memory, Memory)}
    kind = _PEAKS[kinds.pop()] if len(kinds) == 1 else "peak memory"
    base = of.arms[0].arm.name
    names = ("arm", "median latency", "tokens/s", "tokens/step", "accepted", f"speed-up vs {base}")
    rows = [_row(of, one) for one in of.arms]
    return Table(tuple(map(printable, (*names, kind, "identical", "score"))), tuple(rows))


def _row(of: ConditionSummary, one: ArmSummary) -> tuple[str, ...]:
    return (
        printable(one.arm.name),
        seconds(one.latency_s),
        shown(one.tokens_per_s, bounds=False),
        _per_step(one),
        _percent(one.acceptance.draft_accept_rate_step),
        _speed_up(of, one),
        peak(one.memory),
        _identical(one),
        shown(one.score, bounds=False),
    )


def _per_step(one: ArmSummary) -> str:
    return "1" if one.arm.name == DIRECT else shown(one.tokens_per_step)


def _speed_up(of: ConditionSummary, one: ArmSummary) -> str:
    speed = of.speed_up(one.arm.name, of.arms[0].arm.name)
    return shown(speed.gmean_paired) if speed else "1"


def _percent(share: Measure) -> str:
    text = shown(share, 100, bounds=False)
    return text if text == NONE else f"{text} %"


def peak(memory: Memory | Unknown) -> str:
    """Peak memory as text."""
    return size(memory.peak_bytes) if isinstance(memory, Memory) and memory.peak_bytes is not None else NONE


def _identical(one: ArmSummary) -> str:
    if isinstance(one.parity, Unknown) or isinstance(one.parity.identical, Unknown):
        return NONE
    share = one.parity.identical
    return f"{round(share.estimate * share.n)}/{share.n}"


def _breakdown(groups: Mapping[str, ConditionSummary]) -> Table:
    rows = [
        (printable(value), *_printed_arm(of, one))
        for value, of in groups.items()
        for one in of.arms
        if one is not of.arms[0]
    ]
    base = next((printable(of.arms[0].arm.name) for of in groups.values()), DIRECT)
    columns = ("group", "arm", "prompts", f"speed-up vs {base}", "tokens/step", "identical", "score")
    return Table(columns, tuple(rows))


def _printed_arm(of: ConditionSummary, one: ArmSummary) -> tuple[str, ...]:
    speed = of.speed_up(one.arm.name, of.arms[0].arm.name)
    return (
        printable(one.arm.name),
        NONE if speed and speed.units != "prompts" else str(speed.prompts if speed else 0),
        _speed_up(of, one),
        _per_step(one),
        _identical(one),
        shown(one.score, bounds=False),
    )
