"""The engine in this process, on toy models: its events, and the ids of one request at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest
import rig
import torch
from torch import Tensor

from xpress_bench.errors import MisfitError
from xpress_bench.load.batch import BatchEngine
from xpress_bench.load.engine import Ask, Event
from xpress_bench.load.loop import Loop
from xpress_bench.load_records import Asked, Policy, Stage
from xpress_bench.measure.prompts import Prompt
from xpress_bench.measure.requests import Requests
from xpress_bench.parts import PlannedArm
from xpress_bench.settings import CandidateSettings

PROMPTS = [rig.prompt(f"p{length}", length, budget=3 + length) for length in range(1, 8)]


class Both(rig.Fixing):
    """A refiner whose every row is its own."""

    batchable = True


def requests(**changes: object) -> Requests:
    return rig.requests(PROMPTS, refiner=Both(), **changes)


def engine(arm: str = "draft", rows: int = 3, of: Requests | None = None) -> BatchEngine:
    return BatchEngine(of or requests(), arm, rig.GREEDY, rows)


def ask(index: int, prompt: Prompt, most: int | None = None) -> Ask:
    return Ask(index, "draft", prompt, 0, most or prompt.budget)


def polled(of: BatchEngine) -> list[Event]:
    return list(of.poll(0.0))


def test_a_poll_is_one_prefill_or_one_step_and_tells_what_came() -> None:
    of = engine("direct")
    first, second = ask(0, PROMPTS[2]), ask(1, PROMPTS[4], most=2)
    of.submit(first)
    of.submit(second)
    assert [(event.ask, event.kind, event.ids) for event in polled(of)] == [(first, "tokens", [4])]
    assert [(event.ask, event.kind, event.ids) for event in polled(of)] == [(second, "tokens", [6])]
    assert [(event.ask, event.kind, event.ids) for event in polled(of)] == [
        (first, "tokens", [5]),
        (second, "tokens", [7]),
        (second, "done", None),
    ]
    assert [event.kind for event in polled(of)] == ["tokens"]


def test_a_verify_step_delivers_all_that_it_accepted_at_once() -> None:
    of = engine("draft")
    of.submit(ask(0, PROMPTS[2]))
    sizes = [len(event.ids or ()) for _ in range(3) for event in polled(of) if event.kind == "tokens"]
    assert sizes == [1, 3, 2]  # two right drafts and the target's own token; then the budget of 6 is full


def test_who_is_cancelled_says_nothing_more_and_frees_its_row() -> None:
    of = engine("direct", rows=1)
    first, second = ask(0, PROMPTS[2]), ask(1, PROMPTS[4])
    of.submit(first)
    polled(of)
    of.cancel(first)
    of.submit(second)
    assert {event.ask for _ in range(4) for event in polled(of)} == {second}
    third = ask(2, PROMPTS[1])
    of.submit(third)
    of.cancel(third)  # before it could join
    assert {event.ask for _ in range(4) for event in polled(of)} == {second}


@pytest.mark.parametrize("arm", ["direct", "draft", "refine"])
def test_under_load_every_output_is_that_of_one_request_at_a_time(arm: str) -> None:
    of, found = requests(), list[Asked]()
    loop = Loop(
        BatchEngine(of, arm, rig.GREEDY, 3),
        Stage("5 clients", clients=5, requests=30),
        arm,
        0,
        Policy(1e6),
        lambda index: Ask(index, arm, PROMPTS[index % 7], 0, PROMPTS[index % 7].budget),
        found.append,
    )
    loop.run()
    assert [one.status for one in found] == ["ok"] * 30
    alone = {prompt.item.id: of.run(rig.slot(arm, prompt.item.id), 0) for prompt in PROMPTS}
    assert {one.prompt: one.tokens for one in found} == {name: len(cell.ids) for name, cell in alone.items()}
    assert len({(one.prompt, one.output) for one in found}) == 7


class Breaking(rig.Counting):
    """Its third forward fails, counted over all rows."""

    def __init__(self) -> None:
        super().__init__()
        self.all = [0]  # shared by what a batch makes of it

    def verify(self, ids: Tensor, taps: tuple[int, ...]) -> Tensor:
        self.all[0] += 1
        if self.all[0] == 3:
            raise torch.OutOfMemoryError("no memory")
        return super().verify(ids, taps)


def test_a_step_that_fails_is_told_to_all_its_rows_and_the_next_request_is_answered() -> None:
    of = engine("direct", of=requests(target=Breaking()))
    asks = [ask(0, PROMPTS[2]), ask(1, PROMPTS[4])]
    for one in asks:
        of.submit(one)
    events = [event for _ in range(3) for event in polled(of)]
    failed = [event for event in events if event.kind == "failed"]
    assert {event.ask for event in failed} == set(asks)
    assert all(event.reason.startswith("oom: ") for event in failed)
    of.submit(ask(2, PROMPTS[0]))
    assert [event.kind for _ in range(4) for event in polled(of)][-1] == "done"


def test_candidates_do_not_go_into_a_batch() -> None:
    of = requests()
    of.arms["draft"] = replace(of.arms["draft"], candidates=CandidateSettings(count=2))
    assert isinstance(of.arms["draft"], PlannedArm)
    with pytest.raises(MisfitError, match="candidates"):
        engine(of=of)
