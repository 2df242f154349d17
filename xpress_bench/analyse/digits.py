"""Numbers as text, with only the digits that their interval supports."""

from __future__ import annotations

import math

from xpress_bench.analyse.intervals import Interval, Measure, Unknown

NONE = "-"


def shown(measure: Measure, scale: float = 1.0, bounds: bool = True) -> str:
    """As in "1.96 [1.88, 2.05]", or the estimate alone without `bounds`; "1.96 (n < 2)" or "-" when unknown.

    `scale` multiplies every number, to change the unit.
    """
    if isinstance(measure, Unknown):
        return NONE if measure.estimate is None else f"{significant(measure.estimate * scale, 3)} ({measure.reason})"
    places = decimals(measure, scale)
    if places <= 0:  # however wide the interval, a ratio of 1.3 must not read 0
        places = max(places, min(1, _places(measure.estimate * scale, 1)))
    estimate, low, high = (fixed(value * scale, places) for value in (measure.estimate, measure.low, measure.high))
    return f"{estimate} [{low}, {high}]" if bounds else estimate


def decimals(interval: Interval, scale: float = 1.0) -> int:
    """Decimal places such that one unit of the last is at most a quarter of the half width; negative above the point.

    An interval of no width supports three significant digits.
    """
    half_width = (interval.high - interval.low) * scale / 2
    if half_width <= 1e-9 * abs(interval.estimate * scale):
        return _places(interval.estimate * scale, 3)
    return math.ceil(-math.log10(half_width / 4))


def fixed(value: float, places: int) -> str:
    """Fixed notation at so many decimal places; below 0 it rounds to tens, hundreds and so on."""
    text = f"{round(value, places):.{max(places, 0)}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def significant(value: float, digits: int) -> str:
    """Fixed notation with so many significant digits."""
    return fixed(value, _places(value, digits))


def seconds(measure: Measure) -> str:
    """A time given in seconds, in ms below 10 s."""
    if measure.estimate is None:
        return shown(measure)
    scale, unit = (1e3, "ms") if measure.estimate < 10 else (1.0, "s")
    estimate, gap, bounds = shown(measure, scale).partition(" ")
    return f"{estimate} {unit}{gap}{bounds}"


def size(count_bytes: int) -> str:
    """Bytes in MiB, in GiB from 10 GiB on."""
    mebibytes = count_bytes / 2**20
    return f"{mebibytes:.0f} MiB" if mebibytes < 10 * 1024 else f"{mebibytes / 1024:.1f} GiB"


def _places(value: float, digits: int) -> int:
    return digits - 1 - (math.floor(math.log10(abs(value))) if value else 0)
