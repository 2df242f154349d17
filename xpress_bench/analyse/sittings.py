"""Where and when the launches of a run were measured, if that was not at one go: for readers of its timings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from xpress_bench.analyse.admission import unjudged
from xpress_bench.records import Header, Launch
from xpress_bench.settings import flat

_TOLD = {
    "started": "was measured twice, since the first attempt was void",
    "ended": "was disturbed",
    "void": "was void",
    "lost": "was lost",
}
COMPARED = ("hard", "versions", "git")  # of the machine on a mark: other values can make other times


def sittings(launches: Sequence[Launch]) -> Iterator[str]:
    """One sentence for a run that was resumed, and one for each launch that differs from the first or went wrong."""
    started = sorted((mark for mark in launches if mark.event == "started"), key=lambda mark: mark.launch)
    by_sitting: defaultdict[int, list[Launch]] = defaultdict(list)
    for mark in started:
        by_sitting[mark.sitting].append(mark)
    if len(by_sitting) > 1:
        parts = (f"{_named([one.launch for one in marks])} at {marks[0].at_utc}" for marks in by_sitting.values())
        yield f"measured in {len(by_sitting)} sittings, whose times may differ for that alone: {'; '.join(parts)}"
    for mark in started[1:]:
        if changes := list(_changes(started[0], mark)):
            yield f"launch {mark.launch + 1} was measured with other {', '.join(changes)} than launch 1"
    for mark in launches:
        if mark.reason:
            yield f"launch {mark.launch + 1} {_TOLD[mark.event]}: {mark.reason}"


def not_judged(header: Header, launches: Sequence[Launch]) -> Iterator[str]:
    """One sentence for all launches that lack the same readings; none where the run asked for no judgement."""
    if header.settings.get("admission", "off") == "off":
        return
    by_gap: defaultdict[str, list[int]] = defaultdict(list)
    for launch, gap in unjudged(launches, header.target["device"]).items():
        by_gap[gap].append(launch)
    for gap, found in by_gap.items():
        yield f"whether anything disturbed {_named(found)} could not be judged: {gap}"


def _named(launches: Sequence[int]) -> str:
    numbers = ", ".join(str(launch + 1) for launch in launches)
    return f"launch{'es' if len(launches) > 1 else ''} {numbers}"


def _changes(first: Launch, other: Launch) -> Iterator[str]:
    ours, theirs = (_compared(mark) for mark in (first, other))
    for key in dict.fromkeys((*ours, *theirs)):
        if ours.get(key) != theirs.get(key):
            yield f"{key} ({theirs.get(key)!r}, not {ours.get(key)!r})"


def _compared(mark: Launch) -> dict[str, Any]:
    return {
        key: value
        for part in COMPARED
        for key, value in flat(mark.machine.get(part) or {}, "git " if part == "git" else "").items()
    }
