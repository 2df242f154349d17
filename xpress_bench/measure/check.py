"""Three validations before any pipeline is trusted, then a plan of the run: prompts, minutes, detectable effect.

1 the drafter alone drafts a block, and the block decodes to text; 2 the target verifies that block in one forward and
returns a law per position; 3 what the refiner takes and gives aligns in slots, hidden size, vocabulary and ids.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from scipy import stats
from torch import Tensor

from xpress_bench.analyse.board import hindrances
from xpress_bench.decode import context_of
from xpress_bench.drafters import Context, Draft, Drafter, most_drafts
from xpress_bench.errors import MisfitError
from xpress_bench.measure.clock import clock_for
from xpress_bench.measure.prompts import Prompt
from xpress_bench.measure.ready import Ready, make_ready
from xpress_bench.measure.requests import Requests
from xpress_bench.measure.runner import warm_up
from xpress_bench.measure.schedule import Slot
from xpress_bench.measure.served import ServedRequests
from xpress_bench.measure.workload import workload
from xpress_bench.parts import Parts, PlannedArm
from xpress_bench.sampling import Sampling, law
from xpress_bench.settings import Settings
from xpress_bench.suites import spread

PILOT = 6  # prompts that are run to plan with
Say = Callable[[str], None]


def check_and_plan(settings: Settings, say: Say) -> None:
    """Validate and plan, one line per finding. Raises MisfitError at the first thing that does not fit."""
    ready = make_ready(settings)
    parts, prompts = ready.parts, ready.prompts
    for planned in parts.arms[1:]:
        say(f"arm {planned.arm.name}")
        validate(parts, planned, prompts[0], Sampling(settings.conditions()[0], 0, parts.target.device), say)
    long = sum(one.tokens is not None for one in ready.skipped)
    fill = f", {len(ready.skipped) - long} fill no batch" if len(ready.skipped) > long else ""
    say(
        f"plan: suite {ready.suite.name}, {len(prompts)} of {len(ready.suite.items)} prompts, "
        f"{long} too long for the target{fill}, {len(parts.arms)} arms"
    )
    plan(ready, settings, say)
    say(f"  board    {'; '.join(hindrances(settings)) or 'nothing in the settings keeps it off'}")


@torch.inference_mode()
def validate(parts: Parts, planned: PlannedArm, prompt: Prompt, sampling: Sampling, say: Say) -> None:
    """The three validations of one arm on one prompt, shapes printed."""
    drafter = planned.drafter
    if drafter is None:
        return
    context, draft = _draft(parts, drafter, prompt, sampling)
    count = draft.tokens.shape[1]
    text = parts.tokenizer.decode(draft.tokens[0].tolist())
    say(f"  1 draft    tokens {_shape(draft.tokens)}, hidden {_shape(draft.hidden)}, text {text!r}")
    logits = parts.target.verify(torch.cat([context.anchor[:, None], draft.tokens], dim=1), drafter.taps)
    _verified(logits, count, parts, say)
    for refiner in planned.refiners:
        if draft.tokens.shape[1] == 0:
            break
        refined = refiner.refine(draft, context, sampling)
        _aligned(parts, draft, refined, say)
        draft = refined


def _draft(parts: Parts, drafter: Drafter, prompt: Prompt, sampling: Sampling) -> tuple[Context, Draft]:
    ids = torch.tensor([prompt.ids], device=parts.target.device)
    logits, features = parts.target.prefill(ids, drafter.taps)
    if drafter.taps and (features is None or features.shape[-1] != len(drafter.taps) * parts.target.hidden_size):
        raise MisfitError(
            f"features are {_shape(features)}, {len(drafter.taps)} taps of {parts.target.hidden_size} were asked for"
        )
    drafter.start(parts.target, ids, features)
    context = context_of([*prompt.ids, int(logits[0, -1].argmax())], ids, parts.target)
    draft = drafter.propose(context, sampling)
    if draft.tokens.shape[1] > most_drafts(drafter):
        raise MisfitError(
            f"the drafter offers {draft.tokens.shape[1]} tokens for a block of {drafter.block_size} slots"
        )
    return context, draft


def _verified(logits: Tensor, count: int, parts: Parts, say: Say) -> None:
    expected = (1, count + 1, parts.target.vocab_size)
    if tuple(logits.shape) != expected:
        raise MisfitError(f"the target's verify gives {_shape(logits)}, expected {list(expected)}")
    if not bool(torch.isfinite(logits).all()):
        raise MisfitError("the target's logits are not finite")
    mass = law(logits, 1.0).sum(-1)
    masses = f"{float(mass.min()):.6f}..{float(mass.max()):.6f}"
    say(f"  2 verify   one forward, logits {_shape(logits)}, mass per position {masses}")


def _aligned(parts: Parts, draft: Draft, refined: Draft, say: Say) -> None:
    (rows, count), (refined_rows, kept) = draft.tokens.shape, refined.tokens.shape
    if refined_rows != rows or kept > count:
        raise MisfitError(
            f"the refiner turns {_shape(draft.tokens)} tokens into {_shape(refined.tokens)}; "
            "it may shorten a draft, not lengthen it"
        )
    size = parts.target.vocab_size
    outside = [token for token in refined.tokens[0].tolist() if not 0 <= token < size]
    if outside:
        raise MisfitError(f"the refiner gives id {outside[0]}, the target has ids 0..{size - 1}")
    embedded = parts.target.embed(refined.tokens)
    changed = int((refined.tokens != draft.tokens[:, :kept]).sum())
    shapes = f"tokens {_shape(refined.tokens)}, logits {_shape(refined.logits)}, embedded {_shape(embedded)}"
    say(f"  3 refine   {shapes}, {changed} changed")


def plan(ready: Ready, settings: Settings, say: Say) -> None:
    """Run a few prompts once per arm and say how long the whole run will take and what it could tell apart."""
    parts, prompts, size, clock = ready.parts, ready.prompts, settings.batch_size, clock_for(settings.device)
    picked = spread(prompts, PILOT * size)
    kind = ServedRequests if settings.target.served else Requests
    requests = kind(parts.target, parts.tokenizer, parts.arms, picked, clock, settings.deadline_s, size)
    warm_up(requests, replace(settings, warmup=1))
    condition = settings.conditions()[0]
    seconds: dict[str, list[float]] = {}
    for batch in requests.batches:
        for arm in requests.arms:
            slots = [Slot(condition, prompt, settings.seeds[0], 0, arm, 0) for prompt, _ in batch]
            cells = requests.run_together(slots, launch=-1)
            seconds.setdefault(arm, []).append(max(map(_seconds, cells)))
    for arm, times in seconds.items():
        say(f"  {arm:<8} {sum(times) / len(times):.3f} s a {'request' if size == 1 else f'batch of {size}'}")
    work = workload(ready, settings)
    each_s = {arm: sum(times) / len(picked) for arm, times in seconds.items()}
    whole_s = sum(each_s[arm] * count for counts in work.values() for arm, count in counts.items())
    parted = ", ".join(f"{counts.total()} {purpose}" for purpose, counts in work.items())
    say(f"  time     about {whole_s / 60:.1f} min without loading and memory; requests: {parted}")
    for arm in list(seconds)[1:]:
        say(f"  effect   {arm} over direct: {_detectable(seconds['direct'], seconds[arm], len(prompts) // size)}")


def _seconds(cell: Any) -> float:
    if cell.error or cell.latency_s is None:
        raise MisfitError(f"arm {cell.arm} fails on {cell.prompt}: {cell.error}")
    return float(cell.latency_s)


def _detectable(base: list[float], arm: list[float], pairs: int) -> str:
    """Half-width of the paired 95 % interval that a run of so many prompts or batches would have, by the pilot."""
    logs = [math.log(one / other) for one, other in zip(base, arm, strict=True)]
    if len(logs) < 2 or pairs < 2:
        return "needs at least two prompts, or batches"
    mean = sum(logs) / len(logs)
    spread = math.sqrt(sum((log - mean) ** 2 for log in logs) / (len(logs) - 1))
    half = float(stats.t.ppf(0.975, pairs - 1)) * spread / math.sqrt(pairs)
    reach = f"{math.exp(-half) - 1:+.1%} to {math.exp(half) - 1:+.1%}"
    return f"pilot {math.exp(mean):.2f}x; the interval would reach {reach} around it"


def _shape(tensor: Tensor | None) -> str:
    return "none" if tensor is None else str(list(tensor.shape))
