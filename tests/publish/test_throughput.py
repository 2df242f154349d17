"""Throughput against batch size: one table of several runs, as CSV and as files."""

from __future__ import annotations

import csv
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from runs import cell, run

from xpress_bench import cli
from xpress_bench.analyse.summary import Summary, summarise
from xpress_bench.errors import UsageError
from xpress_bench.journals import to_line
from xpress_bench.publish import throughput
from xpress_bench.publish.page import page
from xpress_bench.publish.together import together
from xpress_bench.records import JOURNAL, Run

ROWS = 32  # requests of each run; each has 3 ids


def of(size: int, faster: float, **changes: object) -> Run:
    """Direct takes 1 s a batch; draft is so many times as fast, give or take 2 % from batch to batch."""
    speed = {"direct": (1.0, 1.0), "draft": (0.98 * faster, 1.02 * faster)}
    cells = [
        cell(arm, f"p{at}", 1 / speed[arm][at // size % 2], batch=None if size == 1 else at // size, **changes)
        for arm in speed
        for at in range(ROWS)
    ]
    plain = run(cells)
    batches = tuple(tuple(f"p{at + row}" for row in range(size)) for at in range(0, ROWS, size)) if size > 1 else ()
    settings = plain.header.settings | {"batch_size": size}
    return replace(plain, header=replace(plain.header, settings=settings, batches=batches, run=f"r{size}"))


@pytest.fixture
def summaries() -> list[Summary]:
    return [summarise(of(size, faster)) for size, faster in ((4, 0.8), (1, 2.0), (2, 1.5))]


def test_a_row_for_each_batch_size_and_the_last_that_pays_in_the_verdict(summaries: list[Summary]) -> None:
    section = together(summaries).sections[0]
    assert section.verdict == "draft (dflash B=8) is faster than direct up to batch size 2."
    assert section.table.columns == ("batch", "direct tokens/s", "draft tokens/s", "draft vs direct")
    assert [row[:2] for row in section.table.rows] == [
        ("1", "3.00 [3.00, 3.00]"),
        ("2", "6.00 [6.00, 6.00]"),
        ("4", "12.0 [12.0, 12.0]"),
    ]
    for at, expected in ((2, [6.0, 9.0, 9.6]), (3, [2.0, 1.5, 0.8])):
        shown = [float(row[at].partition(" ")[0]) for row in section.table.rows]
        assert shown == pytest.approx(expected, rel=0.01)


def test_the_largest_of_all_and_none_are_said() -> None:
    assert (
        "up to batch size 2, the largest of all" in together([summarise(of(n, 2)) for n in (1, 2)]).sections[0].verdict
    )
    slow = together([summarise(of(n, 0.5)) for n in (1, 2)]).sections[0]
    assert "not shown to be faster than direct at any batch size" in slow.verdict
    gap = together([summarise(of(n, faster)) for n, faster in ((1, 1.0), (2, 2.0))]).sections[0]
    assert ("not shown", "draft (dflash B=8): to be faster at batch size 1, though it is at a larger one") in gap.lines


def test_what_went_wrong_in_a_run_stands_under_the_table(summaries: list[Summary]) -> None:
    torn = replace(summaries[1], complete=False)
    assert together([summaries[0], torn]).sections[0].verdict.startswith("Not finished: run 2. ")
    other = summarise(of(2, 1.5, ids=(1, 2, 9)))
    cells = [
        replace(one, ids=(1, 2, 9)) if (one.arm, one.prompt) == ("draft", "p0") else one for one in of(2, 1.5).cells
    ]
    broken = summarise(replace(of(2, 1.5), cells=tuple(cells)))
    assert not [label for label, _ in together([summaries[1], other]).sections[0].lines if label == "differs"]
    assert any(
        label == "differs" and "run 2, draft: p0" in text
        for label, text in together([summaries[1], broken]).sections[0].lines
    )


def test_runs_of_other_prompts_are_refused_with_what_to_do(summaries: list[Summary]) -> None:
    fewer = replace(summaries[0], header=replace(summaries[0].header, prompts=("p0",)))
    with pytest.raises(UsageError, match="the same limit, a multiple of their batch sizes"):
        together([summaries[1], fewer])
    with pytest.raises(UsageError, match="two runs have batch size 2"):
        together([summaries[1], summaries[2], summaries[2]])


def test_csv_has_every_figure_in_full(summaries: list[Summary]) -> None:
    rows = list(csv.DictReader(StringIO(throughput.csv(summaries, summaries[0].header.conditions))))
    assert len(rows) == 3 * 2 * 2
    found = {(row["arm"], row["batch_size"], row["metric"]): row for row in rows}
    one = found["draft (dflash B=8)", "4", "speedup_gmean_paired"]
    assert float(one["estimate"]) == pytest.approx(0.8 * (0.98 * 1.02) ** 0.5)
    assert float(one["low"]) < float(one["estimate"]) < float(one["high"]) < 1
    assert one["n"] == "8"
    assert found["direct", "1", "tokens_per_s"]["estimate"] == "3.0"
    assert found["direct", "1", "speedup_gmean_paired"]["reason"] == "it is direct"


def written(folder: Path, made: Run) -> str:
    folder.mkdir(parents=True)
    lines = [made.header, *made.cells, made.footer]
    (folder / JOURNAL).write_text("".join(to_line(one) + "\n" for one in lines if one), encoding="utf-8")
    return str(folder)


def test_the_command_prints_csv_and_writes_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    folders = [written(tmp_path / f"b{size}", of(size, 1.5)) for size in (1, 2)]
    assert cli.main(["report", *folders, "--together", "--format", "csv"]) == 0
    assert capsys.readouterr().out.startswith("condition,arm,batch_size,metric,estimate")
    assert cli.main(["report", *folders, "--together", "--plot", str(tmp_path / "out")]) == 0
    assert "up to batch size 2" in capsys.readouterr().out
    made = {str(file.relative_to(tmp_path / "out")) for file in (tmp_path / "out").rglob("*.*")}
    plots = {f"plots/{name}.{kind}" for name in ("throughput", "batch-speed-ups") for kind in ("svg", "pdf", "png")}
    assert made == {"throughput.md", "throughput.tex", "throughput.csv"} | plots
    assert "batch size" in (tmp_path / "out/plots/throughput.svg").read_text()


@pytest.mark.parametrize("words", [["--format", "csv"], ["--plot", "somewhere"], ["--format", "html"], ["--plot"]])
def test_files_are_of_several_batch_sizes(tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    folder = written(tmp_path / "run", of(2, 1.5))
    assert cli.main(["report", "--together", folder, *words]) == 2
    assert "csv and --plot DIR of several batch sizes" in capsys.readouterr().err


def test_a_report_says_that_it_is_of_batches(summaries: list[Summary]) -> None:
    content = page(summaries[2])
    assert any("in batches of 2" in text for text in content.title)
    assert not any("in batches" in text for text in [*page(summaries[1]).title, *together(summaries).title])
    assert any(label == "batch" and text.startswith("16 batches of 2 prompts") for label, text in content.lines)
    assert "16 batches got slower" in content.sections[0].verdict
