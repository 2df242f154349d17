"""Stored sessions: the refusals of statistics.md C.6 and case C44."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from runs import cell, failed, run, steps
from scipy import stats

from xpress_bench.analyse.gate import Check, Design
from xpress_bench.analyse.sessions import Session, append_session, read_sessions, session_checks, session_of
from xpress_bench.errors import UsageError

MACHINE = {"cpu_model": "X", "torch_threads": 2}
OTHER = {"torch": "2.13", "settings": "s", "suite": "q"}
NAME = "latency of direct, greedy"


def session(latency_s: float, **changes: Any) -> Session:
    plain = Session("2026-01-31", "c", MACHINE, OTHER, {NAME: latency_s}, {"tokens per step of draft, greedy": 2.0})
    return replace(plain, **changes)


def judge(stored: Sequence[Session], now: Session) -> dict[str, Check]:
    return {check.name: check for check in session_checks(stored, now, Design(), drop=0.01)}


def five(latency_s: float, **changes: Any) -> list[Session]:
    return [session(latency_s * f, **changes) for f in (0.998, 0.999, 1.0, 1.001, 1.002)]


def test_a_session_is_judged_by_the_spread_between_sessions() -> None:
    logs = [math.log(f) for f in (0.998, 0.999, 1.0, 1.001, 1.002)]
    mean = sum(logs) / 5
    sd = math.sqrt(sum((x - mean) ** 2 for x in logs) / 4)
    p = stats.t.sf((math.log(1.05) - mean) / (sd * math.sqrt(1.2)), 4)
    said = judge(five(1.0), session(1.05))[NAME]
    assert said.outcome == "regression"
    assert f"p {p:.2g}" in said.text
    assert judge(five(1.0), session(1.0))[NAME].outcome == "pass"
    assert judge(five(1.0), session(1.0))[NAME].compared == 5


def test_fewer_than_five_sessions_compare_nothing() -> None:
    said = judge(five(1.0)[:4], session(2.0))[NAME]
    assert (said.outcome, said.compared) == ("inconclusive", 0)


def test_sessions_that_differ_too_much_are_refused_with_what_to_do() -> None:
    wild = [session(value) for value in (0.9, 0.95, 1.0, 1.05, 1.1)]
    said = judge(wild, session(1.0))[NAME]
    assert said.outcome == "inconclusive"
    assert "--against" in said.details[-1]


def test_c44_a_another_machine_compares_no_time_but_acceptance() -> None:
    found = judge(five(1.0), session(3.0, machine=MACHINE | {"cpu_model": "Y"}))
    assert (found[NAME].outcome, found[NAME].compared) == ("inconclusive", 0)
    assert "cpu_model" in found[NAME].details[0]
    assert found["tokens per step of draft, greedy"].outcome == "pass"
    worse = session(3.0, machine=None, tokens_per_step={"tokens per step of draft, greedy": 1.9})
    assert judge(five(1.0), worse)["tokens per step of draft, greedy"].outcome == "regression"


def test_c44_c_another_version_of_torch_is_refused_and_named() -> None:
    said = judge(five(1.0), session(1.0, other=OTHER | {"torch": "2.14"}))[NAME]
    assert said.outcome == "inconclusive"
    assert "torch" in said.details[0]


def test_c44_d_a_stale_baseline_passes_with_the_advice_to_refresh_it() -> None:
    fast = judge(five(6.57), session(1.80))[NAME]
    assert fast.outcome == "pass"
    assert fast.details == ("72.6% faster than the baseline, refresh it: gate --stored --record",)
    assert judge(five(6.57), session(4.14))[NAME].outcome == "pass"
    assert "faster than the baseline" in judge(five(6.57), session(4.14))[NAME].details[0]
    assert judge(five(1.80), session(4.14))[NAME].outcome == "regression"


def test_c44_e_sessions_without_a_machine_are_left_out_with_a_remark() -> None:
    nameless = judge([session(1.0, machine=None)] * 5, session(1.0))[NAME]
    assert nameless.outcome == "inconclusive"
    assert "5 sessions without a machine" in nameless.details[0]


def test_a_metric_that_is_gone_is_a_regression() -> None:
    assert judge(five(1.0), session(1.0, times={}))["missing"].details == (NAME,)


def test_sessions_come_back_as_they_were_written(tmp_path: Path) -> None:
    for one in five(1.0):
        append_session(one, tmp_path / "m" / "qa.jsonl")
    assert read_sessions(tmp_path / "m" / "qa.jsonl") == five(1.0)


@pytest.mark.parametrize("value", ["0", "null", "-1", "NaN", '"1"', "true"])
def test_a_stored_time_that_is_no_usable_number_is_refused_by_name(tmp_path: Path, value: str) -> None:
    file = tmp_path / "qa.jsonl"
    file.write_text(json.dumps(asdict(session(7.5))).replace("7.5", value) + "\n")
    with pytest.raises(UsageError, match=r"line 1: not a session.*latency of direct"):
        read_sessions(file)


@pytest.mark.parametrize("text", ["{}\n", "[]\n", "null\n", "nonsense\n", ""])
def test_a_file_that_holds_no_sessions_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "qa.jsonl"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"qa\.jsonl"):
        read_sessions(file)


def test_a_session_holds_geometric_means_and_ratios_to_direct() -> None:
    made = run(
        [
            *(cell("direct", f"p{i}", s) for i, s in enumerate((1.0, 4.0))),
            *(cell("draft", f"p{i}", s, steps=steps([1, 2])) for i, s in enumerate((0.5, 2.0))),
        ]
    )
    found = session_of(made)
    assert found.times == pytest.approx({NAME: 2.0, "latency of draft over direct, greedy": 0.5})
    assert found.tokens_per_step == {"tokens per step of draft, greedy": 2.5}


def test_an_incomplete_or_failing_run_is_no_session() -> None:
    with pytest.raises(UsageError, match="no session"):
        session_of(run([cell("direct")], footer=None))
    made = run([failed("direct")])
    assert made.footer is not None
    with pytest.raises(UsageError, match="no session"):
        session_of(replace(made, footer=replace(made.footer, errors=1)))
