"""The verdict: one sentence that a person may quote. Bad news comes first and is not softened."""

from __future__ import annotations

from xpress_bench.analyse.compare import SpeedUp
from xpress_bench.analyse.digits import seconds, shown
from xpress_bench.analyse.intervals import Unknown
from xpress_bench.analyse.parity import Parity
from xpress_bench.analyse.summary import DIRECT, ArmSummary, ConditionSummary, Summary
from xpress_bench.records import Arm


def verdict(summary: Summary, of: ConditionSummary) -> str:
    """The sentence for one condition of a run."""
    parts = [_unfinished(of), _scope(summary)]
    lead = ", ".join(part for part in parts if part)
    body = _body(of)
    return f"{lead[:1].upper()}{lead[1:]}: {body}." if lead else f"{body}."


def described(arm: Arm) -> str:
    """An arm by its name and parts: "refine (dflash B=8 + xpress K=4)"."""
    drafter = [arm.drafter, _set("B", arm.block_size), _set("N", arm.denoising_steps, hidden=1)]
    drafter += [_set("M", arm.candidates), _set("nodes", arm.nodes)]
    refiner = [arm.refiner, _set("K", arm.passes)]
    parts = [" ".join(part for part in group if part) for group in (drafter, refiner) if group[0]]
    return f"{arm.name} ({' + '.join(parts)})" if parts else arm.name


def _set(letter: str, value: int | None, hidden: int | None = None) -> str | None:
    return None if value is None or value == hidden else f"{letter}={value}"


def headline(of: ConditionSummary) -> ArmSummary | None:
    """The arm that the verdict is about: refine, else the last; None if there is only one."""
    compared = of.arms[1:]  # the first is what the others are compared with: direct, where there is one
    return next((one for one in compared if one.arm.name == "refine"), compared[-1] if compared else None)


def _unfinished(of: ConditionSummary) -> str:
    if not of.complete:
        return f"the run did not finish, {of.usable} of {of.expected} requests are here"
    return f"only {of.usable} of {of.expected} requests succeeded" if of.usable != of.expected else ""


def _scope(summary: Summary) -> str:
    suite = summary.header.suite
    if suite["selected"] >= suite["items"]:
        return ""
    return f"on {suite['selected']} of {suite['items']} prompts of {suite['name']}"


def _body(of: ConditionSummary) -> str:
    one = headline(of)
    if not of.usable:
        return "no request succeeded, so nothing can be said"
    if one is None:
        alone = of.arms[0]
        return f"only {alone.arm.name} was measured, median latency {seconds(alone.latency_s)}; nothing to compare with"
    name = described(one.arm)
    if isinstance(one.parity, Parity) and one.parity.outcome != "shown":
        opening = [f"output of {name} {one.parity.reason}", f"it is {_speeds(of, one)}"]
    else:
        opening = [f"{name} is {_speeds(of, one)}", _output(one)]
    return "; ".join([*opening, *_other_faults(of, one), *_steadiness(of, one)])


def _output(one: ArmSummary) -> str:
    return f"output {one.parity.reason}" if isinstance(one.parity, Parity) else f"no parity, {one.parity.reason}"


def _other_faults(of: ConditionSummary, one: ArmSummary) -> list[str]:
    others = [(other.arm.name, other.parity) for other in of.arms if other is not one]
    return [
        f"output of {name} {judged.reason}"
        for name, judged in others
        if isinstance(judged, Parity) and judged.outcome != "shown"
    ]


def _speeds(of: ConditionSummary, one: ArmSummary) -> str:
    found = [speed for speed in of.speed_ups if speed.arm == one.arm.name]
    usual = [speed for speed in found if speed.base in (DIRECT, "draft")]
    return " and ".join(_speed(speed) for speed in usual or found[:1])


def _speed(speed: SpeedUp) -> str:
    ratio = speed.gmean_paired
    if isinstance(ratio, Unknown):
        return f"not shown to be faster than {speed.base} ({ratio.reason})"
    times, bounds = shown(ratio).split(" ", 1)
    return {
        "faster": f"{times}x faster than {speed.base} {bounds}",
        "slower": f"slower than {speed.base}, {times}x its speed {bounds}",
        "no practical difference": f"no practical difference from {speed.base}, {times}x its speed {bounds}",
        "not shown": f"not shown to be faster than {speed.base}, {times}x its speed {bounds}",
    }[speed.latency]


def _steadiness(of: ConditionSummary, one: ArmSummary) -> list[str]:
    speed = of.speed_up(one.arm.name)
    if speed is None or speed.latency != "faster":
        return []
    word = "stable" if of.levels(one).stable else "not stable"
    return [
        "; ".join([f"{word}: {len(speed.slower)} of {speed.prompts} {speed.units} got slower", *of.stability.flags])
    ]
