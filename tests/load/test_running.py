"""Whole load runs on toy models and a clock that ticks: stages, resuming, what stops them, and the report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rig
import torch

from xpress_bench.errors import MisfitError, RunError, UsageError
from xpress_bench.load import batch, running
from xpress_bench.load.running import begin, go_on, stored, unfinished
from xpress_bench.load_records import LOAD, Load, Plan, Policy, Stage, read_load
from xpress_bench.measure import ready, resume
from xpress_bench.measure.interrupts import Interrupted
from xpress_bench.parts import Parts
from xpress_bench.publish.load import show_load
from xpress_bench.settings import Settings

STAGES = (Stage("single", clients=1, requests=3), Stage("4 clients", clients=4, seconds=100.0))
PLAN = Plan(STAGES, 1, Policy(1e5, probe_s=60.0, rows=3))


class Both(rig.Fixing):
    batchable = True


@pytest.fixture(autouse=True)
def _toys(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, rig.parts(refiner=Both()))
    monkeypatch.setattr(ready, "clock_for", lambda device: rig.Ticks())  # each look at the time takes a second


def use(monkeypatch: pytest.MonkeyPatch, parts: Parts) -> None:
    monkeypatch.setattr(ready, "assemble", lambda settings, only=None: parts)


def quiet(done: int, total: int, what: str) -> None:
    """Shows nothing."""


def settings(folder: Path, **changes: Any) -> Settings:
    suite = rig.suite(folder, "ab", "abcdef", "abcd")
    return rig.settings(**{"suite": str(suite), "out": str(folder / "runs")} | changes)


def ran(folder: Path, plan: Plan = PLAN, progress: Callable[[int, int, str], None] = quiet, **changes: Any) -> Load:
    made = begin(settings(folder, **changes), plan)
    go_on(made, [], progress)
    return read_load(made)


def test_every_stage_of_every_arm_is_run_and_nothing_is_lost(tmp_path: Path) -> None:
    load = ran(tmp_path)
    assert load.complete
    assert set(load.marks) == {(stage.name, arm, 0) for stage in STAGES for arm in ("direct", "draft", "refine")}
    for unit, mark in load.marks.items():
        requests = load.requests[unit]
        assert (mark.event, mark.asked) == ("ended", len(requests))
        assert {one.status for one in requests} == {"ok"}
        assert sorted(one.index for one in requests) == list(range(len(requests)))
        assert mark.memory  # where the system tells
    assert all(len(load.requests["single", arm, 0]) == 3 for arm in load.arms)
    outputs = {(one.prompt, one.output) for requests in load.requests.values() for one in requests}
    assert len(outputs) == 3  # each prompt has one answer, whatever the arm and its mates


def test_arms_get_the_same_prompts_in_the_same_order(tmp_path: Path) -> None:
    load = ran(tmp_path, seeds=(0, 5))
    asked = [
        [(one.prompt, one.seed) for one in sorted(load.requests["4 clients", arm, 0], key=lambda one: one.index)][:7]
        for arm in load.arms
    ]
    assert asked[0] == asked[1] == asked[2]
    assert [seed for _, seed in asked[0]] == [0, 0, 0, 5, 5, 5, 0]  # each time through the prompts another
    assert len({prompt for prompt, _ in asked[0][:3]}) == 3


def test_the_report_is_made_from_the_folder_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load = ran(tmp_path)
    assert show_load(load.folder, "terminal", None) == 0
    told = capsys.readouterr().out
    assert "9 requests, 9 ok, 0 lost" in told
    assert "4 clients for 100 s" in told
    assert show_load(load.folder, "csv", None) == 0
    assert ",single,draft,identical,3," in capsys.readouterr().out
    assert show_load(load.folder, "latex", None) == 0
    assert r"\toprule" in capsys.readouterr().out


def stopping(monkeypatch: pytest.MonkeyPatch, at: tuple[str, str]) -> None:
    """Ctrl-C in the middle of a stage of an arm."""

    class Pressed(running.Loop):
        def _turn(self) -> None:
            super()._turn()
            if (self.stage.name, self.arm) == at and self.asked > 1:
                raise Interrupted

    monkeypatch.setattr(running, "Loop", Pressed)


def test_an_interrupted_run_goes_on_with_the_stage_it_was_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        stopping(patch, ("4 clients", "draft"))
        with pytest.raises(Interrupted) as stop:
            ran(tmp_path)
    folder = stop.value.folder
    assert folder is not None
    before = read_load(folder)
    assert (before.marks["4 clients", "draft", 0].event, before.complete) == ("stopped", False)
    assert {"cut"} <= {one.status for one in before.requests["4 clients", "draft", 0]} <= {"cut", "ok"}
    assert before.marks["4 clients", "draft", 0].asked == len(before.requests["4 clients", "draft", 0])
    assert show_load(folder, "terminal", None) == 1
    assert f"xpress-bench load --resume {folder}" in capsys.readouterr().out
    assert unfinished(settings(tmp_path), PLAN) == folder
    assert unfinished(settings(tmp_path, seeds=(1,)), PLAN) is None
    go_on(folder, [], quiet)
    after = read_load(folder)
    assert after.complete
    assert all(after.requests[unit] == kept for unit, kept in before.requests.items() if unit[1:] != ("draft", 0))
    assert {one.status for one in after.requests["4 clients", "draft", 0]} == {"ok"}
    assert unfinished(settings(tmp_path), PLAN) is None
    size = (folder / LOAD).stat().st_size
    go_on(folder, [], quiet)  # nothing is left
    assert (folder / LOAD).stat().st_size == size


class Dying(rig.Counting):
    """Fails from some forward on."""

    alive = True

    def verify(self, ids: torch.Tensor, taps: tuple[int, ...]) -> torch.Tensor:
        if not Dying.alive:
            raise RuntimeError("the device is gone")
        return super().verify(ids, taps)


def test_an_engine_that_fails_for_good_opens_the_circuit_and_the_run_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, rig.parts(target=Dying(), refiner=Both()))
    monkeypatch.setattr(batch.time, "sleep", lambda seconds: None)

    def kill(done: int, total: int, what: str) -> None:
        Dying.alive = not what.startswith("4 clients")

    made = begin(settings(tmp_path), PLAN)
    with pytest.raises(RunError, match=r"does not answer any more .*the device is gone.*go on with .*--resume"):
        go_on(made, [], kill)
    load = read_load(made)
    (broken,) = [mark for mark in load.marks.values() if mark.event == "stopped"]
    assert broken.stage == "4 clients"
    assert broken.opened == 1
    statuses = {one.status for one in load.requests[broken.unit]}
    assert statuses == {"failed", "shed"}
    assert broken.asked == len(load.requests[broken.unit])
    Dying.alive = True
    go_on(made, [], quiet)
    assert read_load(made).complete


def test_a_load_run_is_gone_on_with_only_as_it_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        stopping(patch, ("single", "direct"))
        with pytest.raises(Interrupted) as stop:
            ran(tmp_path, plan=Plan(STAGES, 1, Policy(1e5, rows=1)))
    folder = stop.value.folder
    assert folder is not None
    rig.suite(tmp_path, "other", "prompts")
    with pytest.raises(UsageError, match="when the run began"):
        go_on(folder, [], quiet)


def test_the_folder_is_no_run_for_other_commands(tmp_path: Path) -> None:
    load = ran(tmp_path)
    with pytest.raises(UsageError, match="not the settings of a run"):
        resume.stored_settings(load.folder, None)
    assert resume.unfinished(settings(tmp_path)) is None
    assert stored(load.folder) == settings(tmp_path)
    with pytest.raises(UsageError, match="no load run"):
        stored(tmp_path)


def test_parts_that_cannot_be_loaded_say_so_and_leave_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, rig.parts(refiner=rig.Fixing()))  # which does not know of rows
    with pytest.raises(MisfitError, match="Fixing"):
        ran(tmp_path)
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_folder_in_which_nothing_was_asked_has_no_report(tmp_path: Path) -> None:
    made = begin(settings(tmp_path), PLAN)
    with pytest.raises(UsageError, match="nothing was asked yet"):
        show_load(made, "terminal", None)
