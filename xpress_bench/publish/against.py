"""A run beside a publication, figure by figure, as a page: theirs, ours, how far apart they may be, and the outcome."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import get_args

from xpress_bench.analyse.digits import NONE, fixed, shown
from xpress_bench.analyse.published import Publication
from xpress_bench.analyse.reproduce import Compared, Outcome, against, sought
from xpress_bench.analyse.summary import summarise
from xpress_bench.publish import page as report
from xpress_bench.publish.lines import Line, named, printable, printable_lines
from xpress_bench.publish.page import Page, Section, Table
from xpress_bench.records import Run
from xpress_bench.suites import Item

COLUMNS = ("data set", "condition", "arm", "metric", "theirs", "ours", "tolerance", "outcome")


def page(run: Run, publication: Publication, items: Sequence[Item] = ()) -> tuple[Page, bool]:
    """The page, and whether any figure was compared and none failed. `run` and `items` as for `against`."""
    found, ours = against(run, publication, items), report.page(summarise(run))
    outcomes = Counter(one.outcome for one in found)
    lines = [*_reasons(found), *_compared(found)]
    if not found:
        lines += [
            ("no counterpart", f"{what}: {named(there)} there, {named(here)} here")
            for what, there, here in sought(run.header, publication, items)
        ]
    lines += _origin(found, publication)
    table = Table(COLUMNS, tuple(tuple(map(printable, _row(one))) for one in found))
    section = Section(None, printable(_verdict(outcomes, publication)), table, tuple(printable_lines(lines)), None)
    passed = outcomes["reproduced"] > 0 and not outcomes["not reproduced"]
    return Page((*ours.title, printable(f"against {publication.title}")), (section,), ours.lines), passed


def _verdict(outcomes: Counter[Outcome], publication: Publication) -> str:
    compared = outcomes["reproduced"] + outcomes["not reproduced"]
    told = [f"{outcomes[name]} {name}" for name in get_args(Outcome) if outcomes[name]]
    said = ", ".join(told) or "none has a counterpart in this run"
    return f"{compared} of {sum(1 for _ in publication.figures())} published figures compared: {said}"


def _row(one: Compared) -> Iterator[str]:
    yield one.dataset
    yield str(one.condition)
    yield one.arm
    yield one.metric
    yield fixed(one.theirs, one.how.decimals)
    yield shown(one.ours)
    yield NONE if one.tolerance is None else fixed(one.tolerance, one.how.decimals + 1)
    yield one.outcome


def _reasons(found: Sequence[Compared]) -> Iterator[Line]:
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for one in found:
        for reason in one.reasons:
            groups[reason].append(f"{one.arm} on {one.dataset}")
    for reason, places in groups.items():
        yield "not comparable", f"{reason} ({named(places)})"


def _compared(found: Sequence[Compared]) -> Iterator[Line]:
    compared = [one for one in found if one.outcome != "not comparable"]
    if any(one.how.tolerance for one in compared):
        yield "tolerance", "as the authors state it"
    if any(not one.how.tolerance for one in compared):
        yield "tolerance", "half a unit of their last digit, and half of our interval"
    unsaid = dict.fromkeys(name for one in compared for name in one.unsaid())
    if unsaid:
        yield "not checked", f"they do not say {', '.join(unsaid)}"


def _origin(found: Sequence[Compared], publication: Publication) -> Iterator[Line]:
    yield "theirs", f"{publication.source} ({publication.confidence})"
    for confidence in dict.fromkeys(one.row.confidence for one in found if one.row.confidence):
        yield "theirs", f"{named(one.dataset for one in found if one.row.confidence == confidence)}: {confidence}"
