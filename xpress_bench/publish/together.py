"""Several runs in one table, as papers show methods: a row for each arm of each run, beside its own direct arm.

Runs of another suite, target, dtype or way of generating are refused, and so are other prompts: their speed-ups say
nothing of each other. Two runs are still two sessions, so the speed-up over the direct arm measured beside an arm is
what rows of different runs may be compared by, never the latency. Runs of different batch sizes become a table of
throughput against batch size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from xpress_bench.analyse.headers import machines, refuse
from xpress_bench.analyse.summary import DIRECT, Summary
from xpress_bench.analyse.throughput import curves
from xpress_bench.analyse.verdict import described
from xpress_bench.errors import UsageError
from xpress_bench.publish import throughput
from xpress_bench.publish.lines import Line, count, printable, printable_lines
from xpress_bench.publish.page import Page, Section, Table, page, title
from xpress_bench.records import Condition, Header

SHOWN = ("median latency", f"speed-up vs {DIRECT}", "tokens/step", "accepted", "identical", "score")  # of each report
TOLD = ("differs", "not compared", "failed", "short", "timing")  # lines of each report that a row may not go without


def together(summaries: Sequence[Summary]) -> Page:
    """The page of several runs. UsageError if they cannot stand in one table, saying what differs."""
    conditions, first = common(summaries), summaries[0]
    sections = tuple(_section(summaries, condition, alone=len(conditions) == 1) for condition in conditions)
    if several_sizes(summaries):
        first = replace(first, header=replace(first.header, batches=()))  # the title is of all runs
    return Page(title(first), sections, tuple(printable_lines(_closing(summaries))))


def several_sizes(summaries: Sequence[Summary]) -> bool:
    """Whether the runs are of different batch sizes."""
    return len({one.header.rows for one in summaries}) > 1


def common(summaries: Sequence[Summary]) -> list[Condition]:
    """The conditions of all runs. UsageError if the runs cannot stand in one table, saying what differs."""
    headers = [one.header for one in summaries]
    for header in headers:
        if DIRECT not in {arm.name for arm in header.arms}:
            raise UsageError(f"run {header.run!r} has no arm {DIRECT!r}, so its speed-ups have no common base")
    for ours, theirs in pairwise(headers):
        refuse(ours, theirs, may_differ=("batch_size",))
        _refuse_other_prompts(ours, theirs)
    conditions = [one for one in headers[0].conditions if all(one in header.conditions for header in headers)]
    if not conditions:
        raise UsageError("the runs share no condition: measure all at the same temperature and with the same verifier")
    return conditions


def _refuse_other_prompts(ours: Header, theirs: Header) -> None:
    if set(ours.prompts) != set(theirs.prompts):
        raise UsageError(
            f"runs {ours.run!r} and {theirs.run!r} ran different prompts of the suite, {len(ours.prompts)} and "
            f"{len(theirs.prompts)}; measure both with the same limit, a multiple of their batch sizes"
        )


def _section(summaries: Sequence[Summary], condition: Condition, alone: bool) -> Section:
    rows: list[tuple[str, ...]] = []
    lines: list[Line] = []
    for number, summary in enumerate(summaries, start=1):
        at = summary.header.conditions.index(condition)
        own = page(summary).sections[at]
        rows += _rows(str(number), summary, at, own.table)
        lines += [(label, f"run {number}, {text}") for label, text in own.lines if label in TOLD]
    told = f"{count(len(rows), 'arm')} of {count(len(summaries), 'run')}"
    table = Table(("arm", "run", *SHOWN), tuple(rows))
    verdict = f"{told}, each with its speed-up over the direct arm of the same run."
    if several_sizes(summaries):
        found = curves(summaries, condition)
        table, verdict, lines = throughput.table(found), throughput.verdict(found), [*throughput.lines(found), *lines]
    heading = None if alone else str(condition)
    return Section(heading, printable(_unfinished(summaries) + verdict), table, tuple(printable_lines(lines)), None)


def _unfinished(summaries: Sequence[Summary]) -> str:
    torn = [str(number) for number, summary in enumerate(summaries, start=1) if not summary.complete]
    return f"Not finished: run {', '.join(torn)}. " if torn else ""


def _rows(number: str, summary: Summary, at: int, table: Table) -> Iterator[tuple[str, ...]]:
    steps = ", compiled" if summary.header.settings.get("compile") else ""
    for one, row in zip(summary.conditions[at].arms, table.rows, strict=True):
        cells = dict(zip(table.columns, row, strict=True))
        yield printable(described(one.arm)) + steps, number, *(cells[column] for column in SHOWN)


def _closing(summaries: Sequence[Summary]) -> Iterator[Line]:
    for number, summary in enumerate(summaries, start=1):
        other = machines(summaries[0].header, summary.header)
        if other:
            yield "warning", f"run {number} is of another machine than run 1: {', '.join(one.what for one in other)}"
        yield f"run {number}", f"{summary.folder}/"
