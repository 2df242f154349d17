"""From cells to one value per prompt: repeats, then pairs, then seeds and launches, in this order and never mixed.

Repeats take their median inside a unit (launch, prompt, seed, turn). Two arms are compared inside a unit. Units are
then averaged to one value per prompt. At temperature 0 a seed changes nothing, so all seeds of a prompt are repeats.
Requests that were decoded together share their seconds: there a batch stands where a prompt does (`Selection.timed`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, compress
from operator import attrgetter
from statistics import fmean
from typing import TypeVar

import numpy as np

from xpress_bench.analyse.groups import Codes, Floats, Mask, medians, numbered
from xpress_bench.errors import UsageError
from xpress_bench.records import Cell, Condition, Run
from xpress_bench.tally import Tally

Unit = tuple[int, str, int, int]  # launch, prompt, seed (0 at temperature 0), turn
Key = tuple[int, str, int, int, int]  # launch, prompt, turn, seed, repeat
T = TypeVar("T")
_key_of: Callable[[Cell], Key] = attrgetter("launch", "prompt", "turn", "seed", "repeat")


class Cells(list[Cell]):
    """Cells as columns, one entry per cell, each made when it is first asked for: a million are summed in no loop."""

    @classmethod
    def of(cls, cells: Iterable[Cell]) -> Cells:
        """The same cells; those that are columns already keep them."""
        return cells if isinstance(cells, cls) else cls(cells)

    def where(self, mask: Mask) -> Cells:
        """Those at which the mask is true. Their units keep their places."""
        part, (codes, units) = Cells(compress(self, mask.tolist())), self.units
        part.units = codes[mask], units
        return part

    @cached_property
    def units(self) -> tuple[Codes, list[Unit]]:
        """The unit of each cell by its place in a list of units."""
        return numbered(map(unit_of, self))

    @cached_property
    def prompts(self) -> tuple[Codes, list[str]]:
        """The same for prompts."""
        codes, units = self.units
        prompts, names = numbered(prompt for _, prompt, *_ in units)
        return prompts[codes], names

    @cached_property
    def latency_s(self) -> Floats:
        """Seconds; NaN where nothing was timed, or a coarse clock said 0."""
        latency_s = self.column("latency_s")
        return np.where(latency_s > 0, latency_s, np.nan)

    @cached_property
    def tokens(self) -> Floats:
        """Output tokens."""
        counted = map(attrgetter("tokens"), self) if self._served else map(len, map(attrgetter("ids"), self))
        return np.array(list(counted), dtype=np.float64)

    @cached_property
    def tallies(self) -> list[Tally]:
        """The steps of each cell as sums."""
        return list(map(attrgetter("tally" if self._served else "steps.tally"), self))

    @cached_property
    def _served(self) -> bool:
        """Whether a server told counts; asking every cell for them is slow, and nearly all runs have none."""
        return any(map(attrgetter("counts"), self))

    def column(self, name: str) -> Floats:
        """A number of each cell by the name of its field, NaN for None."""
        return np.array(list(map(attrgetter(name), self)), dtype=np.float64)

    def tallied(self, name: str) -> Floats:
        """The same of the tally of each cell."""
        return self._sums[:, Tally._fields.index(name) - 1]

    @cached_property
    def _sums(self) -> Floats:
        sums = [tally[1:] for tally in self.tallies]  # all but the rounds
        return np.array(sums, dtype=np.float64).reshape(len(sums), len(Tally._fields) - 1)

    def per_prompt(self, values: Floats) -> Floats:
        """Sums of a column by prompt, NaN left out; 0 where a prompt has no cell here."""
        codes, names = self.prompts
        return np.bincount(codes, np.nan_to_num(values), len(names)).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Selection:
    """The cells of one condition. `usable` go into aggregates; `failed` and `short` are counted and named instead.

    UsageError when a key occurs twice.
    """

    condition: Condition
    usable: Cells
    failed: tuple[Cell, ...]
    short: tuple[Cell, ...]
    rows: int = 1  # of a batch
    _of: Mapping[str, Cells] = field(init=False, repr=False, compare=False)
    _keyed: Mapping[str, dict[Key, Cell]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        arm_of, arms = numbered(cell.arm for cell in self.usable)
        keyed: defaultdict[str, dict[Key, Cell]] = defaultdict(dict)
        every = [*self.usable, *self.failed, *self.short]
        for key, cell in zip(map(_key_of, every), every, strict=True):
            own = keyed[cell.arm]
            if key in own:
                raise UsageError(
                    f"cell {key} (launch, prompt, turn, seed, repeat) of arm {cell.arm} is in the journal twice; "
                    "measure again"
                )
            own[key] = cell
        object.__setattr__(self, "_of", {arm: self.usable.where(arm_of == code) for code, arm in enumerate(arms)})
        object.__setattr__(self, "_keyed", keyed)

    def of(self, arm: str) -> Cells:
        """Usable cells of one arm, in journal order."""
        return self._of.get(arm) or Cells()

    def timed(self, arm: str | None = None) -> Cells:
        """What was timed as one, of one arm or of all: usable requests, or at a batch size above 1 batches, whole ones.

        A batch is a cell under its own name: the times and steps of its last row, in which each second and step of the
        batch stands once, and the ids of all rows. Seconds of single rows must not be summed, they are the same ones.
        """
        cells = self.usable if arm is None else self.of(arm)
        if self.rows == 1:
            return cells
        rows: defaultdict[tuple[str, Key], list[Cell]] = defaultdict(list)
        for cell in by_batch(cells):
            rows[cell.arm, _key_of(cell)].append(cell)
        return Cells(_batch(own) for own in rows.values() if len(own) == self.rows)

    def whole(self) -> Selection:
        """The same without arms of which a request failed: an arm that stopped halfway has done the easy half (C37)."""
        partial = {cell.arm for cell in self.failed}
        if not partial:
            return self
        return replace(self, usable=Cells(cell for cell in self.usable if cell.arm not in partial))

    def keyed(self, arm: str) -> Mapping[Key, Cell]:
        """All cells of one arm, failed and short ones included."""
        return self._keyed.get(arm, {})


@dataclass(frozen=True, slots=True)
class Paired:
    """Latencies in seconds of two arms on the units both have; `missing` names prompts that only one arm has."""

    base_s: Mapping[Unit, float]
    arm_s: Mapping[Unit, float]
    missing: tuple[str, ...]

    def log_ratios(self) -> dict[str, float]:
        """Mean log(base / arm) per prompt, over launches, seeds and turns; above 0 the arm is faster."""
        return per_prompt({unit: math.log(self.base_s[unit] / self.arm_s[unit]) for unit in self.base_s})

    def by_launch(self) -> list[float]:
        """How many times faster the arm was in each launch: geometric mean over its units."""
        logs: defaultdict[int, list[float]] = defaultdict(list)
        for unit, seconds in self.base_s.items():
            logs[unit[0]].append(math.log(seconds / self.arm_s[unit]))
        return [math.exp(fmean(logs[launch])) for launch in sorted(logs)]

    def totals_s(self) -> tuple[list[float], list[float]]:
        """Seconds per prompt, summed over its units: base, arm."""
        grouped = [group_by_prompt(side).values() for side in (self.base_s, self.arm_s)]
        return [sum(values) for values in grouped[0]], [sum(values) for values in grouped[1]]


def select(run: Run, condition: Condition) -> Selection:
    """Cells of one condition. UsageError when a key occurs twice or two arms saw different tokens for a prompt."""
    cells = [cell for cell in run.cells if cell.condition is condition or cell.condition == condition]
    _refuse_other_prompts(cells)
    return Selection(
        condition,
        usable=Cells(cell for cell in cells if cell.error is None and cell.stop_reason != "short"),
        failed=tuple(cell for cell in cells if cell.error is not None),
        short=tuple(cell for cell in cells if cell.error is None and cell.stop_reason == "short"),
        rows=run.header.rows,
    )


def by_batch(cells: Iterable[Cell]) -> Cells:
    """The same cells, rows of a batch under its name: they share their seconds, so that they are one sample of them."""
    cells = Cells.of(cells)
    if not cells or cells[0].batch is None:  # of one run they all have one, or none has
        return cells
    return Cells(cell if cell.batch is None else replace(cell, prompt=f"batch {cell.batch + 1}") for cell in cells)


def _batch(rows: Sequence[Cell]) -> Cell:
    """The rows of a batch as one cell; two of them are the same request if all their prompts are."""
    if any(row.latency_s is None for row in rows):
        return replace(rows[0], latency_s=None)
    last = max(rows, key=lambda row: (row.latency_s, row.tally.steps))
    ids = tuple(chain.from_iterable(row.ids for row in rows))
    return replace(last, ids=ids, prompt_sha256=" ".join(sorted(row.prompt_sha256 for row in rows)))


def unit_of(cell: Cell) -> Unit:
    """The unit whose repeats this cell belongs to."""
    return cell.launch, cell.prompt, cell.seed if cell.condition.temperature > 0 else 0, cell.turn


def unit_latencies(cells: Iterable[Cell]) -> dict[Unit, float]:
    """Median latency in seconds over the repeats of each unit; cells of one arm. What was not timed is left out."""
    cells = Cells.of(cells)
    codes, units = cells.units
    return _known(units, medians(cells.latency_s, codes, len(units)))


def prompt_latencies(cells: Iterable[Cell]) -> dict[str, float]:
    """Seconds of a request of each prompt: the median over all that was timed of a turn, the mean over its turns."""
    cells = Cells.of(cells)
    codes, units = cells.units
    turns, names = numbered((0, prompt, 0, turn) for _, prompt, _, turn in units)
    return per_prompt(_known(names, medians(cells.latency_s, turns[codes], len(names))))


def _known(units: Iterable[Unit], values: Floats) -> dict[Unit, float]:
    return {unit: value for unit, value in zip(units, values.tolist(), strict=True) if not math.isnan(value)}


def pair(base: Iterable[Cell], arm: Iterable[Cell]) -> Paired:
    """Match two arms by unit, whatever the order of their cells."""
    return pair_units(unit_latencies(base), unit_latencies(arm))


def pair_units(base_s: Mapping[Unit, float], arm_s: Mapping[Unit, float]) -> Paired:
    """The same from the latency in seconds of each unit."""
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


def _refuse_other_prompts(cells: list[Cell]) -> None:
    hashes: dict[tuple[str, int], Cell] = {}
    for cell in cells:
        first = hashes.setdefault((cell.prompt, cell.turn), cell)
        if first.prompt_sha256 != cell.prompt_sha256:
            raise UsageError(f"prompt {cell.prompt}: arms {first.arm} and {cell.arm} were given different tokens")
