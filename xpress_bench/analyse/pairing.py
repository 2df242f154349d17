"""Pairs of launches -> one number per pair and metric: what the wall-time gate tests (statistics.md C.6)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from xpress_bench.analyse.gate import Check, Outcome, limit_check
from xpress_bench.analyse.reduce import Unit, per_prompt, select, unit_of
from xpress_bench.analyse.summary import DIRECT
from xpress_bench.records import Cell, Condition, Memory, Run

Pair = tuple[Run, Run]  # base, candidate
Latencies = Mapping[str, Mapping[str, float]]  # arm -> prompt -> seconds


def log_ratios(pairs: Sequence[Pair]) -> dict[str, list[float]]:
    """Metric -> log(candidate / base) of each pair, above 0 where the candidate is slower.

    Direct generation is judged by its latency. Every other arm is judged by its latency over that of the direct arm
    beside it in the same launch, which takes out what slowed the launch as a whole. Together they see any slow-down.
    """
    found: dict[str, list[float]] = {}
    for base, candidate in pairs:
        for condition in base.header.conditions:
            for metric, value in _of_pair(latencies(base, condition), latencies(candidate, condition)):
                found.setdefault(f"{metric}, {condition}", []).append(value)
    return found


def _of_pair(base: Latencies, candidate: Latencies) -> Iterator[tuple[str, float]]:
    shared = [arm for arm in base if arm in candidate]
    prompts = set.intersection(*(set(side[arm]) for side in (base, candidate) for arm in shared)) if shared else set()
    if not prompts:
        return
    slower = {arm: fmean(math.log(candidate[arm][p] / base[arm][p]) for p in sorted(prompts)) for arm in shared}
    yield from over_direct(slower)


def over_direct(logs: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Metric and its logarithm of each arm, from a log latency per arm: direct's own, the others' over it."""
    for arm, value in logs.items():
        if arm == DIRECT or DIRECT not in logs:
            yield f"latency of {arm}", value
        else:
            yield f"latency of {arm} over {DIRECT}", value - logs[DIRECT]


def latencies(run: Run, condition: Condition) -> dict[str, dict[str, float]]:
    """Arm -> prompt -> seconds of a request: the fastest repeat of each request, their mean over the prompt.

    What disturbs a machine only ever adds time, so the fastest of several repeats moves least between launches of the
    same code (Chen and Revels 2016). Reports take medians: they say what a user waits for.
    """
    selection, found = select(run, condition), dict[str, dict[str, float]]()
    for arm in run.header.arms:
        fastest: dict[Unit, float] = {}
        for cell in selection.timed(arm.name):
            if cell.latency_s:
                unit = unit_of(cell)
                fastest[unit] = min(cell.latency_s, fastest.get(unit, math.inf))
        found[arm.name] = per_prompt(fastest)
    return found


def same_work(base: Run, candidate: Run) -> Check:
    """Whether both launches answered the same prompts with the same arms, every request of them."""
    ours, theirs = ({(c.condition, c.prompt, c.turn, c.seed, c.arm): c for c in run.cells} for run in (base, candidate))
    faults = [f"{key[4]}, {key[0]}, {key[1]}: missing from the candidate" for key in ours if key not in theirs]
    for key, cell in ours.items():
        other = theirs.get(key)
        if other and other.prompt_sha256 != cell.prompt_sha256:
            faults.append(f"{key[1]}: the candidate was given another prompt")
        if other and other.error and not cell.error:
            faults.append(f"{key[4]}, {key[0]}, {key[1]}: {other.error}")
    here = len(ours.keys() & theirs.keys())
    text = f"{here} of {len(ours)} requests of the base are in the candidate"
    return Check(
        "wall time",
        "same work",
        "broken" if not here else "regression" if faults else "pass",
        here,
        text,
        tuple(faults),
    )


def quality_checks(base: Run, candidate: Run, drop: float) -> Iterator[Check]:
    """Acceptance may drop by the share `drop`; outputs may not leave direct generation more than they did."""
    for condition in base.header.conditions:
        sides = [select(run, condition) for run in (base, candidate)]
        for arm in base.header.arms:
            if arm.name == DIRECT:
                continue
            ours, theirs = (tokens_per_step(side.of(arm.name)) for side in sides)
            name = f"tokens per step of {arm.name}, {condition}"
            yield limit_check("acceptance", name, ours, theirs, drop, lower_is_better=False)
            yield _parity(base, candidate, arm.name, condition)


def tokens_per_step(cells: Sequence[Cell]) -> float | None:
    """Committed tokens per verify step, pooled; None without a step."""
    committed = [count for cell in cells for count in cell.steps.committed]
    return fmean(committed) if committed else None


def _parity(base: Run, candidate: Run, arm: str, condition: Condition) -> Check:
    """Real differences from direct generation, by prompt; ties that rounding swaps are no fault."""
    real = [
        {one.prompt for one in run.replays if (one.arm, one.condition, one.verdict) == (arm, condition, "real")}
        for run in (base, candidate)
    ]
    prompts = {cell.prompt for cell in candidate.cells if (cell.arm, cell.condition) == (arm, condition)}
    new = sorted(real[1] - real[0])
    text = f"{len(prompts)} prompts, real differences from direct generation on {len(real[0])} -> {len(real[1])}"
    outcome: Outcome = "regression" if new else "pass" if prompts else "broken"
    return Check("parity", f"output of {arm}, {condition}", outcome, len(prompts), text, tuple(new))


def memory_checks(base: Run, candidate: Run, rise: float) -> Iterator[Check]:
    """Peak memory of each arm may rise by the share `rise`."""
    ours, theirs = ({one.arm: one for one in run.memory} for run in (base, candidate))
    for arm in base.header.arms:
        name = f"peak memory of {arm.name}"
        if _unmeasurable(ours.get(arm.name)) and _unmeasurable(theirs.get(arm.name)):
            reason = getattr(ours.get(arm.name), "reason", None) or "not measured"
            yield Check("memory", name, "inconclusive", 0, f"not known on either side: {reason}")
            continue
        yield limit_check(
            "memory", name, _peak(ours.get(arm.name)), _peak(theirs.get(arm.name)), rise, lower_is_better=True
        )


def _unmeasurable(memory: Memory | None) -> bool:
    return memory is None or memory.peak_bytes is None


def _peak(memory: Memory | None) -> float | None:
    return None if memory is None or memory.peak_bytes is None else float(memory.peak_bytes)
