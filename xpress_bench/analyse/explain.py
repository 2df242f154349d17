"""Why a run is not what was hoped, and what to try next: trouble-shooting as small rules in a fixed order.

The order is that of the levels: did everything run, is the output the same, is it faster, is it luck. A rule reads the
`Evidence` of one arm under one condition; it tells what it found, the numbers that say so and a command, or None.
"""

from __future__ import annotations

import math
import re
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from xpress_bench.analyse.compare import NOISE_BAND
from xpress_bench.analyse.digits import shown, significant
from xpress_bench.analyse.intervals import ALPHA, Interval, Measure, Unknown, holm, paired_p_value, ratio_interval
from xpress_bench.analyse.ledger import Knee, Ledger, knee, ledger, stage_shares
from xpress_bench.analyse.parity import Parity
from xpress_bench.analyse.reduce import Paired, Unit, pair, per_prompt, select
from xpress_bench.analyse.score import Scorable
from xpress_bench.analyse.summary import DIRECT, SLOWER_SHARE, ArmSummary, ConditionSummary, Summary, summarise
from xpress_bench.records import Cell, Condition, Header, Run

HIGH_SHARE = {"rest": 0.15, "prefill": 0.5}  # of the latency: above half for the prompt no drafter doubles the speed
_NO_MEMORY = re.compile(r"out of ?memory|memoryerror|can(no|')t allocate|alloc_failed", re.IGNORECASE)
_KEYS = {"target": "target.name", "drafter": "drafter.name", "refiner": "refiner.name"}
_KEYS |= {"verifier": "verifiers", "temperature": "temperatures"}  # of flags; the others are called like their key
Changes = Mapping[str, object]  # setting -> new value
NO_MODEL: Changes = {"drafter.name": "prompt_lookup", "refiner.name": "none"}  # drafting that costs next to nothing


@dataclass(frozen=True, slots=True)
class Finding:
    """What one rule found. `level`: 1 runs, 2 quality, 3 latency, 4 stable; `evidence`: numbers, one thing a line."""

    level: int
    rule: str
    condition: Condition
    what: str
    evidence: tuple[str, ...]
    command: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """One arm under one condition. `shares`: of the latency, by stage, empty if not known; `paired`: with direct."""

    summary: Summary
    of: ConditionSummary
    one: ArmSummary
    ledger: Ledger | Unknown
    knee: Knee | Unknown
    shares: Mapping[str, Measure]
    paired: Paired

    def again(self, changes: Changes, command: str = "") -> str:
        return again(self.summary.header, changes, command)

    def report(self) -> str:
        return f"xpress-bench report {shlex.quote(str(self.summary.folder))} --by category"


Told = tuple[str, Sequence[str], str]  # what, evidence, command
Rule = Callable[[Evidence], Told | None]


def explain(run: Run, items: Sequence[Scorable] = ()) -> list[Finding]:
    """All findings of a run, in the order of the rules. UsageError on a journal that contradicts itself."""
    return judge(examine(run, items))


def examine(run: Run, items: Sequence[Scorable] = ()) -> list[Evidence]:
    """The evidence of every arm but direct, or of direct where it is alone, condition by condition."""
    summary = summarise(run, items)
    found = []
    for of in summary.conditions:
        selection = select(run, of.condition)
        direct = selection.of(DIRECT)
        for one in [one for one in of.arms if one.arm.name != DIRECT] or of.arms:
            cells = selection.of(one.arm.name)
            kept, best, shares = ledger(one.arm, cells), knee(cells, direct), stage_shares(cells)
            found.append(Evidence(summary, of, one, kept, best, shares, pair(direct, cells)))
    return found


def judge(evidence: Sequence[Evidence]) -> list[Finding]:
    """What the rules find, each thing once: what concerns a whole condition is not repeated for its arms."""
    asked = ((level, rule, e, rule(e)) for level, rules in RULES.items() for rule in rules for e in evidence)
    told = ((level, rule.__name__, e.of.condition, *said) for level, rule, e, said in asked if said)
    return list(dict.fromkeys(Finding(at, rule, of, what, tuple(lines), do) for at, rule, of, what, lines, do in told))


def again(header: Header, changes: Changes, command: str = "") -> str:
    """The command line of a run with settings changed, or of another command with its words; replaced words go."""
    gone = set(changes) | {group for group in ("drafter", "refiner") if f"{group}.name" in changes}
    kept, words = [], iter(header.argv)
    for word in words:
        name, joined, _ = word.removeprefix("--").partition("=")
        key = _KEYS.get(name, name) if word.startswith("--") else name.lstrip("+")
        own = [word, next(words, "")] if word.startswith("--") and not joined else [word]
        kept += [] if gone & {key, key.partition(".")[0]} else own
    values = (f"{key}={str(value).replace(' ', '')}" for key, value in changes.items())
    return shlex.join(["xpress-bench", *filter(None, [command]), *kept, *values])


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
    return [f"{arm}, {len(prompts)} requests: {why} ({_named(prompts)})" for (arm, why), prompts in groups.items()]


def _named(names: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(names))
    return ", ".join(distinct[:3]) + (f" and {len(distinct) - 3} more" if len(distinct) > 3 else "")


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
    elif arm.refiner and plain:
        what = f"is not direct's, that of {plain[0]} is: refinement, perhaps too many passes, changes it"
        changes = {"refiner.passes": 0} if arm.passes else {"refiner.name": "none"}
    elif any(one == arm and of.condition.temperature == 0 for of, one in same):
        what = "is direct's at temperature 0 only: sampling settings or noise differ between stages or arms"
        changes = {"temperatures": [e.of.condition.temperature], "dtype": "float64"}
    lines = [f"output {judged.reason}", f"at {_named(f'{one.prompt} token {one.position}' for one in places)}"]
    lines.append(f"prompts on which direct agrees with its own repeats: {_percent(judged.noise_floor)}")
    exact = e.summary.header.settings.get("dtype") == "float64" and "dtype" in changes
    return f"output of {arm.name} {what}", lines, e.again({}, "check") if exact else e.again(changes)


def not_compared(e: Evidence) -> Told | None:
    judged = e.one.parity
    if not isinstance(judged, Parity) or judged.outcome == "shown" or judged.divergences:
        return None
    if judged.outcome == "not shown" and not e.of.levels(e.one).runs:  # that comes first, and may be why
        return None
    lines = [f"output {judged.reason}", f"score less direct's: {shown(judged.score_difference)}"]
    if e.of.condition.verifier != "rejection":
        return f"{e.one.arm.name} cannot be compared with direct", lines, e.report()
    told = {"refuted": "its drafts may not have the law that the verifier is told", "not shown": "ids prove nothing"}
    return f"{e.one.arm.name}: {told[judged.outcome]}; coupled compares ids", lines, e.again({"verifiers": "[coupled]"})


def breaks_right(e: Evidence) -> Told | None:
    slots = e.ledger.slots if isinstance(e.ledger, Ledger) else ()
    harmed = [slot for slot in slots if isinstance(slot.net, Interval) and slot.net.high < 0]
    what = f"{e.one.arm.name}: refinement breaks right tokens at slot {_named(str(one.slot) for one in harmed)}"
    lines = [f"slot {s.slot} cuts {s.cut} prefixes, extends {s.extended}: {shown(s.net)} per step" for s in harmed]
    return (f"{what}, which costs acceptance, not output", lines, e.again(_fewer_passes(e))) if harmed else None


def _fewer_passes(e: Evidence) -> Changes:
    passes = e.one.arm.passes or 0
    return {"refiner.passes": passes // 2} if passes > 1 else {"refiner.name": "none"}


def refine_costs(e: Evidence) -> Told | None:
    split, gain = e.one.stages, e.ledger.gain if isinstance(e.ledger, Ledger) else e.ledger
    per_step = e.one.acceptance.tokens_per_step_committed_step.estimate
    if isinstance(split, Unknown) or isinstance(gain, Unknown) or per_step is None or breaks_right(e):
        return None
    others_s = split.draft_s + split.verify_s + split.rest_s
    price = (per_step - gain.estimate) * split.refine_s / others_s if others_s else math.inf
    cost, others = (f"{significant(time_s * 1e3, 3)} ms" for time_s in (split.refine_s, others_s))
    lines = [f"gain {shown(gain)} tokens per step; {significant(price, 2)} pay for {cost} more than {others} a step"]
    what = f"{e.one.arm.name}: refinement costs more than it gains"
    return (what, lines, e.again(_fewer_passes(e))) if gain.high < price else None


def block_too_long(e: Evidence) -> Told | None:
    best, size, curve = e.knee, e.one.arm.block_size, e.one.acceptance.accept_marginal_step
    if isinstance(best, Unknown) or isinstance(best.last, Unknown) or size is None:
        return None
    shorter = max(2, size - len(curve) + best.drafts)
    lines = [f"the last slot is accepted in {_percent(best.last)} of steps, which pays from {best.break_even:.0%} on"]
    lines.append(f"by the times of the stages a block of {shorter} is {best.gain:.2f}x as fast")
    if best.last.high >= best.break_even or best.gain < 1 + NOISE_BAND or shorter >= size:
        return None
    return f"{e.one.arm.name}: the last slots of a block of {size} do not pay", lines, e.again({"block_size": shorter})


def stage_dominates(e: Evidence) -> Told | None:
    known = {stage: share for stage, share in e.shares.items() if isinstance(share, Interval)}
    high = [stage for stage, limit in HIGH_SHARE.items() if stage in known and known[stage].low > limit]
    lines = [f"{stage} is {_percent(known[stage])} of the latency" for stage in high]
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
    lines = [f"{shown(speed.gmean_paired)} times the speed of direct", f"worst: {_worst(e)}"]
    lines += [f"{stage} {_percent(share)} of the latency" for stage, share in e.shares.items()]
    what = f"{arm.name}: {speed.latency} than direct" if speed.latency == "slower" else f"{arm.name}: {speed.latency}"
    return what, lines, e.again(remedies[largest]) if largest in remedies else e.report()


def _worst(e: Evidence) -> str:
    ratios = sorted(e.paired.log_ratios().items(), key=lambda one: one[1])
    return ", ".join(f"{prompt} {math.exp(ratio):.2f}x" for prompt, ratio in ratios[:3])


def few_prompts(e: Evidence) -> Told | None:
    speed, header = e.of.speed_up(e.one.arm.name), e.summary.header
    if speed is None or speed.latency != "not shown" or not speed.prompts:
        return None
    lines = [f"{shown(speed.gmean_paired)} times the speed of direct on {speed.prompts} prompts"]
    if isinstance(ratio := speed.gmean_paired, Interval) and ratio.high > ratio.low:
        lines.append(f"so many tell changes of {math.sqrt(ratio.high / ratio.low) - 1:.1%} and more from none")
    more = min(4 * len(header.prompts), header.suite["items"])  # half the width
    larger = {"limit": more} if more > len(header.prompts) else _more_launches(e)
    return f"{e.one.arm.name}: too few prompts to tell its speed from direct's", lines, e.again(larger)


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
    line = f"{len(speed.slower)} of {speed.prompts} prompts are slower, worst: {_worst(e)}"
    return f"{e.one.arm.name}: faster on the whole, but not on every prompt", [line], e.report()


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


def _percent(share: Measure) -> str:
    return share.reason if isinstance(share, Unknown) and share.estimate is None else f"{shown(share, 100)} %"


# Level -> its rules, in the order in which trouble is looked for.
RULES: Mapping[int, tuple[Rule, ...]] = {
    1: (unfinished, out_of_memory, failed),
    2: (differs, not_compared),
    3: (breaks_right, refine_costs, block_too_long, stage_dominates, not_faster),
    4: (few_prompts, unsteady, loses, seeds_vary),
}
