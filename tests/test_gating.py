"""`xpress-bench gate` as a person or a CI job types it; on the toy target, which needs no weights."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from xpress_bench.analyse.gate import Check, Design
from xpress_bench.cli import main
from xpress_bench.journals import read_run
from xpress_bench.measure import machine, planted
from xpress_bench.records import Launch, Run

TOY = "--suite short --target toy --drafter toy --device cpu limit=2 seeds=[0] max_new_tokens=24 dtype=float64".split()
COMMITTED = {"commit": "c" * 40, "dirty": False, "reason": None}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(machine, "git_state", lambda: COMMITTED)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    return tmp_path


@pytest.fixture
def gate(folder: Path) -> Callable[..., int]:
    return lambda *words: main(["gate", "--baselines", str(folder), *words])


@pytest.fixture
def recorded(gate: Callable[..., int], folder: Path) -> Path:
    assert gate("--record", "--name", "toy", *TOY) == 0
    return folder / "counted" / "toy.jsonl"


def test_a_recorded_baseline_passes_and_says_what_was_compared(
    gate: Callable[..., int], recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate() == 0
    said = capsys.readouterr().out
    assert "gate: pass" in said
    assert "4 compared" in said  # 2 prompts, 2 arms


def test_a_baseline_holds_no_times_and_nothing_of_the_machine(recorded: Path) -> None:
    run = read_run(recorded)
    assert run.header.machine == {}
    assert [cell.latency_s for cell in run.cells] == [None] * 4
    assert not any(cell.steps.draft_s for cell in run.cells)


@pytest.mark.parametrize("plant", [planted.changed_tokens, planted.spoiled_drafts])
def test_planted_defects_fail_the_gate(
    gate: Callable[..., int],
    recorded: Path,
    plant: Callable[[], object],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(planted, "EVERY_STEP", 5)  # the toy run has few steps
    with plant():  # type: ignore[attr-defined]
        assert gate() == 1
    assert "draft, greedy, short-" in capsys.readouterr().out
    assert gate() == 0


def test_c08_b_no_baseline_is_told_before_any_model_loads(
    gate: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xpress_bench.measure.ready.assemble", lambda *_: pytest.fail("a model was loaded"))
    assert gate() == 2
    said = capsys.readouterr().err
    assert "baseline not found" in said
    assert "0 compared" in said
    assert said.count("\n") == 1


def test_a_misspelt_name_lists_those_that_are_there(
    gate: Callable[..., int], recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate("--name", "toi") == 2
    assert "there: toy" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{}\n", "", "[1]\n", "nonsense"])
def test_a_baseline_that_is_no_journal_is_broken_not_passed(
    gate: Callable[..., int], folder: Path, recorded: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "counted" / "other.jsonl").write_text(text)
    assert gate() == 2
    said = capsys.readouterr().out
    assert re.search(r"BROKEN\s+counted work\s+other", said)
    assert "other.jsonl" in said
    assert "toy: draft, greedy" in said  # the rest is compared all the same


def test_recording_refuses_uncommitted_code(
    gate: Callable[..., int], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine, "git_state", lambda: COMMITTED | {"dirty": True})
    assert gate("--record", "--name", "toy", *TOY) == 2
    assert "uncommitted changes" in capsys.readouterr().err
    assert not (folder / "counted" / "toy.jsonl").exists()


def test_recording_again_uses_the_baseline_s_own_settings(gate: Callable[..., int], recorded: Path) -> None:
    before = read_run(recorded)
    assert gate("--record") == 0
    after = read_run(recorded)
    assert after.cells == before.cells
    assert after.header.argv == before.header.argv


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--against HEAD --stored", "two ways"),
        ("--record --against HEAD", "leave --against"),
        ("--record --self-test", "leave --against and --self-test out"),
        ("--pairs 1 --against HEAD", "at least 2"),
        ("--max-slow-down 5 --against HEAD", "share between 0 and 1"),
        ("--suite qa", "carries its own settings"),
        ("--against HEAD --drafter dflsh", "dflash"),
        ("--against HEAD nonsense=1", "nonsense"),
        ("--stored", "baseline not found"),
        ("--stored --target toy --drafter toy", "add launches=3"),
        ("--pears 3", "unrecognized"),
    ],
)
def test_a_wrong_command_is_one_line_and_exit_code_2(
    gate: Callable[..., int], words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate(*words.split()) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.splitlines()[-1].startswith("xpress-bench: ")
    assert "Traceback" not in error


def test_outputs_for_machines_are_written_beside_the_page(
    gate: Callable[..., int],
    recorded: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder / "summary.md"))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    with planted.spoiled_drafts():
        assert gate("--junit", str(folder / "j.xml"), "--json", str(folder / "j.json")) == 1
    assert "<failure" in (folder / "j.xml").read_text()
    assert json.loads((folder / "j.json").read_text())["outcome"] == "regression"
    assert "| FAIL | counted work" in (folder / "summary.md").read_text()
    assert "\n::error title=" in capsys.readouterr().out


def test_stored_sessions_are_recorded_and_judged(
    gate: Callable[..., int], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def committed(path: Path) -> Run:  # launches are processes of their own, which look at this very checkout
        run = read_run(path)
        return replace(run, header=replace(run.header, git=COMMITTED))

    monkeypatch.setattr("xpress_bench.journals.read_run", committed)
    quiet = ["launches=2", "admission=off"]  # whoever else works here while the tests run
    words = [*TOY, *quiet, "memory=false", "--out", str(folder / "runs"), "--max-acceptance-drop", "0.5"]
    assert gate("--stored", "--record", *words) == 0
    (file,) = folder.glob("*/short.jsonl")
    assert len(file.read_text().splitlines()) == 1
    capsys.readouterr()
    assert gate("--stored", *words) == 3
    said = capsys.readouterr().out
    assert "1 accepted sessions like this one, 5 needed" in said
    assert "tokens per step of draft" in said


def test_a_session_of_a_busy_machine_is_not_judged(
    gate: Callable[..., int], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("xpress_bench.analyse.admission.disturbed", lambda _: {0: "other processes took 9% of the CPU"})
    assert gate("--stored", "--record", *TOY, "launches=2", "memory=false", "--out", str(folder / "runs")) == 3
    assert "not quiet: other processes took 9%" in capsys.readouterr().out
    assert list(folder.glob("*/short.jsonl")) == []


def test_a_session_of_a_machine_that_tells_nothing_is_not_judged(
    gate: Callable[..., int], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    marks = (Launch(0, "started", "t", 0), Launch(0, "ended", "t", 0))
    monkeypatch.setattr("xpress_bench.measure.runner.run", lambda *_: folder)
    monkeypatch.setattr("xpress_bench.journals.read_run", lambda _: SimpleNamespace(launches=marks, cells=()))
    assert gate("--stored", "--record", *TOY, "launches=2") == 3
    assert "nobody can say if it was quiet: the CPU time of others (not recorded)" in capsys.readouterr().out
    assert list(folder.glob("*/short.jsonl")) == []


@pytest.mark.slow
def test_the_self_test_passes_only_if_every_plant_is_seen(
    gate: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def judged(base: object, candidate: object, words: object, design: Design, limits: object) -> list[Check]:
        slower = "planted" in str(candidate)
        same = Check("wall time", "same work", "pass", 1, "")
        return [same, Check("wall time", "x", "regression" if slower and seen else "pass", design.pairs, "")]

    monkeypatch.setattr("xpress_bench.measure.paired.paired_checks", judged)
    monkeypatch.setattr(planted, "EVERY_STEP", 5)
    seen = True
    assert gate("--self-test", *TOY) == 0
    assert capsys.readouterr().out.count("self-test") == 5
    seen = False
    assert gate("--self-test", *TOY) == 1
    assert "it had to say regression" in capsys.readouterr().out
