"""The loop on any chain, any drafts and any limit: greedy output is the target's own, and the counts add up."""

from __future__ import annotations

from itertools import cycle

import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st

from xpress_bench.decode import Limits, stop_reason, up_to_stop
from xpress_bench.drafters.toy import ScriptedDrafter
from xpress_bench.targets.toy import ScriptedTarget

IDS = st.lists(st.integers(0, 5), min_size=1, max_size=24)
STOPS = st.frozensets(st.integers(0, 5), max_size=3)
PROMPT = torch.tensor([[9, 9, 9]])


def first_stop(ids: list[int], stops: frozenset[int]) -> int | None:
    return min((ids.index(stop) for stop in stops if stop in ids), default=None)


@given(IDS, STOPS)
def test_up_to_stop_ends_with_the_first_stop_id(ids: list[int], stops: frozenset[int]) -> None:
    at = first_stop(ids, stops)
    assert up_to_stop(ids, Limits(99, stops)) == (ids if at is None else ids[: at + 1])


@given(IDS, STOPS, st.integers(1, 24))
def test_stop_reason_is_of_the_last_id(ids: list[int], stops: frozenset[int], limit: int) -> None:
    expected = "eos" if ids[-1] in stops else "length" if len(ids) >= limit else None
    assert stop_reason(ids, Limits(limit, stops)) == expected


@given(IDS, STOPS, st.integers(1, 30), st.integers(2, 7), st.lists(st.tuples(st.integers(0, 6), IDS), min_size=1))
def test_whatever_is_drafted_the_output_is_the_targets(
    chain: list[int], stops: frozenset[int], limit: int, block_size: int, rounds: list[tuple[int, list[int]]]
) -> None:
    endless = chain + [0] * (limit + block_size)  # behind its script the target says 0
    turns = cycle(rounds)

    def script(tokens: list[int]) -> list[int]:
        good, rest = next(turns)  # so many right drafts, then any
        right = endless[len(tokens) - PROMPT.shape[1] :]
        return right[:good] + rest

    drafter = ScriptedDrafter(script, block_size)
    output = tiny.Arm(drafter).run(ScriptedTarget(chain, PROMPT.shape[1]), PROMPT, limit, sorted(stops))

    endless = endless[:limit]
    at = first_stop(endless, stops)
    assert output.ids == (endless if at is None else endless[: at + 1])
    assert output.stop_reason == ("length" if at is None else "eos")
    assert 1 + sum(one.committed for one in output.rounds) == len(output.ids)
    for one in output.rounds:
        assert 0 <= one.accepted <= one.matched <= one.offered < block_size
        assert one.accepted <= one.committed <= one.accepted + 1
