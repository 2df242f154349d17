"""The published tables: every file is well formed, and its figures agree with checksums printed beside them."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import fmean, geometric_mean

import pytest

from xpress_bench.analyse import published
from xpress_bench.errors import UsageError

WHOLE = """\
title: a title
source: a table
confidence: read in the paper
metrics: {tokens_per_step_committed_step: {decimals: 2}}
datasets: {qa: {suite: qa, prompts: 3}}
common: {target: owner/target, metrics: [tokens_per_step_committed_step]}
rows:
  - {drafter: owner/drafter, temperature: 0, values: {qa: [2.5]}}
"""
README, DFLASH, BATCHES = "xpress-readme", "dflash-paper", "vllm-pr-54448"
PLAIN, MARKOV, XPRESS = (
    "z-lab/Qwen3-8B-DFlash-b16",
    "UIUC-SSAIL/Qwen3-8B-Markov-b16",
    "UIUC-SSAIL/Qwen3-8B-XPress-b16",
)
# What the pull request prints beside its rows: xPress over DFlash, and over the Markov head.
RATIOS = {
    ("gsm8k", 1): (1.465, 1.053),
    ("gsm8k", 4): (1.451, 1.082),
    ("gsm8k", 16): (1.404, 1.073),
    ("gsm8k", 32): (1.392, 1.071),
    ("gsm8k", 64): (1.398, 0.987),
    ("math-500", 1): (1.138, 1.042),
    ("math-500", 16): (1.096, 1.030),
    ("math-500", 64): (1.115, 1.017),
    ("aime25", 1): (1.085, 1.050),
    ("aime25", 16): (1.096, 1.008),
    ("aime25", 64): (1.127, 0.987),
    ("humaneval", 1): (1.150, 1.038),
    ("humaneval", 16): (1.144, 1.089),
    ("humaneval", 64): (1.258, 1.001),
}


def refused(tmp_path: Path, text: str) -> str:
    file = tmp_path / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        published.load(str(file))
    told = str(caught.value)
    assert told.startswith(str(file))
    assert "\n" not in told
    return told


def figures(name: str) -> dict[tuple[str, float | None, str, str, int | None], float]:
    """drafter, temperature, data set, metric, batch -> value."""
    return {
        (row.drafter, row.temperature, dataset, metric, row.batch_size): value
        for row, dataset, metric, value in published.load(name).figures()
    }


@pytest.mark.parametrize("name", published.names())
def test_every_file_is_read_and_names_its_source(name):
    found = published.load(name)
    assert found.source
    assert found.confidence
    assert list(found.figures())
    assert {metric for row in found.rows for metric in row.metrics} == set(found.metrics)
    assert {dataset for row in found.rows for dataset in row.values} == set(found.datasets)


def test_the_tables_that_there_are():
    files = (BATCHES, "ddtree", DFLASH, "dspark", "vllm-xpress-ci", README, "xpress-vllm")
    assert published.names() == sorted(files)


@pytest.mark.parametrize(("name", "count"), [(README, 14), (DFLASH, 12)])
def test_a_printed_mean_is_that_of_its_row(name, count):
    """DFlash averages speed-ups geometrically and lengths plainly; one mean of xPress's table is a slip of theirs."""
    found = published.load(name)
    rows = [(row, at, metric) for row in found.rows if "mean" in row.values for at, metric in enumerate(row.metrics)]
    assert len(rows) == count
    for row, at, metric in rows:
        values = [cells[at] for dataset, cells in row.values.items() if dataset != "mean"]
        printed, mean = row.values["mean"][at], geometric_mean if metric == "speedup_mean_tpot" else fmean
        if (row.drafter, metric, printed) == (MARKOV, "speedup_total_time", 6.1):
            printed = 5.9
        assert len(values) == 7
        assert printed == pytest.approx(mean(values), abs=0.6 * 10.0 ** -found.metrics[metric].decimals), row


def test_the_readme_s_throughput_ratios_are_those_of_its_speed_ups():
    found = figures(README)
    ratios = {key: value for key, value in found.items() if key[3] == "tokens_per_s_ratio" and key[2] != "mean"}
    assert len(ratios) == 14
    for (drafter, temperature, dataset, _, batch), ratio in ratios.items():
        ours, theirs = (found[one, temperature, dataset, "speedup_total_time", batch] for one in (drafter, PLAIN))
        slack = 0.05 / ours + 0.05 / theirs + 0.005 / ratio  # the rounding of the three
        assert abs(math.log(ours / theirs / ratio)) <= slack + 0.01, (temperature, dataset)


def test_the_pull_request_s_ratios_are_those_of_its_rows():
    found = figures(BATCHES)
    assert len(found) == 3 * len(RATIOS)
    for (dataset, batch), ratios in RATIOS.items():
        plain, markov, xpress = (
            found[drafter, None, dataset, "tokens_per_s", batch] for drafter in (PLAIN, MARKOV, XPRESS)
        )
        assert (xpress / plain, xpress / markov) == pytest.approx(ratios, abs=0.002), (dataset, batch)


def test_sglang_s_speed_ups_are_those_of_its_rows():
    found = figures(DFLASH)
    for batch, printed in {1: 5.1, 4: 4.5, 8: 4.5, 16: 3.9, 32: 2.8}.items():
        base, drafted = (found[one, None, "math-500", "tokens_per_s", batch] for one in ("none", PLAIN))
        assert drafted / base == pytest.approx(printed, abs=0.051)


def test_figures_looked_up_by_hand():
    readme, dspark, trees = figures(README), figures("dspark"), figures("ddtree")
    length = "tokens_per_step_uncut_step"
    assert readme[XPRESS, 0, "gsm8k", length, 1] == 10.11
    assert readme[MARKOV, 1, "mt-bench", length, 1] == 3.97
    assert dspark["deepseek-ai/dspark_qwen3_8b_block7", 1, "arena-hard", "tokens_per_step_committed_step", 1] == 3.21
    assert trees["DDTree over DFlash", 0, "math-500", "speedup_mean_tpot", 1] == 7.52


def test_what_is_common_to_all_rows_is_said_once(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(WHOLE, encoding="utf-8")
    ((row, dataset, metric, value),) = published.load(str(file)).figures()
    assert (row.target, row.drafter, row.refiner, row.dtype) == ("owner/target", "owner/drafter", None, None)
    assert (dataset, metric, value) == ("qa", "tokens_per_step_committed_step", 2.5)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("confidence: read in the paper\n", "", "confidence"),
        ("drafter: owner/drafter", "drafter: 3", "$.rows[0].drafter"),
        ("[2.5]", "[many]", "$.rows[0].values"),
        ("[2.5]", "[.nan]", "$.rows[0].values"),
        ("[2.5]", "[2.5, 3.5]", "one value for each of tokens_per_step_committed_step"),
        ("{qa: [2.5]}", "{nq: [2.5]}", "rows[0]: 'nq'"),
        ("temperature: 0", "temprature: 0", "temprature"),
        ("prompts: 3", "drawn: by lot", "datasets.qa"),
        (
            "tokens_per_step_committed_step",
            "tokens_per_step_comitted_step",
            "did you mean tokens_per_step_committed_step",
        ),
        ("common: {", "common: [{", "not YAML"),
        ("common: {target: owner/target, metrics: [tokens_per_step_committed_step]}", "common: 3", "$.common"),
        ("title: a title", "title: 2026-13-45", "not YAML"),
    ],
)
def test_a_fault_is_told_with_file_and_key(tmp_path, old, new, told):
    assert old in WHOLE
    assert told in refused(tmp_path, WHOLE.replace(old, new))


def test_a_file_that_is_no_table_is_refused(tmp_path):
    assert "holds no table" in refused(tmp_path, "- 1\n")
    assert "larger than" in refused(tmp_path, WHOLE + "#" * published.MAX_BYTES)
    with pytest.raises(UsageError, match="no such file"):
        published.load(str(tmp_path / "absent.yaml"))


def test_an_unknown_name_is_told_with_the_nearest():
    with pytest.raises(UsageError, match="did you mean xpress-readme"):
        published.load("xpress-reame")
