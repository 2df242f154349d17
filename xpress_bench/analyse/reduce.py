"""From cells to one value per prompt: repeats, then pairs, then seeds and launches, in this order and never mixed.

Repeats take their median inside a unit (launch, prompt, seed, turn). Two arms are compared inside a unit. Units are
then averaged to one value per prompt. At temperature 0 a seed changes nothing, so all seeds of a prompt are repeats.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean, median
from typing import TypeVar

from xpress_bench.errors import UsageError
from xpress_bench.records import Cell, Condition, Run

Unit = tuple[int, str, int, int]  # launch, prompt, seed (0 at temperature 0), turn
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Selection:
    """The cells of one condition. `usable` go into aggregates; `failed` and `short` are counted and named instead."""

    condition: Condition
    usable: tuple[Cell, ...]
    failed: tuple[Cell, ...]
    short: tuple[Cell, ...]

    def of(self, arm: str) -> list[Cell]:
        """Usable cells of one arm, in journal order."""
        return [cell for cell in self.usable if cell.arm == arm]

    def every(self, arm: str) -> list[Cell]:
        """All cells of one arm, failed and short ones included."""
        return [cell for cell in (*self.usable, *self.failed, *self.short) if cell.arm == arm]


@dataclass(frozen=True, slots=True)
class Paired:
    """Latencies in seconds of two arms on the units both have; `missing` names prompts that only one arm has."""

    base_s: Mapping[Unit, float]
    arm_s: Mapping[Unit, float]
    missing: tuple[str, ...]

    def log_ratios(self) -> dict[str, float]:
        """Mean log(base / arm) per prompt, over launches, seeds and turns; above 0 the arm is faster."""
        return per_prompt({unit: math.log(self.base_s[unit] / self.arm_s[unit]) for unit in self.base_s})

    def totals_s(self) -> tuple[list[float], list[float]]:
        """Seconds per prompt, summed over its units: base, arm."""
        grouped = [group_by_prompt(side).values() for side in (self.base_s, self.arm_s)]
        return [sum(values) for values in grouped[0]], [sum(values) for values in grouped[1]]


def select(run: Run, condition: Condition) -> Selection:
    """Cells of one condition. UsageError when a key occurs twice or two arms saw different tokens for a prompt."""
    cells = [cell for cell in run.cells if cell.condition == condition]
    _refuse_duplicates(cells)
    _refuse_other_prompts(cells)
    return Selection(
        condition,
        usable=tuple(cell for cell in cells if cell.error is None and cell.stop_reason != "short"),
        failed=tuple(cell for cell in cells if cell.error is not None),
        short=tuple(cell for cell in cells if cell.error is None and cell.stop_reason == "short"),
    )


def unit_of(cell: Cell) -> Unit:
    """The unit whose repeats this cell belongs to."""
    return cell.launch, cell.prompt, cell.seed if cell.condition.temperature > 0 else 0, cell.turn


def timed(cells: Iterable[Cell]) -> list[tuple[Cell, float]]:
    """Cells with their latency in seconds; those without one, or with 0 on a coarse clock, are left out."""
    return [(cell, cell.latency_s) for cell in cells if cell.latency_s]


def unit_latencies(cells: Iterable[Cell]) -> dict[Unit, float]:
    """Median latency in seconds over the repeats of each unit; cells of one arm."""
    grouped: defaultdict[Unit, list[float]] = defaultdict(list)
    for cell, latency_s in timed(cells):
        grouped[unit_of(cell)].append(latency_s)
    return {unit: median(values) for unit, values in grouped.items()}


def prompt_latencies(cells: Iterable[Cell]) -> dict[str, float]:
    """Seconds of a request of each prompt: the median over all that was timed of a turn, the mean over its turns."""
    grouped: defaultdict[str, defaultdict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for cell, latency_s in timed(cells):
        grouped[cell.prompt][cell.turn].append(latency_s)
    return {prompt: fmean(median(values) for values in turns.values()) for prompt, turns in grouped.items()}


def pair(base: Iterable[Cell], arm: Iterable[Cell]) -> Paired:
    """Match two arms by unit, whatever the order of their cells."""
    base_s, arm_s = unit_latencies(base), unit_latencies(arm)
    shared = sorted(base_s.keys() & arm_s.keys())
    matched = {unit[1] for unit in shared}
    seen = {unit[1] for unit in base_s.keys() | arm_s.keys()}
    return Paired(
        {unit: base_s[unit] for unit in shared},
        {unit: arm_s[unit] for unit in shared},
        missing=tuple(sorted(seen - matched)),
    )


def group_by_prompt(values: Mapping[Unit, T]) -> dict[str, list[T]]:
    """The values of each prompt, prompts in order of first appearance."""
    grouped: defaultdict[str, list[T]] = defaultdict(list)
    for (_, prompt, *_), value in values.items():
        grouped[prompt].append(value)
    return dict(grouped)


def per_prompt(values: Mapping[Unit, float]) -> dict[str, float]:
    """Mean over the units of each prompt."""
    return {prompt: fmean(group) for prompt, group in group_by_prompt(values).items()}


def _refuse_duplicates(cells: list[Cell]) -> None:
    seen: set[tuple[int, str, int, int, str, int]] = set()
    for cell in cells:
        key = (cell.launch, cell.prompt, cell.turn, cell.seed, cell.arm, cell.repeat)
        if key in seen:
            raise UsageError(
                f"cell {key} (launch, prompt, turn, seed, arm, repeat) is in the journal twice; measure again"
            )
        seen.add(key)


def _refuse_other_prompts(cells: list[Cell]) -> None:
    hashes: dict[tuple[str, int], Cell] = {}
    for cell in cells:
        first = hashes.setdefault((cell.prompt, cell.turn), cell)
        if first.prompt_sha256 != cell.prompt_sha256:
            raise UsageError(f"prompt {cell.prompt}: arms {first.arm} and {cell.arm} were given different tokens")
