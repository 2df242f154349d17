"""Why a run is not what was hoped, and what to try next: trouble-shooting as small rules in a fixed order.

The order is that of the levels: did everything run, is the output the same, is it faster, is it luck. A rule reads the
`Evidence` of one arm under one condition; it tells what it found, the numbers that say so and a command, or None.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from xpress_bench.analyse.compare import NOISE_BAND
from xpress_bench.analyse.digits import shown
from xpress_bench.analyse.evidence import Changes, Evidence, Rule, Told, examine, named, percent
from xpress_bench.analyse.intervals import ALPHA, Unknown, holm, paired_p_value, ratio_interval
from xpress_bench.analyse.law import LEVEL
from xpress_bench.analyse.parity import Parity
from xpress_bench.analyse.power import detectable_speed_up, needed, spread
from xpress_bench.analyse.reduce import Unit, per_prompt
from xpress_bench.analyse.score import Scorable
from xpress_bench.analyse.slow import (
    block_too_long,
    breaks_right,
    idle_passes,
    not_faster,
    refine_costs,
    stage_dominates,
)
from xpress_bench.analyse.summary import SLOWER_SHARE
from xpress_bench.records import Cell, Condition, Run

_NO_MEMORY = re.compile(r"^oom:|out of ?memory|memoryerror|can(no|')t allocate|alloc_failed", re.IGNORECASE)
POWER = 0.8  # with which a larger run should show what this one does not


@dataclass(frozen=True, slots=True)
class Finding:
    """What one rule found. `level`: 1 runs, 2 quality, 3 latency, 4 stable; `evidence`: numbers, one thing a line."""

    level: int
    rule: str
    condition: Condition
    what: str
    evidence: tuple[str, ...]
    command: str


def explain(run: Run, items: Sequence[Scorable] = ()) -> list[Finding]:
    """All findings of a run, in the order of the rules. UsageError on a journal that contradicts itself."""
    return judge(examine(run, items))


def judge(evidence: Sequence[Evidence]) -> list[Finding]:
    """What the rules find, each thing once: what concerns a whole condition is not repeated for its arms."""
    asked = ((level, rule, e, rule(e)) for level, rules in RULES.items() for rule in rules for e in evidence)
    told = ((level, rule.__name__, e.of.condition, *said) for level, rule, e, said in asked if said)
    return list(dict.fromkeys(Finding(at, rule, of, what, tuple(lines), do) for at, rule, of, what, lines, do in told))


def unfinished(e: Evidence) -> Told | None:
    seen = e.of.usable + len(e.of.failed) + len(e.of.short)
    whole = e.of.complete and seen >= e.of.expected
    what = "the run did not finish; whatever else is said holds for a part of it"
    return None if whole else (what, [f"{seen} of {e.of.expected} requests are here"], e.again({}))


def out_of_memory(e: Evidence) -> Told | None:
    cells = [cell for cell in e.of.failed if _NO_MEMORY.search(cell.error or "")]
    slots = [one.arm.block_size or 0 for one in e.of.arms if one.arm.name in {cell.arm for cell in cells}]
    # The block is the verification batch; of what direct generation needs only the output can be made shorter.
    tokens = e.summary.header.settings.get("max_new_tokens") or 128
    changes = {"block_size": min(slots) // 2} if min(slots, default=0) > 3 else {"max_new_tokens": max(1, tokens // 2)}
    return ("memory ran out", _grouped(cells), e.again(changes)) if cells else None


def failed(e: Evidence) -> Told | None:
    cells = [*(cell for cell in e.of.failed if not _NO_MEMORY.search(cell.error or "")), *e.of.short]
    return ("requests failed and are in no average", _grouped(cells), e.again({}, "check")) if cells else None


def _grouped(cells: Sequence[Cell]) -> list[str]:
    groups: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for cell in cells:
        groups[cell.arm, cell.error or "ended although nothing asked for it"].append(cell.prompt)
    return [f"{arm}, {len(prompts)} requests: {why} ({named(prompts)})" for (arm, why), prompts in groups.items()]


def differs(e: Evidence) -> Told | None:
    judged, arm = e.one.parity, e.one.arm
    places = [one for one in judged.divergences if one.verdict in (None, "real")] if isinstance(judged, Parity) else []
    if isinstance(judged, Unknown) or not places:
        return None
    same = [(of, one.arm) for of in e.summary.conditions for one in of.arms if of.levels(one).quality == "shown"]
    plain = [one.name for of, one in same if of is e.of and one.drafter == arm.drafter and one.refiner is None]
    changes: Changes = {"dtype": "float64"}
    what = "is not direct's; in float64, where rounding does not matter, it has to be"
    if all(None in (place.arm_token, place.direct_token) for place in places):
        what = "stops elsewhere than direct's: stop ids, generation defaults or limits are not the same"
        changes = {"max_new_tokens": max(1, min(place.position for place in places))}
    elif any(one == arm and of.condition.temperature == 0 for of, one in same):
        what = "is direct's at temperature 0 only: sampling settings or noise differ between stages or arms"
        changes = {"temperatures": [e.of.condition.temperature], "dtype": "float64"}
    elif arm.refiner and plain:
        what = f"is not direct's, that of {plain[0]} is: refinement, perhaps too many passes, changes it"
        what += ", if not other sampling settings" if e.of.condition.temperature else ""
        changes = {"refiner.passes": 0} if arm.passes else {"refiner.name": "none"}
    lines = [f"output {judged.reason}", f"at {named(f'{one.prompt} token {one.position}' for one in places)}"]
    lines.append(f"prompts on which direct agrees with its own repeats: {percent(judged.noise_floor)}")
    exact = e.summary.header.settings.get("dtype") == "float64" and "dtype" in changes
    return f"output of {arm.name} {what}", lines, e.again({}, "check") if exact else e.again(changes)


def draft_law(e: Evidence) -> Told | None:
    if isinstance(e.law, Unknown) or not e.law.refuted:
        return None
    where = f"stand at {e.law.place:.3f} of their law on average, 0.5 expected"
    lines = [f"{e.law.tokens} traced tokens {where}; p below {LEVEL}"]
    what = "draft law refuted, its drafts are not drawn from the law that the verifier is told; coupled needs none"
    return f"{e.one.arm.name}: {what}", lines, e.again({"verifiers": "[coupled]"})


def not_compared(e: Evidence) -> Told | None:
    judged = e.one.parity
    if not isinstance(judged, Parity) or judged.outcome == "shown" or judged.divergences or draft_law(e):
        return None
    if judged.outcome == "not shown" and not e.of.levels(e.one).runs:  # that comes first, and may be why
        return None
    lines = [f"output {judged.reason}", f"score less direct's: {shown(judged.score_difference)}"]
    if e.of.condition.verifier != "rejection":
        return f"{e.one.arm.name} cannot be compared with direct", lines, e.report()
    told = {"refuted": "its drafts may not have the law that the verifier is told", "not shown": "ids prove nothing"}
    return f"{e.one.arm.name}: {told[judged.outcome]}; coupled compares ids", lines, e.again({"verifiers": "[coupled]"})


def few_prompts(e: Evidence) -> Told | None:
    speed, header = e.of.speed_up(e.one.arm.name), e.summary.header
    if speed is None or speed.latency != "not shown" or not speed.prompts:
        return None
    ratios, items = list(e.paired.log_ratios().values()), int(header.suite["items"])
    deviation, effect = spread(ratios), max(abs(fmean(ratios)), math.log1p(NOISE_BAND))
    found, prompts = detectable_speed_up(deviation, len(ratios), POWER), needed(effect, deviation, POWER)
    lines = [f"{shown(speed.gmean_paired)} times the speed of direct on {speed.prompts} {speed.units}"]
    if not isinstance(found, Unknown):
        lines.append(f"so many find a change of {found - 1:.1%} with a power of {POWER:.0%}")
    if not isinstance(prompts, Unknown):
        lines.append(f"one of {math.expm1(effect):.1%} takes {prompts} {speed.units}")
    more = items if isinstance(prompts, Unknown) else min(prompts * header.rows, items)
    larger = {"limit": more} if more > len(header.prompts) else _more_launches(e)
    return f"{e.one.arm.name}: too few {speed.units} to tell its speed from direct's", lines, e.again(larger)


def unsteady(e: Evidence) -> Told | None:
    flags = e.of.stability.flags
    warmup = {"warmup": 2 * e.summary.header.settings.get("warmup", 1)}
    changes = warmup if any("raise warmup" in flag for flag in flags) else _more_launches(e)
    return ("latencies were not steady", flags, e.again(changes)) if flags else None


def _more_launches(e: Evidence) -> Changes:
    return {"launches": max(3, 2 * int(e.summary.header.settings["launches"]))}


def loses(e: Evidence) -> Told | None:
    speed = e.of.speed_up(e.one.arm.name)
    if speed is None or speed.latency != "faster" or len(speed.slower) <= SLOWER_SHARE * speed.prompts:
        return None
    line = f"{len(speed.slower)} of {speed.prompts} {speed.units} are slower, worst: {e.worst()}"
    return f"{e.one.arm.name}: faster on the whole, but not on all {speed.units}", [line], e.report()


def seeds_vary(e: Evidence) -> Told | None:
    by_seed: defaultdict[int, dict[Unit, float]] = defaultdict(dict)
    for unit, base_s in e.paired.base_s.items():
        by_seed[unit[2]][unit] = math.log(base_s / e.paired.arm_s[unit])
    whole, own = e.paired.log_ratios(), {seed: per_prompt(ratios) for seed, ratios in by_seed.items()}
    shifts = {seed: [ratio - whole[prompt] for prompt, ratio in one.items()] for seed, one in own.items()}
    chances = {seed: p for seed, one in shifts.items() if (p := paired_p_value(one)) is not None}
    found = [seed for seed, p in zip(chances, holm(list(chances.values())), strict=True) if p < ALPHA]
    found = [seed for seed in found if abs(fmean(shifts[seed])) >= math.log1p(NOISE_BAND)]
    lines = [f"seed {seed}: {shown(ratio_interval(shifts[seed]))} times the speed-up of all" for seed in found]
    wider = {"seeds": list(range(2 * len(by_seed)))}
    return (f"{e.one.arm.name}: the speed-up depends on the seed", lines, e.again(wider)) if found else None


# Level -> its rules, in the order in which trouble is looked for.
RULES: Mapping[int, tuple[Rule, ...]] = {
    1: (unfinished, out_of_memory, failed),
    2: (differs, draft_law, not_compared),
    3: (breaks_right, refine_costs, idle_passes, block_too_long, stage_dominates, not_faster),
    4: (few_prompts, unsteady, loses, seeds_vary),
}
