"""Which refinement passes mattered, from the trace pass: the block after each pass against what the target said.

Step t starts after the prompt's token and all that earlier steps committed, so slot k of its block stands against one
id of the output. Had refinement stopped after a pass, the target would have accepted the leading run of right tokens,
up to rounding; the path of the request is that of all passes. Under `rejection` the target draws afresh, and ids say
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xpress_bench.analyse.intervals import Interval, Measure, Unknown, clustered_ratio_interval
from xpress_bench.analyse.ledger import leading, signed_ratio
from xpress_bench.records import Arm, Cell, Trace

Block = tuple[int, ...]
NOT_REFINED = Unknown("nothing was refined yet")


@dataclass(frozen=True, slots=True)
class Pass:
    """The block after `number` passes, pooled over steps; 0 is the raw draft.

    accepted: tokens of the leading right run per step. gain: the same less that after the pass before. left: what the
    passes behind this one still add. repaired, broken: tokens at their position that were wrong before this pass and
    right after it, or the reverse. cost_s: seconds of this pass per step, None where refining was not timed; all passes
    are taken to cost the same. gain_per_ms: `gain` over that cost.
    """

    number: int
    accepted: Measure
    gain: Measure
    left: Measure
    repaired: int
    broken: int
    cost_s: float | None

    @property
    def gain_per_ms(self) -> Measure:
        gain, ms = self.gain, (self.cost_s or 0.0) * 1e3
        if isinstance(gain, Unknown) or not ms:
            return gain if isinstance(gain, Unknown) else Unknown("the pass was not timed")
        return Interval(gain.estimate / ms, gain.low / ms, gain.high / ms, gain.method, gain.n)


@dataclass(frozen=True, slots=True)
class Step:
    """One verify step of a trace: the block after 0, 1, ... passes, the confidence in each token of the first block,
    the output at the same positions, shorter where it ends inside the block, and the number of tokens committed."""

    blocks: tuple[Block, ...]
    confidence: tuple[float, ...]
    said: Block
    committed: int


def passes(arm: Arm, traces: Sequence[Trace], cells: Sequence[Cell]) -> tuple[Pass, ...] | Unknown:
    """All passes of an arm from none on, by its traces; what they cost is by its timed `cells`."""
    whole = known(traces)
    if isinstance(whole, Unknown):
        return whole
    if arm.candidates or arm.nodes:
        return Unknown("of several candidates only the first is traced")
    if not arm.refiner or not arm.passes:
        return Unknown("the arm has no refinement passes")
    prompts, costs_s = [list(walk(trace)) for trace in whole], _costs_s(cells, arm.passes)
    if any(len(step.blocks) != len(costs_s) for steps in prompts for step in steps):
        return Unknown(f"the passes of {arm.refiner} cannot be made one by one")
    if any(_run(step, -1) < step.committed - 1 for steps in prompts for step in steps):
        return Unknown("accepted drafts are not those of the output")
    return tuple(_pass(number, prompts, cost_s) for number, cost_s in enumerate(costs_s))


def known(traces: Sequence[Trace]) -> Sequence[Trace] | Unknown:
    """Traces whose output can be judged by its ids; Unknown with the reason where there are none."""
    if not traces:
        return Unknown("no request was traced: measure again with trace=16")
    if any(trace.condition.verifier == "rejection" for trace in traces):
        return Unknown("ids are not comparable under rejection sampling: the target draws afresh for another draft")
    whole = [trace for trace in traces if trace.error is None]
    return whole or Unknown(f"every traced request failed: {traces[0].error}")


def walk(trace: Trace) -> Iterator[Step]:
    """The verify steps of a trace that drafted something."""
    at = 1  # the first id comes from the prompt pass and belongs to no step
    for committed, blocks, confidence in zip(trace.committed, trace.blocks, trace.confidence, strict=True):
        if blocks:
            yield Step(blocks, confidence, trace.ids[at : at + len(blocks[0])], committed)
        at += committed


def _pass(number: int, prompts: Sequence[Sequence[Step]], cost_s: float | None) -> Pass:
    changes = [change for steps in prompts for step in steps for change in _changes(step, number)] if number else []
    return Pass(
        number,
        accepted=_per_step(prompts, lambda step: _run(step, number), clustered_ratio_interval),
        gain=_per_step(prompts, lambda step: _run(step, number) - _run(step, number - 1)) if number else NOT_REFINED,
        left=_per_step(prompts, lambda step: _run(step, -1) - _run(step, number)),
        repaired=changes.count(1),
        broken=changes.count(-1),
        cost_s=cost_s,
    )


def _per_step(
    prompts: Sequence[Sequence[Step]],
    count: Callable[[Step], int],
    estimate: Callable[[Sequence[float], Sequence[float]], Measure] = signed_ratio,
) -> Measure:
    return estimate([sum(map(count, steps)) for steps in prompts], list(map(len, prompts)))


def _run(step: Step, number: int) -> int:
    return leading(step.blocks[number], step.said)


def _changes(step: Step, number: int) -> Iterator[int]:
    """1 for each token that a pass repaired, -1 for each that it broke, 0 for the others."""
    for before, after, said in zip(step.blocks[number - 1], step.blocks[number], step.said, strict=False):
        yield (after == said) - (before == said)


def _costs_s(cells: Sequence[Cell], most: int) -> Sequence[float | None]:
    """Seconds of each pass per verify step, the raw draft's 0 first. A pass that was not made cost nothing."""
    timed = [cell.steps for cell in cells if cell.steps.refine_s]
    made = [count for steps in timed for count in steps.passes or (most,) * len(steps.refine_s)]
    if not sum(made):
        return [None] * (most + 1)
    each_s = sum(sum(steps.refine_s) for steps in timed) / sum(made)
    shares = [sum(count >= number for count in made) / len(made) for number in range(1, most + 1)]
    return [0.0, *(each_s * share for share in shares)]
