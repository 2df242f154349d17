"""What the report of a load run says."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from loads import STAGE, asked, load, steady

from xpress_bench.analyse.intervals import Unknown
from xpress_bench.errors import UsageError
from xpress_bench.load_records import Asked, Degrade, Load, Mark, Policy, Probe, Stage
from xpress_bench.publish import canvas
from xpress_bench.publish.load import page, report, show_limits, table, write
from xpress_bench.publish.load_plots import drawn
from xpress_bench.publish.page import Page

DIRECT, DRAFT = (STAGE.name, "direct", 0), (STAGE.name, "draft", 0)


def both(draft: Sequence[Asked] = (), mark: Mark | None = None) -> Load:
    return load({DIRECT: steady(), DRAFT: draft or steady(80, 0.5, 0.4)}, {DRAFT: mark} if mark else None)


def paged(of: Load) -> Page:
    return page(report(of))


def lines(of: Load, label: str) -> list[str]:
    shown = paged(of)
    return [text for said, text in (*shown.sections[0].lines, *shown.lines) if said == label]


def test_the_first_sentence_says_what_came_and_that_nothing_was_lost() -> None:
    (section,) = paged(both()).sections
    assert section.heading == "2 clients"
    assert section.verdict == "2 clients for 40 s, each asking again once answered: 120 requests, 120 ok, 0 lost."
    assert [row[:3] for row in section.table.rows] == [("direct", "40", "40"), ("draft", "80", "80")]
    assert dict(zip(section.table.columns, section.table.rows[1], strict=True))["identical"] == "40/40"
    assert [row[0] for row in section.breakdown.rows] == ["direct", "draft"] if section.breakdown else False


def test_a_value_without_an_interval_is_not_in_the_table_and_a_line_says_why() -> None:
    (section,) = paged(both()).sections
    row = dict(zip(section.table.columns, section.table.rows[1], strict=True))
    assert (row["p99"], row["vs direct"]) == ("-", "-")
    said = lines(both(), "no interval")
    assert "draft, vs direct: one repeat; add repeats=5" in said
    assert any(text.startswith("draft, latency p99: p99 needs 368 independent requests") for text in said)


def test_whatever_went_wrong_is_said() -> None:
    bad = [
        *steady(10),
        asked(10, degraded="at most 2 tokens"),
        asked(11, attempts=2),
        *(asked(at, status="failed", reason="connection\x1b[2J reset") for at in (12, 13)),
    ]
    stopped = Mark(*DRAFT, "stopped", "", asked=15, opened=1, reason="the circuit is open: connection reset")
    of = both(bad, stopped)
    assert report(of).lost == 1
    assert lines(of, "LOST") == ["draft: 1 request came and never ended; believe nothing here"]
    assert lines(of, "degraded") == ["draft: 1 request, in no figure here"]
    assert lines(of, "retried") == ["draft: 1 request"]
    assert lines(of, "circuit") == ["draft: opened 1 time"]
    assert lines(of, "not ok") == ["draft: 2 failed, connection [2J reset"]  # a control character moves no cursor
    assert lines(of, "stopped") == [
        "draft: the circuit is open: connection reset; its figures are of repeats that ended"
    ]
    assert lines(of, "next") == [f"xpress-bench load --resume {of.folder}"]


def test_policy_and_objective_are_told() -> None:
    of = load({DIRECT: steady()}, objective={"ttft": 1.0}, policy=Policy(5.0, 2, degrade=Degrade(3.0, arm="direct")))
    assert lines(of, "good") == ["ttft within 1 s"]
    assert lines(of, "policy") == [
        "deadline 5 s from arrival, 3 attempts, the circuit opens after 5 failures in a row, "
        "after 3 s in the queue arm direct"
    ]


def test_memory_is_told_with_a_word() -> None:
    for sizes, word in (([2**30] * 60, "stable"), ([2**30 + at * 2**20 for at in range(60)], "GROWS")):
        mark = Mark(*DIRECT, "ended", "", asked=40, memory=tuple(enumerate(map(int, sizes))))
        (said,) = lines(load({DIRECT: steady()}, {DIRECT: mark}), "memory")
        assert said.startswith("direct: 1024 MiB at first")
        assert said.endswith(word)


def test_the_csv_has_every_measure_with_its_reason() -> None:
    rows = list(csv.DictReader(StringIO(table(report(both())))))
    of = {(row["arm"], row["metric"]): row for row in rows}
    assert of["direct", "tokens_per_s"]["estimate"] == "2.0"
    assert of["draft", "ok"]["estimate"] == "80"
    assert (of["draft", "lost"]["estimate"], of["draft", "compared"]["estimate"]) == ("0", "40")
    assert of["draft", "latency_s p99"]["estimate"] == ""
    assert of["draft", "latency_s p99"]["reason"].startswith("p99 needs 368")
    assert {row["stage"] for row in rows} == {"2 clients"}


def test_plots_are_drawn_of_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = drawn(report(both()).stages)
    assert {name for name, figure in figures.items() if not isinstance(figure, Unknown)} == {
        "throughput",
        "latency",
        "latency-p90",
        "latencies-2-clients",
    }
    stage = Stage("single", clients=1, requests=1)
    none = drawn(report(load({("single", "direct", 0): [asked(status="failed")]}, stages=(stage,))).stages)
    assert all(isinstance(figure, Unknown) for figure in none.values())
    monkeypatch.setattr(canvas, "FORMATS", ("svg",))
    write(tmp_path / "out", report(both()))
    assert {"load.md", "load.csv", "throughput.svg"} <= {file.name for file in (tmp_path / "out").iterdir()}
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="name a folder that can be written"):
        write(tmp_path / "file", report(both()))


def test_limits_are_the_most_that_fit_and_why_one_more_did_not(capsys: pytest.CaptureFixture[str]) -> None:
    probes = [
        Probe("direct", 1, True, 2**30),
        Probe("direct", 2, True, 2**31),
        Probe("direct", 4, False, None, "oom: x"),
        Probe("direct", 3, False, None, "oom: y"),
        Probe("draft", 1, False, None, "oom: z"),
    ]
    show_limits(probes)
    told = " ".join(capsys.readouterr().out.split())
    assert "direct 2 2048 MiB 3: oom: y" in told
    assert "draft 0 - 1: oom: z" in told


def test_a_run_of_which_nothing_was_asked_has_no_report() -> None:
    with pytest.raises(UsageError, match="nothing was asked yet"):
        report(replace(both(), header=None))
