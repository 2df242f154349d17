"""Can the gate fail? Defects are planted, and every one of them has to be seen; without them nothing may be seen."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from xpress_bench.flags import settings_of

if TYPE_CHECKING:
    from xpress_bench.analyse.gate import Check, Design, Outcome

EVIDENCE = "self-test"


def self_test(words: Sequence[str], design: Design) -> Iterator[Check]:
    """One check per plant and one per clean control; a pass means that the gate said what it had to say."""
    yield from _counted(words)
    yield from _timed(words, design)


def _counted(words: Sequence[str]) -> Iterator[Check]:
    from xpress_bench.analyse.counted import counted_checks
    from xpress_bench.analyse.gate import outcome_of
    from xpress_bench.measure import planted
    from xpress_bench.measure.counting import count
    from xpress_bench.measure.progress import progress_for

    settings = settings_of(list(words), "xpress-bench gate")
    plants: dict[str, Callable[[], AbstractContextManager[None]]] = {
        "nothing planted": nullcontext,
        "a changed token": planted.changed_tokens,
        "worse drafts": planted.spoiled_drafts,
    }
    with progress_for("self-test, counting") as progress:
        base = count(settings, words, "self-test", progress)
        for name, plant in plants.items():
            with plant():
                checks = counted_checks(base, count(settings, words, name, progress), "counted work")
            faults = sum(len(check.details) for check in checks if check.outcome == "regression")
            wanted: Outcome = "pass" if plant is nullcontext else "regression"
            yield _said(f"counted work, {name}", outcome_of(checks), wanted, len(base.cells), f"{faults} differences")


def _timed(words: Sequence[str], design: Design) -> Iterator[Check]:
    from xpress_bench.analyse.gate import outcome_of
    from xpress_bench.measure.paired import Side, paired_checks
    from xpress_bench.measure.planted import slow_program

    tree = _own_tree()
    refining = settings_of(list(words), "xpress-bench gate").refiner.name != "none"
    plants = {
        "nothing planted": ("-m", "xpress_bench"),
        f"{design.slow_down:.0%} slower": slow_program(design.slow_down, refining=refining),
    }
    for name, program in plants.items():
        sides = Side("base", sys.executable, tree), Side("candidate", sys.executable, tree, program)
        checks = list(paired_checks(*sides, words, design, limits=None))
        wanted: Outcome = "pass" if name == "nothing planted" else "regression"
        told = "; ".join(f"{check.name}: {check.text}" for check in checks[1:])
        yield _said(f"wall time, {name}", outcome_of(checks), wanted, design.pairs, told)


def _said(name: str, outcome: Outcome, wanted: Outcome, compared: int, text: str) -> Check:
    """What the gate said against what it had to say; not knowing is not knowing, not a fault of the gate."""
    from xpress_bench.analyse.gate import Check

    if outcome == wanted:
        return Check(EVIDENCE, name, "pass", compared, f"the gate said {outcome}: {text}")
    verdict: Outcome = "inconclusive" if outcome == "inconclusive" else "regression"
    return Check(EVIDENCE, name, verdict, compared, f"the gate said {outcome}, it had to say {wanted}: {text}")


def _own_tree() -> Path:
    """Where this very package is imported from."""
    return Path(__file__).resolve().parents[1]
