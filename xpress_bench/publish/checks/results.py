"""Rules about what a run says it found."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from xpress_bench.analyse.parity import Parity
from xpress_bench.analyse.summary import DIRECT
from xpress_bench.publish.bundle import Headline
from xpress_bench.publish.checks.submission import Submission, headline
from xpress_bench.publish.lines import named
from xpress_bench.records import Cell

SAME = 1e-6  # relative: another version of numpy may round the last digits in another way


def tokens(one: Submission) -> str | None:
    """Output ids are as many as the verify steps committed, and end at the first stop id."""
    stop_ids = set(one.journal.header.target["stop_ids"])
    for cell in one.journal.cells:
        fault = None if cell.error or cell.stop_reason == "short" else _miscounted(cell, stop_ids)
        if fault:
            return f"{cell.arm} on {cell.prompt}: {fault}"
    return None


def _miscounted(cell: Cell, stop_ids: set[int]) -> str | None:
    tally = cell.steps.tally
    if not cell.ids:
        return "no output"
    if len(cell.ids) > 1 and (cell.arm == DIRECT) == bool(tally.steps):
        return "direct generation takes no verify step, and every other arm does"
    if tally.steps and len(cell.ids) != 1 + tally.committed:  # the first id comes from the prompt's forward
        return f"{len(cell.ids)} output ids, but its steps committed {tally.committed} after the first"
    if not stop_ids.isdisjoint(cell.ids[:-1]) or (cell.stop_reason == "eos") != (cell.ids[-1] in stop_ids):
        return "it does not end at its first stop id"
    for (offered, accepted, committed, _), _ in tally.rounds:
        if accepted > offered or committed - accepted not in (0, 1):
            return f"a step accepted {accepted} of {offered} drafts and committed {committed} tokens"
    return None


def declared(one: Submission) -> str | None:
    """The declared figures are those that the journal gives."""
    computed, said = headline(one.summary), one.declaration.headline
    if len(computed) != len(said):
        return f"{len(said)} rows are declared, the journal gives {len(computed)}"
    for ours, theirs in zip(computed, said, strict=True):
        if not all(map(_same, _values(ours), _values(theirs))):
            return f"the declared figures of {ours.arm} ({ours.condition}) are not those of the journal"
    return None


def _values(one: Headline) -> Iterator[Any]:
    speed_up = one.speed_up or (None, None, None)
    yield from (one.condition, one.arm, *speed_up, one.latency_s, one.tokens_per_step, one.identical)


def _same(ours: Any, theirs: Any) -> bool:
    both = isinstance(ours, float) and isinstance(theirs, float)
    return math.isclose(ours, theirs, rel_tol=SAME) if both else bool(ours == theirs)


def parity(one: Submission) -> str | None:
    """Every output that differs from that of direct generation was judged by a replay."""
    for of in one.summary.conditions:
        for arm in of.arms:
            places = arm.parity.divergences if isinstance(arm.parity, Parity) else ()
            unjudged = [place.prompt for place in places if place.verdict is None]
            if unjudged:
                return f"{arm.arm.name} differs from direct, and no replay says why: {named(unjudged)}"
    return None
