"""Admission of a submission: one small function for each rule. Everything is recomputed, nothing is believed.

A rule looks at a `Submission` and says what is wrong with it, or nothing. Whoever wrote the journal may have written
anything into it: the rules of `FIRST` bound what those of `THEN` take for granted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xpress_bench.publish.checks import measuring, results, shape
from xpress_bench.publish.checks.submission import Submission

AGAIN = "measure again and submit the run as it is"


@dataclass(frozen=True, slots=True)
class Check:
    """`fault` says what is wrong with a submission, None if nothing is; its docstring is the rule."""

    code: str
    fault: Callable[[Submission], str | None]
    remedy: str

    @property
    def rule(self) -> str:
        return " ".join((self.fault.__doc__ or "").split())


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule that a submission breaks."""

    code: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"[{self.code}] {self.what}: {self.remedy}"


FIRST = (
    Check("schema", shape.header, AGAIN),
    Check("numbers", shape.numbers, AGAIN),
    Check("suite", shape.suite, "run a suite of `xpress-bench list suites` without limit, turns or max_new_tokens"),
    Check("cells", shape.cells, "let the run end"),
)
THEN = (
    Check("order", measuring.order, AGAIN),
    Check("launches", measuring.launches, "measure with profile=paper, or profile=standard launches=5"),
    Check(
        "quiet",
        measuring.quiet,
        "measure again while nothing else runs, where /proc and for a GPU NVML can be read; `xpress-bench doctor` says "
        "what disturbs",
    ),
    Check("weights", measuring.weights, "measure with trained weights"),
    Check("memory", measuring.memory, "measure with memory=true"),
    Check("tree", measuring.tree, "commit, then measure again"),
    Check("caching", measuring.caching, "keep nothing between requests, and ask twice at least: repeats=2"),
    Check("tokens", results.tokens, AGAIN),
    Check("summary", results.declared, "submit the run again"),
    Check("parity", results.parity, AGAIN),
)


def faults(submission: Submission) -> list[Fault]:
    """The rules that a submission breaks; those of `THEN` are tried only if it keeps all of `FIRST`."""
    for check in FIRST:  # each bounds what the next one reads
        fault = _fault(check, submission)
        if fault:
            return [fault]
    return [fault for check in THEN if (fault := _fault(check, submission))]


def _fault(check: Check, submission: Submission) -> Fault | None:
    try:
        what = check.fault(submission)
    except Exception as error:  # a journal can be wrong in more ways than anybody lists
        what = f"cannot be judged ({type(error).__name__}: {str(error)[:200]})"
    return Fault(check.code, what, check.remedy) if what else None
