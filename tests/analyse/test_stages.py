from dataclasses import replace

import pytest
from runs import cell, steps

from xpress_bench.analyse.intervals import Unknown
from xpress_bench.analyse.stages import stages

ONE = cell(
    "refine",
    latency_s=0.5,
    ids=tuple(range(8)),
    prefill_s=0.1,
    rest_s=0.04,
    steps=replace(steps([3, 3]), draft_s=(0.03, 0.03), refine_s=(0.02, 0.02), verify_s=(0.13, 0.13)),
)
DIRECT = cell("direct", latency_s=0.9, ids=tuple(range(8)), prefill_s=0.1)


def test_seconds_per_step_add_up_to_the_latency():
    found = stages([ONE, replace(ONE, repeat=1)])
    assert (found.steps, found.reliable) == (4, True)
    parts = (found.prefill_s, found.draft_s, found.refine_s, found.verify_s, found.rest_s)
    assert parts == pytest.approx((0.05, 0.03, 0.02, 0.13, 0.02))
    assert sum(parts) == pytest.approx(0.25)
    assert found.step_s == pytest.approx(0.18)


def test_parts_that_miss_the_latency_are_unreliable():
    assert not stages([replace(ONE, rest_s=0.0, latency_s=0.5)]).reliable
    assert stages([replace(ONE, rest_s=0.02)]).reliable  # 4 %


def test_without_steps_or_times_they_are_unknown():
    assert stages([DIRECT]) == Unknown("no verify step was timed")
    assert stages([replace(ONE, steps=steps([3, 3]))]) == Unknown("no verify step was timed")
