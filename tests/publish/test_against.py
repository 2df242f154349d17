"""The page of a run beside a publication, and the exit code of the command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from runs import cell, run, steps

from xpress_bench.analyse.published import load
from xpress_bench.cli import main
from xpress_bench.journals import to_line
from xpress_bench.publish import against
from xpress_bench.publish.text import plain
from xpress_bench.records import JOURNAL, Arm, Run

README = "xpress-readme"
SUITE = "hf:HuggingFaceH4/mt_bench_prompts?split=train&prompt=prompt"


def journal(accepted: list[int], **changed: object) -> Run:
    """The README's bare drafter over the 80 prompts of MT-Bench; every step accepts what is given of 15 drafts."""
    made = steps(accepted, offered=15)
    draft = {"steps": replace(made, matched=made.accepted), "ids": (1,) * 9}
    cells = [cell(arm, f"p{at}", **draft if arm == "draft" else {}) for at in range(80) for arm in ("direct", "draft")]
    found = run(cells, arms=[Arm("direct", None, None, None, None, None), Arm("draft", "dflash", None, 16, 1, None)])
    settings = {
        "suite": SUITE,
        "target": {"name": "Qwen/Qwen3-8B", "thinking": False},
        "drafter": {"name": "z-lab/Qwen3-8B-DFlash-b16", "path": None},
        "refiner": {"name": "none"},
        "max_new_tokens": 2048,
        "dtype": "bfloat16",
        "batch_size": 1,
    }
    suite = found.header.suite | {"name": "mt_bench_prompts"}
    header = replace(found.header, settings=found.header.settings | settings | changed, suite=suite)
    return replace(found, header=header)


def stored(folder: Path, measured: Run) -> str:
    records = [measured.header, *measured.cells, measured.footer]
    (folder / JOURNAL).write_text("".join(f"{to_line(one)}\n" for one in records if one), encoding="utf-8")
    return str(folder)


@pytest.mark.parametrize(
    ("accepted", "length", "outcome"),
    [
        ([2, 2, 2, 2, 3], "3.2", "reproduced"),  # 16 tokens in 5 steps; they print 3.18 and allow 0.1
        ([2, 2, 3], "3.33", "not reproduced"),
    ],
)
def test_a_figure_of_the_readme(accepted, length, outcome):
    page, passed = against.page(journal(accepted), load(README))
    (section,) = page.sections
    rows = {row[3]: row for row in section.table.rows}
    assert [row[0] for row in section.table.rows] == ["mt-bench"] * 2  # speed-up and length of one drafter
    row = rows["tokens_per_step_uncut_step"]
    assert (row[2], row[4], row[6], row[7]) == ("draft", "3.18", "0.100", outcome)
    assert row[5].startswith(length)
    assert rows["speedup_total_time"][7] == "not comparable"
    assert passed is (outcome == "reproduced")
    assert section.verdict == f"1 of 112 published figures compared: 1 {outcome}, 1 not comparable"
    told = plain(page)
    assert "another machine, cpu here, H200 there (draft on mt-bench)" in told
    assert "another pooling rule" in told
    assert "as the authors state it" in told
    assert "read in the authors' README" in told


def test_nothing_is_reproduced_where_nothing_was_compared():
    elsewhere = journal([2], target={"name": "embedded"})
    page, passed = against.page(elsewhere, load(README))
    (section,) = page.sections
    assert not passed
    assert section.table.rows == ()
    assert section.verdict == "0 of 112 published figures compared: none has a counterpart in this run"
    assert ("no counterpart", "target: Qwen/Qwen3-8B there, embedded here") in section.lines
    assert "reproduced" not in plain(page).partition("theirs")[0]


def test_names_from_a_journal_cannot_move_the_cursor():
    page, _ = against.page(journal([2], target={"name": "x\x1b[2J"}), load(README))
    assert "\x1b" not in plain(page)


@pytest.mark.parametrize(
    ("accepted", "changed", "status"),
    [
        ([2, 2, 2, 2, 3], {}, 0),
        ([2, 2, 3], {}, 1),
        ([2, 2, 2, 2, 3], {"dtype": "float16"}, 1),
        ([2, 2, 2, 2, 3], {"target": {"name": "embedded"}}, 1),
    ],
    ids=["reproduced", "not reproduced", "not comparable", "no counterpart"],
)
def test_the_command_is_content_with_a_reproduction_only(tmp_path, capsys, accepted, changed, status):
    folder = stored(tmp_path, journal(accepted, **changed))
    assert main(["report", folder, "--against-published", README]) == status
    assert "published figures compared" in capsys.readouterr().out
    assert main(["report", folder, "--against-published", README, "--format", "markdown"]) == status


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--against-published", "xpress"], "did you mean xpress-"),
        (["--against-published", README, "--by", "category"], "leave --by and --report-as out"),
    ],
)
def test_a_wrong_command_is_told_in_one_line(tmp_path, capsys, words, told):
    assert main(["report", stored(tmp_path, journal([2])), *words]) == 2
    assert told in capsys.readouterr().err
