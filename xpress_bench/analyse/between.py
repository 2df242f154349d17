"""Two runs against each other, or two arms of one run.

Runs of another suite, target, tokenizer, dtype or way of generating are refused. What else differs is listed: it is
what the comparison is about. What weakens it is a warning; on another machine latency and memory are not compared at
all, counts and outputs still are.

Two runs are two sessions. Clocks, heat and neighbours drift between sessions, and no interval made inside each of them
holds that drift: a latency difference of a few per cent between runs is no evidence (statistics C.6). Arms of one run
are interleaved, so theirs is. Between runs two things help: a speed-up over the direct arm of the same run takes out
what slows a whole session evenly, and an arm with the same parts in both runs shows how far they drifted.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xpress_bench.analyse.compare import speed_ups
from xpress_bench.analyse.contrast import Comparison, contrast
from xpress_bench.analyse.headers import (
    Difference,
    between_arms,
    common_conditions,
    listed,
    machines,
    names_of,
    refuse,
    same_parts,
    subject,
    surroundings,
)
from xpress_bench.analyse.intervals import Unknown
from xpress_bench.analyse.matching import Side
from xpress_bench.analyse.reduce import Cells, Selection, select
from xpress_bench.analyse.score import Scorable
from xpress_bench.analyse.streaming import no_collector
from xpress_bench.analyse.summary import DIRECT
from xpress_bench.errors import UsageError
from xpress_bench.records import Header, Memory, Run

A, B = "A", "B"  # the first run given and the second


@dataclass(frozen=True, slots=True)
class Between:
    """`runs`: A and B, or the one run of both arms. `comparisons`: by condition, then by arm.

    differs: what the comparison is about. warned, weakened: what makes it less sure, as differences, e.g. of the
    machine, and as sentences. same_machine: latency and memory are compared. controls: arms with the same parts in both
    runs, named or not; what their speed moved by is drift, if the code is the same.
    """

    runs: tuple[Run, ...]
    comparisons: tuple[Comparison, ...]
    differs: tuple[Difference, ...]
    warned: tuple[Difference, ...]
    weakened: tuple[str, ...]
    same_machine: bool
    controls: tuple[Comparison, ...] = ()


def between(a: Run, b: Run, items: Sequence[Scorable] = (), names: Sequence[str] = ()) -> Between:
    """Run B against run A, arm by arm; `names` picks arms. UsageError if they cannot be compared."""
    refuse(a.header, b.header)
    other = machines(a.header, b.header)
    untimed = Unknown(f"not the same {', '.join(one.what for one in other)}") if other else None
    chosen = _common_arms(a.header, b.header, names)
    known = {item.id: item for item in items}
    scorers = a.header.suite.get("scorers")
    found = []
    for condition in common_conditions(a.header, b.header):
        ours, theirs = _same_seeds(select(a, condition), select(b, condition))
        for arm in _common_arms(a.header, b.header, ()):
            sides = _side(a, A, arm, ours), _side(b, B, arm, theirs)
            found.append(contrast(*sides, known, scorers, untimed=untimed))
    asked = tuple(one for one in found if one.name in chosen)
    if not any(one.prompts for one in asked):
        raise UsageError(
            f"runs {a.header.run!r} and {b.header.run!r} share no request (same prompt, turn, seed and tokens, not "
            "failed): nothing to compare; run the same prompts in both"
        )
    return Between(
        (a, b),
        asked,
        differs=subject(a.header, b.header),
        warned=(*other, *surroundings(a.header, b.header)),
        weakened=tuple(_weakened(a, b)),
        same_machine=not other,
        controls=tuple(one for one in found if same_parts(a.header, b.header, one.name)),
    )


def arms(run: Run, base: str, arm: str, items: Sequence[Scorable] = ()) -> Between:
    """One arm of a run against another one of it. UsageError if they are the same, absent, or share no request."""
    header = run.header
    if base == arm:
        raise UsageError(f"arm {arm!r} against itself: give two different arms, of {listed(names_of(header))}")
    for name in (base, arm):
        _refuse_absent(name, names_of(header), f"run {header.run!r}")
    known = {item.id: item for item in items}
    found = []
    for condition in header.conditions:
        selection = select(run, condition)
        within = speed_ups(selection, (base, arm))[0]
        sides = _side(run, base, base, selection), _side(run, arm, arm, selection)
        found.append(contrast(*sides, known, header.suite.get("scorers"), within=within))
    if not any(one.prompts for one in found):
        raise UsageError(f"arms {base!r} and {arm!r} of run {header.run!r} share no request that succeeded in both")
    ours, theirs = (next(one for one in header.arms if one.name == name) for name in (base, arm))
    weakened = tuple(_unfinished("the run", run))
    return Between((run,), tuple(found), between_arms(ours, theirs), (), weakened, same_machine=True)


@no_collector()
def compare(runs: Sequence[Run], names: Sequence[str], items: Sequence[Scorable] = ()) -> Between:
    """What `compare` was asked for: two runs, of some arms if any are named, or one run and two of its arms."""
    if len(runs) == 2:
        return between(runs[0], runs[1], items, names)
    if len(runs) == 1 and len(names) == 2:
        return arms(runs[0], names[0], names[1], items)
    if len(runs) == 1:
        raise UsageError(
            f"one run and {len(names)} arms: give two runs, or name two arms of {listed(names_of(runs[0].header))} "
            "with --arm X --arm Y"
        )
    raise UsageError(f"{len(runs)} runs: compare takes two, or one with --arm X --arm Y")


def _side(run: Run, label: str, arm: str, selection: Selection) -> Side:
    found = [memory for memory in run.memory if memory.arm == arm]
    memory: Memory | Unknown = found[-1] if found else Unknown("peak memory was not measured")
    return Side(label, arm, selection, memory, DIRECT if DIRECT in names_of(run.header) else None)


def _same_seeds(ours: Selection, theirs: Selection) -> tuple[Selection, Selection]:
    """Above temperature 0 only requests of seeds that both runs have; the headers' seeds are listed as a difference."""
    if ours.condition.temperature == 0:
        return ours, theirs
    seeds = _seeds(ours) & _seeds(theirs)
    return _of_seeds(ours, seeds), _of_seeds(theirs, seeds)


def _seeds(side: Selection) -> set[int]:
    return {cell.seed for cell in (*side.usable, *side.failed, *side.short)}


def _of_seeds(side: Selection, seeds: set[int]) -> Selection:
    usable, failed, short = (
        tuple(cell for cell in cells if cell.seed in seeds) for cells in (side.usable, side.failed, side.short)
    )
    return Selection(side.condition, Cells(usable), failed, short, side.rows)


def _weakened(a: Run, b: Run) -> Iterator[str]:
    for label, run in ((A, a), (B, b)):
        if not run.header.machine.get("hard"):
            yield f"the machine of {label} is not known, it may be another one"
        if run.header.git.get("dirty"):
            yield f"{label} ran with changes that are in no commit"
        yield from _unfinished(label, run)


def _unfinished(label: str, run: Run) -> Iterator[str]:
    if run.footer is None or not run.footer.complete:
        yield f"{label} did not end by itself: its journal is not complete"


def _common_arms(a: Header, b: Header, names: Sequence[str]) -> list[str]:
    for name in names:
        for label, header in ((A, a), (B, b)):
            _refuse_absent(name, names_of(header), f"run {label}, {header.run!r},")
    chosen = [name for name in names_of(a) if name in names_of(b) and (not names or name in names)]
    if not chosen:
        raise UsageError(f"the runs share no arm: A has {listed(names_of(a))}, B has {listed(names_of(b))}")
    return chosen


def _refuse_absent(name: str, present: Sequence[str], where: str) -> None:
    if name not in present:
        near = difflib.get_close_matches(name, present, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "choose one of them"
        raise UsageError(f"{where} has no arm {name!r}, it has {listed(present)}; {hint}")
