"""Rules about how a run was measured."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from xpress_bench.analyse.admission import disturbed, unjudged
from xpress_bench.analyse.cost import random_weights
from xpress_bench.analyse.intervals import Interval
from xpress_bench.analyse.reduce import select
from xpress_bench.analyse.stability import first_repeat
from xpress_bench.publish.checks.submission import Submission
from xpress_bench.publish.lines import named
from xpress_bench.records import Cell

REMEMBERED = 0.05  # first answers that are slower than later ones by more than this share


def order(one: Submission) -> str | None:
    """Arms take turns on every prompt, and each stands equally often in each place."""
    cells, arms, places = one.journal.cells, one.arms, Counter[tuple[int, str, int]]()
    for at in range(0, len(cells), len(arms)):
        together = cells[at : at + len(arms)]
        first = together[0]
        if {_request(cell) for cell in together} != {_request(first)}:
            return f"the arms on {first.prompt} were not measured one after the other"
        if [cell.order for cell in together] != list(range(len(arms))):
            return f"the arms on {first.prompt} were not measured in the order that they say"
        places.update((cell.launch, cell.arm, place) for place, cell in enumerate(together))
    for launch in range(one.journal.header.settings["launches"]):
        counts = [places[launch, arm, place] for arm in arms for place in range(len(arms))]
        if max(counts) - min(counts) > 1:
            return f"in launch {launch} some arms stood in front more often than others"
    return None


def launches(one: Submission) -> str | None:
    """Every launch was a fresh process on the same machine and ended; the quick profile is for looking only."""
    header = one.journal.header
    if header.profile == "quick":
        return "it was run with profile quick"
    if header.in_process:
        return "its launches were not fresh processes"
    ended = {mark.launch for mark in one.journal.launches if mark.event == "ended"}
    lost = set(range(header.settings["launches"])) - ended
    if lost:
        return f"launch {min(lost)} did not end"
    moved = any(kind != header.machine["hard"] for kind in _marked(one, "hard"))
    return "its launches were on different machines" if moved else None


def quiet(one: Submission) -> str | None:
    """Nothing disturbed a launch: no other process took the CPU or the board, no host withheld it, no GPU throttled.
    What could not be read shows nothing."""
    marks = one.journal.launches
    noisy, unknown = disturbed(marks), unjudged(marks, one.journal.header.target["device"])
    if noisy:
        return f"launch {min(noisy)} was disturbed: {noisy[min(noisy)]}"
    return f"launch {min(unknown)} could not be judged: {unknown[min(unknown)]}" if unknown else None


def weights(one: Submission) -> str | None:
    """Every part had trained weights."""
    return "its weights are random" if random_weights(one.journal.header) else None


def memory(one: Submission) -> str | None:
    """Peak memory of every arm was measured, in a pass of its own."""
    known = {memory.arm for memory in one.journal.memory if memory.peak_bytes}
    missing = [arm for arm in one.arms if arm not in known]
    return f"no peak memory of {named(missing)}" if missing else None


def tree(one: Submission) -> str | None:
    """The package was a release or a commit without changes, the same in every launch."""
    header = one.journal.header
    states = [header.git, *_marked(one, "git")]
    if any(state.get("dirty") for state in states):
        return "the package had changes that are in no commit"
    if len({state.get("commit") for state in states}) > 1:
        return "its launches were of different commits"
    if header.git["commit"] is None and not header.versions.get("xpress-bench"):
        return "neither a commit nor a version of the package is known"
    return None


def caching(one: Submission) -> str | None:
    """No arm answers a prompt faster when it is asked again inside a launch."""
    selections = [select(one.journal, condition) for condition in one.journal.header.conditions]
    for arm in one.arms:
        probes = [first_repeat(selection.of(arm)) for selection in selections]
        known = [probe for probe in probes if isinstance(probe, Interval)]
        if not known:
            return f"{arm} answered no prompt twice inside a launch"
        for probe in known:
            if probe.low > math.log1p(REMEMBERED):
                return f"first answers of {arm} are {math.expm1(probe.estimate):.0%} slower than its later ones"
    return None


def _marked(one: Submission, part: str) -> list[dict[str, Any]]:
    """A part of the machine on the marks of launches that have it."""
    return [mark.machine[part] for mark in one.journal.launches if mark.machine.get(part)]


def _request(cell: Cell) -> tuple[Any, ...]:
    return cell.condition, cell.launch, cell.prompt, cell.turn, cell.seed, cell.repeat
