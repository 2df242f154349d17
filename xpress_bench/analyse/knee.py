"""How long a draft pays, and where the time of an arm goes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from xpress_bench.analyse.acceptance import acceptance
from xpress_bench.analyse.intervals import Measure, Unknown
from xpress_bench.analyse.ledger import share_of
from xpress_bench.analyse.reduce import by_batch
from xpress_bench.analyse.stages import stages
from xpress_bench.records import Cell

STAGES = ("draft", "refine", "verify", "rest", "prefill")


@dataclass(frozen=True, slots=True)
class Knee:
    """Where the speed that the cost model predicts is highest: `drafts` offered, `gain` times today's speed.

    A last slot pays from an acceptance of `break_even` on; `last` is what it has.
    """

    drafts: int
    gain: float
    break_even: float
    last: Measure


def knee(cells: Sequence[Cell], direct: Sequence[Cell]) -> Knee | Unknown:
    """The best number of drafts at the acceptance and the stage times of one arm.

    Cost model: verifying takes direct generation's time for one token and grows linearly to the measured time for the
    drafts offered; drafting, refining and the rest cost the same for every block size.
    """
    if any(cell.steps.nodes for cell in cells):
        return Unknown("the cost of a slot is that of a chain, and trees were verified")
    split, marginal = stages(cells), acceptance(cells).accept_marginal_step
    decode_s = sum((cell.latency_s or 0.0) - (cell.prefill_s or 0.0) for cell in direct)
    tokens = sum(max(len(cell.ids) - 1, 0) for cell in direct)  # the first comes with the prompt
    if isinstance(split, Unknown) or not split.step_s or not tokens or not marginal:
        return Unknown("verify steps or direct generation were not timed")
    offered = sum(sum(cell.steps.offered) for cell in cells) / sum(len(cell.steps.offered) for cell in cells)
    slot_s = max(split.verify_s - decode_s / tokens, 0.0) / offered
    fixed_s = split.step_s + split.rest_s - slot_s * offered
    per_step = accumulate((share.estimate or 0.0 for share in marginal), initial=1.0)
    speeds = [count / (fixed_s + slot_s * drafts) for drafts, count in enumerate(per_step)]
    best = max(range(1, len(speeds)), key=speeds.__getitem__)
    return Knee(best, speeds[best] / speeds[-1], slot_s * speeds[-1], marginal[-1])


def stage_shares(cells: Sequence[Cell]) -> dict[str, Measure]:
    """Share of the latency that each of STAGES takes; empty where they were not timed or do not add up to it."""
    if isinstance(split := stages(cells), Unknown) or not split.reliable:
        return {}
    per_prompt: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * (len(STAGES) + 1))
    for cell in by_batch(cells):
        if cell.latency_s and cell.steps.verify_s:
            parts = [sum(getattr(cell.steps, f"{stage}_s")) for stage in STAGES[:3]]
            parts += [cell.rest_s or 0.0, cell.prefill_s or 0.0, cell.latency_s]
            per_prompt[cell.prompt] = [a + b for a, b in zip(per_prompt[cell.prompt], parts, strict=True)]
    columns = list(zip(*per_prompt.values(), strict=True))
    return {stage: share_of(column, columns[-1]) for stage, column in zip(STAGES, columns, strict=False)}
