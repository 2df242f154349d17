"""Figures of a load run, worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from loads import STAGE, asked, load, steady
from scipy import stats

from xpress_bench.analyse.answers import deliveries, gaps_s, meets, token_s
from xpress_bench.analyse.growth import Growth, growth
from xpress_bench.analyse.intervals import Interval, Unknown
from xpress_bench.analyse.load import ArmLoad, summarise
from xpress_bench.load_records import Load, Mark, Stage
from xpress_bench.records import Condition

GREEDY, COUPLED, REJECTION = Condition(0.0, "greedy"), Condition(1.0, "coupled"), Condition(1.0, "rejection")
DIRECT, DRAFT = (STAGE.name, "direct", 0), (STAGE.name, "draft", 0)


def only(of: Load, condition: Condition = GREEDY, arm: int = 0) -> ArmLoad:
    (stage,) = summarise(of, condition)
    return stage.arms[arm]


def test_rates_and_times_of_a_steady_stage() -> None:
    found = only(load({DIRECT: steady()})).figures
    assert isinstance(found.tokens_per_s, Interval)
    # One request a second: its first token comes after 0.5 s, its second after 1 s, at which time the next one comes.
    # What ends at a block's border is in the later block; the last ends with the stage and is inside.
    assert found.tokens_per_s.estimate == pytest.approx(80 / 40)
    assert found.requests_per_s.estimate == pytest.approx(40 / 40)
    p50, _, p99 = found.times["latency"]
    assert isinstance(p50, Interval)
    assert (p50.estimate, p50.low, p50.high) == pytest.approx((1.0, 1.0, 1.0))
    assert isinstance(p99, Unknown)
    assert found.times["ttft"][0].estimate == pytest.approx(0.5)
    assert found.times["gap"][0].estimate == pytest.approx(0.5)
    assert found.times["token"][0].estimate == pytest.approx(0.5)
    assert found.times["queue"][0].estimate == 0
    assert found.times["service"][0].estimate == pytest.approx(1.0)


def test_what_comes_after_the_stage_is_in_no_rate() -> None:
    late = [*steady(39), asked(39, 39.0, 5.0)]  # its tokens come at 41.5 and 44
    found = only(load({DIRECT: late})).figures
    assert found.tokens_per_s.estimate == pytest.approx(78 / 40)
    assert found.requests_per_s.estimate == pytest.approx(39 / 40)
    assert max(found.latencies_s) == 5.0


def test_degraded_and_failed_requests_are_counted_and_in_no_figure() -> None:
    changed = steady()
    changed[3] = replace(changed[3], degraded="at most 2 tokens", ended_s=900.0)
    changed[4] = replace(changed[4], status="failed", reason="connection reset", ended_s=900.0, attempts=2)
    changed[5] = replace(changed[5], status="shed", reason="the circuit is open", started_s=None, first_s=None)
    of = only(load({DIRECT: changed}))
    assert of.counts.statuses == {"ok": 38, "failed": 1, "shed": 1}
    assert (of.counts.asked, of.counts.degraded, of.counts.retried, of.counts.lost) == (40, 1, 1, 0)
    assert of.counts.reasons == {"failed, connection reset": 1, "shed, the circuit is open": 1}
    assert len(of.figures.latencies_s) == 37
    assert max(of.figures.latencies_s) == pytest.approx(1.0)
    assert of.figures.tokens_per_s.estimate == pytest.approx(2 * 37 / 40)


def test_a_request_without_an_end_is_lost() -> None:
    missing = load({DIRECT: [*steady(10), *steady(12)[11:]]}, {DIRECT: Mark(*DIRECT, "ended", "", asked=12)})
    assert only(missing).counts.lost == 1
    twice = load({DIRECT: [*steady(10), asked(9)]}, {DIRECT: Mark(*DIRECT, "ended", "", asked=11)})
    assert only(twice).counts.lost == 1  # one index twice, another not at all


def test_a_stopped_stage_is_counted_and_has_no_figures() -> None:
    stopped = Mark(*DIRECT, "stopped", "", asked=40, reason="interrupted")
    of = only(load({DIRECT: steady()}, {DIRECT: stopped}))
    assert (of.counts.unfinished, of.counts.asked) == ("interrupted", 40)
    assert of.figures.tokens_per_s == Unknown("no request was answered")
    assert isinstance(of.memory, Unknown)


def test_arms_are_compared_by_the_repeats_they_share() -> None:
    second = (STAGE.name, "direct", 1), (STAGE.name, "draft", 1)
    units = {
        DIRECT: steady(20, 2.0),  # 1 token a second
        DRAFT: steady(40),  # 2
        second[0]: steady(20, 2.0),
        second[1]: steady(80, 0.5),  # 4 a second
    }
    found = only(load(units), arm=1).versus
    assert isinstance(found, Interval)
    logs = [math.log(2), math.log((2 * 79 + 1) / 40)]  # the last of 80 comes at 39.5 and ends after the stage
    low, high = stats.ttest_1samp(logs, 0).confidence_interval(0.95)
    assert (found.estimate, found.low, found.high) == pytest.approx(
        (math.exp(sum(logs) / 2), *map(math.exp, (low, high)))
    )
    alone = only(load({DIRECT: steady(20, 2.0), DRAFT: steady(40)}), arm=1).versus
    assert isinstance(alone, Unknown)
    assert alone.estimate == pytest.approx(2)
    assert only(load({DRAFT: steady(40)})).versus == Unknown("no repeat in which direct and this arm were measured")


def test_outputs_are_compared_with_direct_where_they_can_be() -> None:
    changed = steady()
    changed[3] = replace(changed[3], output="ids:other")
    changed[4] = replace(changed[4], output="text:4")  # of another kind: not compared
    changed[5] = replace(changed[5], status="deadline", output=None)
    changed[6] = replace(changed[6], seed=9)
    units = {DIRECT: steady(), DRAFT: changed}
    assert only(load(units), GREEDY, 1).identical == (37, 38)
    assert only(load(units), COUPLED, 1).identical == (36, 37)  # seed 9 has no partner
    assert only(load(units), REJECTION, 1).identical == (0, 0)
    again = [*steady(20), *(replace(one, index=one.index + 20) for one in steady(20))]
    again[30] = replace(again[30], output="ids:swapped")
    assert only(load({DIRECT: again})).identical == (39, 40)  # direct against its own first output


def test_good_is_of_all_that_asked() -> None:
    changed = steady(50, 0.8)
    changed[0] = replace(changed[0], status="shed")
    changed[1] = asked(1, 0.8, 3.0)
    of = only(load({DIRECT: changed}, objective={"latency": 2.0})).figures
    assert of.good.estimate == pytest.approx(48 / 50)
    assert only(load({DIRECT: changed})).figures.good == Unknown("no objective was given")
    assert of.good_per_s.estimate == pytest.approx(47 / 40)  # the last ends at 40.2


def test_what_meets_an_objective() -> None:
    one = asked(0, 10.0, 4.0)  # first token after 2 s, the second 2 s later
    assert meets(one, {"ttft": 2.0, "latency": 4.0, "token": 2.0})
    for name, limit in (("ttft", 1.9), ("latency", 3.9), ("token", 1.9)):
        assert not meets(one, {name: limit})
    assert not meets(replace(one, degraded="x"), {"latency": 9.0})
    assert not meets(replace(one, tokens=None), {"token": 9.0})  # not known is not good
    assert not meets(replace(one, first_s=None), {"ttft": 9.0})
    assert meets(replace(one, tokens=1, gaps_s=(), delivered=(1,)), {"token": 0.1})


def test_deliveries_and_gaps() -> None:
    one = asked(0, first_s=0.5, gaps_s=(0.25, 1.0), delivered=(1, 4, 2), tokens=7)
    other = asked(1, first_s=0.25, gaps_s=(0.75,), delivered=(), tokens=6)  # a server that does not say how many
    assert deliveries([one, other]) == ([0.5, 0.75, 1.75, 0.25, 1.0], [1, 4, 2, 3.0, 3.0])
    assert gaps_s([one, other]) == [0.25, 0.75, 1.0]  # they end at 0.75, 1.0 and 1.75
    assert token_s(one) == pytest.approx(1.25 / 6)
    uncounted = [replace(one, tokens=None, delivered=()) for one in steady()]
    assert only(load({DIRECT: uncounted})).figures.tokens_per_s == Unknown("the server does not count its tokens")


def test_a_stage_of_a_few_requests_lasts_until_its_last_has_ended() -> None:
    stage = Stage("single", clients=1, requests=3)
    of = load({("single", "direct", 0): steady(3)}, stages=(stage,))
    assert only(of).figures.tokens_per_s == Unknown(
        "a tenth of the stage is shorter than a request", pytest.approx(2.0)
    )


def test_memory_that_grows_and_memory_that_does_not() -> None:
    filling = [(float(t), 1000 + min(t, 20) * 50) for t in range(60)]  # full after 20 looks
    leaking = [(float(t), 1000 + t) for t in range(60)]
    found = growth([filling])
    assert found == Growth(1000, 2000, 2000, False)
    assert growth([filling, leaking]) == Growth(1000, 1059, 1059, True)
    assert growth([leaking[:18]]) == Growth(1000, 1017, 1017, None)
    slow = [(float(t), 1_000_000 + t) for t in range(60)]  # surely, and by 30 millionths
    assert growth([slow]) == Growth(1_000_000, 1_000_059, 1_000_059, False)
    assert isinstance(growth([()]), Unknown)
