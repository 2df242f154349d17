"""The report of a load run: a section for each stage, an arm in each row, as text, as CSV, and as plots."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from xpress_bench.analyse.digits import NONE, seconds, shown, significant, size
from xpress_bench.analyse.growth import Growth
from xpress_bench.analyse.intervals import Interval, Measure, Unknown
from xpress_bench.analyse.load import DIRECT, QUANTILES, ArmLoad, StageLoad, summarise
from xpress_bench.errors import UsageError
from xpress_bench.load_records import STATUSES, Load, Probe, Stage, read_load
from xpress_bench.publish import markdown
from xpress_bench.publish.lines import NAMED, Line, count, printable, printable_lines
from xpress_bench.publish.page import Page, Section, Table
from xpress_bench.publish.printing import lay_out
from xpress_bench.publish.tables_csv import written

TIMES = ("latency", "ttft", "gap", "token", "queue", "service")
LABELS = {"ttft": "first token", "gap": "gap", "token": "per token", "queue": "queue", "service": "service"}
SECOND = (("ttft", 0), ("ttft", 2), ("gap", 0), ("gap", 2), ("token", 0), ("queue", 0), ("queue", 2), ("service", 0))
COLUMNS = ("run", "stage", "arm", "metric", "estimate", "low", "high", "method", "n", "reason")
DEPENDENT = (
    "requests of a stage wait for each other, so intervals are over ten blocks of time: they say how the same stage "
    "would vary, not another machine or another hour"
)


@dataclass(frozen=True, slots=True)
class LoadReport:
    """A load run and its figures."""

    load: Load
    stages: tuple[StageLoad, ...]

    @property
    def lost(self) -> int:
        """Requests that came and never ended."""
        return sum(arm.counts.lost for of in self.stages for arm in of.arms)


def report(load: Load) -> LoadReport:
    """UsageError if nothing was loaded yet, so that nothing is known of what was run."""
    if load.header is None:
        raise UsageError(f"{load.folder}: nothing was asked yet; go on with xpress-bench load --resume {load.folder}")
    return LoadReport(load, summarise(load, load.header.conditions[0]))


def show_load(folder: Path, layout: str, plot: Path | None = None) -> int:
    """Print the report of a load run as a page or as csv; `plot`: the folder for its files.

    1 if it has not ended, or lost a request.
    """
    told = report(read_load(folder))
    if layout == "csv":
        print(table(told), end="")
    else:
        lay_out(page(told), layout)
    if plot:
        write(plot, told)
        print(f"xpress-bench: wrote {plot}/: load.md, load.csv, plots", file=sys.stderr)
    return 0 if told.load.complete and not told.lost else 1


def write(out: Path, told: LoadReport) -> None:
    """load.md, load.csv and plots. UsageError if `out` cannot be written."""
    from xpress_bench.publish import canvas
    from xpress_bench.publish.load_plots import drawn

    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "load.md").write_text(markdown.markdown(page(told)), encoding="utf-8")
        (out / "load.csv").write_text(table(told), encoding="utf-8")
        for name, figure in drawn(told.stages).items():
            if not isinstance(figure, Unknown):
                for layout in canvas.FORMATS:
                    (out / f"{name}.{layout}").write_bytes(canvas.file_of(figure, layout))
    except OSError as error:
        raise UsageError(f"--plot {out}: {error.strerror}; name a folder that can be written") from error


def page(told: LoadReport) -> Page:
    """What was run, a section for each stage, and what to do next."""
    return Page(
        tuple(map(printable, _title(told))),
        tuple(map(_section, told.stages)),
        tuple(printable_lines(_closing(told))),
    )


def _title(told: LoadReport) -> Iterator[str]:
    header, plan = told.load.header, told.load.plan
    assert header is not None
    yield f"xpress-bench {header.versions.get('xpress-bench') or ''} load".strip()
    yield f"suite {header.suite['name']}: {len(header.prompts)} prompts (sha256 {header.suite['sha256'][:6]})"
    yield f"target {header.target['name']} {header.target['dtype']}, {header.target['device']}"
    yield f"{header.conditions[0]}, {count(plan.repeats, 'repeat')}"
    if plan.policy.rows:
        yield f"at most {count(plan.policy.rows, 'row')} together"


def _section(of: StageLoad) -> Section:
    return Section(
        heading=of.stage.name,
        verdict=printable(_verdict(of)),
        table=Table(
            ("arm", "requests", "ok", "tokens/s", f"vs {DIRECT}", "latency p50", "p90", "p99", "good", "identical"),
            tuple(map(_row, of.arms)),
        ),
        lines=tuple(printable_lines(_lines(of))),
        breakdown=Table(
            ("arm", *(f"{LABELS[name]} p{100 * QUANTILES[at]:g}" for name, at in SECOND), "memory"),
            tuple(map(_second_row, of.arms)),
        ),
    )


def _verdict(of: StageLoad) -> str:
    asked, lost = (sum(getattr(arm.counts, name) for arm in of.arms) for name in ("asked", "lost"))
    statuses = {name: sum(arm.counts.statuses.get(name, 0) for arm in of.arms) for name in STATUSES}
    ended = ", ".join(f"{number} {name}" for name, number in statuses.items() if number)
    return f"{_how(of.stage)}: {asked} requests, {ended or 'none ended'}, {lost} lost."


def _how(stage: Stage) -> str:
    long = f"for {stage.seconds:g} s" if stage.seconds else f"until {count(stage.requests or 0, 'request')}"
    if stage.rate is None:
        return f"{count(stage.clients or 0, 'client')} {long}, each asking again once answered"
    return f"{stage.rate:g} requests a second {long}, {stage.arrivals}"


def _row(one: ArmLoad) -> tuple[str, ...]:
    of = one.figures
    p50, p90, p99 = of.times["latency"]
    same, compared = one.identical
    return (
        printable(one.arm),
        str(one.counts.asked),
        str(one.counts.statuses.get("ok", 0)),
        _rate(of.tokens_per_s),
        "1" if one.arm == DIRECT else _known(shown(one.versus), one.versus),
        seconds(p50),
        _known(seconds(p90), p90),
        _known(seconds(p99), p99),
        _known(f"{shown(of.good, 100)} %", of.good),
        f"{same}/{compared}" if compared else NONE,
    )


def _second_row(one: ArmLoad) -> tuple[str, ...]:
    times = one.figures.times
    return (
        printable(one.arm),
        *(_known(seconds(times[name][at]), times[name][at]) for name, at in SECOND),
        size(one.memory.last_bytes) if isinstance(one.memory, Growth) else NONE,
    )


def _known(told: str, measure: Measure) -> str:
    """A value without an interval is left out of a table; a line says why."""
    return told if isinstance(measure, Interval) else NONE


def _rate(measure: Measure) -> str:
    if isinstance(measure, Unknown) and measure.estimate is not None:
        return f"{significant(measure.estimate, 3)} (no interval)"
    return shown(measure)


def _lines(of: StageLoad) -> Iterator[Line]:
    for lines_of in (_rates, _memory, _events, _endings, _unknowns):
        for one in of.arms:
            yield from lines_of(one)


def _rates(one: ArmLoad) -> Iterator[Line]:
    of = one.figures
    good = f", {shown(of.good_per_s)} of them good" if isinstance(of.good_per_s, Interval) else ""
    yield "per second", f"{one.arm}: {_rate(of.requests_per_s)} requests{good}"


def _events(one: ArmLoad) -> Iterator[Line]:
    counts = one.counts
    if counts.degraded:
        yield "degraded", f"{one.arm}: {count(counts.degraded, 'request')}, in no figure here"
    if counts.retried:
        yield "retried", f"{one.arm}: {count(counts.retried, 'request')}"
    if counts.opened:
        yield "circuit", f"{one.arm}: opened {count(counts.opened, 'time')}"


def _endings(one: ArmLoad) -> Iterator[Line]:
    counts = one.counts
    if counts.lost:
        yield "LOST", f"{one.arm}: {count(counts.lost, 'request')} came and never ended; believe nothing here"
    for reason, number in sorted(counts.reasons.items(), key=lambda pair: -pair[1])[:NAMED]:
        yield "not ok", f"{one.arm}: {number} {reason}"
    if counts.unfinished:
        yield "stopped", f"{one.arm}: {counts.unfinished}; its figures are of repeats that ended"


def _unknowns(one: ArmLoad) -> Iterator[Line]:
    """Why a figure of the first table has no interval; the CSV says it of all."""
    latency = {f"latency p{100 * q:g}": value for q, value in zip(QUANTILES, one.figures.times["latency"], strict=True)}
    versus = {} if one.arm == DIRECT else {f"vs {DIRECT}": one.versus}
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name, value in ({"tokens/s": one.figures.tokens_per_s} | versus | latency).items():
        if isinstance(value, Unknown):
            groups[value.reason].append(name)
    for reason, names in groups.items():
        yield "no interval", f"{one.arm}, {', '.join(names)}: {reason}"


def _memory(one: ArmLoad) -> Iterator[Line]:
    if isinstance(one.memory, Growth):
        word = {True: "GROWS", False: "stable", None: "too short to tell whether it grows"}[one.memory.grows]
        first, last, peak = map(size, (one.memory.first_bytes, one.memory.last_bytes, one.memory.peak_bytes))
        yield "memory", f"{one.arm}: {first} at first, {last} at last, {peak} at most: {word}"


def _closing(told: LoadReport) -> Iterator[Line]:
    plan, load = told.load.plan, told.load
    policy = plan.policy
    yield "intervals", DEPENDENT
    if plan.objective:
        yield "good", ", ".join(f"{name} within {limit:g} s" for name, limit in plan.objective.items())
    degrade = f", after {policy.degrade.after_s:g} s in the queue {policy.degrade}" if policy.degrade else ""
    tries = f"{count(1 + policy.retries, 'attempt')}, the circuit opens after {policy.failures} failures in a row"
    yield "policy", f"deadline {policy.deadline_s:g} s from arrival, {tries}{degrade}"
    if not load.complete:
        yield "incomplete", f"{len(load.left())} stages are left"
        yield "next", f"xpress-bench load --resume {load.folder}"
    yield "run", f"{load.folder}/"


def table(told: LoadReport) -> str:
    """Every measure in long form."""
    header = told.load.header
    assert header is not None
    rows = (
        (header.run, of.stage.name, one.arm, *row)
        for of in told.stages
        for one in of.arms
        for row in (*_counts(one), *(_measured(name, value) for name, value in _measures(one).items()))
    )
    return written(COLUMNS, rows)


def _counts(one: ArmLoad) -> Iterator[tuple[object, ...]]:
    counts = one.counts
    numbers = {"asked": counts.asked, "lost": counts.lost, "degraded": counts.degraded, "retried": counts.retried}
    numbers |= {name: counts.statuses.get(name, 0) for name in STATUSES}
    numbers |= {"identical": one.identical[0], "compared": one.identical[1], "circuit_opened": counts.opened}
    if isinstance(one.memory, Growth):
        memory = one.memory
        numbers |= {"memory_first_bytes": memory.first_bytes, "memory_last_bytes": memory.last_bytes}
        numbers |= {"memory_peak_bytes": memory.peak_bytes}
    yield from ((name, number, None, None, None, None, None) for name, number in numbers.items())


def _measures(one: ArmLoad) -> dict[str, Measure]:
    of = one.figures
    found = {name: getattr(of, name) for name in ("tokens_per_s", "requests_per_s", "good_per_s", "good")}
    for name in TIMES:
        found |= {f"{name}_s p{100 * q:g}": value for q, value in zip(QUANTILES, of.times[name], strict=True)}
    return found if one.arm == DIRECT else found | {f"tokens_per_s vs {DIRECT}": one.versus}


def _measured(name: str, value: Measure) -> tuple[object, ...]:
    if isinstance(value, Interval):
        return name, value.estimate, value.low, value.high, value.method, value.n, None
    return name, value.estimate, None, None, None, None, value.reason


def show_limits(probes: Sequence[Probe]) -> None:
    """Print the most rows of each arm that fitted, and why one more did not."""
    rows = []
    for arm in dict.fromkeys(probe.arm for probe in probes):
        own = [probe for probe in probes if probe.arm == arm]
        fit = max((probe for probe in own if probe.fits), key=lambda probe: probe.rows, default=None)
        more = min((probe for probe in own if not probe.fits), key=lambda probe: probe.rows, default=None)
        peak = NONE if fit is None or fit.peak_bytes is None else size(fit.peak_bytes)
        why = NONE if more is None else f"{more.rows}: {more.reason}"
        rows.append((printable(arm), str(fit.rows if fit else 0), peak, printable(why)))
    grid = Table(("arm", "rows that fit", "peak memory", "first that did not"), tuple(rows))
    lay_out(
        Page(("xpress-bench load --find-limit",), (Section(None, "Most rows together:", grid, (), None),), ()),
        "terminal",
    )
