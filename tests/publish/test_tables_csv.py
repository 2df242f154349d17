import csv
from dataclasses import replace
from io import StringIO

import pytest
from hostile import hostile_items, hostile_run
from runs import Item, cell, exact_study, failed, run, steps

from xpress_bench.publish.tables_csv import files, measures, written
from xpress_bench.publish.view import report
from xpress_bench.records import Memory


def rows(text):
    return list(csv.DictReader(StringIO(text)))


def tables(cells, **changes):
    return {name: rows(text) for name, text in files("r1", report(run(cells, **changes)).views).items()}


def one(found, **wanted):
    (row,) = [row for row in found if all(row[key] == value for key, value in wanted.items())]
    return row


def test_measures_have_interval_method_and_number_of_prompts():
    found = tables(exact_study())["measures.csv"]
    speed = one(found, arm="refine", metric="speedup_gmean_paired vs draft")
    assert [float(speed[end]) for end in ("estimate", "low", "high")] == pytest.approx([1.6] * 3)
    assert (speed["method"], speed["n"], speed["reason"]) == ("constant data", "32", "")
    assert (speed["run"], speed["condition"], speed["group"]) == ("r1", "greedy", "all")
    assert float(one(found, arm="draft", metric="accept_marginal_step[2]")["estimate"]) == pytest.approx(1 / 3)
    assert float(one(found, arm="draft", metric="draft_accept_rate_step")["estimate"]) == 0.25
    assert float(one(found, arm="draft", metric="identical")["estimate"]) == 1


def test_an_unknown_is_empty_with_a_reason():
    row = one(tables(exact_study())["measures.csv"], arm="direct", metric="tokens_per_step_committed_step")
    assert [row[key] for key in ("estimate", "low", "high", "n")] == [""] * 4
    assert row["reason"] == "no verify step was taken"


def test_groups_and_runs_are_rows_below_one_header():
    items = [Item(f"p{i}", category="ab"[i % 2]) for i in range(32)]
    views = report(run(exact_study()), items, "category").views
    found = rows(measures({"one": views, "two": views}))
    assert {row["run"] for row in found} == {"one", "two"}
    assert [row["group"] for row in found if row["run"] == "one" and row["metric"] == "latency_s"] == (
        ["all"] * 3 + ["a"] * 3 + ["b"] * 3
    )


def test_stage_times_of_every_step():
    taken = replace(steps([1, 0]), draft_s=(0.003, 0.005), refine_s=(), verify_s=(0.01, 0.02))
    found = tables([cell("direct"), cell("draft", steps=taken, launch=2, seed=5, repeat=1)])["stage_times.csv"]
    assert [tuple(row.values()) for row in found] == [
        ("greedy", "draft", "2", "p0", "1", "5", "1", "1", "0.003", "", "0.01", ""),
        ("greedy", "draft", "2", "p0", "1", "5", "1", "2", "0.005", "", "0.02", ""),
    ]


def test_acceptance_says_where_a_block_was_refused():
    # refused at the first and at the third draft; accepted whole; cut by a stop id; nothing offered
    taken = steps([0, 2, 3, 1, 0], offered=[3, 3, 3, 3, 0], committed=[1, 3, 4, 1, 1])
    found = tables([cell("draft", steps=taken)])["acceptance.csv"]
    assert [row["refused_at"] for row in found] == ["1", "3", "", "", ""]
    assert [row["step"] for row in found] == ["1", "2", "3", "4", "5"]


def test_memory_counts_what_ran_out_of_it():
    cells = [
        cell("direct"),
        cell("draft"),
        failed("draft", "p1", "oom: OutOfMemoryError"),
        failed("draft", "p2", "exception"),
    ]
    memory = [Memory("direct", "process_peak_rss", 1024), Memory("draft", "process_peak_rss", None, reason="killed")]
    found = tables(cells, memory=memory)["memory.csv"]
    direct, draft = (tuple(row.values()) for row in found)
    inside = ("",) * 11
    assert direct == ("greedy", "direct", "process_peak_rss", "1024", "", "", "", "1", "0", "0", *inside)
    assert draft == ("greedy", "draft", "process_peak_rss", "", "", "", "killed", "3", "2", "1", *inside)
    peaks = [row for row in tables(cells, memory=memory)["measures.csv"] if row["metric"] == "peak_bytes"]
    assert [(row["estimate"], row["method"], row["reason"]) for row in peaks] == [
        ("1024", "process_peak_rss", ""),
        ("", "process_peak_rss", "killed"),
    ]


def test_memory_inside_the_process_has_a_column_for_each_part_and_stage():
    held = {"target": 5, "caches": 2, "graphs": None}
    memory = [Memory("draft", "process_peak_rss", 9, None, None, None, None, held, {"draft": 3}, {"graphs": "no CUDA"})]
    (found,) = tables([cell("draft")], memory=memory)["memory.csv"]
    told = {name: value for name, value in found.items() if name.endswith("_bytes") and value}
    assert told == {"peak_bytes": "9", "target_bytes": "5", "caches_bytes": "2", "draft_peak_bytes": "3"}
    assert found["unknown"] == "graphs: no CUDA"


def test_no_field_of_a_hostile_journal_is_a_formula():
    for text in files("=1+1", report(hostile_run(), hostile_items(), "category").views).values():
        assert "\x1b" not in text
        for row in rows(text):
            assert None not in row.values()
            assert None not in row  # a row longer than the header
            assert not [value for value in row.values() if value[:1] in ("=", "+", "-", "@")]


def test_negative_numbers_are_numbers():
    assert written(("a", "b"), [(-0.5, "-0.5")]) == "a,b\n-0.5,'-0.5\n"
