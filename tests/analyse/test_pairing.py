"""From pairs of launches to what the gate tests, by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from runs import cell, failed, run, steps

from xpress_bench.analyse.pairing import log_ratios, memory_checks, quality_checks, same_work
from xpress_bench.records import Cell, Memory, Replay, Run


def launch(direct_s: float, draft_s: float, prompts: int = 3) -> Run:
    return run(
        [
            cell(arm, f"p{i}", (1 + i) * s)
            for i in range(prompts)
            for arm, s in (("direct", direct_s), ("draft", draft_s))
        ]
    )


def test_direct_is_judged_by_its_latency_and_others_by_theirs_over_it() -> None:
    logs = log_ratios([(launch(1.0, 0.5), launch(1.1, 0.55)), (launch(1.0, 0.5), launch(1.0, 0.6))])
    assert list(logs) == ["latency of direct, greedy", "latency of draft over direct, greedy"]
    assert logs["latency of direct, greedy"] == pytest.approx([math.log(1.1), 0.0])
    assert logs["latency of draft over direct, greedy"] == pytest.approx([0.0, math.log(1.2)])


def test_only_prompts_that_every_arm_of_both_sides_answered_count() -> None:
    base = launch(1.0, 0.5)
    lost = replace(base, cells=tuple(c for c in launch(2.0, 1.0).cells if (c.arm, c.prompt) != ("draft", "p0")))
    slower_p0 = replace(base, cells=tuple(replace(c, latency_s=99.0) if c.prompt == "p0" else c for c in base.cells))
    logs = log_ratios([(slower_p0, lost)])
    assert logs["latency of direct, greedy"] == pytest.approx([math.log(2)])


def test_same_work_names_what_the_candidate_did_not_do() -> None:
    base = launch(1.0, 0.5)
    assert same_work(base, base).outcome == "pass"
    fewer = replace(base, cells=base.cells[:-1])
    assert same_work(base, fewer).outcome == "regression"
    assert same_work(base, fewer).details == ("draft, greedy, p2: missing from the candidate",)
    broken = replace(base, cells=(*base.cells[:-1], failed("draft", "p2", "boom")))
    assert same_work(base, broken).details == ("draft, greedy, p2: boom",)
    other = replace(base, cells=tuple(replace(c, prompt=f"x{c.prompt}") for c in base.cells))
    assert same_work(base, other).outcome == "broken"
    assert same_work(base, other).compared == 0


def drafting(accepted: list[int], replays: tuple[Replay, ...] = ()) -> Run:
    cells: list[Cell] = [cell("direct"), cell("draft", steps=steps(accepted))]
    return run(cells, replays=replays)


def test_acceptance_may_drop_by_its_limit_and_no_more() -> None:
    def outcome(accepted: list[int]) -> str:
        return next(iter(quality_checks(drafting([99] * 10), drafting(accepted), drop=0.01))).outcome

    assert outcome([98] * 10) == "pass"  # 100 -> 99 tokens per step
    assert outcome([98] * 9 + [97]) == "regression"
    assert outcome([]) == "broken"


def test_a_new_real_difference_is_a_regression_and_a_tie_is_not() -> None:
    def judged(verdict: str) -> Replay:
        return Replay("p0", 0, "draft", cell("draft").condition, 1, 2, 3, 0.5, 0.0, verdict)  # type: ignore[arg-type]

    def outcome(base: tuple[Replay, ...], found: tuple[Replay, ...]) -> str:
        return list(quality_checks(drafting([1], base), drafting([1], found), 0.01))[1].outcome

    assert outcome((), (judged("real"),)) == "regression"
    assert outcome((), (judged("tie"),)) == "pass"
    assert outcome((judged("real"),), (judged("real"),)) == "pass"  # as wrong as the base: not this change's doing


def test_memory_rises_are_judged_and_an_unknown_peak_is_no_pass() -> None:
    def measured(direct: int | None) -> Run:
        reason = None if direct else "no NVML"
        memory = [Memory("direct", "process_peak_rss", direct, reason=reason)]
        return run([cell("direct")], memory=memory)

    def outcome(base: int | None, found: int | None) -> str:
        return next(iter(memory_checks(measured(base), measured(found), 0.05))).outcome

    assert [outcome(100, 105), outcome(100, 106), outcome(None, None)] == ["pass", "regression", "inconclusive"]
    assert [outcome(100, None), outcome(None, 100)] == ["broken", "broken"]
