"""The page of `explain RUN`: what the rules found with a command for each, where blocks broke, what refinement did."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from xpress_bench.analyse.digits import NONE, shown, significant
from xpress_bench.analyse.evidence import Evidence, examine
from xpress_bench.analyse.explain import RULES, Finding, judge
from xpress_bench.analyse.intervals import Measure, Unknown
from xpress_bench.analyse.law import LEVEL
from xpress_bench.analyse.ledger import Slot, Truncation, right_by_slot, truncation
from xpress_bench.analyse.reduce import Selection, select
from xpress_bench.analyse.score import Scorable
from xpress_bench.analyse.served import servers
from xpress_bench.publish import page as report
from xpress_bench.publish.costing import cost_lines
from xpress_bench.publish.lines import Line, count, printable, printable_lines
from xpress_bench.publish.page import Page, Section, Table
from xpress_bench.records import Run

LEVELS = {1: "1 runs", 2: "2 quality", 3: "3 latency", 4: "4 stable"}
LEDGER = (
    *("arm", "slot", "kept right", "repaired", "broken", "changed", "kept wrong", "not judged"),
    *("right before", "right after", "extended", "cut"),
)


def page(run: Run, items: Sequence[Scorable] = ()) -> Page:
    """Findings in the order of the rules, condition by condition. UsageError on a journal that contradicts itself."""
    evidence = examine(run, items)
    findings = judge(evidence)
    sections = tuple(
        _section(
            select(run, condition).whole(),
            [one for one in evidence if one.of.condition == condition],
            [one for one in findings if one.condition == condition],
            str(condition) if len(run.header.conditions) > 1 else None,
        )
        for condition in run.header.conditions
    )
    return Page(report.page(evidence[0].summary).title, sections, (("run", printable(f"{run.folder}/")),))


def _section(
    selection: Selection, evidence: Sequence[Evidence], findings: Sequence[Finding], heading: str | None
) -> Section:
    rules = sum(map(len, RULES.values()))
    found = f"{count(len(findings), 'finding')} by {rules} rules; begin with the first."
    return Section(
        heading=heading,
        verdict=found if findings else f"None of the {rules} rules fires: they know of nothing to try.",
        table=_truncations(selection, evidence),
        lines=tuple(printable_lines([*_findings(findings), *_diagnostics(selection, evidence)])),
        breakdown=_ledgers(evidence),
    )


def _findings(findings: Sequence[Finding]) -> Iterator[Line]:
    for finding in findings:
        yield LEVELS[finding.level], finding.what
        for line in finding.evidence:
            yield "evidence", line
        yield "try", finding.command


def _truncations(selection: Selection, evidence: Sequence[Evidence]) -> Table:
    """Verify steps of each arm by the slot that broke the block; slot 1 is the first draft token."""
    ends = {one.one.arm.name: truncation(selection.of(one.one.arm.name)) for one in evidence}
    slots = max((len(end.broke) for end in ends.values() if isinstance(end, Truncation)), default=0)
    columns = ("blocks that broke", *(f"at slot {slot}" for slot in range(1, slots + 1)))
    rows = tuple((printable(name), *_ends(end, slots)) for name, end in ends.items())
    return Table((*columns, "nowhere", "cut by a stop id", "without a draft"), rows)


def _ends(end: Truncation | Unknown, slots: int) -> tuple[str, ...]:
    if isinstance(end, Unknown):
        return (NONE,) * (slots + 3)
    broke = [str(steps) for steps in end.broke] + [NONE] * (slots - len(end.broke))
    return (*broke, str(end.whole), str(end.stopped), str(end.empty))


def _ledgers(evidence: Sequence[Evidence]) -> Table | None:
    known = [(one.one.arm.name, one.ledger.slots) for one in evidence if not isinstance(one.ledger, Unknown)]
    rows = tuple((printable(name), *_row(slot)) for name, slots in known for slot in slots)
    return Table(LEDGER, rows) if rows else None


def _row(slot: Slot) -> tuple[str, ...]:
    counts = (slot.slot, slot.kept_right, slot.repaired, slot.broken, slot.changed, slot.kept_wrong, slot.unjudged)
    shares = (_percent(slot.right_before), _percent(slot.right_after))
    return (*map(str, counts), *shares, str(slot.extended), str(slot.cut))


def _diagnostics(selection: Selection, evidence: Sequence[Evidence]) -> Iterator[Line]:
    for one in evidence:
        right = right_by_slot(selection.of(one.one.arm.name))
        if not isinstance(right, Unknown):
            slots = ", ".join(map(_percent, right))
            yield "right at the position", f"{one.one.arm.name}, raw drafts by slot: {slots}"
        yield from _refinement(one)
    curves = {one.one.arm.drafter: one for one in reversed(evidence)}  # the first arm of each drafter
    for one in evidence:
        yield from _calibration(one, curve=curves[one.one.arm.drafter] is one)
    for one in evidence:
        yield from _law(one)
    yield from cost_lines(selection, evidence[0].of)
    yield from _unknowns(evidence)
    if _ledgers(evidence):
        yield "judged", "right is what the output has at the same position, whatever stands before it"
        yield "judged", "extended and cut count accepted prefixes, which refinement made longer or shorter at a slot"


def _refinement(one: Evidence) -> Iterator[Line]:
    name, kept = one.one.arm.name, one.ledger
    if not isinstance(kept, Unknown):
        yield "gain", f"{name}: {shown(kept.gain)} accepted tokens per step, {shown(kept.gain_per_ms)} per refiner ms"
    for at in () if isinstance(one.passes, Unknown) else one.passes:
        accepted = f"{name}, after pass {at.number}: {shown(at.accepted)} accepted per step"
        per_ms = f", {shown(at.gain_per_ms)} per ms" if at.cost_s else ""
        change = f"; gain {shown(at.gain)}{per_ms}; {at.repaired} tokens repaired, {at.broken} broken"
        yield "passes", accepted + (change if at.number else "")


def _calibration(one: Evidence, curve: bool) -> Iterator[Line]:
    """How sure the drafter is of its raw drafts; the reliability `curve` is much alike in all arms that share it."""
    name, found = one.one.arm.name, one.calibration
    if isinstance(found, Unknown):
        return
    error = f"expected calibration error {found.error:.3f}, confidence less share right {shown(found.excess)}"
    yield "calibration", f"{name}: {error}; of raw drafts up to the first wrong token of a block"
    for group in found.bins if curve else ():
        right = f"{shown(group.right, 100)} % of {count(group.tokens, 'token')} right"
        where = f"{name}, confidence {group.low:.1f} to {group.high:.1f}, mean {group.confidence:.2f}"
        yield "calibration", f"{where}: {right}"


def _unknowns(evidence: Sequence[Evidence]) -> Iterator[Line]:
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for one in evidence:
        if servers(one.summary.header):
            groups["servers do not tell"].append(f"what happens in a step ({one.one.arm.name})")
            continue
        asked: dict[str, object] = {"calibration": one.calibration} if one.one.arm.drafter else {}
        if one.one.arm.refiner:
            asked |= {"what refinement did": one.ledger, "which passes mattered": one.passes}
        if one.of.condition.verifier == "rejection" and one.one.arm.drafter:
            asked["draft law"] = one.law
        for what, value in asked.items():
            if isinstance(value, Unknown):
                groups[value.reason].append(f"{what} ({one.one.arm.name})")
    for reason, whats in groups.items():
        yield "not known", f"{', '.join(whats)}: {reason}"


def _law(one: Evidence) -> Iterator[Line]:
    name, found = one.one.arm.name, one.law
    if isinstance(found, Unknown):
        return
    outcome = f"refuted, p below {LEVEL}" if found.refuted else f"not refuted, p {significant(found.p_value, 2)}"
    where = f"{found.tokens} tokens stand at {found.place:.3f} of their law on average, 0.5 expected"
    yield "draft law", f"{name}: {outcome}; {where}"


def _percent(share: Measure) -> str:
    text = shown(share, 100, bounds=False)
    return text if text == NONE else f"{text} %"
