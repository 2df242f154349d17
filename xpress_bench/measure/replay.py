"""Where an arm left direct generation: rounding at a tie, or a real difference? The target is asked once more.

A forward over one token and a forward over a block use different matrix kernels, which round differently; two logits
closer than that difference may swap (design section 8). The replay measures the difference at the very place.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from xpress_bench.measure.faults import deadline, told
from xpress_bench.measure.requests import Requests
from xpress_bench.measure.schedule import Slot
from xpress_bench.records import Cell, Condition, Replay, first_difference
from xpress_bench.sampling import Sampling
from xpress_bench.targets import Target

BLOCK = 8  # tokens of the block-shaped pass
NEAR = 8.0  # a near-tie is within this many rounding units of the logits' own dtype


def replays(requests: Requests, cells: Sequence[Cell]) -> Iterator[Replay]:
    """One for every (condition, prompt, turn, seed, arm) whose ids differ from direct generation's.

    One that fails, or takes longer than a request may, is told on stderr; its difference stays unjudged.
    """
    measured = [cell for cell in cells if not cell.error and cell.condition.verifier != "rejection"]
    own = {_request(cell): cell for cell in reversed(measured) if cell.arm == "direct"}
    judged = set()
    for cell in measured:
        direct, key = own.get(_request(cell)), (_request(cell), cell.arm)
        if direct is None or cell.ids == direct.ids or key in judged:
            continue
        judged.add(key)
        slot = Slot(cell.condition, cell.prompt, cell.seed, 0, "direct", 0, cell.turn)
        try:
            with deadline(requests.deadline_s):
                found = replay(requests.target, requests.prompts[slot.key].ids, direct, cell, requests.sampling(slot))
            yield found
        except Exception as error:  # whatever the device raises
            print(f"xpress-bench: no replay of {cell.arm} on {cell.prompt}: {told(error)}", file=sys.stderr)


def _request(cell: Cell) -> tuple[Condition, str, int, int]:
    return cell.condition, cell.prompt, cell.turn, cell.seed


@torch.inference_mode()
def replay(target: Target, prompt: Sequence[int], direct: Cell, arm: Cell, sampling: Sampling) -> Replay:
    """Judge the first place where the ids of `arm` differ from those of `direct`, on their common prefix.

    `tie`: the two tokens' scores are closer than one-token and block-shaped passes are to each other. `near_tie`:
    within a few rounding units. `real`: anything else, a missing or an extra token included.
    """
    position = first_difference(direct.ids, arm.ids)
    if position is None:
        raise ValueError(f"arm {arm.arm} on {arm.prompt}: nothing to replay, its ids are direct generation's")
    where = (direct.prompt, direct.seed, arm.arm, direct.condition, position)
    if position >= min(len(direct.ids), len(arm.ids)):
        own = direct.ids[position] if position < len(direct.ids) else -1
        other = arm.ids[position] if position < len(arm.ids) else None
        return Replay(*where, own, other, None, None, "real", direct.turn)
    prefix = [*prompt, *direct.ids[:position]]
    single, block = _scores(target, prefix, 1, sampling), _scores(target, prefix, BLOCK, sampling)
    own, other = direct.ids[position], arm.ids[position]
    gap = float(single[own] - single[other])
    tolerance = float((single - block).abs().max()) * 2
    near = NEAR * torch.finfo(target.dtype).eps * float(single[own].abs())
    verdict = "tie" if abs(gap) <= tolerance else "near_tie" if abs(gap) <= near else "real"
    return Replay(*where, own, other, gap, tolerance, verdict, direct.turn)  # type: ignore[arg-type]


def _scores(target: Target, prefix: list[int], rows: int, sampling: Sampling) -> Tensor:
    """What the choice after `prefix` is made from [V], computed with the last `rows` tokens in one forward."""
    rows = min(rows, len(prefix) - 1)
    ids = torch.tensor([prefix], device=target.device)
    target.prefill(ids[:, :-rows], ())
    logits = target.verify(ids[:, -rows:], ())[:, -1:]
    noise = sampling.target.at(len(prefix), 1, logits)
    scores = logits if noise is None else logits / sampling.temperature + noise
    return scores[0, 0]
