"""The three logs that people tune by, shortened to a row for each arm or draft position."""

from __future__ import annotations

from collections.abc import Iterator

from xpress_bench.analyse.digits import NONE, shown, significant, size
from xpress_bench.analyse.intervals import Unknown
from xpress_bench.analyse.knee import STAGES
from xpress_bench.analyse.ledger import truncation
from xpress_bench.analyse.summary import ArmSummary
from xpress_bench.publish.lines import printable
from xpress_bench.publish.page import Table
from xpress_bench.publish.view import View
from xpress_bench.records import Memory


def logs(view: View) -> tuple[tuple[str, Table], ...]:
    """Captions and tables; the cells hold their steps."""
    return (
        ("Stage times: ms per verify step", _stage_times(view)),
        ("Acceptance and truncation by draft position, from 1", _positions(view)),
        ("Memory and what ran out of it", _memory(view)),
    )


def _stage_times(view: View) -> Table:
    rows = []
    for one in view.of.arms:
        if not isinstance(one.stages, Unknown):
            times = [significant(getattr(one.stages, f"{stage}_s") * 1e3, 3) for stage in STAGES]
            rows.append((printable(one.arm.name), str(one.stages.steps), *times))
    return Table(("arm", "steps", *STAGES), tuple(rows))


def _positions(view: View) -> Table:
    rows = tuple(row for one in view.of.arms for row in _positions_of(view, one))
    return Table(("arm", "position", "accepted up to here", "blocks that broke here", "share of steps"), rows)


def _positions_of(view: View, one: ArmSummary) -> Iterator[tuple[str, ...]]:
    ends = truncation(view.selection.whole().of(one.arm.name))
    if isinstance(ends, Unknown):
        return
    name, steps = printable(one.arm.name), one.acceptance.steps
    for at, (share, broke) in enumerate(zip(one.acceptance.accept_marginal_step, ends.broke, strict=True), start=1):
        yield name, str(at), shown(share), str(broke), f"{100 * broke / steps:.1f} %"
    for what, count in (("whole block", ends.whole), ("cut by a stop id", ends.stopped), ("no draft", ends.empty)):
        yield name, what, NONE, str(count), f"{100 * count / steps:.1f} %"


def _memory(view: View) -> Table:
    rows = [tuple(map(printable, _memory_of(view, one))) for one in view.of.arms]
    return Table(("arm", "peak", "quantity", "failed requests", "out of memory"), tuple(rows))


def _memory_of(view: View, one: ArmSummary) -> Iterator[str]:
    peak, name = one.memory, one.arm.name
    yield name
    yield size(peak.peak_bytes) if isinstance(peak, Memory) and peak.peak_bytes is not None else NONE
    yield peak.quantity if isinstance(peak, Memory) and not peak.reason else peak.reason or NONE
    yield str(len(view.failed(name)))
    yield str(view.out_of_memory(name))
