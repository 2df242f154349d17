"""Requests that both sides of a comparison ran, whatever the order of their cells.

They pair by unit (launch, prompt, seed, turn) inside a run, and without the launch between two runs, whose launches are
not the same units. A request that was given other prompt tokens is another request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from xpress_bench.analyse.intervals import Unknown
from xpress_bench.analyse.reduce import Selection, Unit, unit_of
from xpress_bench.records import Cell, Memory

Cells = Mapping[Unit, list[Cell]]  # usable cells by key; the launch of a key is 0 when launches are pooled


@dataclass(frozen=True, slots=True)
class Side:
    """One arm under one condition, by the name a report gives it, and the direct arm measured beside it if any."""

    label: str
    arm: str
    selection: Selection
    memory: Memory | Unknown
    direct: str | None = None


@dataclass(frozen=True, slots=True)
class Matched:
    """The cells that pair, and by reason the prompts of requests that have no partner."""

    base: Cells
    arm: Cells
    unpaired: Mapping[str, tuple[str, ...]]


def _across_launches(cell: Cell) -> Unit:
    """The key of a cell when the launches of its run are pooled."""
    return 0, *unit_of(cell)[1:]


def match(
    base: Side, arm: Side, pool_launches: bool, of: Callable[[Selection, str], Sequence[Cell]] = Selection.of
) -> Matched:
    """The requests of two sides that pair, and those that do not; or of whatever else `of` a selection and an arm."""
    key = _across_launches if pool_launches else unit_of
    ours, theirs = (_by_key(of(side.selection, side.arm), key) for side in (base, arm))
    shared = sorted(ours.keys() & theirs.keys())
    same = {unit: ours[unit][0].prompt_sha256 == theirs[unit][0].prompt_sha256 for unit in shared}
    left: defaultdict[str, list[str]] = defaultdict(list)
    left["given other tokens"] += [unit[1] for unit in shared if not same[unit]]
    seen = [{key(cell) for cell in side.selection.keyed(side.arm).values()} for side in (base, arm)]
    for side, missing in ((base, seen[1] - seen[0]), (arm, seen[0] - seen[1])):
        left[f"not in {side.label}"] += [unit[1] for unit in sorted(missing)]
        for word, cells in (("failed", side.selection.failed), ("short", side.selection.short)):
            left[f"{word} in {side.label}"] += [cell.prompt for cell in cells if cell.arm == side.arm]
    unpaired = {reason: tuple(dict.fromkeys(prompts)) for reason, prompts in left.items() if prompts}
    paired = [unit for unit in shared if same[unit]]
    return Matched({unit: ours[unit] for unit in paired}, {unit: theirs[unit] for unit in paired}, unpaired)


def flat(cells: Cells) -> list[Cell]:
    """All cells, key by key."""
    return list(chain.from_iterable(cells.values()))


def _by_key(cells: Sequence[Cell], key: Callable[[Cell], Unit]) -> dict[Unit, list[Cell]]:
    grouped: defaultdict[Unit, list[Cell]] = defaultdict(list)
    for cell in cells:
        grouped[key(cell)].append(cell)
    return dict(grouped)
