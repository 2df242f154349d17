"""What the rules look at: a journal, what is declared of it, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from xpress_bench.analyse.intervals import Interval
from xpress_bench.analyse.parity import Parity
from xpress_bench.analyse.summary import ArmSummary, ConditionSummary, Summary, summarise
from xpress_bench.publish.bundle import Declaration, Headline
from xpress_bench.records import Run
from xpress_bench.suites import SUITES, Suite, load_suite


@dataclass(frozen=True)
class Submission:
    """A journal and what is declared of it."""

    journal: Run
    declaration: Declaration

    @cached_property
    def suite(self) -> Suite | None:
        """The suite of the package that was run; None if it is none."""
        said = self.journal.header.suite
        return known_suites().get((said["name"], said["sha256"]))

    @cached_property
    def run(self) -> Run:
        """The journal with margin and scorers as the suite has them, whatever its header says."""
        header, suite = self.journal.header, self.suite
        if suite is None:
            return self.journal
        own: dict[str, Any] = {"items": len(suite.items), "selected": len(header.prompts), "version": suite.version}
        own |= {"report_by": suite.report_by, "parity_margin": suite.parity_margin, "scorers": suite.scorers}
        return replace(self.journal, header=replace(header, suite=header.suite | own))

    @cached_property
    def summary(self) -> Summary:
        """All figures, from the journal alone."""
        return summarise(self.run, self.suite.items if self.suite else ())

    @property
    def arms(self) -> tuple[str, ...]:
        return tuple(arm.name for arm in self.journal.header.arms)


def headline(summary: Summary) -> tuple[Headline, ...]:
    """The figures that a submitter declares."""
    return tuple(_headline(of, one) for of in summary.conditions for one in of.arms)


@lru_cache(maxsize=1)
def known_suites() -> Mapping[tuple[str, str], Suite]:
    """The suites of the package by name and sha256."""
    ours = [entry.name for entry in SUITES.entries() if entry.origin == "xpress_bench"]
    return {(suite.name, suite.sha256): suite for suite in map(load_suite, ours)}


def _headline(of: ConditionSummary, one: ArmSummary) -> Headline:
    speed = of.speed_up(one.arm.name)
    ratio = speed.gmean_paired if speed else None
    return Headline(
        str(of.condition),
        one.arm.name,
        (ratio.estimate, ratio.low, ratio.high) if isinstance(ratio, Interval) else None,
        one.latency_s.estimate,
        one.tokens_per_step.estimate,
        one.parity.identical.estimate if isinstance(one.parity, Parity) else None,
    )
