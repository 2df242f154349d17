"""Why an arm is not faster: the rules of `explain` on where time goes and what refinement, passes and slots pay for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from xpress_bench.analyse.compare import NOISE_BAND
from xpress_bench.analyse.digits import shown, significant
from xpress_bench.analyse.evidence import Changes, Evidence, Told, named, percent
from xpress_bench.analyse.intervals import Interval, Unknown
from xpress_bench.analyse.ledger import Ledger
from xpress_bench.analyse.passes import Pass
from xpress_bench.analyse.stages import Stages

HIGH_SHARE = {"rest": 0.15, "prefill": 0.5}  # of the latency: above half for the prompt no drafter doubles the speed
NO_MODEL: Changes = {"drafter.name": "prompt_lookup", "refiner.name": "none"}  # drafting that costs next to nothing


def breaks_right(e: Evidence) -> Told | None:
    slots = e.ledger.slots if isinstance(e.ledger, Ledger) else ()
    harmed = [slot for slot in slots if isinstance(slot.net, Interval) and slot.net.high < 0]
    what = f"{e.one.arm.name}: refinement breaks right tokens at slot {named(str(one.slot) for one in harmed)}"
    lines = [f"slot {s.slot} cuts {s.cut} prefixes, extends {s.extended}: {shown(s.net)} per step" for s in harmed]
    return (f"{what}, which costs acceptance, not output", lines, e.again(_fewer_passes(e))) if harmed else None


def _fewer_passes(e: Evidence) -> Changes:
    """As many passes as the trace finds fastest, or half of them."""
    passes, speeds = e.one.arm.passes or 0, _speeds(e)
    best = max(range(len(speeds)), key=speeds.__getitem__, default=passes)
    fewer = best if best < passes else passes // 2
    return {"refiner.passes": fewer} if fewer else {"refiner.name": "none"}


def _speeds(e: Evidence) -> list[float]:
    """Tokens per second of a step with 0, 1, ... passes, by the trace and the times of the stages."""
    split = e.one.stages
    if isinstance(e.passes, Unknown) or isinstance(split, Unknown) or not _others_s(split):
        return []
    refine_s = accumulate(one.cost_s or 0.0 for one in e.passes)
    tokens = [1 + (one.accepted.estimate or 0.0) for one in e.passes]
    return [count / (_others_s(split) + cost_s) for count, cost_s in zip(tokens, refine_s, strict=True)]


def _others_s(split: Stages) -> float:
    return split.draft_s + split.verify_s + split.rest_s


def refine_costs(e: Evidence) -> Told | None:
    split, gain = e.one.stages, e.ledger.gain if isinstance(e.ledger, Ledger) else e.ledger
    per_step = e.one.tokens_per_step.estimate
    if isinstance(split, Unknown) or isinstance(gain, Unknown) or per_step is None or breaks_right(e):
        return None
    others_s = _others_s(split)
    price = (per_step - gain.estimate) * split.refine_s / others_s if others_s else math.inf
    cost, others = (f"{significant(time_s * 1e3, 3)} ms" for time_s in (split.refine_s, others_s))
    lines = [f"gain {shown(gain)} tokens per step; {significant(price, 2)} pay for {cost} more than {others} a step"]
    what = f"{e.one.arm.name}: refinement costs more than it gains"
    return (what, lines, e.again(_fewer_passes(e))) if gain.high < price else None


def idle_passes(e: Evidence) -> Told | None:
    split = e.one.stages
    if isinstance(e.passes, Unknown) or isinstance(split, Unknown) or breaks_right(e) or refine_costs(e):
        return None
    for last in e.passes[1:-1]:  # the earliest pass to stop after
        behind = e.passes[last.number + 1 :]
        cost_s = sum(one.cost_s or 0.0 for one in behind)
        price = (1 + (last.accepted.estimate or 0.0)) * cost_s / (_others_s(split) + split.refine_s - cost_s)
        if isinstance(last.left, Interval) and last.left.high < price:
            cost = f"{significant(price, 2)} pay for {significant(cost_s * 1e3, 3)} ms a step"
            lines = [f"together they gain {shown(last.left)} tokens per step; {cost}"]
            what = f"{e.one.arm.name}: {_numbered(behind)} gain less than they cost"
            return what, lines, e.again({"refiner.passes": last.number})
    return None


def _numbered(passes: Sequence[Pass]) -> str:
    first, last = passes[0].number, passes[-1].number
    return f"pass {last}" if first == last else f"passes {first} {'and' if last == first + 1 else 'to'} {last}"


def block_too_long(e: Evidence) -> Told | None:
    best, size, curve = e.knee, e.one.arm.block_size, e.one.acceptance.accept_marginal_step
    if isinstance(best, Unknown) or isinstance(best.last, Unknown) or size is None:
        return None
    shorter = max(2, size - len(curve) + best.drafts)
    lines = [f"the last slot is accepted in {percent(best.last)} of steps, which pays from {best.break_even:.0%} on"]
    lines.append(f"by the times of the stages a block of {shorter} is {best.gain:.2f}x as fast")
    if best.last.high >= best.break_even or best.gain < 1 + NOISE_BAND or shorter >= size:
        return None
    return f"{e.one.arm.name}: the last slots of a block of {size} do not pay", lines, e.again({"block_size": shorter})


def stage_dominates(e: Evidence) -> Told | None:
    known = {stage: share for stage, share in e.shares.items() if isinstance(share, Interval)}
    high = [stage for stage, limit in HIGH_SHARE.items() if stage in known and known[stage].low > limit]
    lines = [f"{stage} is {percent(known[stage])} of the latency" for stage in high]
    if "rest" in high:  # a drafter without a model tells whether the loop or the drafter copies and waits
        return f"{e.one.arm.name}: much time goes between stages, to copies and the host", lines, e.again(NO_MODEL)
    return (f"{e.one.arm.name}: outputs are too short for speculation to pay", lines, e.report()) if high else None


def not_faster(e: Evidence) -> Told | None:
    speed, arm = e.of.speed_up(e.one.arm.name), e.one.arm
    if speed is None or speed.latency not in ("slower", "no practical difference"):
        return None
    largest = max(e.shares, key=lambda stage: e.shares[stage].estimate or 0.0, default="")
    steps, size = arm.denoising_steps or 1, arm.block_size or 0
    remedies: dict[str, Changes] = {"refine": _fewer_passes(e), "verify": {"block_size": max(2, size // 2)}}
    remedies["draft"] = {"drafter.denoising_steps": steps // 2} if steps > 1 else NO_MODEL
    lines = [f"{shown(speed.gmean_paired)} times the speed of direct", f"worst: {e.worst()}"]
    lines += [f"{stage} {percent(share)} of the latency" for stage, share in e.shares.items()]
    what = f"{arm.name}: {speed.latency} than direct" if speed.latency == "slower" else f"{arm.name}: {speed.latency}"
    return what, lines, e.again(remedies[largest]) if largest in remedies else e.report()
