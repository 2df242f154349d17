"""What trouble-shooting looks at: all that is known of an arm under a condition, and the command to try."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from xpress_bench.analyse.calibration import Calibration, calibration
from xpress_bench.analyse.digits import shown
from xpress_bench.analyse.intervals import Measure, Unknown
from xpress_bench.analyse.knee import Knee, knee, stage_shares
from xpress_bench.analyse.law import DraftLaw, draft_law
from xpress_bench.analyse.ledger import Ledger, ledger
from xpress_bench.analyse.passes import Pass, passes
from xpress_bench.analyse.reduce import Paired, pair, select
from xpress_bench.analyse.score import Scorable
from xpress_bench.analyse.summary import DIRECT, ArmSummary, ConditionSummary, Summary, summarise
from xpress_bench.records import Header, Run

_KEYS = {"target": "target.name", "drafter": "drafter.name", "refiner": "refiner.name"}
_KEYS |= {"verifier": "verifiers", "temperature": "temperatures"}  # of flags; the others are called like their key
_SWITCHES = ("--compile",)  # flags without a value
Changes = Mapping[str, object]  # setting -> new value


@dataclass(frozen=True, slots=True)
class Evidence:
    """One arm under one condition. `shares`: of the latency, by stage, empty if not known; `paired`: with direct.

    passes, calibration, law: what the trace pass saw.
    """

    summary: Summary
    of: ConditionSummary
    one: ArmSummary
    ledger: Ledger | Unknown
    knee: Knee | Unknown
    shares: Mapping[str, Measure]
    paired: Paired
    passes: tuple[Pass, ...] | Unknown
    calibration: Calibration | Unknown
    law: DraftLaw | Unknown

    def again(self, changes: Changes, command: str = "") -> str:
        return again(self.summary.header, changes, command)

    def worst(self) -> str:
        """The prompts on which the arm loses most, with their speed-ups over direct."""
        ratios = sorted(self.paired.log_ratios().items(), key=lambda one: one[1])
        return ", ".join(f"{prompt} {math.exp(ratio):.2f}x" for prompt, ratio in ratios[:3])

    def report(self) -> str:
        return f"xpress-bench report {shlex.quote(str(self.summary.folder))} --by category"


Told = tuple[str, Sequence[str], str]  # what, evidence, command
Rule = Callable[[Evidence], Told | None]


def examine(run: Run, items: Sequence[Scorable] = ()) -> list[Evidence]:
    """The evidence of every arm but direct, or of direct where it is alone, condition by condition."""
    summary = summarise(run, items)
    found = []
    for of in summary.conditions:
        selection = select(run, of.condition).whole()
        direct = selection.of(DIRECT)
        for one in [one for one in of.arms if one.arm.name != DIRECT] or of.arms:
            cells = selection.of(one.arm.name)
            seen = [trace for trace in run.traces if (trace.arm, trace.condition) == (one.arm.name, of.condition)]
            kept, best, shares = ledger(one.arm, cells), knee(cells, direct), stage_shares(cells)
            watched = passes(one.arm, seen, cells), calibration(seen), draft_law(seen)
            paired = pair(selection.timed(DIRECT), selection.timed(one.arm.name))
            found.append(Evidence(summary, of, one, kept, best, shares, paired, *watched))
    return found


def again(header: Header, changes: Changes, command: str = "") -> str:
    """The command line of a run with settings changed, or of another command with its words; replaced words go."""
    gone = set(changes) | {group for group in ("drafter", "refiner") if f"{group}.name" in changes}
    values = (f"{key}={str(value).replace(' ', '')}" for key, value in changes.items())
    return shlex.join(["xpress-bench", *filter(None, [command]), *without(header.argv, gone), *values])


def without(argv: Iterable[str], gone: Set[str]) -> list[str]:
    """The words of a command line less those that set one of these keys, or a key of these groups."""
    kept, words = [], iter(argv)
    for word in words:
        name, joined, _ = word.removeprefix("--").partition("=")
        key = _KEYS.get(name, name) if word.startswith("--") else name.lstrip("+")
        valued = word.startswith("--") and not joined and word not in _SWITCHES
        own = [word, next(words, "")] if valued else [word]
        kept += [] if gone & {key, key.partition(".")[0]} else own
    return kept


def named(names: Iterable[str]) -> str:
    """The first three distinct names, and how many more there are."""
    distinct = list(dict.fromkeys(names))
    return ", ".join(distinct[:3]) + (f" and {len(distinct) - 3} more" if len(distinct) > 3 else "")


def percent(share: Measure) -> str:
    """A share in per cent with its interval, or why there is none."""
    return share.reason if isinstance(share, Unknown) and share.estimate is None else f"{shown(share, 100)} %"
