"""Runs of batches: a second in which several requests ran counts once, and the batch is the unit of inference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from runs import Item, cell, failed, run, steps

from xpress_bench.analyse.between import arms, between
from xpress_bench.analyse.evidence import examine
from xpress_bench.analyse.intervals import Interval, Unknown
from xpress_bench.analyse.ledger import ledger
from xpress_bench.analyse.metrics import speedups
from xpress_bench.analyse.pairing import log_ratios
from xpress_bench.analyse.reduce import select
from xpress_bench.analyse.summary import by, summarise
from xpress_bench.analyse.throughput import curves
from xpress_bench.errors import UsageError
from xpress_bench.records import Cell, Run

BATCHES = (("p0", "p1"), ("p2", "p3"))
IDS = {"p0": (1, 2, 3), "p1": (1, 2, 3, 4, 5), "p2": (1, 2, 3, 4), "p3": (1, 2, 3, 4)}
# Seconds from the start of a batch to the last id of each prompt, by hand: the batches take 4 and 3 s, 2 and 1 s.
LATENCIES_S = {
    "direct": {"p0": 2.0, "p1": 4.0, "p2": 3.0, "p3": 3.0},
    "draft": {"p0": 1.0, "p1": 2.0, "p2": 0.5, "p3": 1.0},
}


def rows(repeats: int = 1, launches: int = 1) -> list[Cell]:
    return [
        row(arm, prompt, repeat=repeat, launch=launch)
        for launch in range(launches)
        for repeat in range(repeats)
        for arm in LATENCIES_S
        for prompt in IDS
    ]


def row(arm: str, prompt: str, **changes: object) -> Cell:
    """Half a second of prefill; a step of `draft` adds one token and takes what is left, in equal parts."""
    latency_s, ids = LATENCIES_S[arm][prompt], IDS[prompt]
    plain = cell(arm, prompt, latency_s, ids=ids, prefill_s=0.25, ttft_s=0.25, batch=int(prompt in BATCHES[1]))
    if arm == "draft":
        count = len(ids) - 1
        each = (latency_s - 0.25) / count / 3
        taken = steps([0] * count, offered=1)
        times = {f"{stage}_s": (each,) * count for stage in ("draft", "refine", "verify")}
        plain = replace(plain, steps=replace(taken, **times), rest_s=0.0)
    return replace(plain, **changes)


def batched(cells: Sequence[Cell] | None = None, **header: Any) -> Run:
    plain = run(rows() if cells is None else cells)
    settings = plain.header.settings | header.pop("settings", {"batch_size": 2})
    return replace(plain, header=replace(plain.header, **{"settings": settings, "batches": BATCHES} | header))


def test_seconds_of_a_batch_count_once() -> None:
    of = summarise(batched()).conditions[0]
    direct, draft = of.arms
    assert direct.tokens_per_s.estimate == pytest.approx(16 / (4 + 3))
    assert draft.tokens_per_s.estimate == pytest.approx(16 / (2 + 1))
    speed = of.speed_up("draft")
    assert speed is not None
    assert isinstance(speed.gmean_paired, Interval)
    assert speed.gmean_paired.estimate == pytest.approx(6**0.5)  # of 4 / 2 and 3 / 1
    assert speed.total_time.estimate == pytest.approx(7 / 3)
    assert (speed.prompts, speed.gmean_paired.n, speed.units) == (2, 2, "batches")
    assert of.stability.timed == 4  # two batches of two arms
    assert (of.usable, of.expected) == (8, 8)  # what is expected are requests as ever


def test_the_interval_is_over_batches_however_many_rows_they_have() -> None:
    """The same figures as of two single requests that take what the batches take."""
    alone = [
        cell(arm, f"b{at}", latency_s, ids=(1,) * 8)
        for arm, seconds in (("direct", (4.0, 3.0)), ("draft", (2.0, 1.0)))
        for at, latency_s in enumerate(seconds)
    ]
    ours, theirs = (summarise(one).conditions[0] for one in (batched(), run(alone)))
    assert ours.speed_ups[0].gmean_paired == theirs.speed_ups[0].gmean_paired
    assert ours.speed_ups[0].p_adjusted == theirs.speed_ups[0].p_adjusted
    assert [one.tokens_per_s for one in ours.arms] == [one.tokens_per_s for one in theirs.arms]


def test_repeats_and_launches_are_units_as_ever() -> None:
    slower = [replace(one, latency_s=one.latency_s and 3 * one.latency_s) for one in rows() if one.arm == "direct"]
    cells = [
        *rows(repeats=3),
        *(replace(one, repeat=3) for one in slower),
        *(replace(one, repeat=3) for one in rows()[4:]),
    ]
    speed = summarise(batched(cells)).conditions[0].speed_ups[0]
    assert speed.total_time.estimate == pytest.approx(
        7 / 3
    )  # the median of four repeats, one of them three times as long


def test_latency_is_that_of_the_median_request_of_the_median_batch() -> None:
    direct, draft = summarise(batched()).conditions[0].arms
    assert direct.latency_s.estimate == pytest.approx((3.0 + 3.0) / 2)  # of 2 and 4 s, of 3 and 3 s
    assert draft.latency_s.estimate == pytest.approx((1.5 + 0.75) / 2)
    assert isinstance(direct.latency_s, Interval)
    assert direct.latency_s.n == 2


def test_counts_stay_those_of_prompts() -> None:
    draft = summarise(batched()).conditions[0].arms[1]
    steps_of = draft.acceptance.tokens_per_step_committed_step
    assert isinstance(steps_of, Interval)
    assert (steps_of.estimate, steps_of.n) == (1, 4)
    assert not isinstance(draft.parity, Unknown)
    assert isinstance(draft.parity.identical, Interval)
    assert (draft.parity.identical.estimate, draft.parity.identical.n) == (1, 4)


def test_stages_and_cost_are_those_of_a_request_and_pair_by_batch() -> None:
    draft = summarise(batched()).conditions[0].arms[1]
    assert not isinstance(draft.stages, Unknown)
    assert draft.stages.steps == 2 + 4 + 3 + 3
    spent_s = sum(LATENCIES_S["draft"].values()) - 4 * 0.25
    assert draft.stages.step_s == pytest.approx(spent_s / 12)
    assert draft.stages.reliable
    assert not isinstance(draft.cost, Unknown)
    assert isinstance(draft.cost.step_ratio, Interval)
    direct_s = sum(LATENCIES_S["direct"].values()) - 4 * 0.25  # of as many tokens behind the first
    assert draft.cost.step_ratio.estimate == pytest.approx(spent_s / direct_s)
    assert draft.cost.break_even_tokens_per_step.estimate == pytest.approx(spent_s / direct_s)  # of a row
    assert draft.cost.step_ratio.n == 2


def test_gain_per_millisecond_is_not_told_for_the_millisecond_is_shared() -> None:
    taken = replace(row("draft", "p0").steps, drafts=((9,), (9,)), refined=((9,), (9,)))
    arm = replace(batched().header.arms[1], refiner="xpress")
    found = ledger(arm, [row("draft", "p0", steps=taken)])
    assert not isinstance(found, Unknown)
    assert found.gain_per_ms == Unknown("the refiner's time is that of a whole batch")


def test_a_batch_without_one_of_its_rows_is_not_timed() -> None:
    cells = [replace(one, stop_reason="short") if (one.arm, one.prompt) == ("direct", "p1") else one for one in rows()]
    of = summarise(batched(cells)).conditions[0]
    assert of.arms[0].tokens_per_s == Unknown("n < 2", 8 / 3)  # of the other batch
    assert of.speed_ups[0].gmean_paired.estimate == pytest.approx(3)
    assert of.speed_ups[0].missing == ("batch 1",)


def test_an_arm_with_a_failed_batch_is_in_no_average() -> None:
    cells = [failed(one.arm, one.prompt, batch=0) if one.prompt in BATCHES[0] else one for one in rows()]
    of = summarise(batched(cells)).conditions[0]
    assert (of.usable, len(of.failed)) == (4, 4)
    assert all(isinstance(one.tokens_per_s, Unknown) for one in of.arms)


def test_some_prompts_of_the_batches_have_no_throughput_of_their_own() -> None:
    items = [Item(prompt, category="even" if prompt in ("p0", "p2") else "odd") for prompt in IDS]
    for of in by(batched(), items, "category").values():
        assert isinstance(of.conditions[0].arms[0].tokens_per_s, Unknown)
        assert isinstance(of.conditions[0].speed_ups[0].gmean_paired, Unknown)
        assert isinstance(of.conditions[0].arms[1].acceptance.tokens_per_step_committed_step, Interval)


def test_other_rules_take_whole_batches_too() -> None:
    selection = select(batched(), batched().header.conditions[0])
    found = speedups(selection, "draft", "direct")
    assert found["speedup_total_time"].estimate == pytest.approx(7 / 3)
    assert found["speedup_mean_tps"].estimate == pytest.approx((8 / 2 + 8 / 1) / (8 / 4 + 8 / 3))
    (logs,) = {
        name: values for name, values in log_ratios([(batched(), batched())]).items() if "draft" in name
    }.values()
    assert logs == [0.0]
    assert [one.worst() for one in examine(batched())] == ["batch 1 2.00x, batch 2 3.00x"]


def test_two_arms_of_a_run_compare_by_batch() -> None:
    (one,) = arms(batched(), "direct", "draft").comparisons
    assert isinstance(one.latency_s.change, Interval)
    assert (one.latency_s.change.estimate, one.latency_s.change.n) == (pytest.approx(6**0.5), 2)
    assert one.total_time.estimate == pytest.approx(7 / 3)
    assert (one.prompts, one.identical.estimate) == (4, 1)


def test_two_runs_compare_where_their_batches_are_the_same() -> None:
    slow = [replace(one, latency_s=one.latency_s and 2 * one.latency_s) for one in rows()]
    same = {one.name: one for one in between(batched(slow), batched(run="r2")).comparisons}
    assert same["draft"].latency_s.change.estimate == pytest.approx(2)
    assert same["draft"].total_time.estimate == pytest.approx(2)
    assert same["draft"].over_direct is not None
    assert same["draft"].over_direct.base.estimate == pytest.approx(6**0.5)
    assert same["draft"].over_direct.change.estimate == pytest.approx(1)
    others = [replace(one, batch=int(one.prompt in ("p1", "p3"))) for one in rows()]
    mixed = between(batched(), batched(others, batches=(("p0", "p2"), ("p1", "p3")), run="r2"))
    assert all(isinstance(one.latency_s.change, Unknown) for one in mixed.comparisons)
    assert all(one.identical.estimate == 1 for one in mixed.comparisons)


def test_runs_of_other_batch_sizes_are_not_compared() -> None:
    single = [replace(one, batch=None) for one in rows()]
    with pytest.raises(UsageError, match="batch_size"):
        between(batched(), run(single))


def test_a_curve_tells_where_it_pays() -> None:
    def of(size: int, faster: float) -> Run:
        """16 batches of `size` on which draft is so many times as fast, give or take 4 %."""
        speed = {"direct": (1.0, 1.0), "draft": (0.96 * faster, 1.04 * faster)}
        cells = [
            cell(arm, f"p{at}", 1 / speed[arm][at // size % 2], batch=None if size == 1 else at // size)
            for arm in speed
            for at in range(16 * size)
        ]
        batches = tuple(tuple(f"p{at + row}" for row in range(size)) for at in range(0, 16 * size, size))
        return batched(cells, settings={"batch_size": size}, batches=batches if size > 1 else ())

    runs = [of(4, 0.9), of(1, 2.0), of(2, 1.0)]
    found = curves([summarise(one) for one in runs], runs[0].header.conditions[0])
    assert [one.arm for one in found] == ["direct", "draft (dflash B=8)"]
    assert [point.batch_size for point in found[1].points] == [1, 2, 4]
    assert found[1].pays == (1,)
    with pytest.raises(UsageError, match="two runs have batch size 2"):
        curves([summarise(one) for one in [*runs, of(2, 1.0)]], runs[0].header.conditions[0])
