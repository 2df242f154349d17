"""Runs that were stopped, and what going on with them keeps, measures again and refuses."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import rig
import torch

from xpress_bench.analyse.summary import summarise
from xpress_bench.drafters.toy import ScriptedDrafter
from xpress_bench.errors import RunError, UsageError
from xpress_bench.journals import read_run
from xpress_bench.measure import ready, runner
from xpress_bench.measure.interrupts import Interrupted, Interrupts
from xpress_bench.measure.journal import SETTINGS, locked
from xpress_bench.measure.resume import unfinished
from xpress_bench.parts import Parts
from xpress_bench.records import JOURNAL, Cell, Memory, Run
from xpress_bench.settings import Settings, TargetSettings

PROMPTS = ("ab", "abcdef", "abcd")
EACH = len(PROMPTS) * 3 * 2  # cells of a launch: prompts, arms, seeds
Load = Callable[[Parts], Parts]
Progress = Callable[[int, int, str], None]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Make every run load these parts, and every launch run in this process."""

    def use(made: Parts) -> Parts:
        monkeypatch.setattr(ready, "assemble", lambda settings, only=None: made)
        return made

    def in_process(words: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
        folder, index, number = Path(words[3]), int(words[4]), int(words[5])
        settings = Settings.from_json((folder / SETTINGS).read_text())
        runner.launch(runner.Sitting(settings, folder, [], quiet, Interrupts(), number), index)
        return subprocess.CompletedProcess(words, 0, "")

    monkeypatch.setattr(runner, "subprocess", SimpleNamespace(run=in_process, PIPE=subprocess.PIPE))
    use(rig.parts())
    return use


def quiet(done: int, total: int, what: str) -> None:
    """Shows nothing."""


def settings(folder: Path, *prompts: str, **changes: Any) -> Settings:
    suite = rig.suite(folder, *(prompts or PROMPTS))
    plain = {"suite": str(suite), "out": str(folder / "runs"), "seeds": (0, 1), "launches": 2}
    return rig.settings(**plain | changes)


def ran(folder: Path, progress: Progress = quiet, **changes: Any) -> Path:
    return runner.run(settings(folder, **changes), [], progress)


def resumed(folder: Path, given: Settings | None = None, progress: Progress = quiet) -> tuple[Run, list[str]]:
    """The run after it was resumed, and what was said."""
    said: list[str] = []
    runner.resume(folder, given, [], progress, said.append)
    return read_run(folder), said


def counted(cells: Sequence[Cell]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """What has to be the same, by cell; a cell that is there twice is an error."""
    found = {
        (cell.launch, cell.prompt, cell.seed, cell.arm): (cell.ids, cell.stop_reason, cell.steps.accepted)
        for cell in cells
    }
    assert len(found) == len(cells)
    return found


def lines_of(folder: Path) -> list[bytes]:
    return (folder / JOURNAL).read_bytes().splitlines(keepends=True)


# header; started, 18 cells, ended; the same for the second launch; footer
STARTED, ENDED, STARTED_2, ENDED_2, FOOTER = 1, 2 + EACH, 3 + EACH, 4 + 2 * EACH, 5 + 2 * EACH


@pytest.mark.parametrize(
    ("whole", "extra", "kept"),
    [
        (0, 0, 0),  # nothing was written
        (0, 40, 0),  # half a header
        (1, 0, 0),
        (1, 9, 0),
        (STARTED + 1, 0, 0),
        (STARTED + 5, 100, 0),  # five... and half a cell
        (ENDED, 0, 0),  # all its cells, but whether more was to come is not known
        (ENDED, 30, 0),
        (ENDED + 1, 0, 1),
        (STARTED_2, 7, 1),
        (STARTED_2 + 4, 0, 1),
        (STARTED_2 + 4, 1, 1),
        (ENDED_2, 0, 1),
        (ENDED_2 + 1, 0, 2),
        (FOOTER, 20, 2),
    ],
)
def test_c39_a_journal_cut_anywhere_is_gone_on_with(
    tmp_path: Path, load: Load, whole: int, extra: int, kept: int
) -> None:
    folder = ran(tmp_path)
    untouched, lines = read_run(folder), lines_of(folder)
    assert len(lines) == FOOTER + 1
    left = b"".join(lines[:whole])
    (folder / JOURNAL).write_bytes(left + (lines[whole][:extra] if extra else b""))
    run, said = resumed(folder)
    assert counted(run.cells) == counted(untouched.cells)
    assert [cell for cell in run.cells if cell.launch < kept] == [c for c in untouched.cells if c.launch < kept]
    assert (folder / JOURNAL).read_bytes().startswith(left)
    assert run.footer == replace(untouched.footer, seconds=run.footer.seconds)  # type: ignore[type-var,union-attr]
    assert any("half a line" in line and f"({extra} bytes)" in line for line in said) == bool(extra)
    assert summarise(run).complete
    # What is complete is left alone.
    before = (folder / JOURNAL).read_bytes()
    assert resumed(folder)[1][-1] == "the run is complete, nothing is left to measure"
    assert (folder / JOURNAL).read_bytes() == before


def test_what_is_lost_is_said_in_requests(tmp_path: Path, load: Load) -> None:
    folder = ran(tmp_path)
    lines = lines_of(folder)
    (folder / JOURNAL).write_bytes(b"".join(lines[: STARTED_2 + 5]))
    assert resumed(folder)[1] == [
        "launch 1 of 2 is kept",
        "launch 2 of 2 was partial: 4 of 18 requests are measured again",
    ]
    alone = ran(tmp_path, launches=1)
    (alone / JOURNAL).write_bytes(b"".join(lines_of(alone)[:12]))
    assert resumed(alone)[1] == [
        "launch 1 of 1 was partial: 10 of 18 requests are measured again",
    ]


def test_a_report_of_a_run_that_was_cut_shows_what_is_there(tmp_path: Path, load: Load) -> None:
    folder = ran(tmp_path)
    (folder / JOURNAL).write_bytes(b"".join(lines_of(folder)[: STARTED_2 + 5]))
    (of,) = summarise(read_run(folder)).conditions
    assert (of.usable, of.expected, of.complete) == (EACH + 4, 2 * EACH, False)


def test_the_sittings_of_a_run_are_marked(tmp_path: Path, load: Load) -> None:
    folder = ran(tmp_path)
    (folder / JOURNAL).write_bytes(b"".join(lines_of(folder)[: STARTED_2 + 5]))
    run, _ = resumed(folder)
    started = [mark for mark in run.launches if mark.event == "started"]
    assert [(mark.launch, mark.sitting) for mark in started] == [(0, 0), (1, 1)]
    assert all(mark.machine["hard"] == run.header.machine["hard"] for mark in started)
    assert all(mark.machine["versions"] == run.header.versions for mark in started)


def test_one_ctrl_c_ends_the_request_in_hand_and_the_run_can_go_on(tmp_path: Path, load: Load) -> None:
    """Sent while a draft is made: that request is in the journal, the next is not."""
    made = load(rig.parts(drafter=Interrupting(times=1)))
    with pytest.raises(Interrupted) as stop:
        ran(tmp_path, launches=1)
    folder = stop.value.folder
    assert folder is not None
    run = read_run(folder)
    assert run.cells[-1].arm in ("draft", "refine")
    assert run.cells[-1].ids
    assert run.footer is not None
    assert (run.footer.cells, run.footer.complete) == (len(run.cells), False)
    assert made.arms[1].drafter.left == 0  # type: ignore[union-attr]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert resumed(folder)[0].footer.complete  # type: ignore[union-attr]


def test_a_second_ctrl_c_stops_at_once(tmp_path: Path, load: Load) -> None:
    load(rig.parts(drafter=Interrupting(times=2)))
    with pytest.raises(KeyboardInterrupt) as stop:
        ran(tmp_path, launches=1)
    assert not isinstance(stop.value, Interrupted)
    (folder,) = (tmp_path / "runs").iterdir()
    run = read_run(folder)
    assert {cell.arm for cell in run.cells} <= {"direct"}
    assert not run.footer.complete  # type: ignore[union-attr]
    assert resumed(folder)[0].footer.complete  # type: ignore[union-attr]


class Interrupting(ScriptedDrafter):
    """Presses Ctrl-C in the first measured request; what warms up has 3 arms, 2 prompts, at most 3 rounds each."""

    def __init__(self, times: int) -> None:
        super().__init__(rig.ahead, 4)
        self.left, self.proposals = times, 0

    def propose(self, *arguments: Any) -> Any:
        self.proposals += 1
        while self.left and self.proposals > 12:
            self.left -= 1
            os.kill(os.getpid(), signal.SIGINT)
        return super().propose(*arguments)


@pytest.mark.parametrize(
    ("status", "said", "reason"),
    [
        (-9, "", "it ended with status -9"),
        (1, "", "it ended with status 1"),  # of a request that hung outside Python
        (70, "oom: MemoryError: ", "it ended with status 70, oom: MemoryError:"),
    ],
)
def test_c37_a_launch_that_is_killed_is_written_down_and_the_others_go_on(
    tmp_path: Path, load: Load, monkeypatch: pytest.MonkeyPatch, status: int, said: str, reason: str
) -> None:
    """It is named, nothing is complete, and resuming measures that one alone."""
    in_process = runner.subprocess.run

    def killed(words: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        done = in_process(words, **options)
        if words[4] == "1":
            file = Path(words[3]) / JOURNAL
            file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-3]))
            return subprocess.CompletedProcess(words, status, f"noise\n{said}" if said else "")
        return done

    monkeypatch.setattr(runner, "subprocess", SimpleNamespace(run=killed, PIPE=-1))
    folder = ran(tmp_path, launches=3)
    run = read_run(folder)
    (lost,) = [mark for mark in run.launches if mark.event == "lost"]
    assert (lost.launch, lost.reason) == (1, reason)
    assert {mark.launch for mark in run.launches if mark.event == "ended"} == {0, 2}
    assert not run.footer.complete  # type: ignore[union-attr]
    (of,) = summarise(run).conditions
    assert not any(of.levels(one).runs for one in of.arms)
    monkeypatch.setattr(runner, "subprocess", SimpleNamespace(run=in_process, PIPE=-1))
    again, _ = resumed(folder)
    assert again.footer.complete  # type: ignore[union-attr]
    assert len(counted(again.cells)) == 3 * EACH
    assert [c for c in again.cells if c.launch != 1] == [c for c in run.cells if c.launch != 1]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"seeds": (0, 2)}, r"settings\.seeds was \[0, 1\] when the run began and is \[0, 2\] now; start another run"),
        ({"repeats": 2}, r"settings\.repeats was 1 when the run began and is 2 now"),
        ({"block_size": 8}, r"settings\.block_size was None when the run began and is 8 now"),
    ],
)
def test_other_settings_are_refused_by_name(tmp_path: Path, load: Load, change: dict[str, Any], told: str) -> None:
    folder = ran(tmp_path)
    before = (folder / JOURNAL).read_bytes()
    with pytest.raises(UsageError, match=told):
        resumed(folder, settings(tmp_path, **change))
    other = settings(tmp_path, **change)
    (folder / SETTINGS).write_text(other.to_json())  # edited behind our back
    with pytest.raises(UsageError, match=told):
        resumed(folder)
    assert (folder / JOURNAL).read_bytes() == before


def test_the_same_settings_are_taken_wherever_runs_go(tmp_path: Path, load: Load) -> None:
    folder = ran(tmp_path)
    assert resumed(folder, settings(tmp_path, out="elsewhere", threads=7))[0].footer.complete  # type: ignore[union-attr]


def test_c39_a_changed_prompt_is_refused(tmp_path: Path, load: Load) -> None:
    folder = ran(tmp_path)
    (folder / JOURNAL).write_bytes(b"".join(lines_of(folder)[: STARTED_2 + 5]))
    rig.suite(tmp_path, "ab", "abcdef", "abcx")
    with pytest.raises(UsageError, match=r"suite\.sha256 was '.*' when the run began and is '.*' now"):
        resumed(folder)


class Weighted(rig.Counting):
    """A target with weights."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.model = torch.nn.Linear(2, 2)
        with torch.no_grad():
            self.model.weight.fill_(value)
            self.model.bias.fill_(value)


def test_other_weights_are_refused(tmp_path: Path, load: Load) -> None:
    load(rig.parts(Weighted(1.0)))
    folder = ran(tmp_path)
    (folder / JOURNAL).write_bytes(b"".join(lines_of(folder)[: STARTED_2 + 5]))
    made = load(rig.parts(Weighted(2.0)))
    with pytest.raises(UsageError, match=r"target\.weights_sha256 was '"):
        resumed(folder)
    load(rig.parts(Weighted(1.0)))
    assert resumed(folder)[0].footer.complete  # type: ignore[union-attr]
    draft = replace(made.arms[1], arm=replace(made.arms[1].arm, checkpoints={"drafter": "ab"}))
    load(replace(rig.parts(Weighted(1.0)), arms=(made.arms[0], draft, made.arms[2])))
    (folder / JOURNAL).write_bytes(b"".join(lines_of(folder)[: STARTED_2 + 5]))
    with pytest.raises(UsageError, match=r"arms\.draft\.checkpoints"):
        resumed(folder)


@pytest.mark.parametrize(
    ("text", "told"),
    [(None, "no run to resume, settings.json cannot be read"), ("{", "not the settings"), ("{}", "not the settings")],
)
def test_a_folder_that_is_no_run(tmp_path: Path, text: str | None, told: str) -> None:
    if text is not None:
        (tmp_path / SETTINGS).write_text(text)
    with pytest.raises(UsageError, match=told):
        resumed(tmp_path)


def test_a_stranger_s_run_does_not_bring_its_own_leave_to_run_code(tmp_path: Path, load: Load) -> None:
    target = TargetSettings("toy", trust_remote_code=True)
    folder = ran(tmp_path, target=target)
    with pytest.raises(UsageError, match="asks to run code"):
        resumed(folder)
    resumed(folder, settings(tmp_path, target=target))


def test_the_same_command_finds_what_it_began_and_nothing_else(tmp_path: Path, load: Load) -> None:
    asked = settings(tmp_path)
    assert unfinished(asked) is None
    done = ran(tmp_path)
    assert unfinished(asked) is None
    cut = ran(tmp_path)
    journal = (cut / JOURNAL).read_bytes()
    (cut / JOURNAL).write_bytes(journal[: len(journal) // 2])
    assert unfinished(asked) == cut
    assert unfinished(settings(tmp_path, seeds=(0,))) is None
    runner.resume(cut, asked, [], quiet, lambda _: None)
    assert unfinished(asked) is None
    assert [cell.ids for cell in read_run(cut).cells] == [cell.ids for cell in read_run(done).cells]


def test_two_processes_never_measure_into_one_run(tmp_path: Path, load: Load) -> None:
    folder = ran(tmp_path)
    with locked(folder), pytest.raises(UsageError, match="another process is measuring into it"):
        resumed(folder)

    def meanwhile(done: int, total: int, what: str) -> None:
        if done == 1:
            (other,) = set((tmp_path / "runs").iterdir()) - {folder}
            with pytest.raises(UsageError, match="another process"):
                resumed(other)

    ran(tmp_path, progress=meanwhile, launches=1)


def test_the_lock_of_a_dead_process_blocks_nobody(tmp_path: Path, load: Load) -> None:
    folder = ran(tmp_path)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with locked(folder):
            os.write(writer, b"x")
            signal.pause()
    os.read(reader, 1)
    os.close(reader)
    os.close(writer)
    with pytest.raises(UsageError, match="another process"):
        resumed(folder)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert resumed(folder)[0].footer.complete  # type: ignore[union-attr]


def test_a_disk_that_fills_up_loses_no_line(tmp_path: Path, load: Load) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(done: int, total: int, what: str) -> None:
        if done == 7:
            (folder,) = (tmp_path / "runs").iterdir()
            size = (folder / JOURNAL).stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, limits[1]))

    try:
        with pytest.raises(RunError, match=r"journal\.jsonl: File too large; what was written before stays readable"):
            ran(tmp_path, progress=fill, launches=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    (folder,) = (tmp_path / "runs").iterdir()
    assert len(read_run(folder).cells) == 7
    run, said = resumed(folder)
    assert run.footer.complete  # type: ignore[union-attr]
    assert said[-1] == "launch 1 of 1 was partial: 7 of 18 requests are measured again"


def test_a_folder_that_can_no_longer_be_written_is_one_line(tmp_path: Path, load: Load) -> None:
    def take_away(done: int, total: int, what: str) -> None:
        if done == 7:
            (folder,) = (tmp_path / "runs").iterdir()
            (folder / JOURNAL).rename(tmp_path / JOURNAL)
            (folder / JOURNAL).mkdir()

    with pytest.raises(RunError, match=r"journal\.jsonl: Is a directory"):
        ran(tmp_path, progress=take_away, launches=1)
    assert len(read_run(tmp_path / JOURNAL).cells) == EACH


def test_memory_is_measured_for_the_arms_that_lack_it(
    tmp_path: Path, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def measure(file: Path, arms: Sequence[str]) -> list[Any]:
        asked.extend(arms)
        return [Memory(arm, "process_peak_rss", 1) for arm in arms]

    monkeypatch.setattr(runner, "measure_arms", measure)
    folder = ran(tmp_path, memory=True, launches=1)
    assert asked == ["direct", "draft", "refine"]
    lines = lines_of(folder)
    (folder / JOURNAL).write_bytes(b"".join(lines[:-2]))  # without the last arm and the footer
    run, said = resumed(folder)
    assert asked == ["direct", "draft", "refine", "refine"]
    assert [memory.arm for memory in run.memory] == ["direct", "draft", "refine"]
    assert said == ["launch 1 of 1 is kept"]


def test_a_secret_in_the_settings_is_refused(tmp_path: Path, load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "a-secret-of-mine")
    drafter = rig.DrafterSettings("scripted", params={"key": "a-secret-of-mine"})
    with pytest.raises(UsageError, match=r"setting drafter\.params\.key holds a password or token"):
        ran(tmp_path, drafter=drafter)
    alone = settings(tmp_path, launches=1)
    run = read_run(runner.run(alone, ["--target", "https://me:pass@host/x", "a-secret-of-mine"], quiet))
    assert run.header.argv == ("--target", "https://[hidden]@host/x", "[hidden]")
    assert "secret-of-mine" not in "".join(file.read_text() for file in run.folder.iterdir())
    assert json.loads((run.folder / SETTINGS).read_text())["drafter"]["name"] == "scripted"
