"""Real runs on the embedded models, clean and with one planted defect each: is it named in words that a user sees?

Every defect is planted from outside, as a plug-in or under a name that the package looks up, where a real one would be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import rig
from torch import Tensor

from xpress_bench import cli, decode, parts
from xpress_bench.analyse.power import detectable_speed_up, spread
from xpress_bench.analyse.reduce import pair, select
from xpress_bench.decode import Limits
from xpress_bench.drafters import DRAFTERS, Context, Draft, block_diffusion
from xpress_bench.journals import read_run
from xpress_bench.measure import ready, requests, runner
from xpress_bench.measure.clock import HostClock
from xpress_bench.parts import Parts
from xpress_bench.records import Run
from xpress_bench.refiners import Refiner
from xpress_bench.sampling import Sampling
from xpress_bench.settings import DrafterSettings, RefinerSettings, Settings, TargetSettings
from xpress_bench.targets import Target

pytestmark = pytest.mark.slow
TOKENS = 48
Page = Callable[..., str]  # command and its words -> what it prints


def quiet(done: int, total: int, what: str) -> None:
    """Shows nothing."""


def measured(out: Path, **changes: Any) -> Run:
    plain = {"suite": "short", "limit": 10, "turns": 1, "max_new_tokens": TOKENS, "trace": 16,
             "target": TargetSettings("embedded"), "drafter": DrafterSettings("dflash"),
             "refiner": RefinerSettings("xpress")}  # fmt: skip
    return read_run(runner.run(rig.settings(**plain | {"out": str(out)} | changes), ["--suite", "short"], quiet))


@pytest.fixture
def page(capsys: pytest.CaptureFixture[str]) -> Page:
    def printed(*words: object) -> str:
        cli.main(list(map(str, words)))
        return " ".join(capsys.readouterr().out.split())

    return printed


def test_a_clean_run_is_accused_of_nothing(tmp_path: Path, page: Page) -> None:
    run = measured(tmp_path, temperatures=(0.0, 1.0), verifiers=("coupled", "rejection"), limit=6)
    report, explain = page("report", run.folder), page("explain", run.folder)
    for arm in ("draft", "refine"):
        assert report.count(f"{arm}: 1 runs: yes (18/18) 2 quality: shown") == 2  # greedy and coupled
        assert f"{arm}: not refuted," in explain
    assert "refuted" not in report
    assert "1 runs" not in explain
    told = [what for what in explain.split("2 quality ")[1:] if "coupled compares ids" not in what]
    assert told == []  # under rejection ids prove nothing, and that is all that is said
    assert {trace.error for trace in run.traces} == {None}
    assert len(run.traces) == 3 * 6 * 2


def test_an_arm_that_overwrites_one_verified_token_in_200(
    tmp_path: Path, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified, plain = 0, decode.read_once

    def swapping(verdict: Any, draft: Draft, offered: Draft, refined: bool) -> Any:
        nonlocal verified
        accepted, new, before, after = plain(verdict, draft, offered, refined)
        for place in range(accepted if refined else 0):
            verified += 1
            if verified % 200 == 0:
                after = (*after[:place], after[place] + 1, *after[place + 1 :])
        return accepted, new, before, after

    monkeypatch.setattr(decode, "read_once", swapping)
    run = measured(tmp_path, trace=0)
    report, explain = page("report", run.folder), page("explain", run.folder)
    assert "refine: 1 runs: yes (30/30) 2 quality: refuted" in report
    assert "draft: 1 runs: yes (30/30) 2 quality: shown" in report
    assert "output of refine (dflash B=8 + xpress K=4) differs on" in report
    assert "beyond rounding" in report
    assert ": real, gap" in report
    assert "2 quality output of refine is not direct's, that of draft is: refinement" in explain
    assert {replay.arm for replay in run.replays if replay.verdict == "real"} == {"refine"}


@dataclass
class Exaggerating:
    """Draws as dflash does and records a law that is sharper than the one it draws from."""

    inner: Any
    taps: tuple[int, ...] = field(init=False)
    block_size: int = field(init=False)
    denoising_steps: int = 1

    def __post_init__(self) -> None:
        self.taps, self.block_size = self.inner.taps, self.inner.block_size

    def start(self, target: Target, prompt: Tensor, features: Tensor | None) -> None:
        self.inner.start(target, prompt, features)

    def propose(self, context: Context, sampling: Sampling) -> Draft:
        draft: Draft = self.inner.propose(context, sampling)
        return draft if draft.logits is None else replace(draft, logits=draft.logits * 1.5)

    def observe(self, features: Tensor | None) -> None:
        self.inner.observe(features)


def test_drafts_whose_law_is_not_the_one_they_are_drawn_from(
    tmp_path: Path, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(settings: DrafterSettings, target: Target, block_size: int | None) -> Exaggerating:
        return Exaggerating(block_diffusion.load(settings, target, block_size))

    monkeypatch.setitem(DRAFTERS._own, "exaggerating", (load, "for this test"))
    drafter = DrafterSettings("exaggerating")
    run = measured(tmp_path, drafter=drafter, temperatures=(1.0,), verifiers=("rejection",))
    report, explain = page("report", run.folder), page("explain", run.folder)
    assert "output of draft has not the target's law" in report
    assert "draft: 1 runs: yes (30/30) 2 quality: refuted" in report
    assert "2 quality draft: draft law refuted" in explain
    # xpress draws anew from what it corrects, so its own law is the one it records again.
    assert "refine: not refuted" in explain
    assert "refine: draft law refuted" not in explain


@dataclass
class Sleepy:
    """Refines as `inner` does and idles for 5 % of the time since it last did, in the same request."""

    inner: Any
    passes: int | None
    causal: bool = True
    request: list[int] | None = None
    last_s: float = 0.0

    def refine(self, draft: Draft, context: Context, sampling: Sampling) -> Draft:
        now_s = time.thread_time()
        until_s = now_s + 0.05 * (now_s - self.last_s) if context.tokens is self.request else now_s
        while time.thread_time() < until_s:
            """Nothing else is done."""
        self.request, self.last_s = context.tokens, time.thread_time()
        refined: Draft = self.inner.refine(draft, context, sampling)
        return refined


class ThreadClock(HostClock):
    """Seconds of this thread on the processor: the test may run beside others that take it away."""

    def now(self) -> float:
        return time.thread_time()

    stamp = now


def test_an_arm_that_idles_5_percent_of_its_time(tmp_path: Path, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = parts.assemble

    def with_sleepy(settings: Settings, only: str | None = None) -> Parts:
        made = plain(settings, only)
        refine = made.arms[-1]
        sleepy: Refiner = Sleepy(refine.refiners[0], refine.arm.passes)
        slow = replace(refine, arm=replace(refine.arm, name="sleepy"), refiners=(sleepy,))
        return replace(made, arms=(refine, slow))

    monkeypatch.setattr(ready, "assemble", with_sleepy)
    monkeypatch.setattr(ready, "clock_for", lambda device: ThreadClock())
    run = measured(tmp_path, repeats=3, trace=0)
    selection = select(run, run.header.conditions[0])
    ratios = list(pair(selection.of("refine"), selection.of("sleepy")).log_ratios().values())
    found = detectable_speed_up(spread(ratios), len(ratios), 0.99)
    assert isinstance(found, float)
    assert found < 1.05  # a change of 5 % is missed once in 100 runs at most
    assert -0.08 < fmean(ratios) < -0.02
    told = page("compare", run.folder, "--arm", "refine", "--arm", "sleepy")
    assert "sleepy (dflash B=8 + xpress K=4) is slower than refine" in told
    assert "detectable a speed-up of" in told


@pytest.fixture
def refine_decodes(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make the arms with a refiner decode with limits and sampling that are changed like this."""
    plain = decode.speculative

    def changed(limits: Callable[[Limits], Limits], temperature: float | None = None) -> None:
        def speculative(target: Any, drafter: Any, refiners: Sequence[Any], *rest: Any) -> Any:
            verifier, prompt, asked, sampling, *others = rest
            if refiners:
                asked = limits(asked)
                sampling.temperature = sampling.temperature and (temperature or sampling.temperature)
            return plain(target, drafter, refiners, verifier, prompt, asked, sampling, *others)

        monkeypatch.setattr(requests, "speculative", speculative)

    return changed


@pytest.mark.parametrize(
    ("limits", "suite"),
    [(lambda asked: replace(asked, stop_ids=frozenset()), "qa"),
     (lambda asked: replace(asked, max_new_tokens=TOKENS + 8), "short")],
    ids=["stop ids", "limit"],
)  # fmt: skip
def test_an_arm_with_other_limits(
    tmp_path: Path, page: Page, refine_decodes: Callable[..., None], limits: Callable[[Limits], Limits], suite: str
) -> None:
    refine_decodes(limits)
    run = measured(tmp_path, trace=0, suite=suite)
    report, explain = page("report", run.folder), page("explain", run.folder)
    assert "(direct the end, here " in report
    assert "refine: 1 runs: yes (30/30) 2 quality: refuted" in report
    assert "draft: 1 runs: yes (30/30) 2 quality: shown" in report
    assert (
        "output of refine stops elsewhere than direct's: stop ids, generation defaults or limits are not the same"
        in explain
    )


def test_an_arm_that_stops_too_early(tmp_path: Path, page: Page, refine_decodes: Callable[..., None]) -> None:
    refine_decodes(lambda asked: replace(asked, max_new_tokens=TOKENS - 8))
    run = measured(tmp_path, trace=0, limit=4)
    report, explain = page("report", run.folder), page("explain", run.folder)
    assert "refine, not averaged: ended although neither a stop id nor a limit asked for it" in report
    assert "output of refine stops elsewhere than direct's" in explain
    assert f"token {TOKENS - 8}" in explain


def test_an_arm_at_another_temperature(tmp_path: Path, page: Page, refine_decodes: Callable[..., None]) -> None:
    refine_decodes(lambda asked: asked, temperature=0.7)
    run = measured(tmp_path, trace=0, temperatures=(0.0, 1.0), limit=6)
    report, explain = page("report", run.folder), page("explain", run.folder)
    assert report.count("2 quality: refuted") == 1
    assert (
        "output of refine is direct's at temperature 0 only: sampling settings or noise differ between stages or arms"
        in explain
    )
