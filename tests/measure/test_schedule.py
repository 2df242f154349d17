"""The order of a launch: complete, balanced, seeded."""

from __future__ import annotations

from collections import Counter
from itertools import product

from xpress_bench.measure.schedule import Slot, schedule
from xpress_bench.records import Condition

ARMS = ["direct", "draft", "refine"]
CONDITIONS = [Condition(0.0, "greedy"), Condition(1.0, "coupled")]
PROMPTS = [(f"p{i // 2}", 1 + i % 2) for i in range(6)]  # three conversations of two turns


def slots(launch: int = 0) -> list[Slot]:
    return list(schedule(ARMS, CONDITIONS, PROMPTS, [3, 1], 2, launch))


def test_every_request_is_made_exactly_once() -> None:
    made = [(slot.condition, slot.key, slot.seed, slot.repeat, slot.arm) for slot in slots()]
    assert Counter(made) == Counter(product(CONDITIONS, PROMPTS, [3, 1], [0, 1], ARMS))


def test_arms_are_interleaved_and_stand_equally_often_in_every_place() -> None:
    made = slots()
    for start in range(0, len(made), 3):
        group = made[start : start + 3]
        assert len({(slot.condition, slot.key, slot.seed, slot.repeat) for slot in group}) == 1
        assert [slot.order for slot in group] == [0, 1, 2]
    # 2 conditions x 6 prompts x 2 seeds x 2 repeats = 48 groups, 16 for each of the 3 places
    assert Counter((slot.arm, slot.order) for slot in made) == dict.fromkeys(product(ARMS, range(3)), 16)


def test_the_order_is_seeded_and_another_one_in_each_launch() -> None:
    assert slots() == slots()
    assert slots(0) != slots(1)
    orders = [tuple(slot.key for slot in slots()[start : start + 18 : 3]) for start in range(0, 144, 18)]
    assert all(sorted(order) == PROMPTS for order in orders)
    assert len(set(orders)) > 1
