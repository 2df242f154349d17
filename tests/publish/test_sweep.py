import csv as reader
from dataclasses import replace
from io import StringIO

import pytest
from hostile import SCRIPT
from sweeps import begin, counted, job, plan, timed

from xpress_bench.analyse.sweep import read_sweep
from xpress_bench.errors import UsageError
from xpress_bench.publish import sweep as of_sweep
from xpress_bench.publish.markdown import markdown
from xpress_bench.reading import report

NAMES = ("1-1-block_size-4", "1-2-block_size-8", "1-3-block_size-16")
SIZES = {"block_size": ("4", "8", "16")}


@pytest.fixture
def folder(tmp_path):
    """Blocks of 8 and 16 are a third faster than the base, 4."""
    begin(tmp_path / "s", plan(SIZES, {"block_size": "4"}))
    for seed, (name, speed) in enumerate(zip(NAMES, (1.5, 2.0, 2.0), strict=True)):
        job(tmp_path / "s", name, timed(speed, seed))
    return tmp_path / "s"


def section(folder):
    return of_sweep.page(read_sweep(folder)).sections[0]


def column(table, title):
    return [row[table.columns.index(title)] for row in table.rows]


def test_the_page_says_what_to_take_and_what_may_be_the_best(folder):
    found = section(folder)
    assert found.verdict.startswith("Take block_size 8: 1.3")
    assert found.verdict.endswith("times the speed of block_size 4.")
    assert column(found.table, "block_size") == ["4", "8", "16"]
    assert column(found.table, "") == ["as it is", "knee, recommended", ""]
    assert column(found.table, "identical") == ["32/32"] * 3
    speeds = [float(text.split(" ")[0]) for text in column(found.table, "speed-up vs direct")]
    assert speeds == pytest.approx([1.5, 2, 2], rel=0.01)
    lines = dict(found.lines)
    assert lines["by speed-up"] == (
        "the knee is block_size 8, no larger value is shown to be better; "
        "the best may be any of block_size 8, block_size 16"
    )
    assert lines["by tokens per step"] == "no value is shown to be better than another"


def test_the_closing_says_how_to_measure_what_is_recommended(folder):
    lines = dict(of_sweep.page(read_sweep(folder)).lines)
    assert lines["next"] == "xpress-bench --suite qa block_size=8"
    assert "Bonferroni" in lines["better"]


def test_where_nothing_separates_the_setting_stays(tmp_path):
    begin(tmp_path / "s", plan(SIZES, {"block_size": "4"}))
    for seed, name in enumerate(NAMES):
        job(tmp_path / "s", name, timed(1.5, seed))
    found = section(tmp_path / "s")
    assert found.verdict == "Stay with block_size 4: no other is shown to be faster."
    assert column(found.table, "") == ["as it is", "", ""]  # a knee would be chance


def test_counts_alone_have_no_times_anywhere(tmp_path):
    begin(tmp_path / "s", plan(SIZES, {"block_size": "4"}, counts=True))
    for name, accepted in zip(NAMES, (1, 3, 3), strict=True):
        job(tmp_path / "s", name, counted({f"p{p}": [accepted + p % 2] * 4 for p in range(8)}))
    sweep = read_sweep(tmp_path / "s")
    text = markdown(of_sweep.page(sweep)) + of_sweep.csv(sweep)
    assert not any(word in text for word in ("speed", "ms", "draft_s", "faster", "drift"))
    # pooled: 4 prompts of 4 and 4 of 5 tokens per step, against 2 and 3
    assert section(tmp_path / "s").verdict.startswith("Take block_size 8: 1.80")
    assert "4.5 " in column(section(tmp_path / "s").table, "tokens/step")[1]


def test_what_failed_and_what_is_left_is_told(tmp_path):
    begin(tmp_path / "s", plan(SIZES, {"block_size": "4"}))
    job(tmp_path / "s", NAMES[0], timed(1.5, 0))
    job(tmp_path / "s", NAMES[1], ended="oom: no memory")
    found = section(tmp_path / "s")
    assert found.verdict == "Not finished: 1 of 3 jobs left."
    assert [line for line in found.lines if line[0] == "left out"] == [
        ("left out", "block_size 8: oom: no memory"),
        ("left out", "block_size 16: not run yet"),
    ]
    assert column(found.table, "") == ["as it is", "failed", ""]
    assert "--out" in dict(of_sweep.page(read_sweep(tmp_path / "s")).lines)["next"]
    job(tmp_path / "s", NAMES[2], ended="it was ended by signal 9")
    assert section(tmp_path / "s").verdict == "Stay with block_size 4: no other value was measured."


def test_a_failed_base_leaves_nothing_to_compare_with(tmp_path):
    begin(tmp_path / "s", plan(SIZES, {"block_size": "4"}))
    job(tmp_path / "s", NAMES[0], ended="oom: no memory")
    for name in NAMES[1:]:
        job(tmp_path / "s", name, timed(2.0, 1))
    assert section(tmp_path / "s").verdict == "block_size 4 failed, so no other value is shown to be better than it."


def test_output_that_differs_is_told_beside_the_speed(tmp_path):
    begin(tmp_path / "s", plan({"block_size": ("4", "8")}, {"block_size": "4"}))
    wrong = timed(2.0, 1)
    cells = [replace(one, ids=(1, 2, 9)) if one.arm == "refine" and one.prompt == "p0" else one for one in wrong.cells]
    job(tmp_path / "s", NAMES[0], timed(1.5, 0))
    job(tmp_path / "s", NAMES[1], replace(wrong, cells=tuple(cells)))
    found = section(tmp_path / "s")
    assert column(found.table, "identical") == ["32/32", "31/32"]
    ((_, told),) = [line for line in found.lines if line[0] == "output"]
    assert told.startswith("block_size 8: ")


def test_csv_has_every_measure_of_every_job(folder):
    rows = list(reader.DictReader(StringIO(of_sweep.csv(read_sweep(folder)))))
    found = {(row["job"], row["metric"]): row for row in rows}
    assert float(found[NAMES[1], "speed_up"]["estimate"]) == pytest.approx(2.0, rel=0.01)
    assert float(found[NAMES[0], "tokens_per_step"]["estimate"]) == 2  # 3, 2 and 1 of three steps
    assert float(found[NAMES[0], "speed_up_vs_best"]["estimate"]) == pytest.approx(0.75, rel=0.01)
    assert found[NAMES[0], "speed_up_vs_best"]["n"] == "32"
    assert found[NAMES[2], "speed_up"]["values"] == "block_size=16"


def test_plots_show_values_intervals_and_the_knee(folder):
    from xpress_bench.publish.sweep_plots import drawn

    figures = drawn(read_sweep(folder))
    assert list(figures) == ["1-block_size-tokens-per-step", "1-block_size-speed-up"]
    (axes,) = figures["1-block_size-speed-up"].axes
    marks = [line for line in axes.get_lines() if line.get_marker() == "s"]
    assert [line.get_ydata()[0] for line in marks] == pytest.approx([1.5, 2, 2], rel=0.01)
    assert [line.get_markerfacecolor() == "white" for line in marks] == [True, False, False]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["4", "8", "16"]
    assert [text.get_text() for text in axes.texts] == ["knee"]
    (upright,) = [line for line in axes.get_lines() if line.get_linestyle() == ":"]
    assert list(upright.get_xdata()) == [1, 1]
    assert not figures["1-block_size-tokens-per-step"].axes[0].texts  # nothing separates


def test_report_reads_a_sweep_and_writes_its_files(folder, capsys):
    assert report([str(folder), "--plot", "--format", "csv"]) == 0
    assert "speed_up_vs_best" in capsys.readouterr().out
    written = {str(file.relative_to(folder / "report")) for file in (folder / "report").rglob("*.*")}
    names = {
        f"plots/1-block_size-{what}.{kind}"
        for what in ("speed-up", "tokens-per-step")
        for kind in ("svg", "pdf", "png")
    }
    assert written == {"sweep.md", "sweep.csv", *names}
    with pytest.raises(UsageError, match="a report of its own"):
        report([str(folder), "--together"])


def test_text_of_strangers_is_harmless(tmp_path):
    value = f"'\x1b[31m{SCRIPT}'"
    begin(tmp_path / "s", plan({"drafter.path": ("null", value)}, {"drafter.path": "null"}))
    sweep = read_sweep(tmp_path / "s")
    job(tmp_path / "s", sweep.factors[0].points[0].job.name, timed(1.5, 0))
    job(tmp_path / "s", sweep.factors[0].points[1].job.name, ended=f"\x1b]0;{SCRIPT}")
    found = read_sweep(tmp_path / "s")
    assert "\x1b" not in markdown(of_sweep.page(found)) + of_sweep.csv(found)
    assert "<script" not in markdown(of_sweep.page(found)).replace("\\<", "")
