"""What the controls of a run say: how its direct arm stands beside transformers' own loop, and what stamping costs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from xpress_bench.analyse.intervals import Interval, Measure, Unknown, ratio_interval
from xpress_bench.records import Against, Control

DISTURBED_FROM = 1.05  # a stamped request over an unstamped one: from here on stage times are not to be believed


@dataclass(frozen=True, slots=True)
class Controlled:
    """What one way of checking has shown. `same`: prompts on which both ways gave the same ids, of `prompts`.

    `ratio`, one value per prompt: for generate, its seconds per token over those of the arm, so that above 1 the arm is
    faster; for unstamped, the arm's seconds per token over those without stage times, so that above 1 stamping costs.
    """

    against: Against
    arm: str
    ratio: Measure
    same: int
    prompts: int

    @property
    def disturbs(self) -> bool:
        """Whether stamping has been shown to slow a request down by more than stage times can be believed with."""
        return self.against == "unstamped" and isinstance(self.ratio, Interval) and self.ratio.low >= DISTURBED_FROM


def controlled(controls: Sequence[Control]) -> tuple[Controlled, ...]:
    """Every way and arm in the order of the run."""
    groups: defaultdict[tuple[Against, str], list[Control]] = defaultdict(list)
    for one in controls:
        groups[one.against, one.arm].append(one)
    return tuple(_controlled(against, arm, ones) for (against, arm), ones in groups.items())


def _controlled(against: Against, arm: str, controls: Sequence[Control]) -> Controlled:
    logs: defaultdict[str, list[float]] = defaultdict(list)
    different = {one.prompt for one in controls if one.same_ids is False}
    for one in controls:
        if one.latency_s and one.control_s and one.tokens and one.control_tokens:
            faster = math.log(one.control_s / one.control_tokens * one.tokens / one.latency_s)
            logs[one.prompt].append(faster if against == "generate" else -faster)
    if not logs:
        return Controlled(against, arm, Unknown(next((one.reason for one in controls if one.reason), "no times")), 0, 0)
    ratio = ratio_interval([sum(own) / len(own) for own in logs.values()])
    return Controlled(against, arm, ratio, len(logs.keys() - different), len(logs))
