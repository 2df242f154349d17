"""What a column of another system is made of: the requests of an arm, and a value or the reason why there is none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xpress_bench.analyse.intervals import Unknown
from xpress_bench.analyse.metrics import NO_STEP
from xpress_bench.analyse.reduce import Selection
from xpress_bench.records import Arm, Cell

Value = str | Unknown
Columns = dict[str, Value]


@dataclass(frozen=True, slots=True)
class Requests:
    """What one arm did under one condition. `first_seed`: of the run, for systems that read one seed only."""

    arm: Arm
    selection: Selection
    first_seed: int

    @property
    def cells(self) -> list[Cell]:
        """Its usable requests."""
        return self.selection.of(self.arm.name)

    @property
    def stepped(self) -> list[Cell]:
        """Those that took a verify step: none of direct generation."""
        return [cell for cell in self.cells if cell.steps.tally.steps]

    @property
    def drafts(self) -> int:
        """Draft tokens of a whole block; the longest offer where the arm has no block size."""
        longest = max((cell.steps.tally.longest for cell in self.stepped), default=0)
        return max(self.arm.block_size - 1, longest) if self.arm.block_size else longest

    @property
    def unanswered(self) -> str | None:
        """A reason, if there is no request at all."""
        return None if self.cells else "no request succeeded"

    @property
    def no_step(self) -> str | None:
        """A reason, if no verify step was taken."""
        return None if self.stepped else NO_STEP

    @property
    def no_offer(self) -> str | None:
        """A reason, if no draft token was offered."""
        return self.no_step or (None if self.drafts else "no draft token was offered")


def value(number: float, layout: str, *reasons: str | None) -> Value:
    """The number, unless there is a reason why it is not known."""
    return text(format(number, layout), *reasons)


def text(value: str, *reasons: str | None) -> Value:
    reason = next(filter(None, reasons), None)
    return Unknown(reason) if reason else value


def ratio(above: float, below: float) -> float:
    return above / below if below else 0.0  # a column with nothing below the line has a reason and is never shown


def mean(values: Iterable[float]) -> float:
    data = list(values)
    return ratio(sum(data), len(data))
