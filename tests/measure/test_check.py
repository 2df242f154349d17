"""The three validations: each passes on parts that fit, and each names what does not."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import rig
import tiny
import torch
from torch import Tensor

from xpress_bench.drafters import Context, Draft
from xpress_bench.drafters.toy import ScriptedDrafter
from xpress_bench.errors import MisfitError
from xpress_bench.measure import check, ready, runner
from xpress_bench.measure.check import validate
from xpress_bench.measure.controls import PAIRS, control_requests
from xpress_bench.measure.prompts import Prompt
from xpress_bench.measure.requests import Requests
from xpress_bench.measure.schedule import Slot
from xpress_bench.measure.workload import workload
from xpress_bench.parts import Parts
from xpress_bench.sampling import Sampling


def said(made: Parts) -> list[str]:
    lines: list[str] = []
    sampling = Sampling(rig.GREEDY, 0, torch.device("cpu"))
    validate(made, made.arms[2], rig.prompt(), sampling, lines.append)
    return lines


def refused(made: Parts) -> str:
    with pytest.raises(MisfitError) as caught:
        said(made)
    return str(caught.value)


def test_all_three_pass_and_say_shapes() -> None:
    first, second, third = said(rig.parts())
    assert "1 draft    tokens [1, 3]" in first
    assert "'5 6 0'" in first
    assert "logits [1, 4, 128], mass per position 1.000000..1.000000" in second
    assert "tokens [1, 3]" in third
    assert "1 changed" in third


def test_all_three_pass_on_a_small_real_pipeline() -> None:
    target = tiny.qwen3()
    drafter = tiny.dflash(target, 4)
    made = rig.parts(target, drafter, tiny.xpress(target, 4, 2))
    assert [line[2:10] for line in said(made)] == ["1 draft ", "2 verify", "3 refine"]


class TooMany(ScriptedDrafter):
    def propose(self, context: Context, sampling: Sampling) -> Draft:
        return Draft(torch.tensor([[5, 6, 7, 8]]))


class OneRow(rig.Counting):
    def verify(self, ids: Tensor, taps: tuple[int, ...]) -> Tensor:
        return super().verify(ids, taps)[:, -1:]


class NotFinite(rig.Counting):
    def verify(self, ids: Tensor, taps: tuple[int, ...]) -> Tensor:
        return super().verify(ids, taps) * torch.nan


class NoFeatures(ScriptedDrafter):
    taps = (0, 1)


class Refining(rig.Fixing):
    """Turns every draft into these tokens."""

    def __init__(self, *tokens: int) -> None:
        self.tokens = tokens

    def refine(self, draft: Draft, context: Context, sampling: Sampling) -> Draft:
        return Draft(torch.tensor([self.tokens]))


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (rig.parts(drafter=TooMany(rig.ahead, 4)), "the drafter offers 4 tokens for a block of 4 slots"),
        (rig.parts(drafter=NoFeatures(rig.ahead, 4)), "features are none, 2 taps of 1 were asked for"),
        (rig.parts(target=OneRow()), "the target's verify gives [1, 1, 128], expected [1, 4, 128]"),
        (rig.parts(target=NotFinite()), "the target's logits are not finite"),
        (rig.parts(refiner=Refining(5, 6, 7, 8)), "the refiner turns [1, 3] tokens into [1, 4]"),
        (rig.parts(refiner=Refining(5, 6, 128)), "the refiner gives id 128, the target has ids 0..127"),
        (rig.parts(refiner=Refining(5, -1, 7)), "the refiner gives id -1"),
    ],
)
def test_what_does_not_fit_is_named(made: Parts, told: str) -> None:
    assert told in refused(made)


def test_the_plan_counts_requests_and_runs_each_prompt_of_a_short_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, lines = rig.parts(), []
    monkeypatch.setattr(ready, "assemble", lambda settings, only: made)
    ran: list[Any] = []
    plain = check.Requests.run_together
    monkeypatch.setattr(
        check.Requests,
        "run_together",
        lambda self, slots, launch: ran.extend(slot.prompt for slot in slots) or plain(self, slots, launch),
    )
    suite = rig.suite(tmp_path, "ab", "abc", "abcd")
    check.check_and_plan(rig.settings(suite=str(suite), seeds=(0, 1), launches=2), lines.append)
    assert set(ran) == {"ab", "abc", "abcd"}
    assert "plan: suite own, 3 of 3 prompts, 0 too long for the target, 3 arms" in lines
    # 3 prompts x 2 seeds x 2 launches x 3 arms; the shortest and the longest x 2 launches x 3 arms
    assert any(line.endswith("requests: 36 timed, 12 to warm up") for line in lines)
    assert any("effect   refine over direct: pilot" in line for line in lines)
    (board,) = [line for line in lines if line.startswith("  board ")]
    assert "profile=paper" in board


def test_the_plan_names_every_request_that_the_run_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, lines, ran = rig.parts(), list[str](), Counter[str]()
    monkeypatch.setattr(ready, "assemble", lambda settings, only=None: made)
    suite = tmp_path / "own.jsonl"
    talk = {"id": "talk", "prompt": "a", "turns": ["a", "b"]}
    items = [talk, *({"id": name, "prompt": name} for name in ("cde", "fg"))]
    suite.write_text("".join(json.dumps(item) + "\n" for item in items))
    settings = rig.settings(
        suite=str(suite), out=str(tmp_path / "runs"), temperatures=(0.0, 1.0), seeds=(0, 1), trace=2, controls=2
    )
    check.check_and_plan(settings, lines.append)
    (line,) = [line for line in lines if "requests: " in line]
    # 4 turns x 2 seeds x 2 conditions x 3 arms; 2 prompts x 2 conditions x 3 arms; the first turn of the conversation;
    # 2 prompts x 2 conditions x 2 arms; 2 prompts x 7, of refine only: the target is no transformers model
    assert line.endswith("48 timed, 12 to warm up, 1 for earlier turns, 8 for traces, 14 for controls")

    plain = Requests._timed

    def counted(self: Requests, slot: Slot, prompt: Prompt) -> Any:
        ran[slot.arm] += 1
        return plain(self, slot, prompt)

    monkeypatch.setattr(Requests, "_timed", counted)
    runner.run(settings, [], lambda done, total, what: None)
    assert ran.total() == 48 + 12 + 1 + 8 + 14
    assert ran == {"direct": 16 + 4 + 1, "draft": 16 + 4 + 4, "refine": 16 + 4 + 4 + 14}


def test_transformers_own_loop_is_in_the_plan() -> None:
    target = tiny.qwen3()
    made = rig.parts(target, tiny.dflash(target, 4), tiny.xpress(target, 4, 2))
    requests = Requests(target, made.tokenizer, made.arms, [rig.prompt()], rig.Ticks(), 60.0)
    assert control_requests(requests, rig.settings(controls=1)) == {"direct": 1 + 2 * PAIRS, "refine": 1 + 2 * PAIRS}


def test_without_traces_and_controls_none_are_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "assemble", lambda settings, only=None: rig.parts())
    settings = rig.settings(suite=str(rig.suite(tmp_path, "ab")), trace=2, controls=2, weights="random")
    assert set(workload(ready.make_ready(settings), settings)) == {"timed", "to warm up"}


def test_an_arm_that_fails_stops_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Later(ScriptedDrafter):  # the first block, which is validated, is fine
        def propose(self, context: Context, sampling: Sampling) -> Draft:
            if len(context.tokens) > 6:
                raise RuntimeError("no memory")
            return super().propose(context, sampling)

    made = rig.parts()
    broken = rig.planned("draft", Later(rig.ahead, 4))
    monkeypatch.setattr(ready, "assemble", lambda settings, only: replace(made, arms=(made.arms[0], broken)))
    with pytest.raises(MisfitError, match=r"arm draft fails on ab.*no memory"):
        check.check_and_plan(rig.settings(suite=str(rig.suite(tmp_path, "ab"))), lambda line: None)


def test_a_refiner_may_shorten_a_draft() -> None:
    assert any("3 refine   tokens [1, 2]" in line for line in said(rig.parts(refiner=Refining(5, 6))))
