"""What the trace pass sees of a request, by hand, from a known law and beside the request's own record."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import rig
import tiny
import torch
from scipy import stats

from xpress_bench.analyse.law import DraftLaw, draft_law
from xpress_bench.drafters import Context, Draft
from xpress_bench.drafters.toy import MarginalDrafter, ScriptedDrafter
from xpress_bench.journals import read_run
from xpress_bench.measure import ready, runner
from xpress_bench.measure.requests import Requests
from xpress_bench.measure.schedule import Slot
from xpress_bench.measure.trace import trace, traces
from xpress_bench.records import Condition, Trace
from xpress_bench.sampling import Sampling
from xpress_bench.targets.toy import MarkovTarget

REJECTION = Condition(0.5, "rejection")
LAW = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)


@dataclass
class OneByOne:
    """Each pass mends the first slot that does not count on."""

    passes: int
    causal: bool = True

    def refine(self, draft: Draft, context: Context, sampling: Sampling) -> Draft:
        block = [int(context.anchor), *draft.tokens[0].tolist()]
        for _ in range(self.passes):
            wrong = next((at for at in range(1, len(block)) if block[at] != block[at - 1] + 1), None)
            if wrong is not None:
                block[wrong] = block[wrong - 1] + 1
        return replace(draft, tokens=torch.tensor([block[1:]]))


def quiet(done: int, total: int, what: str) -> None:
    """Shows nothing."""


def counting(refiner: Any, drafter: Any = None, budget: int = 8) -> Requests:
    """Counts on from 4; drafts one right token of three."""
    drafter = drafter or ScriptedDrafter(lambda tokens: [tokens[-1] + 1, 0, 0], 4)
    return rig.requests([rig.prompt(budget=budget)], drafter=drafter, refiner=refiner)


def known_law(law: torch.Tensor = LAW, block_size: int = 3, budget: int = 30, **options: Any) -> Requests:
    target = MarkovTarget(LAW.expand(3, 3))
    return rig.requests(
        [rig.prompt(length=2, budget=budget)], target=target, drafter=MarginalDrafter(law, block_size), **options
    )


def test_the_block_after_each_pass_by_hand() -> None:
    found = trace(counting(OneByOne(2)), rig.slot("refine"))
    # 4 comes with the prompt; 5 6 7 and 8 in a first step; then room for two drafts and the target's own 11.
    assert (found.ids, found.committed) == ((4, 5, 6, 7, 8, 9, 10, 11), (4, 3))
    assert found.blocks == (((5, 0, 0), (5, 6, 0), (5, 6, 7)), ((9, 0), (9, 10), (9, 10)))
    assert (found.confidence, found.places) == (((), ()), ((), ()))
    assert (found.prompt, found.seed, found.arm, found.condition, found.error) == ("p", 0, "refine", rig.GREEDY, None)


@pytest.mark.parametrize("slot", [rig.slot("draft"), rig.slot("refine")])
def test_where_passes_cannot_be_set_there_is_the_raw_draft(slot: Slot) -> None:
    found = trace(counting(rig.Fixing()), slot)
    assert set(map(len, found.blocks)) == {1}
    assert found.blocks[0] == ((5, 0, 0),)
    assert found.ids == (4, 5, 6, 7, 8, 9, 10, 11)


def test_steps_without_a_draft_keep_their_place() -> None:
    drafter = ScriptedDrafter(lambda tokens: [6, 7] if tokens[-1] == 5 else [], 4)
    found = trace(counting(OneByOne(1), drafter, budget=5), rig.slot("refine"))
    assert found.committed == (1, 3)
    assert (found.blocks, found.confidence) == (((), ((6, 7), (6, 7))), ((), ()))


def test_the_watched_request_is_the_measured_one() -> None:
    target = tiny.qwen3()
    refiner, drafter = tiny.xpress(target, 8, passes=3), tiny.dflash(target)
    prompts = [replace(rig.prompt(budget=24), ids=tuple(tiny.prompt(9)[0].tolist()))]
    requests = rig.requests(prompts, target=target, drafter=drafter, refiner=refiner)
    for slot in (rig.slot("refine"), replace(rig.slot("refine"), condition=Condition(1.0, "coupled"))):
        cell, found = requests.run(slot, 0), trace(requests, slot)
        assert (found.ids, found.committed) == (cell.ids, cell.steps.committed)
        assert tuple(rows[0] for rows in found.blocks) == cell.steps.drafts
        assert tuple(rows[-1] for rows in found.blocks) == cell.steps.refined
        assert {len(rows) for rows in found.blocks} == {4}
        assert any(len(set(rows)) > 2 for rows in found.blocks)  # the passes differ, or nothing would be tested
    assert requests.arms["refine"].refiners == (refiner,)


def test_confidence_is_the_law_of_the_raw_draft() -> None:
    slot = replace(rig.slot("draft"), condition=REJECTION)
    found = trace(known_law(), slot)
    drafts = known_law().run(slot, 0).steps.drafts
    assert found.confidence == tuple(tuple(LAW[token].item() for token in block) for block in drafts)
    assert len({*sum(found.confidence, ())}) == 3
    greedy = trace(known_law(), rig.slot("draft"))  # the likeliest token, at temperature 1
    assert {*sum(greedy.confidence, ())} == {0.5}


def test_places_lie_in_the_mass_of_their_token_and_are_uniform() -> None:
    slot = replace(rig.slot("draft"), condition=REJECTION)
    requests = known_law(budget=2000)
    found, drafts = trace(requests, slot), requests.run(slot, 0).steps.drafts
    below = {0: 0.5, 1: 0.2, 2: 0.0}  # the mass of the less likely tokens
    pairs = [pair for block, row in zip(drafts, found.places, strict=True) for pair in zip(block, row, strict=True)]
    assert all(below[token] <= place <= below[token] + LAW[token].item() for token, place in pairs)
    assert len(pairs) > 1000
    assert stats.kstest([place for _, place in pairs], "uniform").pvalue > 1e-4


def test_equal_tokens_are_ordered_by_id_and_impossible_ones_stand_at_0() -> None:
    class Lying(MarginalDrafter):
        def propose(self, context: Context, sampling: Sampling) -> Draft:
            return Draft(torch.tensor([[1, 3]]), self.logits.expand(1, 2, -1), point_mass=False)

    drafter = Lying(torch.tensor([0.25, 0.25, 0.5, 0.0], dtype=torch.float64), 3)
    requests = rig.requests([rig.prompt(length=2)], target=MarkovTarget(torch.full((4, 4), 0.25)), drafter=drafter)
    found = trace(requests, replace(rig.slot("draft"), condition=Condition(1.0, "rejection")))
    assert all(0.25 <= row[0] <= 0.5 for row in found.places if row)
    assert all(row[1] == 0 for row in found.places if len(row) > 1)


def test_a_point_mass_has_no_place() -> None:
    @dataclass
    class Looking(OneByOne):
        causal: bool = False

        def refine(self, draft: Draft, context: Context, sampling: Sampling) -> Draft:
            return draft

    slot = replace(rig.slot("refine"), condition=REJECTION)
    assert {*trace(known_law(refiner=Looking(1)), slot).places} == {()}
    assert all(trace(known_law(refiner=Looking(1, causal=True)), slot).places)


class Recording(MarginalDrafter):
    """Draws from its law and records another."""

    def __init__(self, told: torch.Tensor) -> None:
        super().__init__(LAW, 4)
        self.told = told

    def propose(self, context: Context, sampling: Sampling) -> Draft:
        draft = super().propose(context, sampling)
        return replace(draft, logits=self.told.log().expand_as(draft.logits) * sampling.temperature)


def law_of(drafter: MarginalDrafter, seed: int = 0, budget: int = 400) -> DraftLaw:
    target = MarkovTarget(LAW.expand(3, 3))
    requests = rig.requests([rig.prompt(length=2, budget=budget)], target=target, drafter=drafter)
    found = draft_law([trace(requests, replace(rig.slot("draft", seed=seed), condition=REJECTION))])
    assert isinstance(found, DraftLaw)
    return found


def test_drafts_from_their_law_are_not_accused() -> None:
    assert not law_of(MarginalDrafter(LAW, 4)).refuted
    assert not law_of(MarginalDrafter(torch.tensor([0.1, 0.1, 0.8], dtype=torch.float64), 4)).refuted
    p_values = [law_of(MarginalDrafter(LAW, 4), seed, budget=12).p_value for seed in range(200)]
    assert 2 <= sum(p < 0.05 for p in p_values) <= 21  # 10 expected; outside once in 1,000


@pytest.mark.parametrize(
    "told",
    [
        LAW**2 / (LAW**2).sum(),  # as sharp as half the temperature
        LAW**0.5 / (LAW**0.5).sum(),
        LAW.roll(1),  # that of another slot
        torch.full((3,), 1 / 3, dtype=torch.float64),
    ],
)
def test_drafts_from_another_law_are_accused(told: torch.Tensor) -> None:
    assert law_of(Recording(told)).refuted


def test_a_failure_is_told_and_nothing_else() -> None:
    class Broken(ScriptedDrafter):
        def propose(self, context: Context, sampling: Sampling) -> Draft:
            raise RuntimeError("boom")

    found = trace(counting(OneByOne(1), Broken(rig.ahead, 4)), rig.slot("refine"))
    assert found.error is not None
    assert "RuntimeError: boom" in found.error
    assert found == Trace("p", 0, "refine", rig.GREEDY, error=found.error)
    found = trace(known_law(torch.tensor([0.5, 0.5, math.nan])), rig.slot("draft"))
    assert found.error is not None


def test_which_requests_are_traced() -> None:
    prompts = [rig.prompt(name) for name in ("a", "b", "c", "d")]
    requests = rig.requests([*prompts, replace(prompts[0], turn=2)])
    settings = rig.settings(trace=2, seeds=(7, 8), temperatures=(0.0, 0.5))
    found = [
        (one.condition.verifier, one.prompt, one.arm, one.seed, one.turn) for one in traces(requests, settings, quiet)
    ]
    assert found == [
        (verifier, prompt, arm, 7, 1)
        for verifier in ("greedy", "coupled")
        for prompt in ("a", "c")
        for arm in ("draft", "refine")
    ]
    assert list(traces(requests, rig.settings(trace=0), quiet)) == []
    assert len(list(traces(requests, rig.settings(trace=16), quiet))) == 8


def test_a_run_traces_once_and_measures_as_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "assemble", lambda settings, only=None: rig.parts())
    suite = str(rig.suite(tmp_path, "ab", "cd", "ef"))
    with_traces, without = (
        read_run(runner.run(rig.settings(suite=suite, out=str(tmp_path / "runs"), trace=trace), [], quiet))
        for trace in (2, 0)
    )
    assert [(one.prompt, one.arm) for one in with_traces.traces] == [
        ("ab", "draft"), ("ab", "refine"), ("cd", "draft"), ("cd", "refine"),
    ]  # fmt: skip
    assert without.traces == ()
    assert [(one.prompt, one.arm, one.ids, one.steps.accepted) for one in with_traces.cells] == [
        (one.prompt, one.arm, one.ids, one.steps.accepted) for one in without.cells
    ]
