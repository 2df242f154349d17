"""A fault at every stage of a request: what is written of it, and that the other arms know nothing of it."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import rig
import torch

from xpress_bench.drafters import Context, Draft
from xpress_bench.drafters.toy import ScriptedDrafter
from xpress_bench.measure import requests as module
from xpress_bench.measure.faults import DeadlineError, Guard, NonFiniteError, deadline, told
from xpress_bench.measure.requests import Requests
from xpress_bench.records import Cell
from xpress_bench.sampling import Sampling

COUNTED = tuple(range(4, 12))
LIMIT_S = 0.2
MARK = (0,)  # taps by which the target knows the arm that is to fail


def boom() -> None:
    raise RuntimeError("boom\nand more")


def no_memory() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")


def hang() -> None:
    time.sleep(30)


FAULTS: dict[str, tuple[Callable[[], None], str]] = {
    "exception": (boom, "exception: RuntimeError: boom and more"),
    "oom": (no_memory, "oom: OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"),
    "hang": (hang, f"deadline: no answer within {LIMIT_S} s"),
}


class Target(rig.Counting):
    """Fails at one method, for the marked arm only."""

    def __init__(self, at: str, fault: Callable[[], Any]) -> None:
        super().__init__()
        self.at, self.fault, self.busy = at, fault, False

    def prefill(self, ids: torch.Tensor, taps: tuple[int, ...]) -> Any:
        logits, features = super().prefill(ids, ())
        return (self.spoilt(logits, "prefill") if taps else logits), features

    def verify(self, ids: torch.Tensor, taps: tuple[int, ...]) -> torch.Tensor:
        logits = super().verify(ids, taps)
        return self.spoilt(logits, "verify") if taps else logits

    def spoilt(self, logits: torch.Tensor, at: str) -> torch.Tensor:
        return logits if at != self.at else logits * (self.fault() or float("nan"))


class Drafter(ScriptedDrafter):
    """Fails at one method."""

    taps = MARK

    def __init__(self, at: str, fault: Callable[[], Any]) -> None:
        super().__init__(rig.ahead, 4)
        self.at, self.fault = at, fault

    def start(self, *_: Any) -> None:
        if self.at == "start":
            self.fault()

    def observe(self, *_: Any) -> None:
        if self.at == "observe":
            self.fault()

    def propose(self, context: Context, sampling: Sampling) -> Draft:
        draft = super().propose(context, sampling)
        if self.at == "propose":
            value = self.fault() or float("nan")
            draft = replace(draft, logits=torch.full((1, draft.tokens.shape[1], rig.VOCAB), value))
        return draft


class Refiner(rig.Fixing):
    def __init__(self, at: str, fault: Callable[[], Any]) -> None:
        self.at, self.fault = at, fault

    def refine(self, draft: Draft, context: Context, sampling: Sampling) -> Draft:
        refined = super().refine(draft, context, sampling)
        if self.at == "refine":
            value = self.fault() or float("nan")
            refined = replace(refined, logits=torch.full((1, refined.tokens.shape[1], rig.VOCAB), value))
        return refined


def answers(at: str, fault: Callable[[], Any]) -> dict[str, Cell]:
    """What every arm leaves when the arm `refine` fails at a stage."""
    arms = (
        rig.planned("direct"),
        rig.planned("draft", ScriptedDrafter(rig.ahead, 4)),
        rig.planned("refine", Drafter(at, fault), (Refiner(at, fault),)),
    )
    made = Requests(Target(at, fault), rig.Letters(), arms, [rig.prompt()], rig.Ticks(), LIMIT_S)
    return {arm: made.run(rig.slot(arm), 0) for arm in made.arms}


STAGES = ("prefill", "verify", "start", "propose", "observe", "refine")


@pytest.mark.parametrize("at", STAGES)
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_at_a_stage_is_written_down_and_the_other_arms_complete(at: str, name: str) -> None:
    fault, expected = FAULTS[name]
    cells = answers(at, fault)
    assert cells["refine"].error == expected
    assert (cells["refine"].ids, cells["refine"].latency_s) == ((), None)
    assert [(cells[arm].ids, cells[arm].error) for arm in ("direct", "draft")] == [(COUNTED, None)] * 2


@pytest.mark.parametrize("at", ["prefill", "verify", "propose", "refine"])
def test_a_law_that_is_not_finite_is_an_error_and_never_a_token(at: str) -> None:
    cells = answers(at, lambda: None)
    who = {"propose": "drafter", "refine": "refiner"}.get(at, "target")
    assert cells["refine"].error == f"non_finite: the {who}'s logits are not finite"
    assert cells["refine"].ids == ()
    assert [(cells[arm].ids, cells[arm].error) for arm in ("direct", "draft")] == [(COUNTED, None)] * 2


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_verifier_leaves_direct_generation(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault, expected = FAULTS[name]
    monkeypatch.setattr(module, "VERIFIERS", {"greedy": lambda *_: fault()})
    cells = answers("none", fault)
    assert (cells["direct"].ids, cells["direct"].error) == (COUNTED, None)
    assert {cells["draft"].error, cells["refine"].error} == {expected}


def test_a_plug_in_that_swallows_every_exception_does_not_swallow_the_deadline() -> None:
    def stubborn() -> None:
        for _ in range(300):
            try:
                time.sleep(0.1)
            except Exception:
                continue

    assert answers("propose", stubborn)["refine"].error == f"deadline: no answer within {LIMIT_S} s"


@pytest.mark.parametrize(
    ("row", "sound"),
    [
        ([1.0, -float("inf"), 2.0], True),  # a token of probability 0
        ([-float("inf")] * 3, False),
        ([1.0, float("inf"), 2.0], False),
        ([1.0, float("nan"), 2.0], False),
    ],
)
def test_a_law_is_finite_when_its_largest_logit_is(row: list[float], sound: bool) -> None:
    logits = torch.tensor([[[0.0] * 3, row]])
    assert bool(logits.softmax(-1).isfinite().all()) == sound
    guard = Guard()
    guard.see("target", torch.zeros(1, 1, 3))
    guard.see("drafter", None)
    guard.see("drafter", torch.zeros(1, 0, 3))  # an empty draft
    guard.see("refiner", logits)
    if sound:
        guard.refuse()
    else:
        with pytest.raises(NonFiniteError, match="the refiner's logits"):
            guard.refuse()


def test_parts_keep_their_attributes_under_a_guard() -> None:
    part = rig.parts().target
    watched = Guard().target(part)
    assert (watched.vocab_size, watched.context, watched.commit) == (part.vocab_size, part.context, part.commit)


def test_kinds_of_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "a-secret-of-mine")
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 55)  # a real one, of the CPU's allocator
    assert told(caught.value).startswith("oom: RuntimeError: ")
    assert told(MemoryError()) == "oom: MemoryError: "
    assert told(RuntimeError("CUBLAS_STATUS_ALLOC_FAILED")) == "oom: RuntimeError: CUBLAS_STATUS_ALLOC_FAILED"
    assert told(ValueError("no\n a-secret-of-mine ")) == "exception: ValueError: no [hidden]"
    assert len(told(ValueError("x" * 1000))) < 400


def endless() -> None:
    while True:
        torch.ones(2).sum()


def test_a_deadline_ends_loops_and_leaves_no_alarm_behind() -> None:
    before = signal.getsignal(signal.SIGALRM)
    start = time.monotonic()
    with pytest.raises(DeadlineError, match=r"no answer within 0\.05 s"), deadline(0.05):
        endless()
    assert time.monotonic() - start < 5
    with deadline(10):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) == before


def test_a_process_that_hangs_outside_python_ends_itself() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork in the presence of threads, which it does not use
        child = os.fork()
    if child == 0:
        os.close(2)  # the stack that is printed
        with deadline(0.1):
            sum(range(10**13))  # never comes back to where a signal could be handled
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
