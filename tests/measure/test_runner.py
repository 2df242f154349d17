"""Whole runs on parts without weights: warm-up, order, the journal at every kind of end."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import rig
import torch

from xpress_bench import cli, reading
from xpress_bench.analyse.summary import summarise
from xpress_bench.drafters.toy import ScriptedDrafter
from xpress_bench.errors import RunError, UsageError
from xpress_bench.journals import read_run
from xpress_bench.measure import provenance, ready, replay, runner
from xpress_bench.measure.requests import Requests
from xpress_bench.parts import Parts
from xpress_bench.records import Cell, Run
from xpress_bench.settings import Settings, TargetSettings
from xpress_bench.weights import RandomIds

PROMPTS = ("ab", "abcdef", "abcd")
Progress = Callable[[int, int, str], None]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[Parts], Parts]:
    """Make every run load these parts."""

    def use(made: Parts) -> Parts:
        monkeypatch.setattr(ready, "assemble", lambda settings, only=None: made)
        return made

    return use


def quiet(done: int, total: int, what: str) -> None:
    """Shows nothing."""


def settings(folder: Path, *prompts: str, **changes: Any) -> Settings:
    suite = rig.suite(folder, *(prompts or PROMPTS))
    return rig.settings(**{"suite": str(suite), "out": str(folder / "runs")} | changes)


def ran(folder: Path, *prompts: str, progress: Progress = quiet, **changes: Any) -> Run:
    return read_run(runner.run(settings(folder, *prompts, **changes), ["--suite", "own"], progress))


def by_request(run: Run) -> dict[tuple[str, str], tuple[Any, ...]]:
    return {(cell.prompt, cell.arm): (cell.ids, cell.steps.accepted) for cell in run.cells}


def test_a_whole_run_and_its_report(
    tmp_path: Path, load: Callable[[Parts], Parts], capsys: pytest.CaptureFixture[str]
) -> None:
    load(rig.parts())
    run = ran(tmp_path, seeds=(0, 1))
    assert len(run.cells) == 3 * 2 * 3
    assert run.footer is not None
    assert (run.footer.cells, run.footer.errors, run.footer.complete) == (18, 0, True)
    assert (run.header.prompts, run.header.skipped, run.replays) == (PROMPTS, (), ())
    assert [arm.name for arm in run.header.arms] == ["direct", "draft", "refine"]
    assert all(cell.ids == tuple(range(ord(cell.prompt[-1]) + 1, ord(cell.prompt[-1]) + 9)) for cell in run.cells)
    assert cli.main(["report", str(run.folder)]) == 0
    shown = capsys.readouterr().out
    assert "3/3" in shown
    assert "refine" in shown


def test_the_report_needs_no_suite_and_takes_no_changed_one(
    tmp_path: Path, load: Callable[[Parts], Parts], capsys: pytest.CaptureFixture[str]
) -> None:
    load(rig.parts())
    run = ran(tmp_path)
    rig.suite(tmp_path, *PROMPTS, "another")
    assert reading.items_of(run.header) == ()
    (tmp_path / "own.jsonl").unlink()
    assert cli.main(["report", str(run.folder), "--format", "markdown"]) == 0
    assert "refine" in capsys.readouterr().out


def test_c34_every_stage_of_every_arm_has_run_before_the_first_timed_request(
    tmp_path: Path, load: Callable[[Parts], Parts], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = load(rig.parts())
    log: list[tuple[str, int, tuple[int, ...]]] = []
    plain = Requests.run_together

    def noted(self: Requests, slots: Any, launch: int) -> list[Cell]:
        made.target.rows.clear()  # type: ignore[attr-defined]
        cells = plain(self, slots, launch)
        log.append((slots[0].arm, launch, tuple(made.target.rows)))  # type: ignore[attr-defined]
        return cells

    monkeypatch.setattr(Requests, "run_together", noted)
    run = ran(tmp_path, warmup=2)
    first = next(index for index, (_, launch, _) in enumerate(log) if launch == 0)
    warm, timed = log[:first], log[first:]
    assert all(launch == -1 for _, launch, _ in warm)
    # shortest and longest prompt, twice each
    assert [sum(arm == name for arm, _, _ in warm) for name in ("direct", "draft", "refine")] == [4, 4, 4]
    for name in ("direct", "draft", "refine"):
        blocks = {rows for arm, _, shapes in warm if arm == name for rows in shapes[1:]}
        assert {rows for arm, _, shapes in timed if arm == name for rows in shapes[1:]} <= blocks
    assert len(run.cells) == len(timed) == 9  # what warmed up is not in the journal


def test_c29_the_order_of_prompts_changes_nothing(tmp_path: Path, load: Callable[[Parts], Parts]) -> None:
    load(rig.parts())
    assert by_request(ran(tmp_path, *PROMPTS)) == by_request(ran(tmp_path, *reversed(PROMPTS)))


def test_c02_every_run_asks_the_models_again(tmp_path: Path, load: Callable[[Parts], Parts]) -> None:
    class Backwards(rig.Counting):
        def row(self, prefix: list[int]) -> torch.Tensor:
            return super().row([prefix[-1] - 2])

    load(rig.parts())
    first, again = ran(tmp_path), ran(tmp_path)
    other_parts = load(rig.parts(Backwards()))
    other = ran(tmp_path)
    assert len({run.folder for run in (first, again, other)}) == 3
    assert other_parts.target.forwards > 0  # type: ignore[attr-defined]
    assert other.cells[0].ids[1] == other.cells[0].ids[0] - 1
    assert by_request(first) == by_request(again) != by_request(other)


def test_c02_the_header_tells_models_tokenizers_and_suites_apart(
    tmp_path: Path, load: Callable[[Parts], Parts]
) -> None:
    load(rig.parts())
    plain, text = ran(tmp_path), ran(tmp_path, "ab", "abcdef", "abcx")
    assert plain.header.suite["sha256"] != text.header.suite["sha256"]
    thinking = ran(tmp_path, target=TargetSettings("toy", thinking=True))
    assert plain.header.settings_sha256 != thinking.header.settings_sha256
    assert thinking.header.settings["target"]["thinking"] is True
    model, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    assert provenance.weights_hash(model) == provenance.weights_hash(model) != provenance.weights_hash(other)
    assert provenance.weights_hash(model.bfloat16()) != provenance.weights_hash(model.float())
    assert provenance.weights_hash(None) is None
    other_template = rig.Letters()
    other_template.chat_template = "{{ messages }}"  # type: ignore[assignment]
    assert provenance.tokenizer_hash(rig.Letters()) != provenance.tokenizer_hash(other_template)
    assert provenance.tokenizer_hash(RandomIds(50)) is None  # unknown, not the hash of nothing


def test_an_interrupted_run_keeps_what_it_measured(tmp_path: Path, load: Callable[[Parts], Parts]) -> None:
    load(rig.parts())

    def interrupt(done: int, total: int, what: str) -> None:
        if total and done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ran(tmp_path, progress=interrupt)
    (folder,) = (tmp_path / "runs").iterdir()
    run = read_run(folder)
    assert run.footer is not None
    assert (len(run.cells), run.footer.cells, run.footer.complete) == (2, 2, False)
    assert cli.main(["report", str(folder)]) == 1


@pytest.mark.parametrize("context", [None, 3])
def test_a_run_that_cannot_start_leaves_no_folder(
    tmp_path: Path, load: Callable[[Parts], Parts], monkeypatch: pytest.MonkeyPatch, context: int | None
) -> None:
    def refuse(settings: Settings, only: str | None) -> Parts:
        raise UsageError("no target called 'toy'")

    if context:
        load(rig.parts(rig.Counting(context=context)))
    else:
        monkeypatch.setattr(ready, "assemble", refuse)
    with pytest.raises(
        UsageError, match="no prompt fits the target; first reason: with its budget" if context else "no target"
    ):
        ran(tmp_path)
    assert list((tmp_path / "runs").iterdir()) == []


def test_c41_a_prompt_that_does_not_fit_is_named_and_no_arm_runs_it(
    tmp_path: Path, load: Callable[[Parts], Parts]
) -> None:
    load(rig.parts(rig.Counting(context=12)))
    run = ran(tmp_path)
    assert [skipped.prompt for skipped in run.header.skipped] == ["abcdef"]
    assert {cell.prompt for cell in run.cells} == {"ab", "abcd"}


def test_a_failing_arm_is_counted_and_the_others_go_on(tmp_path: Path, load: Callable[[Parts], Parts]) -> None:
    def fail(tokens: list[int]) -> list[int]:
        raise RuntimeError("CUDA out of memory")

    made = rig.parts()
    broken = rig.planned("draft", ScriptedDrafter(fail, 4))
    load(replace(made, arms=(made.arms[0], broken, made.arms[2])))
    run = ran(tmp_path)
    assert run.footer is not None
    assert (run.footer.errors, run.footer.complete) == (3, True)
    assert {cell.arm for cell in run.cells if cell.error} == {"draft"}
    assert cli.main(["report", str(run.folder)]) == 1


@pytest.mark.parametrize("failing", [("draft",), ("direct", "draft", "refine")])
def test_c37_arms_that_run_out_of_memory_halfway_never_pass_for_done(
    tmp_path: Path, load: Callable[[Parts], Parts], capsys: pytest.CaptureFixture[str], failing: tuple[str, ...]
) -> None:
    """After 5 of 10 prompts. The others have full results; the exit status says so, and so does the report."""

    class Full(Requests):
        def _timed(self, slot: Any, prompt: Any) -> Any:
            if slot.arm in failing and len(prompt.ids) > 5:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return super()._timed(slot, prompt)

    prompts = ["a" * length for length in range(1, 11)]
    load(rig.parts())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ready, "Requests", Full)
        run = ran(tmp_path, *prompts)
    assert run.footer is not None
    assert (run.footer.errors, run.footer.complete) == (5 * len(failing), True)
    for arm in ("direct", "draft", "refine"):
        errors = [cell.error for cell in run.cells if cell.arm == arm]
        assert errors.count("oom: OutOfMemoryError: CUDA out of memory") == (5 if arm in failing else 0)
        assert len(errors) == 10
    (of,) = summarise(run).conditions
    assert of.usable == 30 - 5 * len(failing)
    assert not any(of.levels(one).runs for one in of.arms)
    assert cli.main(["report", str(run.folder), "--format", "markdown"]) == 1
    shown = capsys.readouterr().out
    assert all(f"5 requests of {arm}, not averaged: oom: OutOfMemoryError" in shown for arm in failing)


class Fickle(rig.Counting):
    def row(self, prefix: list[int]) -> torch.Tensor:
        ahead = 1 if self._rows > 1 else 0  # in a block the target says another thing than alone
        return super().row([prefix[-1] + ahead])


def test_an_arm_that_says_something_else_is_judged(tmp_path: Path, load: Callable[[Parts], Parts]) -> None:
    load(rig.parts(Fickle()))
    run = ran(tmp_path, "ab", seeds=(0, 1))
    assert {(one.prompt, one.seed, one.arm) for one in run.replays} == {
        ("ab", seed, arm) for seed in (0, 1) for arm in ("draft", "refine")
    }


def test_a_replay_that_hangs_ends_like_a_request_and_the_run_goes_on(
    tmp_path: Path,
    load: Callable[[Parts], Parts],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def hang(*_: Any) -> None:
        while True:
            pass

    load(rig.parts(Fickle()))
    monkeypatch.setattr(replay, "replay", hang)
    run = ran(tmp_path, "ab", deadline_s=1)
    assert run.replays == ()
    assert run.footer is not None
    assert (run.footer.errors, run.footer.complete) == (0, True)
    assert "no replay of refine on ab: deadline: no answer within 1 s" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "told", "error", "expected"),
    [
        (102, "noise\nno drafter called 'x'\n", UsageError, "^no drafter called 'x'$"),
        (101, "the disk is full\n", RunError, "^the disk is full$"),
        (-9, "", RunError, "launch 1 was lost before anything was measured: it ended with status -9"),
        (70, "noise\noom: MemoryError: \n", RunError, "it ended with status 70, oom: MemoryError:"),
    ],
)
def test_a_launch_of_its_own_fails_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, told: str, error: type[Exception], expected: str
) -> None:
    run_process = SimpleNamespace(run=lambda *_, **__: subprocess.CompletedProcess((), status, told), PIPE=-1)
    monkeypatch.setattr(runner, "subprocess", run_process)
    with pytest.raises(error, match=expected):
        ran(tmp_path, launches=3)
    assert list((tmp_path / "runs").iterdir()) == []
