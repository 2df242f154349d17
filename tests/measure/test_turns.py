"""Conversations: later turns see what direct generation answered, in every arm; statistics see one item."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import rig

from xpress_bench.analyse.summary import summarise
from xpress_bench.journals import read_run
from xpress_bench.measure import ready, runner
from xpress_bench.measure.interrupts import Interrupts
from xpress_bench.measure.journal import SETTINGS
from xpress_bench.records import Run
from xpress_bench.settings import Settings

BUDGET = 2
TALK = {"id": "talk", "prompt": "a", "turns": ["a", "b", "c"], "references": ["98 99"], "answer_type": "exact"}
ALONE = {"id": "alone", "prompt": "d"}
# Letters has no template, so what was said is joined by blank lines; Counting answers the last id with the next two.
SECOND = "a\n\n98 99\n\nb"
THIRD = f"{SECOND}\n\n99 100\n\nc"


def ran(folder: Path, monkeypatch: pytest.MonkeyPatch, target: Any = None, **changes: Any) -> Run:
    made = rig.parts(target)
    monkeypatch.setattr(ready, "assemble", lambda settings, only=None: made)
    suite = folder / "own.jsonl"
    suite.write_text("".join(json.dumps(item) + "\n" for item in (TALK, ALONE)))
    plain = {"suite": str(suite), "out": str(folder / "runs"), "max_new_tokens": BUDGET, "seeds": (0, 1)}
    return read_run(runner.run(rig.settings(**plain | changes), [], lambda done, total, what: None))


def lengths(run: Run, turn: int) -> set[int]:
    return {cell.prompt_tokens for cell in run.cells if (cell.prompt, cell.turn) == ("talk", turn)}


def test_a_conversation_is_run_turn_by_turn_with_the_same_history_in_every_arm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ran(tmp_path, monkeypatch)
    requests = Counter((cell.prompt, cell.turn, cell.arm) for cell in run.cells)
    arms = ("direct", "draft", "refine")
    expected = {("talk", turn, arm) for turn in (1, 2, 3) for arm in arms} | {("alone", 1, arm) for arm in arms}
    assert requests == dict.fromkeys(expected, 2)
    assert (lengths(run, 1), lengths(run, 2), lengths(run, 3)) == ({1}, {len(SECOND)}, {len(THIRD)})
    assert len({cell.prompt_sha256 for cell in run.cells if cell.turn == 3}) == 1
    assert {cell.ids for cell in run.cells if cell.turn == 3} == {(100, 101)}  # after "c", 99
    assert json.loads((run.folder / "turns.json").read_text()) == {"talk": ["98 99", "99 100"]}
    assert (run.header.prompts, run.header.turns) == (("talk", "alone"), {"talk": 3})


def test_the_item_is_the_unit_and_only_first_turns_are_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ran(tmp_path, monkeypatch)
    item = rig.Item("talk", "a", references=("98 99",), answer_type="exact")
    (of,) = summarise(run, (item,)).conditions
    assert (of.expected, of.usable) == (24, 24)  # 4 turns in all, 3 arms, 2 seeds
    for one in of.arms:
        assert one.latency_s.n == 2
        assert one.score.estimate == 1.0
    assert all(one.prompts == 2 for one in of.speed_ups)


def test_the_number_of_turns_can_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ran(tmp_path, monkeypatch, turns=1)
    assert {cell.turn for cell in run.cells} == {1}
    assert not (run.folder / "turns.json").exists()
    assert run.header.turns == {}


def test_c41_a_turn_that_does_not_fit_ends_its_conversation_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ran(tmp_path, monkeypatch, rig.Counting(context=len(SECOND) + BUDGET))
    assert {cell.turn for cell in run.cells if cell.prompt == "talk"} == {1, 2}
    assert [(one.prompt, one.tokens) for one in run.header.skipped] == [("talk, turn 3", len(THIRD) + BUDGET)]
    (of,) = summarise(run).conditions
    assert of.expected == of.usable == 18


def test_later_launches_go_on_with_the_answers_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ran(tmp_path, monkeypatch)
    (run.folder / "turns.json").write_text(json.dumps({"talk": ["x", "yz"]}))
    settings = Settings.from_json((run.folder / SETTINGS).read_text())
    runner.launch(runner.Sitting(settings, run.folder, [], lambda done, total, what: None, Interrupts(), 0), 1)
    again = read_run(run.folder)
    assert {cell.prompt_tokens for cell in again.cells if cell.launch == 1 and cell.turn == 2} == {len("a\n\nx\n\nb")}
