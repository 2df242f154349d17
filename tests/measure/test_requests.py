"""One request: its times, its steps, and what becomes of a failure."""

from __future__ import annotations

from typing import Any

import pytest
import rig
import torch

from xpress_bench.decode import Output
from xpress_bench.drafters import Context, Draft
from xpress_bench.drafters.toy import ScriptedDrafter
from xpress_bench.errors import MisfitError
from xpress_bench.measure import clock
from xpress_bench.measure import requests as module
from xpress_bench.measure.clock import HostClock
from xpress_bench.records import Cell, Steps
from xpress_bench.sampling import Sampling

COUNTED = tuple(range(4, 12))  # the counting target's answer to (1, 2, 3) in 8 tokens


def test_every_arm_answers_alike_and_says_how() -> None:
    made = rig.requests([rig.prompt()])
    direct, draft, refine = (made.run(rig.slot(arm), 0) for arm in ("direct", "draft", "refine"))
    assert direct.ids == draft.ids == refine.ids == COUNTED
    assert {cell.stop_reason for cell in (direct, draft, refine)} == {"length"}
    assert direct.steps == Steps()
    # 4 comes from the prompt; draft: 2 of 3 right, so 3 a round; the last round has room for 1 token, offers none
    assert (draft.steps.offered, draft.steps.accepted, draft.steps.committed) == ((3, 3, 0), (2, 2, 0), (3, 3, 1))
    assert draft.steps.drafts == ((5, 6, 0), (8, 9, 0), ())
    assert draft.steps.refined == ()
    # refine: all 3 right, so 4 a round; then 3 left, so 2 offered
    assert (refine.steps.offered, refine.steps.accepted, refine.steps.committed) == ((3, 2), (3, 2), (4, 3))
    assert refine.steps.refined == ((5, 6, 7), (9, 10))


def test_stage_seconds_add_up_to_the_latency() -> None:
    made = rig.requests([rig.prompt()])
    draft, direct = made.run(rig.slot("draft"), 0), made.run(rig.slot("direct"), 0)
    # 1 look at the start, 2 around the prompt, 4 for each of 3 rounds, 1 at the end: 15 looks from first to last
    assert draft.latency_s == 15.0
    assert draft.steps.draft_s == draft.steps.refine_s == draft.steps.verify_s == (1.0, 1.0, 1.0)
    assert draft.prefill_s == draft.ttft_s == 1.0
    assert draft.rest_s == 15.0 - 1.0 - 9.0
    assert (direct.latency_s, direct.prefill_s, direct.rest_s) == (3.0, 1.0, None)


class Fixed(rig.Ticks):
    """A request takes one second."""

    def seconds(self, start: Any, end: Any) -> float:
        return 0.0

    def now(self) -> float:
        self.time += 1.0
        return self.time


def test_c06_an_output_that_nothing_asked_to_end_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    made = rig.requests([rig.prompt(budget=64)], Fixed())
    monkeypatch.setattr(module, "speculative", lambda *_: Output(list(range(1, 60)), "length", 0.0, 0.0))
    cell = made.run(rig.slot("draft"), 0)
    assert (len(cell.ids), cell.stop_reason, cell.latency_s) == (59, "short", 1.0)


@pytest.mark.parametrize("budget", [1, 2, 4, 5, 64, 65])
def test_c06_what_is_asked_for_is_given(budget: int) -> None:
    made = rig.requests([rig.prompt(budget=budget)])
    cells = [made.run(rig.slot(arm), 0) for arm in made.arms]
    assert {(len(cell.ids), cell.stop_reason) for cell in cells} == {(budget, "length")}


def test_a_stop_id_ends_an_output_and_is_part_of_it() -> None:
    made = rig.requests([rig.prompt()], target=rig.Counting(stop_ids=(6,)))
    cells = [made.run(rig.slot(arm), 0) for arm in made.arms]
    assert {(cell.ids, cell.stop_reason) for cell in cells} == {((4, 5, 6), "eos")}


class Device:
    """`launch` returns at once, `synchronize` waits; time is fake."""

    def __init__(self) -> None:
        self.host_s = self.idle_at_s = 0.0

    def launch(self, work_s: float) -> None:
        self.idle_at_s = max(self.idle_at_s, self.host_s) + work_s

    def synchronize(self) -> None:
        self.host_s = max(self.host_s, self.idle_at_s)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    fake = Device()
    monkeypatch.setattr(clock, "perf_counter", lambda: fake.host_s)
    return fake


class Queued(rig.Counting):
    def __init__(self, device: Device) -> None:
        super().__init__()
        self.queue = device

    def verify(self, ids: Any, taps: Any) -> Any:
        self.queue.launch(0.030 if ids.shape[1] > 1 else 0.020)
        return super().verify(ids, taps)


def test_c10_work_that_was_queued_is_waited_for_and_earlier_work_is_not_counted(device: Device) -> None:
    class Slow(ScriptedDrafter):
        def propose(self, context: Context, sampling: Sampling) -> Draft:
            device.launch(0.003)
            return super().propose(context, sampling)

    made = rig.requests(
        [rig.prompt(budget=2)], HostClock(device.synchronize), target=Queued(device), drafter=Slow(rig.ahead, 4)
    )
    device.launch(0.200)
    direct = made.run(rig.slot("direct"), 0)
    assert direct.prefill_s == pytest.approx(0.030)
    assert direct.latency_s == pytest.approx(0.050)
    device.launch(0.200)
    draft = made.run(rig.slot("draft"), 0)
    assert draft.latency_s == pytest.approx(0.053)
    assert draft.steps.draft_s == pytest.approx((0.003,))
    assert draft.steps.verify_s == pytest.approx((0.020,))
    assert draft.rest_s == pytest.approx(0.0)


class Failing(ScriptedDrafter):
    def __init__(self, error: Exception) -> None:
        super().__init__(rig.ahead, 4)
        self.error: Exception | None = error

    def propose(self, context: Context, sampling: Sampling) -> Draft:
        if self.error:
            error, self.error = self.error, None
            raise error
        return super().propose(context, sampling)


@pytest.mark.parametrize(
    ("error", "kind"),
    [(torch.OutOfMemoryError, "oom"), (AttributeError, "exception"), (AssertionError, "exception")],
)
def test_a_failure_has_no_numbers_and_the_next_request_is_sound(error: type[Exception], kind: str) -> None:
    made = rig.requests([rig.prompt()], drafter=Failing(error("out of\nmemory")))
    failed, good = made.run(rig.slot("draft"), 0), made.run(rig.slot("draft"), 0)
    assert failed.error == f"{kind}: {error.__name__}: out of memory"
    assert (failed.ids, failed.latency_s, failed.stop_reason, failed.steps) == ((), None, None, Steps())
    assert (good.ids, good.error) == (COUNTED, None)


def test_parts_that_do_not_fit_stop_the_run() -> None:
    with pytest.raises(MisfitError, match="no features"):
        rig.requests([rig.prompt()], drafter=Failing(MisfitError("no features"))).run(rig.slot("draft"), 0)


def test_c29_nothing_is_carried_from_one_request_to_the_next() -> None:
    made = rig.requests([rig.prompt("a", 3), rig.prompt("b", 9)])
    seen: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for name in ("a", "b", "a", "a", "b", "a"):
        for arm in made.arms:
            before = made.target.prompt_tokens_seen  # type: ignore[attr-defined]
            cell: Cell = made.run(rig.slot(arm, name), 0)
            worked = made.target.prompt_tokens_seen - before  # type: ignore[attr-defined]
            seen.setdefault((name, arm), []).append((cell.ids, cell.steps.accepted, worked))
    assert all(len(set(values)) == 1 for values in seen.values())
    assert {(name, values[0][2]) for (name, _), values in seen.items()} == {("a", 3), ("b", 9)}


def test_c40_arms_of_a_prompt_share_its_randomness_and_no_two_prompts_do() -> None:
    made = rig.requests([rig.prompt("a"), rig.prompt("b")])
    like = torch.zeros(1, 1, rig.VOCAB)

    def noise(arm: str, prompt: str, seed: int) -> Any:
        return made.sampling(rig.slot(arm, prompt, seed)).verify.at(0, 1, like).sum().item()

    assert noise("direct", "a", 0) == noise("refine", "a", 0)
    assert len({noise("direct", prompt, seed) for prompt in "ab" for seed in (0, 1)}) == 4
