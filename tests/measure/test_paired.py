"""Base and candidate in turn: the order, the environment of each side, and launches that cannot be judged."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from analyse.runs import cell, run

from xpress_bench.analyse.gate import Check, Design, outcome_of
from xpress_bench.errors import RunError, UsageError
from xpress_bench.journals import to_line
from xpress_bench.measure import paired
from xpress_bench.measure.paired import Limits, Side, checkout, launch_pairs, paired_checks, void
from xpress_bench.records import Launch, Run

# Stands for `-m xpress_bench`: writes a journal whose header holds the words and the environment it was given.
PROGRAM = """
import os, pathlib, sys
words, out = sys.argv[1:-2], pathlib.Path(sys.argv[-1])
(out / "r").mkdir()
text = pathlib.Path(os.environ["JOURNAL"]).read_text().replace("WORDS", " ".join(words))
(out / "r" / "journal.jsonl").write_text(text.replace("PATHS", os.environ["PYTHONPATH"]))
"""


def quiet(*_: object) -> None:
    """Progress that nobody watches."""


def journal(one: Run) -> str:
    header = replace(one.header, argv=("WORDS",), profile="PATHS")
    assert one.footer is not None
    return "".join(to_line(record) + "\n" for record in (header, *one.cells, one.footer))


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "template.jsonl"
    file.write_text(journal(run([cell("direct"), cell("draft")])))
    monkeypatch.setenv("JOURNAL", str(file))
    return tmp_path


def side(name: str = "base", tree: Path | None = None, program: str = PROGRAM) -> Side:
    return Side(name, sys.executable, tree, ("-c", program))


def test_a_launch_runs_the_words_with_its_checkout_before_all_else(written: Path) -> None:
    found = side(tree=written / "tree").launch(["--suite", "qa"], written / "out")
    assert found.header.argv == ("--suite qa",)
    assert found.header.profile.split(os.pathsep)[:2] == [str(written / "tree"), str(written / "tree" / "src")]


def test_the_working_folder_does_not_decide_what_is_run(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (written / "decoy.py").write_text("raise SystemExit('the decoy ran')")
    monkeypatch.chdir(written)
    with pytest.raises(RunError, match="No module named decoy"):
        replace(side(), program=("-m", "decoy")).launch([], written / "out")


def test_a_launch_without_a_journal_is_told_in_its_own_last_words(tmp_path: Path) -> None:
    program = "import sys; print('noise', file=sys.stderr); sys.exit('xpress-bench: no suite called q')"
    with pytest.raises(RunError, match=r"the candidate did not run \(status 1\): xpress-bench: no suite called q"):
        side("candidate", program=program).launch([], tmp_path / "out")


class Noted:
    """Sides whose launches are written down instead of made."""

    def __init__(self, runs: dict[str, list[Run]]) -> None:
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        self.runs = runs

    def launch(self, side: Side, words: list[str], out: Path) -> Run:
        out.mkdir(parents=True)
        self.calls.append((side.name, tuple(words)))
        queue = self.runs[side.name]
        return queue.pop(0) if len(queue) > 1 else queue[0]


def noted(monkeypatch: pytest.MonkeyPatch, base: list[Run], candidate: list[Run]) -> Noted:
    book = Noted({"base": base, "candidate": candidate})
    monkeypatch.setattr(Side, "launch", lambda self, words, out: book.launch(self, words, out))
    return book


def timed(direct_s: float, draft_s: float, **changes: Any) -> Run:
    made = run([cell(arm, f"p{i}", s) for i in range(4) for arm, s in (("direct", direct_s), ("draft", draft_s))])
    return replace(made, **changes)


def test_each_side_goes_first_equally_often_in_a_drawn_order(monkeypatch: pytest.MonkeyPatch) -> None:
    book = noted(monkeypatch, [timed(1, 1)], [timed(1, 1)])
    sides = side("base"), side("candidate")
    pairs = list(launch_pairs(*sides, ["w"], 10, seed=0, progress=quiet, memory=True))
    firsts = [name for name, _ in book.calls[::2]]
    assert len(pairs) == 10
    assert (firsts.count("base"), firsts.count("candidate")) == (5, 5)
    assert firsts != sorted(firsts)
    assert [("memory=true" in words) for _, words in book.calls] == [True] * 2 + [False] * 18
    assert all("launches=1" in words for _, words in book.calls)


def test_a_void_pair_is_made_once_more_and_then_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    good, cut = timed(1, 1), timed(1, 1, footer=None)
    sides = side("base"), side("candidate")
    book = noted(monkeypatch, [cut, good], [good])
    assert len(list(launch_pairs(*sides, [], 2, seed=0, progress=quiet, memory=False))) == 2
    assert len(book.calls) == 6
    noted(monkeypatch, [cut], [good])
    with pytest.raises(RunError, match=r"void twice.*base: its journal is not complete"):
        list(launch_pairs(*sides, [], 2, seed=0, progress=quiet, memory=False))


@pytest.mark.parametrize(
    ("reasons", "said"), [(["hw_thermal_slowdown"], "throttled"), (["gpu_idle"], None), (None, None)]
)
def test_a_throttled_gpu_voids_a_launch(reasons: list[str] | None, said: str | None) -> None:
    marks = (Launch(0, "started", "t", 0, {"before": {"gpu_throttle_reasons": reasons}}), Launch(0, "ended", "t", 0))
    found = void(timed(1, 1, launches=marks))
    assert (found is None) if said is None else said in (found or "")


def test_a_busy_machine_voids_a_pair_as_it_voids_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """8 of 20 CPU seconds went to others."""
    names = ("cpu_busy_s", "cpu_idle_s", "cpu_stolen_s", "own_cpu_s")
    before, after = dict.fromkeys(names, 0.0), dict(zip(names, (20.0, 0.0, 0.0, 12.0), strict=True))
    marks = (Launch(0, "started", "t", 0, {"before": before}), Launch(0, "ended", "t", 0, {"after": after}))
    good, busy = timed(1, 1), timed(1, 1, launches=marks)
    noted(monkeypatch, [busy, good], [good])
    sides = side("base"), side("candidate")
    assert len(list(launch_pairs(*sides, [], 1, seed=0, progress=quiet, memory=False))) == 1
    noted(monkeypatch, [good], [busy])
    with pytest.raises(RunError, match=r"void twice.*candidate: other processes took 40% of the CPU time"):
        list(launch_pairs(*sides, [], 1, seed=0, progress=quiet, memory=False))


def judged(monkeypatch: pytest.MonkeyPatch, base: list[Run], candidate: list[Run], pairs: int = 4) -> dict[str, Check]:
    noted(monkeypatch, base, candidate)
    monkeypatch.setattr(paired, "progress_for", lambda title: __import__("contextlib").nullcontext(quiet))
    checks = paired_checks(side("base"), side("candidate"), [], Design(pairs=pairs), limits=None)
    return {check.name: check for check in checks}


def test_a_slower_arm_is_confirmed_on_fresh_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    found = judged(monkeypatch, [timed(1, 1)], [timed(1, 1.1)])
    slower = found["latency of draft over direct, greedy"]
    assert slower.outcome == "regression"
    assert len(slower.details) == 2
    assert found["latency of direct, greedy"].outcome == "pass"


def test_an_alarm_that_fresh_pairs_do_not_show_is_no_regression(monkeypatch: pytest.MonkeyPatch) -> None:
    found = judged(monkeypatch, [timed(1, 1)], [timed(1, 1.1)] * 4 + [timed(1, 1)])
    assert found["latency of draft over direct, greedy"].outcome == "pass"


def test_a_candidate_that_does_not_run_is_a_regression_a_base_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: Path
) -> None:
    dead = "raise SystemExit('gone')"
    for broken, outcome in (("candidate", "regression"), ("base", "broken")):
        sides = [side(name, program=dead if name == broken else PROGRAM) for name in ("base", "candidate")]
        checks = list(paired_checks(*sides, [], Design(pairs=2), Limits(0.01, 0.05)))
        assert outcome_of(checks) == outcome
        assert f"the {broken} did not run" in checks[-1].details[0]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    for text in ("old", "new"):
        (folder / "file.txt").write_text(text)
        git(folder, "add", ".")
        git(folder, "-c", "user.name=x", "-c", "user.email=x@y", "commit", "--quiet", "-m", text)
    return folder


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, encoding="utf-8")
    return done.stdout.strip()


def test_a_base_is_a_checkout_of_the_revision_and_leaves_nothing(repository: Path) -> None:
    with checkout("HEAD~1", repository) as (tree, commit):
        assert (tree / "file.txt").read_text() == "old"
        assert commit == git(repository, "rev-parse", "HEAD~1")
    assert not tree.exists()
    assert git(repository, "worktree", "list").count("\n") == 0


def test_an_unknown_revision_and_no_repository_are_told_in_one_line(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--against 'nonsense'"), checkout("nonsense", repository):
        pass
    with pytest.raises(UsageError, match="a base comes from a git checkout"), checkout("HEAD", tmp_path / "x"):
        pass
