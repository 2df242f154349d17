"""Jobs of a sweep: orders, how each ends, and counts that are taken from earlier work."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import rig

from xpress_bench.analyse.sweep_plan import ended
from xpress_bench.errors import MisfitError
from xpress_bench.journals import read_run
from xpress_bench.measure import job, jobs, ready
from xpress_bench.measure.job import Order
from xpress_bench.measure.journal import header_of

QUIET: Callable[[str], None] = lambda text: None  # noqa: E731


@pytest.fixture
def order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Order:
    """A job on two prompts whose parts need no weights."""
    monkeypatch.setattr(ready, "assemble", lambda settings, only=None: rig.parts())
    monkeypatch.setattr(job, "stop_with_parent", lambda stop: None)
    folder = tmp_path / "sweep"
    folder.mkdir()
    settings = rig.settings(suite=str(rig.suite(tmp_path, "ab", "abcd")), out=str(folder))
    return Order("1-1-size-4", settings, ("--suite", "own", "a b=1"), counts=True, cwd=str(tmp_path))


def carried_out(order: Order, monkeypatch: pytest.MonkeyPatch) -> int:
    order.write()
    monkeypatch.setattr(sys, "argv", ["job", str(order.file)])
    return job.main()


def child(monkeypatch: pytest.MonkeyPatch, status: int, said: str) -> None:
    """In place of the child process: one that says something and ends."""

    def run(words: list[str], stdout: Any, **options: Any) -> subprocess.CompletedProcess[str]:
        stdout.write(said)
        stdout.flush()
        return subprocess.CompletedProcess(words, status)

    monkeypatch.setattr(job.subprocess, "run", run)


def test_an_order_is_read_as_it_was_written(order: Order) -> None:
    order.write()
    assert Order.read(order.file) == order
    assert Order.read(order.file).settings.sha256() == order.settings.sha256()


def test_a_counted_job_writes_a_whole_journal_without_times(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    assert carried_out(order, monkeypatch) == 0
    run = read_run(Path(order.settings.out) / order.name)
    assert run.header.argv == order.words
    assert run.footer
    assert run.footer.complete
    assert [cell.latency_s for cell in run.cells] == [None] * 6  # 2 prompts, 3 arms
    assert not any(cell.steps.draft_s for cell in run.cells)


def test_a_timed_job_is_an_ordinary_run_that_is_gone_on_with(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    timed = replace(order, counts=False)
    assert carried_out(timed, monkeypatch) == 0
    run = read_run(Path(order.settings.out) / order.name)
    assert all(cell.latency_s for cell in run.cells)
    assert carried_out(timed, monkeypatch) == 0  # again: nothing is left, and nothing is added
    assert len(read_run(run.folder).launches) == len(run.launches)


@pytest.mark.parametrize(
    ("error", "status", "last"),
    [
        (MisfitError("no such block"), 2, "no such block"),
        (RuntimeError("CUDA out of memory"), 1, "oom: RuntimeError: CUDA out of memory"),
    ],
)
def test_the_last_line_of_a_failed_job_is_its_reason(
    order: Order,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    error: Exception,
    status: int,
    last: str,
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(job, "_carry_out", fail)
    assert carried_out(order, monkeypatch) == status
    assert capfd.readouterr().out.splitlines()[-1] == last


@pytest.mark.parametrize(
    ("status", "said", "told"),
    [
        (0, "a line\n", ""),
        (2, "loading\nno such drafter\n", "no such drafter"),
        (-9, "half a li", "it was ended by signal 9"),
        (3, "", "it ended with status 3"),
    ],
)
def test_c37_how_a_job_ended_is_written_down_and_raises_nothing(
    order: Order, monkeypatch: pytest.MonkeyPatch, status: int, said: str, told: str
) -> None:
    child(monkeypatch, status, said)
    order.write()
    assert ended(Path(order.settings.out), order.name) is None
    job.start({"folder": order.settings.out, "job": order.name})
    assert ended(Path(order.settings.out), order.name) == told
    order.write()  # given anew, it has not ended
    assert ended(Path(order.settings.out), order.name) is None


def test_timed_jobs_wait_for_each_other_and_counted_ones_do_not(
    order: Order, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(job.tempfile, "gettempdir", lambda: str(tmp_path))
    timed, entered = replace(order, counts=False), threading.Event()

    def second() -> None:
        with job.alone(timed):
            entered.set()

    with job.alone(timed):
        waiting = threading.Thread(target=second)
        waiting.start()
        assert not entered.wait(0.1)
        with job.alone(order):  # counts only: enters at once
            pass
    assert entered.wait(10)
    waiting.join()


def test_a_process_learns_that_its_parent_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    parents = iter([7, 7])
    gone = threading.Event()
    monkeypatch.setattr(job, "LOOK_EVERY_S", 0.001)
    monkeypatch.setattr(job.os, "getppid", lambda: next(parents, 1))
    job.stop_with_parent(gone.set)
    assert gone.wait(10)


def test_counts_of_the_same_settings_are_taken_within_a_sweep(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    carried_out(order, monkeypatch)
    folder = Path(order.settings.out)
    base = header_of(folder / order.name)
    assert base
    again = replace(order, name="2-1-passes-0")
    assert jobs.take(again, base, folder.parent) == folder / order.name
    assert ended(folder, "2-1-passes-0") == ""
    assert read_run(folder / "2-1-passes-0").cells == read_run(folder / order.name).cells
    other = replace(order, name="2-2-passes-1", settings=replace(order.settings, block_size=4))
    assert jobs.take(other, base, folder.parent) is None


@pytest.mark.parametrize(
    ("git", "version", "taken"),
    [
        ({"commit": "c" * 40, "dirty": False, "reason": None}, "1", True),
        ({"commit": "c" * 40, "dirty": True, "reason": None}, "1", False),  # which changes, nobody knows
        ({"commit": "c" * 40, "dirty": False, "reason": None}, "2", False),
    ],
)
def test_counts_of_another_sweep_are_taken_only_from_the_same_code(
    order: Order, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, git: dict[str, Any], version: str, taken: bool
) -> None:
    monkeypatch.setattr("xpress_bench.measure.machine.git_state", lambda: git)
    carried_out(order, monkeypatch)
    base = header_of(Path(order.settings.out) / order.name)
    assert base
    now = replace(base, versions=base.versions | {"xpress-bench": version})
    if version == "1":
        now = base
    later = tmp_path / "later"
    later.mkdir()
    again = replace(order, settings=replace(order.settings, out=str(later)), name="1-9-size-4")
    assert (jobs.take(again, now, tmp_path) is not None) is taken


def test_a_job_that_the_launcher_did_not_run_is_told(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    folder = Path(order.settings.out)
    jobs.carry_out(
        [order], [sys.executable, "-c", "import sys; print('no partition'); sys.exit(3)"], folder, said.append
    )
    assert said == [f"1-1-size-4: not ended, the launcher did with status 3; see {folder / jobs.LOG}"]
    assert (folder / jobs.LOG).read_text() == "no partition\n"
    assert ended(folder, order.name) is None


def test_an_interrupted_sweep_leaves_no_process_behind(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def note(*words: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(popen(*words, **options))
        return started[0]

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(jobs.subprocess, "Popen", note)
    monkeypatch.setattr(jobs.time, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        jobs.carry_out([order], [sys.executable, "-c", "import time; time.sleep(600)"], Path(order.settings.out), QUIET)
    with pytest.raises(ProcessLookupError):
        os.kill(started[0].pid, 0)
