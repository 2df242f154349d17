"""The load loop in virtual time: every figure here is worked out by hand."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from fake import PATIENT, FakeEngine, Script, ask, run

from xpress_bench.load.arrivals import arrivals, order
from xpress_bench.load.loop import Loop
from xpress_bench.load_records import Asked, Degrade, Policy, Stage

CLIENTS = Stage("2 clients", clients=2, seconds=10.0)
FIXED = Stage("1/s", rate=1.0, arrivals="fixed", seconds=10.0)


def latencies(found: list[Asked]) -> list[float]:
    return [one.ended_s - one.arrival_s for one in sorted(found, key=lambda one: one.index)]


def test_a_closed_loop_asks_again_as_soon_as_it_is_answered() -> None:
    engine = FakeEngine(lambda ask, nth: Script(done_s=2.0))
    found, _ = run(engine, CLIENTS)
    assert [one.arrival_s for one in found] == [0, 0, 2, 2, 4, 4, 6, 6, 8, 8]
    assert {one.status for one in found} == {"ok"}
    assert engine.most_running == 2


def test_requests_in_hand_at_the_end_are_waited_for() -> None:
    found, loop = run(FakeEngine(lambda ask, nth: Script(done_s=7.0)), CLIENTS)
    assert [(one.arrival_s, one.ended_s) for one in found] == [(0, 7), (0, 7), (7, 14), (7, 14)]
    assert loop.asked == 4


def test_a_stage_of_so_many_requests_ends_after_them() -> None:
    found, _ = run(FakeEngine(), Stage("single", clients=1, requests=3))
    assert [one.ended_s for one in found] == [1, 2, 3]


def test_rows_are_filled_in_the_order_of_arrival_and_waiting_is_not_service() -> None:
    found, _ = run(FakeEngine(lambda ask, nth: Script(done_s=3.0), capacity=1), replace(FIXED, seconds=3.0))
    assert [(one.index, one.arrival_s, one.started_s, one.ended_s) for one in found] == [
        (0, 0, 0, 3),
        (1, 1, 3, 6),
        (2, 2, 6, 9),
    ]


def test_a_stalling_engine_cannot_hide_the_requests_it_kept_from_being_sent() -> None:
    # One request a second, each answered in 0.1 s; from 2 to 7 the engine hangs. Who came at 3, 4, 5, 6 waited for it.
    engine = FakeEngine(lambda ask, nth: Script(done_s=0.1), stalls=((2.0, 7.0),))
    found, _ = run(engine, FIXED)
    assert latencies(found) == pytest.approx([0.1, 0.1, 5.1, 4.1, 3.1, 2.1, 1.1, 0.1, 0.1, 0.1])
    # What a loop that waits for each answer before it asks again would see: one slow request of ten.
    closed, _ = run(
        FakeEngine(lambda ask, nth: Script(done_s=0.1), stalls=((2.0, 7.0),)), Stage("c", clients=1, requests=60)
    )
    assert sum(latency > 1 for latency in latencies(closed)) == 1


def test_arrivals_are_drawn_from_the_stage_alone() -> None:
    poisson = Stage("5/s", rate=5.0, seconds=400.0)
    drawn = arrivals(poisson, 0)
    assert drawn == arrivals(poisson, 0) != arrivals(poisson, 1)
    assert drawn == sorted(drawn)
    assert drawn[0] > 0
    assert drawn[-1] < 400
    assert abs(len(drawn) - 2000) < 4 * 2000**0.5  # Poisson: mean and variance 2000
    gaps = [b - a for a, b in itertools.pairwise(drawn)]
    assert sum(gap > 0.2 for gap in gaps) / len(gaps) == pytest.approx(2.718281828**-1, abs=0.05)
    assert arrivals(FIXED, 0) == list(range(10))
    assert order(CLIENTS, 0, range(9)) == order(CLIENTS, 0, range(9)) != order(CLIENTS, 1, range(9))


def test_first_token_gaps_and_tokens_are_those_of_the_deliveries() -> None:
    deliveries = ((0.5, (7,)), (0.7, (8, 9, 10)), (1.0, (11,)))
    (one,), _ = run(FakeEngine(lambda ask, nth: Script(1.0, deliveries)), Stage("single", clients=1, requests=1))
    assert (one.first_s, one.gaps_s, one.delivered, one.tokens) == (0.5, (0.2, 0.3), (1, 3, 1), 5)
    (same,), _ = run(
        FakeEngine(lambda ask, nth: Script(1.0, ((0.5, (7, 8, 9, 10, 11)),))), Stage("single", clients=1, requests=1)
    )
    assert one.output == same.output  # the same ids, whatever their deliveries


def test_a_deadline_counts_from_the_arrival_waiting_or_running() -> None:
    engine = FakeEngine(lambda ask, nth: Script(done_s=4.0), capacity=1)
    found, _ = run(engine, replace(FIXED, seconds=3.0), Policy(deadline_s=5.0))
    assert [(one.index, one.status, one.started_s, one.ended_s) for one in found] == [
        (0, "ok", 0, 4),
        (1, "deadline", 4, 6),  # came at 1, and needed until 8
        (2, "deadline", 6, 7),
    ]
    assert [one.index for one in engine.cancelled] == [1, 2]


def test_an_answer_that_the_loop_sees_late_is_judged_by_its_own_time() -> None:
    for done_s, status in ((4.0, "ok"), (6.0, "deadline")):
        engine = FakeEngine(lambda ask, nth, done_s=done_s: Script(done_s), stalls=((4.0, 9.0),))
        (one,), _ = run(engine, Stage("single", clients=1, requests=1), Policy(deadline_s=5.0))
        assert (one.status, one.ended_s) == (status, done_s)


def test_only_what_may_help_is_tried_again_and_no_more_often_than_allowed() -> None:
    policy = Policy(deadline_s=100.0, retries=2, failures=100)
    scripts = {
        0: lambda nth: Script(0.1, reason="connection refused"),
        1: lambda nth: Script(0.1, reason="HTTP 400", again=False),
    }
    found, _ = run(FakeEngine(lambda ask, nth: scripts[ask.index](nth)), Stage("s", clients=1, requests=2), policy)
    assert [(one.index, one.status, one.attempts, one.reason) for one in found] == [
        (0, "failed", 3, "connection refused"),
        (1, "failed", 1, "HTTP 400"),
    ]


def test_a_second_attempt_waits_as_long_as_it_is_told_and_starts_afresh() -> None:
    first = Script(1.0, ((0.5, (1, 2)),), reason="503", wait_s=3.0)
    second = Script(2.0, ((1.0, (5,)),))
    engine = FakeEngine(lambda ask, nth: (first, second)[nth])
    (one,), _ = run(engine, Stage("s", clients=1, requests=1), Policy(deadline_s=100.0, backoff_s=0.1))
    assert (one.status, one.attempts, one.started_s, one.first_s, one.ended_s) == ("ok", 2, 4.0, 5.0, 6.0)
    assert one.tokens == 1  # what the first attempt said was thrown away


def test_backoff_is_drawn_below_a_bound_that_doubles() -> None:
    policy = Policy(deadline_s=1e6, retries=6, backoff_s=1.0, longest_s=10.0, failures=1000)
    engine = FakeEngine(lambda ask, nth: Script(0.0, reason="refused"))
    run(engine, Stage("s", clients=1, requests=1), policy)
    waits = [b - a for (a, _), (b, _) in zip(engine.submitted, engine.submitted[1:], strict=False)]
    assert all(0 <= wait <= most for wait, most in zip(waits, (1, 2, 4, 8, 10, 10), strict=True))
    assert len(set(waits)) == 6


def test_the_circuit_opens_sheds_probes_and_closes() -> None:
    # One a second from 0. The engine fails at once until 7.5. Five failures open the circuit at 4, for 2 s: 5 is shed,
    # 6 is a probe and fails, 7 is shed, 8 is a probe and succeeds.
    engine = FakeEngine(lambda ask, nth: Script(0.0, reason="dead") if engine.time_s < 7.5 else Script(0.5))
    found, loop = run(engine, FIXED, Policy(deadline_s=50.0, retries=0, failures=5, probe_s=2.0))
    assert [one.status for one in found] == ["failed"] * 5 + ["shed", "failed", "shed", "ok", "ok"]
    assert (loop.circuit.opened, loop.circuit.open) == (1, False)
    assert {one.attempts for one in found if one.status == "shed"} == {0}


def test_while_a_probe_is_out_all_others_are_shed() -> None:
    # Dead until 1, then every answer takes 3 s. Opens at 0; the probe leaves at 2 and is back at 5.
    engine = FakeEngine(lambda ask, nth: Script(0.0, reason="dead") if engine.time_s < 1 else Script(3.0))
    found, _ = run(engine, FIXED, Policy(deadline_s=50.0, retries=0, failures=1, probe_s=2.0))
    by_index = [one.status for one in sorted(found, key=lambda one: one.index)]
    assert by_index == ["failed", "shed", "ok", "shed", "shed", "ok", "ok", "ok", "ok", "ok"]


def test_clients_of_an_open_circuit_wait_for_the_next_probe() -> None:
    engine = FakeEngine(lambda ask, nth: Script(0.0, reason="dead"))
    found, loop = run(engine, CLIENTS, Policy(deadline_s=50.0, retries=0, failures=1, probe_s=2.0))
    assert Counter(one.status for one in found) == {"failed": 6, "shed": 4}  # both at 0; then a probe at 2, 4, 6, 8
    assert loop.circuit.open


def test_a_mute_engine_opens_the_circuit_too() -> None:
    policy = Policy(deadline_s=2.0, failures=2, probe_s=100.0)
    found, loop = run(FakeEngine(lambda ask, nth: Script(forever=True)), CLIENTS, policy)
    assert [one.status for one in found] == ["deadline", "deadline", "shed"]  # the second would ask again at 102
    assert loop.circuit.open


def test_a_probe_that_is_slow_and_speaks_closes_the_circuit() -> None:
    slow = Script(100.0, ((0.5, (1,)),))
    engine = FakeEngine(lambda ask, nth: Script(0.0, reason="dead") if engine.time_s < 1 else slow)
    found, loop = run(engine, FIXED, Policy(deadline_s=3.0, retries=0, failures=1, probe_s=2.0))
    by_index = [one.status for one in sorted(found, key=lambda one: one.index)]
    assert by_index == ["failed", "shed", "deadline", "shed", "shed", *["deadline"] * 5]  # the probe of 2 ends at 5
    assert not loop.circuit.open


def test_tokens_are_those_that_came_or_those_that_a_server_counts() -> None:
    def one_of(*deliveries: tuple[float, tuple[int, ...] | None], tokens: int | None = None) -> Asked:
        script = Script(1.0, deliveries, tokens=tokens)
        (one,), _ = run(FakeEngine(lambda ask, nth: script), Stage("s", clients=1, requests=1))
        return one

    assert (one_of((0.5, (1, 2))).tokens, one_of((0.5, (1, 2))).delivered) == (2, (2,))
    uncounted = one_of((0.5, None), (0.6, None))
    assert (uncounted.tokens, uncounted.delivered, uncounted.output) == (None, (), one_of((0.5, None)).output)
    assert (uncounted.output or "").startswith("text:")
    counted = one_of((0.5, (1,)), (0.6, None), tokens=7)  # one delivery without ids: they do not tell
    assert (counted.tokens, counted.delivered) == (7, ())
    assert one_of(tokens=1).tokens == 1  # an output that is its stop token alone
    assert one_of().tokens is None


def test_who_waited_too_long_is_degraded_and_marked() -> None:
    policy = Policy(deadline_s=100.0, degrade=Degrade(after_s=1.5, max_new_tokens=2))
    engine = FakeEngine(lambda ask, nth: Script(done_s=2.0), capacity=1)
    found, _ = run(engine, replace(FIXED, seconds=3.0), policy)
    assert [(one.started_s, one.degraded) for one in found] == [(0, None), (2, None), (4, "at most 2 tokens")]
    assert [ask.max_new_tokens for _, ask in engine.submitted] == [8, 8, 2]


def test_memory_that_ran_out_degrades_once_and_then_fails() -> None:
    policy = Policy(deadline_s=100.0, retries=5, degrade=Degrade(after_s=50.0, arm="direct"))
    engine = FakeEngine(lambda ask, nth: Script(1.0, reason="oom: no memory", again=False))
    (one,), _loop = run(engine, Stage("s", clients=1, requests=1), policy)
    assert (one.status, one.attempts, one.degraded) == ("failed", 2, "arm direct")
    assert [ask.arm for _, ask in engine.submitted] == ["direct", "direct"]


def test_a_late_event_of_a_request_that_was_given_up_counts_for_nothing() -> None:
    engine = FakeEngine(lambda ask, nth: Script(done_s=3.0))
    found, loop = run(engine, Stage("s", clients=1, requests=2), Policy(deadline_s=2.0, failures=50))
    assert [(one.index, one.status) for one in found] == [(0, "deadline"), (1, "deadline")]
    assert loop.asked == 2


def test_every_request_ends_in_one_status_however_bad_the_engine() -> None:
    kinds = [
        Script(0.3, ((0.1, (1,)),)),
        Script(0.2, reason="reset"),
        Script(forever=True),
        Script(5.0),
        Script(0.1, reason="400", again=False),
        Script(0.0, reason="oom: none"),
    ]
    policy = Policy(deadline_s=3.0, retries=1, failures=3, probe_s=1.0, degrade=Degrade(0.5, 1))
    engine = FakeEngine(lambda ask, nth: kinds[(7 * nth) % len(kinds)], capacity=3)
    found, loop = run(engine, Stage("9/s", rate=9.0, seconds=40.0), policy)
    assert sorted(one.index for one in found) == list(range(loop.asked))
    assert loop.asked > 200
    assert {one.status for one in found} == {"ok", "deadline", "failed", "shed"}
    assert engine.most_running <= 3


def test_an_interruption_cuts_what_is_in_hand() -> None:
    found: list[Asked] = []
    turns = 0

    @contextmanager
    def held() -> Iterator[None]:
        nonlocal turns
        turns += 1
        yield
        if turns == 5:
            raise KeyboardInterrupt

    engine = FakeEngine(lambda ask, nth: Script(done_s=2.0))
    loop = Loop(engine, CLIENTS, "direct", 0, PATIENT, ask, found.append)
    with pytest.raises(KeyboardInterrupt):
        loop.run(held)
    assert Counter(one.status for one in found)["cut"] == 2
    assert len(found) == loop.asked
    assert len(engine.cancelled) == 2


def test_memory_is_looked_at_every_second() -> None:
    looks: list[float] = []
    engine = FakeEngine(lambda ask, nth: Script(done_s=3.5))
    Loop(engine, Stage("s", clients=1, requests=1), "direct", 0, PATIENT, ask, lambda one: None, looks.append).run()
    assert looks == [0, 1, 2, 3]
