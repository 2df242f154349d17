"""A load run as figures: of each stage and arm what was asked, what became of it, how fast, how long, how much memory.

Only requests with status ok that were not degraded are in a rate or a time, and only of stages that ended. Those of a
stage are not independent: their intervals are those of `dependent`. What compares two arms is paired by repeat of the
stage.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from xpress_bench.analyse.answers import counts, deliveries, ends, gaps_s, meets, token_s
from xpress_bench.analyse.dependent import quantile_interval, rate_interval, share_interval
from xpress_bench.analyse.growth import Growth, growth
from xpress_bench.analyse.intervals import Measure, Unknown, ratio_interval
from xpress_bench.load_records import Asked, Load, Mark, Stage, Status
from xpress_bench.records import Condition

DIRECT = "direct"
QUANTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True)
class Counts:
    """Requests of all repeats. lost: asked without an end, which must be 0. reasons: why they ended otherwise than ok.

    unfinished: why the stage was stopped, where it did not end.
    """

    asked: int
    statuses: dict[Status, int]
    lost: int
    degraded: int
    retried: int
    opened: int
    reasons: dict[str, int]
    unfinished: str | None


@dataclass(frozen=True, slots=True)
class Figures:
    """Rates per second of the stage; times in seconds, each at QUANTILES.

    latency, ttft: from the arrival. gap: between two deliveries, as a reader sees them; a verify step delivers several
    tokens at once. token: from the first to the last, over the tokens after the first. queue: from the arrival until
    the engine had the request; service: from then to its end. good: within the objective, of all that asked.
    """

    tokens_per_s: Measure
    requests_per_s: Measure
    good_per_s: Measure
    good: Measure
    times: dict[str, tuple[Measure, ...]]
    latencies_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ArmLoad:
    """One arm in one stage. versus: tokens per second over direct's. identical: outputs equal to its, of how many."""

    arm: str
    counts: Counts
    figures: Figures
    versus: Measure
    memory: Growth | Unknown
    identical: tuple[int, int]


@dataclass(frozen=True, slots=True)
class StageLoad:
    """`arms` in the order of the plan."""

    stage: Stage
    arms: tuple[ArmLoad, ...]


def summarise(load: Load, condition: Condition) -> tuple[StageLoad, ...]:
    """Every stage of which something was run."""
    outputs = _references(load, condition)
    found = []
    for stage in load.plan.stages:
        base = _throughputs(load, stage, DIRECT)
        arms = [
            _arm(load, stage, arm, base, outputs, condition)
            for arm in load.arms
            if any(unit[:2] == (stage.name, arm) for unit in load.marks)
        ]
        if arms:
            found.append(StageLoad(stage, tuple(arms)))
    return tuple(found)


def _arm(
    load: Load, stage: Stage, arm: str, base: dict[int, float], outputs: dict[object, str], condition: Condition
) -> ArmLoad:
    marks = [mark for unit, mark in load.marks.items() if unit[:2] == (stage.name, arm)]
    ended = [_in_order(load, mark) for mark in marks if mark.event == "ended"]
    return ArmLoad(
        arm=arm,
        counts=_counts(load, marks),
        figures=_figures(stage, ended, load.plan.objective),
        versus=_versus(_throughputs(load, stage, arm), base),
        memory=growth([mark.memory for mark in marks if mark.event == "ended"]),
        identical=_identical([one for run in ended for one in run if counts(one)], outputs, condition),
    )


def _in_order(load: Load, mark: Mark) -> list[Asked]:
    return sorted(load.requests[mark.unit], key=lambda one: one.index)


def _counts(load: Load, marks: Sequence[Mark]) -> Counts:
    every = [one for mark in marks for one in load.requests[mark.unit]]
    told = {mark.unit: mark.asked for mark in marks if mark.event != "started"}
    why = [mark.reason or "it did not end" for mark in marks if mark.event != "ended"]
    return Counts(
        asked=len(every),
        statuses=dict(Counter(one.status for one in every)),
        lost=sum(asked - len({one.index for one in load.requests[unit]}) for unit, asked in told.items()),
        degraded=sum(one.degraded is not None for one in every),
        retried=sum(one.attempts > 1 for one in every),
        opened=sum(mark.opened for mark in marks),
        reasons=dict(Counter(f"{one.status}, {one.reason}" for one in every if one.status != "ok")),
        unfinished="; ".join(why) or None,
    )


def _figures(stage: Stage, runs: Sequence[Sequence[Asked]], objective: dict[str, float]) -> Figures:
    kept = [[one for one in run if counts(one)] for run in runs]
    every, of = [one for run in runs for one in run], [one for run in kept for one in run]
    seconds, latencies_s = _seconds(stage, every), [one.ended_s - one.arrival_s for one in of]
    longest_s = float(np.median(latencies_s)) if of else 0.0
    good = [[one for one in run if meets(one, objective)] for run in kept]
    uncounted = Unknown("the server does not count its tokens") if any(one.tokens is None for one in of) else None
    times = {
        "latency": latencies_s,
        "ttft": [one.first_s - one.arrival_s for one in of if one.first_s is not None],
        "gap": [gap for run in kept for gap in gaps_s(run)],
        "token": [per for one in of if (per := token_s(one)) is not None],
        "queue": [one.started_s - one.arrival_s for one in of if one.started_s is not None],
        "service": [one.ended_s - one.started_s for one in of if one.started_s is not None],
    }
    if not of:
        nothing = Unknown("no request was answered")
        return Figures(nothing, nothing, nothing, nothing, dict.fromkeys(times, (nothing,) * len(QUANTILES)), ())
    return Figures(
        tokens_per_s=uncounted or rate_interval(list(map(deliveries, kept)), seconds, longest_s),
        requests_per_s=rate_interval(list(map(ends, kept)), seconds, longest_s),
        good_per_s=rate_interval(list(map(ends, good)), seconds, longest_s) if objective else _NO_OBJECTIVE,
        good=share_interval([meets(one, objective) for one in every]) if objective else _NO_OBJECTIVE,
        times={name: tuple(quantile_interval(values, q) for q in QUANTILES) for name, values in times.items()},
        latencies_s=tuple(latencies_s),
    )


_NO_OBJECTIVE = Unknown("no objective was given")


def _seconds(stage: Stage, run: Sequence[Asked]) -> float:
    """How long a stage is measured: until no new request comes, or until the last of a number of them has ended."""
    return stage.seconds or max((one.ended_s for one in run), default=0.0)


def _throughputs(load: Load, stage: Stage, arm: str) -> dict[int, float]:
    """Tokens per second of each repeat that ended, where they are known and not 0."""
    found = {}
    for repeat in range(load.plan.repeats):
        mark = load.marks.get((stage.name, arm, repeat))
        if mark and mark.event == "ended":
            run = [one for one in load.requests[mark.unit] if counts(one)]
            seconds, (when, tokens) = _seconds(stage, load.requests[mark.unit]), deliveries(run)
            inside = sum(count for at, count in zip(when, tokens, strict=True) if at <= seconds)
            if inside and all(one.tokens is not None for one in run):
                found[repeat] = inside / seconds
    return found


def _versus(own: dict[int, float], base: dict[int, float]) -> Measure:
    logs = [math.log(own[repeat] / base[repeat]) for repeat in own if repeat in base]
    if not logs:
        return Unknown(f"no repeat in which {DIRECT} and this arm were measured")
    return ratio_interval(logs) if len(logs) > 1 else Unknown("one repeat; add repeats=5", math.exp(logs[0]))


def _references(load: Load, condition: Condition) -> dict[object, str]:
    """Direct's first output of each prompt."""
    found: dict[object, str] = {}
    for (_, arm, _), requests in load.requests.items():
        for one in requests if arm == DIRECT else ():
            if counts(one) and one.output:
                found.setdefault(_key(one, condition), one.output)
    return found


def _key(one: Asked, condition: Condition) -> object:
    return one.prompt if condition.temperature == 0 else (one.prompt, one.seed)


def _identical(of: Sequence[Asked], outputs: dict[object, str], condition: Condition) -> tuple[int, int]:
    """Outputs equal to direct's, and how many were compared: ids with ids, or text with text."""
    if condition.verifier == "rejection":  # keeps the law, and not the ids
        return 0, 0
    pairs = [(one.output, outputs.get(_key(one, condition))) for one in of]
    alike = [(a, b) for a, b in pairs if a and b and a.partition(":")[0] == b.partition(":")[0]]
    return sum(a == b for a, b in alike), len(alike)
