"""Runs of batches: which prompts share one, the order of the work, times, failures, and what is left out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rig
from torch import Tensor

from xpress_bench.config import settings_from
from xpress_bench.drafters import Context, Draft
from xpress_bench.drafters.toy import ScriptedDrafter
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.journals import from_line, read_run, to_line
from xpress_bench.measure import check, ready, runner
from xpress_bench.measure.footprint import footprint
from xpress_bench.measure.prompts import batched, whole_batches
from xpress_bench.measure.ready import make_ready
from xpress_bench.measure.schedule import Slot, schedule, schedule_batches
from xpress_bench.parts import Parts
from xpress_bench.records import JOURNAL, Run, Skipped
from xpress_bench.sampling import Sampling
from xpress_bench.settings import CandidateSettings, Settings

PROMPTS = ("ab", "abcdef", "abcd", "abc", "b")
ARMS = ["direct", "draft", "refine"]


class Fixing(rig.Fixing):
    batchable = True


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Parts]:
    """Make every run load parts like these."""

    def use(**changes: Any) -> Parts:
        made = rig.parts(**{"refiner": Fixing()} | changes)
        monkeypatch.setattr(ready, "assemble", lambda settings, only=None: made)
        return made

    return use


def settings(folder: Path, *prompts: str, **changes: Any) -> Settings:
    suite = rig.suite(folder, *(prompts or PROMPTS))
    return rig.settings(**{"suite": str(suite), "out": str(folder / "runs"), "batch_size": 2} | changes)


def ran(folder: Path, *prompts: str, **changes: Any) -> Run:
    return read_run(runner.run(settings(folder, *prompts, **changes), [], lambda *_: None))


def counts(run: Run) -> dict[tuple[str, str, int], tuple[Any, ...]]:
    """What every request did, by prompt, arm and seed."""
    return {
        (one.prompt, one.arm, one.seed): (one.ids, one.text, one.stop_reason, one.steps.accepted, one.steps.drafts)
        for one in run.cells
    }


def test_batches_are_drawn_by_seed_and_hold_every_prompt_once() -> None:
    prompts = [rig.prompt(f"p{at}") for at in range(12)]
    drawn = batched(prompts, 4)
    assert [len(batch) for batch in drawn] == [4, 4, 4]
    assert sorted(one.item.id for batch in drawn for one in batch) == sorted(one.item.id for one in prompts)
    assert drawn == batched(prompts, 4) != [prompts[at : at + 4] for at in (0, 4, 8)]
    assert [[*one, *two] for one, two in zip(*[iter(batched(prompts, 2))] * 2, strict=True)] == drawn  # they nest
    assert batched(prompts, 1) == [[one] for one in prompts]


def test_prompts_that_fill_no_batch_are_left_out_evenly() -> None:
    kept, left = whole_batches([rig.prompt(f"p{at}") for at in range(7)], 3)
    assert [one.item.id for one in kept] == ["p0", "p1", "p2", "p3", "p4", "p5"]
    assert left == [Skipped("p6", "fills no batch of 3")]
    with pytest.raises(UsageError, match=r"batch_size 8: 7 prompts of the suite would be run and fill no batch"):
        whole_batches([rig.prompt(f"p{at}") for at in range(7)], 8)


def test_an_arm_runs_a_whole_batch_and_then_the_next_arm_runs_it() -> None:
    batches = [[("a", 1), ("b", 1)], [("c", 1), ("d", 1)], [("e", 1), ("f", 1)]]
    made = list(schedule_batches(ARMS, [rig.GREEDY], batches, [0, 1], 2, 0))
    assert len(made) == 3 * 3 * 2 * 2
    for slots in made:
        assert [slot.key for slot in slots] == batches[slots[0].batch or 0]
        assert len({(slot.arm, slot.seed, slot.repeat, slot.order, slot.batch) for slot in slots}) == 1
    for start in range(0, len(made), 3):
        three = [slots[0] for slots in made[start : start + 3]]
        assert {slot.arm for slot in three} == set(ARMS)
        assert len({(slot.batch, slot.seed, slot.repeat) for slot in three}) == 1
    assert Counter((slots[0].arm, slots[0].order) for slots in made) == {
        (arm, at): 4 for arm in ARMS for at in range(3)
    }


def test_single_requests_are_scheduled_as_batches_of_one() -> None:
    alone = schedule(ARMS, [rig.GREEDY], [("a", 1), ("b", 2)], [0], 2, 3)
    ones = schedule_batches(ARMS, [rig.GREEDY], [[("a", 1)], [("b", 2)]], [0], 2, 3)
    assert list(alone) == [slot for (slot,) in ones]
    assert all(slot.batch is None for slot in schedule(ARMS, [rig.GREEDY], [("a", 1)], [0], 1, 0))


def test_a_run_of_batches_says_what_single_requests_say(tmp_path: Path, load: Callable[..., Parts]) -> None:
    load()
    run, single = ran(tmp_path, seeds=(0, 1)), ran(tmp_path, seeds=(0, 1), batch_size=1)
    assert run.footer is not None
    assert (run.footer.cells, run.footer.errors, run.footer.complete) == (4 * 3 * 2, 0, True)
    assert run.header.skipped == (Skipped("b", "fills no batch of 2"),)
    assert sorted(prompt for batch in run.header.batches for prompt in batch) == sorted(PROMPTS[:4])
    assert [len(batch) for batch in run.header.batches] == [2, 2]
    assert all(one.prompt in run.header.batches[one.batch] for one in run.cells if one.batch is not None)
    assert Counter(one.batch for one in run.cells) == {0: 12, 1: 12}
    assert counts(run) == {key: made for key, made in counts(single).items() if key[0] != "b"}


def test_journals_of_single_requests_have_no_word_of_batches(tmp_path: Path, load: Callable[..., Parts]) -> None:
    load()
    folder = ran(tmp_path, batch_size=1).folder
    lines = [json.loads(line) for line in (folder / JOURNAL).read_text().splitlines()]
    assert all("batch" not in line and "batches" not in line for line in lines)
    assert list(next(line for line in lines if line["kind"] == "cell"))[-2:] == ["error", "turn"]


def test_the_first_batch_is_written_down_like_any_other() -> None:
    made = rig.requests([rig.prompt("p"), rig.prompt("q")], refiner=Fixing())
    slots = [Slot(rig.GREEDY, name, 0, 0, "draft", 0, 1, 0) for name in "pq"]
    for cell in made.run_together(slots, 0):
        assert from_line(to_line(cell)) == cell
        assert cell.batch == 0


def test_a_row_lasts_until_its_own_last_id_and_its_parts_add_up() -> None:
    """`Counting` goes on for as long as it may: 5 ids by steps of 3 and 1 after the first, 9 by 3, 3 and 2."""
    made = rig.requests([rig.prompt("short", budget=5), rig.prompt("long", budget=9)], refiner=Fixing())
    for arm, steps in (("direct", (0, 0)), ("draft", (2, 3))):
        short, long = made.run_together([Slot(rig.GREEDY, name, 0, 0, arm, 0, 1, 7) for name in ("short", "long")], 0)
        assert (len(short.ids), len(long.ids)) == (5, 9)
        assert (len(short.steps.committed), len(long.steps.committed)) == steps
        assert short.latency_s is not None
        assert long.latency_s is not None
        assert short.latency_s < long.latency_s
        assert short.prefill_s == long.prefill_s == short.ttft_s == long.ttft_s
        assert long.steps.verify_s[: steps[0]] == short.steps.verify_s  # a step is the whole batch's
    for cell in (short, long):
        stages = sum(map(sum, (cell.steps.draft_s, cell.steps.refine_s, cell.steps.verify_s)))
        assert cell.latency_s == (cell.prefill_s or 0) + stages + (cell.rest_s or 0)


class Failing(ScriptedDrafter):
    """Fails on a prompt with an `f`."""

    def propose(self, context: Context, sampling: Sampling) -> Draft:
        if ord("f") in context.tokens:
            raise RuntimeError("out of memory, they say")
        return super().propose(context, sampling)


def test_a_batch_that_fails_has_failed_for_all_its_rows_and_the_run_goes_on(
    tmp_path: Path, load: Callable[..., Parts]
) -> None:
    load(drafter=Failing(rig.ahead, 4))
    run = ran(tmp_path, max_new_tokens=2, limit=4)
    bad = next(at for at, batch in enumerate(run.header.batches) if "abcdef" in batch)
    assert {(one.arm, one.batch) for one in run.cells if one.error} == {("draft", bad), ("refine", bad)}
    assert {one.error for one in run.cells} == {None, "oom: RuntimeError: out of memory, they say"}
    assert run.footer is not None
    assert (run.footer.errors, run.footer.complete) == (4, True)


class Broken(rig.Counting):
    """Its logits are not finite behind a first `f`."""

    def row(self, prefix: list[int]) -> Tensor:
        return super().row(prefix) * (float("nan") if ord("f") in prefix[1:] else 1)


@pytest.mark.parametrize("arm", ARMS)
def test_a_law_that_is_not_finite_is_seen_in_a_batch(arm: str) -> None:
    prompts = [rig.prompt("p", budget=4), rig.prompt("q", length=ord("f") - 1, budget=4)]
    made = rig.requests(prompts, target=Broken(), refiner=Fixing())
    cells = made.run_together([Slot(rig.GREEDY, name, 0, 0, arm, 0, 1, 0) for name in "pq"], 0)
    assert {cell.error for cell in cells} == {"non_finite: the target's logits are not finite"}


def test_what_works_on_one_request_says_so_before_anything_is_timed(tmp_path: Path, load: Callable[..., Parts]) -> None:
    load(refiner=rig.Fixing())
    with pytest.raises(MisfitError, match="one request at a time"):
        make_ready(settings(tmp_path))
    assert make_ready(settings(tmp_path, batch_size=1))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"batch_size": True}, "batch_size is True"),
        ({"batch_size": 65}, "at most 64"),
        ({"batch_size": 2, "compile": True}, "does not go with --compile"),
        ({"batch_size": 2, "candidates": CandidateSettings(count=2)}, "does not go with candidates"),
        ({"batch_size": 2, "candidates": CandidateSettings(nodes=9)}, "does not go with candidates"),
        ({"batch_size": 2, "turns": 2}, "does not go with turns above 1"),
    ],
    ids=str,
)
def test_settings_refuse_what_is_for_single_requests(change: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        rig.settings(**change)
    assert rig.settings(batch_size=64, turns=1).batch_size == 64


def test_traces_controls_and_later_turns_are_left_out(tmp_path: Path, load: Callable[..., Parts]) -> None:
    load()
    file = rig.suite(tmp_path, "ab", "cd")
    file.write_text("".join(f'{{"id": "{n}", "prompt": "{n}", "turns": ["{n}", "x"]}}\n' for n in ("ab", "cd")))
    said = list[str]()
    asked = rig.settings(suite=str(file), out=str(tmp_path / "runs"), batch_size=2, trace=2, controls=2)
    run = read_run(runner.run(asked, [], lambda done, total, what: said.append(what)))
    assert (run.traces, run.controls, {one.turn for one in run.cells}) == ((), (), {1})
    assert any("first turns" in what and "traces" in what for what in said)


def test_memory_is_that_of_a_batch_of_the_longest_prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = rig.Counting()
    direct = Parts(target, rig.Letters(), (rig.planned("direct"),))
    monkeypatch.setattr(ready, "assemble", lambda settings, only=None: direct)
    (file := tmp_path / "settings.json").write_text(settings(tmp_path, max_new_tokens=1).to_json())
    found = footprint(file, "direct")
    assert sorted(target.rows) == [4, 6]  # prompts
    assert found.parts_bytes["caches"] is None
    assert found.unknown["caches"] == "the caches of a batch end with it"


def test_the_plan_is_of_batches(tmp_path: Path, load: Callable[..., Parts]) -> None:
    load()
    lines = list[str]()
    check.check_and_plan(settings(tmp_path, trace=4), lines.append)
    assert "plan: suite own, 4 of 5 prompts, 0 too long for the target, 1 fill no batch, 3 arms" in lines
    assert sum("s a batch of 2" in line for line in lines) == 3
    assert any("12 timed" in line and "traces" not in line for line in lines)


def test_resuming_a_run_of_batches_finds_the_same_batches(tmp_path: Path, load: Callable[..., Parts]) -> None:
    load()
    whole = ran(tmp_path, launches=1)
    journal = whole.folder / JOURNAL
    kept = journal.read_bytes().splitlines(keepends=True)[:5]  # the header, the mark and three requests
    journal.write_bytes(b"".join(kept))
    runner.resume(whole.folder, None, [], lambda *_: None, lambda line: None)
    again = read_run(whole.folder)
    assert again.footer is not None
    assert again.footer.complete
    assert counts(again) == counts(whole)
    assert {one.prompt: one.batch for one in again.cells} == {one.prompt: one.batch for one in whole.cells}


def test_the_embedded_models_say_the_same_in_batches_of_four(tmp_path: Path) -> None:
    """In float64, where a wider forward decides nothing otherwise; counts of steps are the same too."""
    words = ["suite=qa", "limit=4", "max_new_tokens=8", "dtype=float64", "seeds=[0]", "memory=false"]
    words += ["trace=0", "controls=0", "device=cpu", "threads=1", f"out={tmp_path}"]
    asked = [settings_from({}, [*words, f"batch_size={size}"]) for size in (1, 4)]
    single, together = (read_run(runner.run(one, [], lambda *_: None)) for one in asked)
    assert counts(together) == counts(single)
    assert {(one.error, one.batch) for one in together.cells} == {(None, 0)}
