"""The decode loops: read this first.

`direct` is arm A: one target forward per token. `speculative` is every other arm: draft -> refine -> verify -> commit
until a stop id or the limit. Both give the ids of the same text; `speculative` gives them in fewer target forwards.

State between rounds (methods.md section 1): `tokens` ends with the anchor, which is committed but not yet in the
target's cache. A round offers N draft tokens, the target runs [anchor, d_1..d_N] in one forward, the verifier accepts a
prefix of `a` drafts and adds the target's own token; the cache keeps 1 + a rows. There is one device-to-host read per
round, and everything that must be known on the host rides on it.

Both are made of a generator that hands out the growing output after the prompt and after every step: `streaming.py`
shows it to people as it comes.

That is a chain. With candidates (`candidates.py`) a step has several drafts: each is refined, and what is verified may
be a tree of them, of which one path is accepted. With one draft, `widened` and `merged` give back what they are given.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from torch import Tensor

from xpress_bench.candidates import followed, merged, widened
from xpress_bench.drafters import Context, Draft, Drafter
from xpress_bench.records import StopReason
from xpress_bench.refiners import Refiner
from xpress_bench.sampling import Sampling, pick
from xpress_bench.settings import ONE_DRAFT, CandidateSettings
from xpress_bench.targets import Target, verifying_trees
from xpress_bench.verifiers import Verdict, Verifier


class Clock(Protocol):
    """Marks points in time; `measure.clock` turns two of them into seconds."""

    def stamp(self) -> object: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """`max_new_tokens` counts every output id; a stop id ends the output and is part of it."""

    max_new_tokens: int
    stop_ids: frozenset[int]


@dataclass(slots=True)
class Round:
    """One verify step: offered p, accepted a and committed c after stop rules, the block before and after refining.

    `matched` is the accepted run before stop rules, `passes` the refinement passes made. Of a tree, `nodes` tokens were
    sent, `offered` is the longest path it may have, and the blocks are the path that was followed.
    """

    offered: int
    matched: int
    accepted: int
    committed: int
    draft: tuple[int, ...]
    refined: tuple[int, ...]
    passes: int
    nodes: int  # 0: a chain
    stamps: tuple[object, ...]  # before draft, before refine, before verify, after the host read


@dataclass(slots=True)
class Output:
    """What one request produced, so far if `stop_reason` is None. Stamps are the clock's own: see `measure.clock`."""

    ids: list[int]
    stop_reason: StopReason | None
    started: object
    prefilled: object
    rounds: list[Round] = field(default_factory=list)


def direct(target: Target, prompt: Tensor, limits: Limits, sampling: Sampling, clock: Clock) -> Output:
    """Arm A. prompt [1, n]; one target forward per output id after the first."""
    return _last(direct_steps(target, prompt, limits, sampling, clock))


@torch.inference_mode()
def direct_steps(target: Target, prompt: Tensor, limits: Limits, sampling: Sampling, clock: Clock) -> Iterator[Output]:
    """As `direct`, handing out the output, one object that grows, whenever an id has been added."""
    started = clock.stamp()
    logits, _ = target.prefill(prompt, ())
    position = prompt.shape[1]
    token = pick(logits, sampling.temperature, sampling.target.at(position, 1, logits))
    output = Output([int(token)], None, started, clock.stamp())
    while (reason := stop_reason(output.ids, limits)) is None:
        yield output
        logits = target.verify(token, ())
        target.commit(1)
        position += 1
        token = pick(logits, sampling.temperature, sampling.target.at(position, 1, logits))
        output.ids.append(int(token))
    output.stop_reason = reason
    yield output


def speculative(
    target: Target,
    drafter: Drafter,
    refiners: Sequence[Refiner],
    verifier: Verifier,
    prompt: Tensor,
    limits: Limits,
    sampling: Sampling,
    clock: Clock,
    candidates: CandidateSettings = ONE_DRAFT,
) -> Output:
    """Arms B, C and on. prompt [1, n]. The first output id comes from the prompt pass and belongs to no round."""
    of = target, drafter, refiners, verifier, prompt, limits, sampling, clock, candidates
    return _last(speculative_steps(*of))


@torch.inference_mode()
def speculative_steps(
    target: Target,
    drafter: Drafter,
    refiners: Sequence[Refiner],
    verifier: Verifier,
    prompt: Tensor,
    limits: Limits,
    sampling: Sampling,
    clock: Clock,
    candidates: CandidateSettings = ONE_DRAFT,
) -> Iterator[Output]:
    """As `speculative`, handing out the output, one object that grows, after the prompt and after every round."""
    started = clock.stamp()
    logits, unseen = target.prefill(prompt, drafter.taps)  # features that the drafter has not seen yet
    token = pick(logits, sampling.temperature, sampling.target.at(prompt.shape[1], 1, logits))
    tokens = [*prompt[0].tolist(), int(token)]
    output = Output(tokens[-1:], None, started, clock.stamp())
    while (reason := stop_reason(output.ids, limits)) is None:
        yield output
        stamps = [clock.stamp()]
        # Taking in the context is part of drafting: direct generation is spared that work.
        if output.rounds:
            drafter.observe(unseen)
        else:
            drafter.start(target, prompt, unseen)
        room = limits.max_new_tokens - len(output.ids)
        context = context_of(tokens, prompt, target)
        draft = widened(drafter.propose(context, sampling), candidates, context, sampling)
        stamps.append(clock.stamp())
        refined = refine(draft, refiners, context, sampling)
        stamps.append(clock.stamp())
        # The round adds at most 1 + N tokens, so the last draft tokens of a block may be beyond the limit (C14).
        offered = merged(refined.cut(min(refined.tokens.shape[1], room - 1)), candidates, context, sampling)
        logits = verify(target, context, offered, drafter.taps)
        verdict = verifier(offered, logits, context.position, sampling)
        accepted, new, before, after = read_once(verdict, draft, offered, bool(refiners))
        unseen = commit(target, accepted, verdict)
        stamps.append(clock.stamp())
        committed = up_to_stop([*after[:accepted], new], limits)
        output.ids += committed
        tokens += committed
        kept, after_refining = min(accepted, len(committed)), after if refiners else ()
        counts = offered.longest, accepted, kept, len(committed)
        nodes = 0 if offered.tree is None else offered.tokens.shape[1]
        output.rounds.append(Round(*counts, before, after_refining, refined.passes, nodes, tuple(stamps)))
    output.stop_reason = reason
    yield output


def _last(outputs: Iterator[Output]) -> Output:
    return deque(outputs, maxlen=1).pop()


def refine(draft: Draft, refiners: Sequence[Refiner], context: Context, sampling: Sampling) -> Draft:
    """Every refiner in turn. One that is not causal loses the draft's law: from there on the draft is a point mass."""
    for refiner in refiners:
        if draft.tokens.shape[1] == 0:
            return draft
        refined = refiner.refine(draft, context.over(draft.tokens.shape[0]), sampling)
        draft = replace(refined, point_mass=draft.point_mass or refined.point_mass or not refiner.causal)
    return draft


def context_of(tokens: list[int], prompt: Tensor, target: Target) -> Context:
    """What the drafter may know this round: the anchor is the last token, at the position after the cached ones."""
    position = len(tokens) - 1
    last = torch.tensor([tokens[-2:]], device=prompt.device)
    return Context(tokens, last[:, 1], last[:, 0], position, target.context - position)


def verify(target: Target, context: Context, offered: Draft, taps: tuple[int, ...]) -> Tensor:
    """The target's logits [1, 1 + N, V] for the anchor and every token offered, in one forward."""
    rows = torch.cat([context.anchor[:, None], offered.tokens], dim=1)
    if offered.tree is None:
        return target.verify(rows, taps)
    return verifying_trees(target).verify_tree(rows, offered.tree, taps)


def commit(target: Target, accepted: int, verdict: Verdict) -> Tensor | None:
    """Keep the anchor and what was accepted of the last forward; the features of these rows."""
    if verdict.path is None:
        return target.commit(1 + accepted)
    return verifying_trees(target).commit_path(verdict.path[: 1 + accepted])


def read_once(
    verdict: Verdict, draft: Draft, offered: Draft, refined: bool
) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
    """The round's one device-to-host read: accepted count, the target's token, the block before and after refining."""
    before, after = followed(draft, offered, verdict.path)
    parts = [verdict.accepted[:, None], verdict.next_token[:, None], after]
    if refined:
        parts.append(before)
    accepted, new, *ids = torch.cat(parts, dim=1)[0].tolist()
    count = after.shape[1]
    blocks = [tuple(token for token in block if token >= 0) for block in (ids[:count], ids[count:])]
    return accepted, new, blocks[1] if refined else blocks[0], blocks[0]


def stop_reason(ids: list[int], limits: Limits) -> StopReason | None:
    """Why the output ends with its last id, or None if it goes on."""
    if ids[-1] in limits.stop_ids:
        return "eos"
    return "length" if len(ids) >= limits.max_new_tokens else None


def up_to_stop(ids: list[int], limits: Limits) -> list[int]:
    """`ids` up to and with the first stop id: what stands behind it was never part of the output (C01)."""
    for index, token in enumerate(ids):
        if token in limits.stop_ids:
            return ids[: index + 1]
    return ids
