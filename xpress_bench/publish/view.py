"""A run as every layout takes it: what is said of it, and under each condition the cells that it was made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xpress_bench.analyse.cost import random_weights
from xpress_bench.analyse.reduce import Selection, select
from xpress_bench.analyse.score import Scorable
from xpress_bench.analyse.summary import ConditionSummary, Summary, by, summarise
from xpress_bench.publish import costing, page
from xpress_bench.records import Cell, Header, Replay, Run

OUT_OF_MEMORY = "oom:"  # how the error of such a request begins


@dataclass(frozen=True, slots=True)
class View:
    """`heading`: as on the page, None for the only condition. `groups`: the same results by a field, as a category."""

    heading: str | None
    of: ConditionSummary
    selection: Selection
    replays: tuple[Replay, ...]
    groups: Mapping[str, ConditionSummary]

    @property
    def base(self) -> str:
        """The arm that the others are compared with: direct, where there is one."""
        return self.of.arms[0].arm.name

    @property
    def compared(self) -> tuple[str, ...]:
        """The other arms."""
        return tuple(one.arm.name for one in self.of.arms[1:])

    def failed(self, arm: str) -> list[Cell]:
        """Requests of an arm that failed."""
        return [cell for cell in self.selection.failed if cell.arm == arm]

    def out_of_memory(self, arm: str) -> int:
        """How many of them failed because no memory was left."""
        return sum((cell.error or "").startswith(OUT_OF_MEMORY) for cell in self.failed(arm))


@dataclass(frozen=True, slots=True)
class Report:
    """`groups`: the summary again for each value of a field of the suite's items, empty where nothing divides them."""

    run: Run
    summary: Summary
    groups: Mapping[str, Summary]

    @property
    def header(self) -> Header:
        """What was run, on what."""
        return self.run.header

    @property
    def page(self) -> page.Page:
        """The report as text; of a run with random weights, what its steps cost."""
        if random_weights(self.header):
            return costing.page(self.run, self.summary)
        return page.page(self.summary, self.groups)

    @property
    def views(self) -> tuple[View, ...]:
        """A view of each condition, as many as the page has sections."""
        return views(self.run, self.summary, self.groups)


def views(run: Run, summary: Summary, groups: Mapping[str, Summary]) -> tuple[View, ...]:
    """A view of each condition; `groups` as in a report."""
    return tuple(
        View(
            str(of.condition) if len(summary.conditions) > 1 else None,
            of,
            select(run, of.condition),
            tuple(one for one in run.replays if one.condition == of.condition),
            {value: one.conditions[at] for value, one in groups.items()},
        )
        for at, of in enumerate(summary.conditions)
    )


def report(run: Run, items: Sequence[Scorable] = (), field: str | None = None) -> Report:
    """The report of a run, divided by a field of its items if one is named."""
    return Report(run, summarise(run, items), by(run, items, field) if field else {})
