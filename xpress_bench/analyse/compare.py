"""Paired speed-ups between the arms of one run, and what may be said of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from xpress_bench.analyse.intervals import (
    ALPHA,
    Measure,
    Unknown,
    benjamini_yekutieli,
    clustered_ratio_interval,
    holm,
    median_interval,
    paired_p_value,
    ratio_interval,
)
from xpress_bench.analyse.reduce import Paired, Selection, pair_units, unit_latencies

FAMILY = (("refine", "direct"), ("refine", "draft"))  # declared before measuring; every other pair is exploratory
NOISE_BAND = 0.01  # a smaller change of speed makes no practical difference, whatever its p (criterion's band)
Latency = Literal["faster", "slower", "no practical difference", "not shown"]


@dataclass(frozen=True, slots=True)
class SpeedUp:
    """How many times faster `arm` is than `base`; below 1 it is slower. One name per rule, they do differ.

    gmean_paired: geometric mean over prompts of paired latency ratios, the headline. median_paired: their median.
    total_time: seconds of base over seconds of arm, summed over the same prompts (a user's wall clock).
    by_launch: the headline of each launch alone; what they differ by is in no interval, for that is over prompts.
    `slower`: prompts whose own ratio is below 1. `missing`: prompts that only one of the two arms has.
    `p_adjusted`: by Holm inside the declared family, else by Benjamini and Yekutieli and exploratory.
    """

    arm: str
    base: str
    gmean_paired: Measure
    median_paired: Measure
    total_time: Measure
    p_value: float | None
    p_adjusted: float | None
    exploratory: bool
    prompts: int
    slower: tuple[str, ...]
    missing: tuple[str, ...]
    by_launch: tuple[float, ...] = ()
    units: str = "prompts"  # or "batches": then what is said of prompts is of them

    @property
    def latency(self) -> Latency:
        """Faster or slower only where the adjusted test says so and the change is above the noise band."""
        speed = self.gmean_paired
        if isinstance(speed, Unknown) or self.p_adjusted is None:
            return "not shown"
        if self.p_adjusted < ALPHA and abs(math.log(speed.estimate)) >= math.log1p(NOISE_BAND):
            return "faster" if speed.estimate > 1 else "slower"
        within = max(abs(math.log(speed.low)), abs(math.log(speed.high))) < math.log1p(NOISE_BAND)
        return "no practical difference" if self.p_adjusted < ALPHA or within else "not shown"


def speed_ups(selection: Selection, arms: Sequence[str]) -> tuple[SpeedUp, ...]:
    """Every later arm against every earlier one, p-values adjusted."""
    units_s = {arm: unit_latencies(selection.timed(arm)) for arm in arms}
    pairs = [(arm, base) for at, arm in enumerate(arms) for base in arms[:at]]
    units = "prompts" if selection.rows == 1 else "batches"
    found = [_speed_up(arm, base, pair_units(units_s[base], units_s[arm]), units) for arm, base in pairs]
    return tuple(_adjusted(found))


def _speed_up(arm: str, base: str, paired: Paired, units: str) -> SpeedUp:
    log_ratios = paired.log_ratios()
    return SpeedUp(
        arm,
        base,
        gmean_paired=ratio_interval(list(log_ratios.values())),
        median_paired=median_interval([math.exp(value) for value in log_ratios.values()]),
        total_time=clustered_ratio_interval(*paired.totals_s()),
        p_value=paired_p_value(list(log_ratios.values())),
        p_adjusted=None,
        exploratory=(arm, base) not in FAMILY,
        prompts=len(log_ratios),
        slower=tuple(prompt for prompt, value in log_ratios.items() if value < 0),
        missing=paired.missing,
        by_launch=tuple(paired.by_launch()),
        units=units,
    )


def _adjusted(found: list[SpeedUp]) -> list[SpeedUp]:
    adjusted: dict[tuple[str, str], float] = {}
    for exploratory, adjust in ((False, holm), (True, benjamini_yekutieli)):
        tested = [one for one in found if one.exploratory is exploratory and one.p_value is not None]
        values = adjust([one.p_value for one in tested if one.p_value is not None])
        adjusted.update({(one.arm, one.base): p for one, p in zip(tested, values, strict=True)})
    return [replace(one, p_adjusted=adjusted.get((one.arm, one.base))) for one in found]
