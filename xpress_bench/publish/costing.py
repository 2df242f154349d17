"""What a step costs and what it has to bring: lines of `explain`, and the whole report of a run with random weights."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from xpress_bench.analyse.cost import Cost, cost, step_s
from xpress_bench.analyse.digits import NONE, seconds, shown, significant
from xpress_bench.analyse.reduce import Selection, select
from xpress_bench.analyse.stages import Stages
from xpress_bench.analyse.summary import DIRECT, ArmSummary, ConditionSummary, Summary
from xpress_bench.publish.lines import Line, left_out, memory_line, printable, printable_lines
from xpress_bench.publish.page import Page, Section, Table, peak, title
from xpress_bench.records import Run

PARTS = ("draft", "refine", "verify", "rest")
AT = (1, 1.5, 2, 3, 4, 6, 8, 12, 16)  # tokens per step
RANDOM = "Random weights: what steps cost is measured. Output, acceptance and speed-up of these requests mean nothing."


def page(run: Run, summary: Summary) -> Page:
    """The report of a run with random weights."""
    sections = tuple(_section(select(run, of.condition).whole(), of, summary) for of in summary.conditions)
    return Page(title(summary), sections, (("run", printable(f"{summary.folder}/")),))


def _section(selection: Selection, of: ConditionSummary, summary: Summary) -> Section:
    pays = "; refinement pays if tokens per step grow by more"
    lines = [("cost", longer + pays) for _, longer, _ in _refinements(selection, of)]
    lines += chain.from_iterable(memory_line(of, one) for one in of.arms)
    lines += [("timing", flag) for flag in of.stability.flags]
    lines += left_out("failed", of.failed)
    return Section(
        heading=str(of.condition) if len(summary.conditions) > 1 else None,
        verdict=RANDOM,
        table=_steps(selection, of),
        lines=tuple(printable_lines(lines)),
        breakdown=_speed_ups(of),
    )


def _steps(selection: Selection, of: ConditionSummary) -> Table:
    """A step of direct generation is one token; the parts are means."""
    columns = ("arm", "a step", *(f"{part} ms" for part in PARTS), "breaks even at tokens/step", "peak memory")
    rows = []
    for one in of.arms:
        name, parts, even = one.arm.name, [NONE] * len(PARTS), NONE
        if isinstance(one.stages, Stages):
            parts = [significant(getattr(one.stages, f"{part}_s") * 1e3, 3) for part in PARTS]
        if isinstance(one.cost, Cost):
            even = shown(one.cost.break_even_tokens_per_step)
        rows.append((printable(name), seconds(step_s(selection.of(name))), *parts, even, peak(one.memory)))
    return Table(columns, tuple(rows))


def _speed_ups(of: ConditionSummary) -> Table:
    """Of decoding, prefill left out, at tokens per step from 1 to a whole block."""
    most = max((one.arm.block_size or 0 for one in of.arms), default=0) or AT[-1]
    at = [tokens for tokens in AT if tokens <= most]
    rows = [
        (printable(one.arm.name), *(shown(one.cost.decoding_speed_up(tokens)) for tokens in at))
        for one in of.arms
        if isinstance(one.cost, Cost)
    ]
    return Table((f"decoding speed-up vs {DIRECT} at tokens/step", *(f"{tokens:g}" for tokens in at)), tuple(rows))


def cost_lines(selection: Selection, of: ConditionSummary) -> Iterator[Line]:
    """The cost model of every arm over direct generation, and of refinement over the same drafter without it."""
    for one in of.arms:
        if isinstance(one.cost, Cost):
            yield "cost", f"{one.arm.name} vs direct: {_model(one, one.cost)}"
    for one, longer, found in _refinements(selection, of):
        pays = f"which pays from {shown(found.break_even_tokens_per_step)} tokens per step on"
        yield "cost", f"{longer}, {pays}; it has {_tokens_per_step(one)}"


def _refinements(selection: Selection, of: ConditionSummary) -> Iterator[tuple[ArmSummary, str, Cost]]:
    """Arms with a refiner, beside each arm of the same drafter without one."""
    for one in of.arms:
        for plain in of.arms:
            if one.arm.refiner and plain.arm.drafter == one.arm.drafter and not plain.arm.refiner:
                found = cost(selection.of(plain.arm.name), selection.of(one.arm.name))
                if isinstance(found, Cost):
                    longer = f"a step takes {shown(found.step_ratio)} times as long"
                    yield one, f"{one.arm.name} vs {plain.arm.name}: {longer}", found


def _model(one: ArmSummary, found: Cost) -> str:
    free = {"drafting": found.draft_free_speed_up}
    if one.arm.refiner:
        free["refining"] = found.refine_free_speed_up
    limits = ", ".join(f"{shown(speed_up)} if {stage} were free" for stage, speed_up in free.items())
    even = f"breaks even at {shown(found.break_even_tokens_per_step)} tokens per step and has {_tokens_per_step(one)}"
    speed_up = f"predicted speed-up {shown(found.predicted_speed_up)}, {limits}"
    return f"{even}; {speed_up}; efficiency {shown(found.efficiency)}"


def _tokens_per_step(one: ArmSummary) -> str:
    return shown(one.tokens_per_step)
