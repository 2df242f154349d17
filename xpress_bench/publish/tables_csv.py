"""A run as CSV: every measure in long form, and the three logs that people tune by, from the cells.

UTF-8, a header row, numbers in full; an unknown is an empty field, with its reason where there is one. Text that a
spreadsheet would run as a formula begins with an apostrophe.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from io import StringIO
from itertools import chain, zip_longest

from xpress_bench.analyse.acceptance import Acceptance
from xpress_bench.analyse.cost import Cost
from xpress_bench.analyse.intervals import Interval, Measure, Unknown
from xpress_bench.analyse.parity import Parity
from xpress_bench.analyse.summary import ArmSummary, ConditionSummary
from xpress_bench.publish.lines import printable
from xpress_bench.publish.view import View
from xpress_bench.records import Cell, Memory

Row = tuple[object, ...]
ALL = "all"  # the group of every prompt
MEASURES = ("run", "condition", "group", "arm", "metric", "estimate", "low", "high", "method", "n", "reason")
CELL = ("condition", "arm", "launch", "prompt", "turn", "seed", "repeat")
STAGE_TIMES = (*CELL, "step", "draft_s", "refine_s", "verify_s", "batch")  # its rows have the same times
ACCEPTANCE = (*CELL, "step", "offered", "accepted", "committed", "refused_at")
INSIDE = (
    *("target_bytes", "drafter_bytes", "refiner_bytes", "caches_bytes", "graphs_bytes"),
    *("prefill_peak_bytes", "draft_peak_bytes", "refine_peak_bytes", "verify_peak_bytes", "decode_peak_bytes"),
)
MEMORY = (
    *("condition", "arm", "quantity", "peak_bytes", "torch_reserved_peak_bytes", "torch_allocated_peak_bytes"),
    *("reason", "requests", "failed", "out_of_memory"),
    *INSIDE,
    "unknown",
)
ACCEPTED = tuple(one.name for one in fields(Acceptance) if one.name not in ("steps", "accept_marginal_step"))


def files(run: str, views: Sequence[View]) -> dict[str, str]:
    """The four tables of a run by file name; its cells hold their steps."""
    return {
        "measures.csv": measures({run: views}),
        "stage_times.csv": written(STAGE_TIMES, chain.from_iterable(map(_stage_times, views))),
        "acceptance.csv": written(ACCEPTANCE, chain.from_iterable(map(_acceptance, views))),
        "memory.csv": written(MEMORY, chain.from_iterable(map(_memory, views))),
    }


def measures(runs: Mapping[str, Sequence[View]]) -> str:
    """Every measure of the report, a row each: estimate, interval, how it was made and of how many prompts."""
    rows = (
        (run, view.of.condition, group, *row)
        for run, views in runs.items()
        for view in views
        for group, of in ((ALL, view.of), *view.groups.items())
        for row in _measures(of)
    )
    return written(MEASURES, rows)


def written(columns: Sequence[str], rows: Iterable[Row]) -> str:
    """CSV text with a header row."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(map(_field, row) for row in rows)
    return out.getvalue()


def _field(value: object) -> object:
    if value is None or isinstance(value, int | float):
        return value
    text = printable(str(value))
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def _measures(of: ConditionSummary) -> Iterator[Row]:
    for one in of.arms:
        for metric, measure in _of_arm(one):
            yield one.arm.name, metric, *numbers(measure)
        yield one.arm.name, "peak_bytes", *_peak(one.memory)
        for speed in of.speed_ups:
            if speed.arm == one.arm.name:
                for rule in ("gmean_paired", "median_paired", "total_time"):
                    yield speed.arm, f"speedup_{rule} vs {speed.base}", *numbers(getattr(speed, rule))


def _of_arm(one: ArmSummary) -> Iterator[tuple[str, Measure]]:
    yield from (("latency_s", one.latency_s), ("tokens_per_s", one.tokens_per_s), ("score", one.score))
    took = one.acceptance
    for name in ACCEPTED:
        yield name, getattr(took, name)
    for position, share in enumerate(took.accept_marginal_step, start=1):
        yield f"accept_marginal_step[{position}]", share
    if isinstance(one.cost, Cost):
        yield from ((field.name, getattr(one.cost, field.name)) for field in fields(Cost))
    if isinstance(one.parity, Parity):
        yield from (("identical", one.parity.identical), ("explained", one.parity.explained))


def numbers(measure: Measure) -> Row:
    """Its fields of a row: estimate, low, high, method, n, reason."""
    if isinstance(measure, Interval):
        return measure.estimate, measure.low, measure.high, measure.method, measure.n, None
    return measure.estimate, None, None, None, None, measure.reason


def _peak(memory: Memory | Unknown) -> Row:
    if isinstance(memory, Unknown):
        return numbers(memory)
    return memory.peak_bytes, None, None, memory.quantity, None, memory.reason


def _stage_times(view: View) -> Iterator[Row]:
    for cell in view.selection.usable:
        steps = cell.steps
        times = zip_longest(steps.draft_s, steps.refine_s, steps.verify_s)
        yield from ((*_key(cell), at, *row, cell.batch) for at, row in enumerate(times, start=1))


def _acceptance(view: View) -> Iterator[Row]:
    for cell in view.selection.usable:
        steps = zip(cell.steps.offered, cell.steps.accepted, cell.steps.committed, strict=True)
        for at, (offered, accepted, committed) in enumerate(steps, start=1):
            refused = accepted < offered and committed > accepted  # else whole, empty, or cut by a stop id
            yield *_key(cell), at, offered, accepted, committed, accepted + 1 if refused else None


def _key(cell: Cell) -> Row:
    return cell.condition, cell.arm, cell.launch, cell.prompt, cell.turn, cell.seed, cell.repeat


def _memory(view: View) -> Iterator[Row]:
    for one in view.of.arms:
        name, peak = one.arm.name, one.memory
        known = [None if isinstance(peak, Unknown) else getattr(peak, column) for column in MEMORY[2:6]]
        failed = len(view.failed(name))
        yield (
            view.of.condition,
            name,
            *known,
            peak.reason,
            len(view.selection.of(name)) + failed,
            failed,
            view.out_of_memory(name),
            *_inside(peak),
        )


def _inside(memory: Memory | Unknown) -> Row:
    """Bytes of each part and stage, and why some are not known."""
    if isinstance(memory, Unknown):
        return (*(None,) * len(INSIDE), None)
    found = {f"{name}_bytes": held for name, held in memory.parts_bytes.items()}
    found |= {f"{stage}_peak_bytes": peak for stage, peak in memory.stage_peak_bytes.items()}
    reasons = "; ".join(f"{name}: {reason}" for name, reason in memory.unknown.items())
    return (*map(found.get, INSIDE), reasons or None)
