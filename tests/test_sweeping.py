"""`xpress-bench sweep` as a person types it; jobs run in this process, or through every launcher where that is slow."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from xpress_bench import sweeping
from xpress_bench.analyse.counted import key_of
from xpress_bench.analyse.sweep import read_sweep
from xpress_bench.analyse.sweep_plan import ENDED, PLAN
from xpress_bench.errors import RunError, UsageError, XpressError
from xpress_bench.journals import read_run
from xpress_bench.measure import job, jobs, journal
from xpress_bench.measure.job import Order
from xpress_bench.reading import report
from xpress_bench.records import JOURNAL
from xpress_bench.sweeping import sweep

TOY = (
    "--suite short --target toy --drafter toy --device cpu limit=2 max_new_tokens=8 dtype=float64 memory=false".split()
)
FACTORS = ("block_size=2,4", "candidates.count=1,2")
Ran = list[str]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Names of the jobs that were run, in this process and one after the other."""
    names: Ran = []

    def carry_out(orders: Sequence[Order], command: Sequence[str], folder: Path, say: Callable[[str], None]) -> None:
        for order in orders:
            order.write()
            names.append(order.name)
            try:
                job._carry_out(order)
                reason = ""
            except XpressError as error:
                reason = str(error)
            order.file.with_suffix(f".{ENDED}").write_text(reason)

    monkeypatch.setattr(jobs, "carry_out", carry_out)
    return names


def only(out: Path) -> Path:
    (folder,) = out.glob("*-sweep-*")
    return folder


def test_factors_one_after_the_other_each_job_a_run_of_its_own(
    ran: Ran, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep([*TOY, *FACTORS, "--out", str(tmp_path)]) == 0
    names = ["1-1-block_size-2", "1-2-block_size-4", "2-1-count-1", "2-2-count-2"]
    again = [f"{name}-round-2" for name in names]
    assert ran == ["0-base", *names[:2], *again[1::-1], *names[2:], *again[:1:-1]]
    folder = only(tmp_path)
    runs = {name: read_run(folder / name) for name in names + again}
    assert {len(run.cells) for run in runs.values()} == {2 * 2 * 3}  # prompts, arms, seeds: all are timed
    assert all(cell.latency_s for run in runs.values() for cell in run.cells)
    assert [run.header.settings["block_size"] for run in runs.values()][:2] == [2, 4]
    assert runs["2-2-count-2"].header.settings["candidates"]["count"] == 2
    assert runs["1-1-block_size-2"].header.argv[-2:] == ("block_size=2", "candidates.count=1")
    said = capsys.readouterr()
    assert "candidates.count, 2 of 2" in said.err
    assert report([str(folder)]) == 0  # again, from the journals alone
    assert said.out.endswith(capsys.readouterr().out)


def test_only_counts_are_taken_over_from_the_factor_before(ran: Ran, tmp_path: Path) -> None:
    assert sweep([*TOY, *FACTORS, "--counts", "--out", str(tmp_path)]) == 0
    assert ran == ["0-base", "1-1-block_size-2", "1-2-block_size-4", "2-2-count-2"]
    taken, first = (read_run(only(tmp_path) / name) for name in ("2-1-count-1", "1-2-block_size-4"))
    assert taken.cells == first.cells
    assert not any(cell.latency_s for cell in taken.cells)


def test_the_same_command_goes_on_with_what_is_left(ran: Ran, tmp_path: Path) -> None:
    words = [*TOY, "--rounds", "1", "block_size=2,4", "--out", str(tmp_path)]
    assert sweep(words) == 0
    folder = only(tmp_path)
    kept = (folder / "1-1-block_size-2" / JOURNAL).read_bytes()
    (folder / "jobs" / f"1-2-block_size-4.{ENDED}").unlink()  # as if it had been killed in the middle of it
    ran.clear()
    assert sweep(words) == 0
    assert only(tmp_path) == folder
    assert ran == ["1-2-block_size-4"]
    assert (folder / "1-1-block_size-2" / JOURNAL).read_bytes() == kept
    ran.clear()
    assert sweep(words) == 0  # nothing was left: times are measured anew
    assert len(ran) == 3
    assert len(list(tmp_path.glob("*-sweep-*"))) == 2


def test_two_sweeps_of_one_second_do_not_meet(ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "stamped", lambda what, sha256: f"2026-12-01T00-00-00Z-{what}")
    words = [*TOY, "--rounds", "1", "--counts", "block_size=2", "--out", str(tmp_path)]
    assert sweep(words) == 0
    assert sweep(words) == 0
    assert [folder.name[21:] for folder in sorted(tmp_path.iterdir())] == ["sweep-short", "sweep-short-2"]
    assert ran == ["0-base", "1-1-block_size-2"] * 2


def test_c37_the_others_go_on_when_a_job_fails(ran: Ran, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*TOY, "--rounds", "1", "drafter.name=toy,nowhere,prompt_lookup", "--out", str(tmp_path)]
    assert sweep(words) == 1
    assert ran[1:] == ["1-1-name-toy", "1-2-name-nowhere", "1-3-name-prompt_lookup"]
    said = capsys.readouterr().out
    assert "left out" in said
    assert "'nowhere'" in said
    assert len(read_sweep(only(tmp_path)).factors[0].measured) == 2
    ran.clear()
    assert sweep(words) == 1
    assert ran == ["1-2-name-nowhere"]  # and nothing else is tried again


def test_a_setting_that_does_not_load_is_told_and_leaves_nothing(ran: Ran, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        sweep(
            ["--suite", "short", "--target", "toy", "--drafter", "nowhere", "--device", "cpu", "--out", str(tmp_path)]
        )
    assert list(tmp_path.iterdir()) == []


def test_a_launcher_that_runs_nothing_is_told_with_what_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def carry_out(orders: Sequence[Order], command: Sequence[str], folder: Path, say: Callable[[str], None]) -> None:
        assert "hydra.launcher.nobs=2" in command
        (folder / jobs.LOG).write_text("Could not override 'hydra.launcher.nobs'.\nmore\n")

    monkeypatch.setattr(jobs, "carry_out", carry_out)
    with pytest.raises(RunError, match=r"ran nothing: Could not override 'hydra\.launcher\.nobs'\.; see "):
        sweep([*TOY, "block_size=2,4", "--launcher", "joblib", "hydra.launcher.nobs=2", "--out", str(tmp_path)])


def test_nothing_to_vary_is_told_and_leaves_nothing(ran: Ran, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no refiner"):
        sweep([*TOY, "refiner.passes=0,1", "--out", str(tmp_path)])
    assert list(tmp_path.iterdir()) == []


def test_a_grid_is_one_batch_of_all_combinations(ran: Ran, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sweep([*TOY, "block_size=2,4", "candidates.count=1,2", "--grid", "--counts", "--out", str(tmp_path)]) == 0
    assert len(ran) == 5
    assert "block_size, candidates.count, 1 of 1" in capsys.readouterr().err


def test_a_launcher_that_stops_stops_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: Ran, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = jobs.carry_out

    def half(orders: Sequence[Order], *rest: Any) -> None:
        inner(orders[:1], *rest)

    monkeypatch.setattr(jobs, "carry_out", half)
    assert sweep([*TOY, "--rounds", "1", *FACTORS, "--out", str(tmp_path)]) == 1
    assert ran == ["0-base", "1-1-block_size-2"]
    assert "Not finished: 1 of 2 jobs left" in capsys.readouterr().out
    monkeypatch.setattr(jobs, "carry_out", inner)
    assert sweep([*TOY, "--rounds", "1", *FACTORS, "--out", str(tmp_path)]) == 0
    assert len(list(tmp_path.glob("*-sweep-*"))) == 1


@pytest.mark.slow
def test_every_launcher_gives_the_same_counts(tmp_path: Path) -> None:
    found = {}
    for launcher in ("basic", "joblib", "submitit_local", "ray"):
        words = [*TOY, "block_size=2,4", "--counts", "--launcher", launcher]
        assert sweep([*words, "--out", str(tmp_path / launcher)]) == 0
        folder = only(tmp_path / launcher)
        assert not (folder / ".hydra").exists()
        found[launcher] = [
            {key_of(cell): (cell.ids, cell.steps) for cell in read_run(folder / name).cells}
            for name in ("1-1-block_size-2", "1-2-block_size-4")
        ]
        assert all(found[launcher])
    assert all(counts == found["basic"] for counts in found.values())


@pytest.mark.slow
def test_c37_a_job_whose_process_is_killed_is_named_and_the_next_one_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that every Python of the test starts with kills the process of one job."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        f"if sys.orig_argv[-1].endswith('/1-2-block_size-3.json'): os.kill(os.getpid(), {int(signal.SIGKILL)})\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(Path(sweeping.__file__).parents[1])]))
    assert sweep([*TOY, "block_size=2,3,4", "--counts", "--out", str(tmp_path / "out")]) == 1
    found = read_sweep(only(tmp_path / "out"))
    assert [(one.name, reason) for one, reason in found.faults] == [("1-2-block_size-3", "it was ended by signal 9")]
    assert len(found.factors[0].measured) == 2
    assert (found.folder / PLAN).exists()
