"""Throughput against batch size, from runs that differ in nothing else: where speculation stops paying.

A larger batch keeps the device busy by itself. What a step of verification costs then grows with the tokens in it, and
the speed-up of an arm falls towards 1 and below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xpress_bench.analyse.intervals import Interval, Measure, Unknown
from xpress_bench.analyse.summary import DIRECT, Summary
from xpress_bench.analyse.verdict import described
from xpress_bench.errors import UsageError
from xpress_bench.records import Condition


@dataclass(frozen=True, slots=True)
class Point:
    """One arm at one batch size. speed_up: over direct generation of the same run, paired by batch."""

    batch_size: int
    tokens_per_s: Measure
    speed_up: Measure


@dataclass(frozen=True, slots=True)
class Curve:
    """One arm at all batch sizes, the smallest first. `arm`: its name and parts."""

    arm: str
    points: tuple[Point, ...]

    def at(self, batch_size: int) -> Point | None:
        """Its point at a batch size, None if there is none."""
        return next((one for one in self.points if one.batch_size == batch_size), None)

    @property
    def pays(self) -> tuple[int, ...]:
        """Batch sizes at which the arm is faster than direct: its whole interval is above 1, each on its own."""
        known = [(one.batch_size, one.speed_up) for one in self.points]
        return tuple(size for size, speed in known if isinstance(speed, Interval) and speed.low > 1)


def names(curves: Sequence[Curve]) -> list[str]:
    """What to call each curve where there is little room: the arm's name, with its parts where several share it."""
    short = [one.arm.partition(" (")[0] for one in curves]
    return short if len(set(short)) == len(short) else [one.arm for one in curves]


def curves(summaries: Sequence[Summary], condition: Condition) -> list[Curve]:
    """A curve of each arm under one condition, direct first. UsageError for two runs of one batch size."""
    sizes = [one.header.rows for one in summaries]
    twice = next((size for size in sizes if sizes.count(size) > 1), None)
    if twice:
        raise UsageError(f"two runs have batch size {twice}, others another one: give one run of each batch size")
    found: dict[str, list[Point]] = {}
    for summary in sorted(summaries, key=lambda one: one.header.rows):
        of = next(one for one in summary.conditions if one.condition == condition)
        for one in of.arms:
            speed = of.speed_up(one.arm.name)
            ratio = speed.gmean_paired if speed else Unknown(f"it is {DIRECT}")
            point = Point(summary.header.rows, one.tokens_per_s, ratio)
            found.setdefault(described(one.arm), []).append(point)
    return [Curve(arm, tuple(points)) for arm, points in found.items()]
