"""A launch that something disturbed: made once more or told, and what of it counts."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import rig

from xpress_bench.analyse.summary import summarise
from xpress_bench.errors import UsageError
from xpress_bench.journals import from_line, read_run
from xpress_bench.measure import launch as child
from xpress_bench.measure import ready, runner
from xpress_bench.measure.interrupts import Interrupted, Interrupts
from xpress_bench.measure.journal import SETTINGS
from xpress_bench.records import JOURNAL, Cell, Launch
from xpress_bench.settings import Settings

EACH = 2 * 3  # cells of a launch: prompts, arms
Disturb = Callable[..., None]


def quiet(*_: object) -> None:
    """Progress that nobody watches."""


@pytest.fixture
def disturb(monkeypatch: pytest.MonkeyPatch) -> Disturb:
    """Make each attempt at a launch be disturbed by the next of these; launches run in this process."""
    monkeypatch.setattr(ready, "assemble", lambda settings, only=None: rig.parts())

    def in_process(words: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
        folder, index, number = Path(words[3]), int(words[4]), int(words[5])
        settings = Settings.from_json((folder / SETTINGS).read_text())
        counts = runner.launch(runner.Sitting(settings, folder, [], quiet, Interrupts(), number), index)
        return subprocess.CompletedProcess(words, 0 if counts else runner.VOID, "")

    monkeypatch.setattr(runner, "subprocess", SimpleNamespace(run=in_process, PIPE=subprocess.PIPE))

    def use(*reasons: str | None) -> None:
        queue = list(reasons)
        monkeypatch.setattr(runner, "disturbance", lambda before, after: queue.pop(0))

    return use


def ran(folder: Path, **changes: Any) -> Path:
    suite = rig.suite(folder, "ab", "abcd")
    plain = {"suite": str(suite), "out": str(folder / "runs"), "launches": 2, "admission": "void"}
    return runner.run(rig.settings(**plain | changes), [], quiet)


def marks(folder: Path) -> list[tuple[int, str, str | None]]:
    """All that the file holds, in its order."""
    lines = map(from_line, (folder / JOURNAL).read_text().splitlines())
    return [(one.launch, one.event, one.reason) for one in lines if isinstance(one, Launch)]


def test_a_void_launch_is_made_once_more_and_stays_in_the_journal(tmp_path: Path, disturb: Disturb) -> None:
    disturb(None, "a busy CPU", None)
    folder = ran(tmp_path)
    assert marks(folder) == [
        (0, "started", None),
        (0, "ended", None),
        (1, "started", None),
        (1, "void", "a busy CPU"),
        (1, "started", "a busy CPU"),
        (1, "ended", None),
    ]
    run = read_run(folder)
    assert len(run.cells) == 2 * EACH
    assert sum('"kind":"cell"' in line for line in (folder / JOURNAL).read_text().splitlines()) == 3 * EACH
    assert run.footer is not None
    assert (run.footer.cells, run.footer.complete) == (2 * EACH, True)
    told = "launch 2 was measured twice, since the first attempt was void: a busy CPU"
    assert summarise(run).notes == (told,)


def test_a_second_attempt_counts_with_its_reason(tmp_path: Path, disturb: Disturb) -> None:
    disturb("a busy CPU", "a hot GPU", None)
    folder = ran(tmp_path)
    run = read_run(folder)
    assert [event for _, event, _ in marks(folder)] == ["started", "void", "started", "ended", "started", "ended"]
    assert run.footer is not None
    assert run.footer.complete
    assert summarise(run).notes == (
        "launch 1 was measured twice, since the first attempt was void: a busy CPU",
        "launch 1 was disturbed: a hot GPU",
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"admission": "warn"}, "a busy CPU"),
        ({"admission": "off"}, None),
        ({"launches": 1}, "a busy CPU"),  # in this very process
    ],
)
def test_what_is_not_made_again(tmp_path: Path, disturb: Disturb, changes: dict[str, Any], reason: str | None) -> None:
    disturb("a busy CPU", "a busy CPU")
    folder = ran(tmp_path, **changes)
    assert marks(folder)[:2] == [(0, "started", None), (0, "ended", reason)]
    assert len(marks(folder)) == 2 * changes.get("launches", 2)
    states = [mark.machine for mark in read_run(folder).launches]
    assert all(state["before"]["clock_s"] > 0 for state in states[::2])
    assert all(set(state) == {"after"} and state["after"]["own_cpu_s"] > 0 for state in states[1::2])


def test_a_void_launch_that_was_not_made_again_counts_for_nothing(
    tmp_path: Path, disturb: Disturb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C right after it; resuming makes the second attempt, which is the last."""
    disturb(None, "a busy CPU")
    in_process = runner.subprocess.run

    def interrupted(words: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        done = in_process(words, **options)
        if done.returncode == runner.VOID:
            raise Interrupted
        return done

    monkeypatch.setattr(runner.subprocess, "run", interrupted)
    with pytest.raises(Interrupted):
        ran(tmp_path)
    (folder,) = (tmp_path / "runs").iterdir()
    run = read_run(folder)
    assert {cell.launch for cell in run.cells} == {0}
    assert not summarise(run).complete
    assert summarise(run).notes == ("launch 2 was void: a busy CPU",)
    disturb("again a busy CPU")
    monkeypatch.setattr(runner.subprocess, "run", in_process)
    runner.resume(folder, None, [], quiet, quiet)
    assert marks(folder)[-2:] == [(1, "started", "a busy CPU"), (1, "ended", "again a busy CPU")]
    assert len([cell for cell in read_run(folder).cells if isinstance(cell, Cell)]) == 2 * EACH


@pytest.mark.parametrize(("counts", "status"), [(True, 0), (False, runner.VOID)])
def test_the_process_of_a_launch_says_by_its_status_that_it_is_void(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counts: bool, status: int
) -> None:
    (tmp_path / SETTINGS).write_text(rig.settings().to_json())
    monkeypatch.setattr("sys.argv", ["launch", str(tmp_path), "0", "0"])
    monkeypatch.setattr(child, "launch", lambda sitting, index: counts)
    assert child.main() == status


def test_another_word_for_admission_is_refused() -> None:
    with pytest.raises(UsageError, match="admission 'maybe': choose one of warn, void, off"):
        rig.settings(admission="maybe")
