import math
from dataclasses import replace

import numpy as np
import pytest
from runs import GREEDY, cell, grid

from xpress_bench.analyse.stability import stability
from xpress_bench.measure.schedule import schedule

pytestmark = pytest.mark.filterwarnings("error")
RNG = np.random.default_rng(4)


def quiet_grid(effect=lambda at, c: 1.0, prompts=40, repeats=3):
    cells = grid(lambda arm, p: 0.1 * (p + 1), prompts=prompts, repeats=repeats)
    return [cell(c.arm, c.prompt, c.latency_s * math.exp(RNG.normal(0, 0.01)) * effect(at, c), repeat=c.repeat,
                  order=c.order) for at, c in enumerate(cells)]  # fmt: skip


def test_a_quiet_machine_has_no_flag():
    found = stability(quiet_grid())
    assert found.flags == ()
    assert found.quiet
    assert found.timed == 360
    assert found.spread == pytest.approx(0.01, rel=0.5)


def test_outliers_are_counted_and_2_percent_make_the_run_unstable():
    few = stability(quiet_grid(lambda at, c: 2.0 if at % 120 == 0 else 1.0))
    assert (few.outliers, few.quiet) == (3, True)
    many = stability(quiet_grid(lambda at, c: 2.0 if at % 36 == 0 else 1.0))
    assert (many.outliers, many.quiet) == (10, False)
    assert "10 of 360 latencies are outliers" in many.flags


def test_repeats_that_disagree():
    found = stability([cell("direct", f"p{i}", t, repeat=r) for i in range(4) for r, t in enumerate((1.0, 2.0, 3.0))])
    assert found.spread == 0.5  # quartiles 1.5 and 2.5 about 2
    assert (found.wide, found.void, found.quiet) == (4, 4, False)
    assert any("more than 25 % in 4 of 4" in flag for flag in found.flags)


def test_drift_over_the_run():
    cells = quiet_grid(prompts=1, repeats=300)
    drifting = [cell(c.arm, c.prompt, c.latency_s * (1 + at / 3000), repeat=c.repeat) for at, c in enumerate(cells)]
    assert any("drifts" in flag for flag in stability(drifting).flags)


def test_order_of_arms():
    cells = [cell("direct", f"p{p}", 1.0 + 0.05 * ((p + r) % 3) + RNG.normal(0, 0.001), repeat=r, order=(p + r) % 3)
             for p in range(40) for r in range(3)]  # fmt: skip
    assert any("order of arms" in flag for flag in stability(cells).flags)


def test_a_planted_order_effect_and_drift_have_their_whole_correlation():
    """Every repeat of a request comes later in the order and in the launch, and is slower than the one before."""
    cells = [cell("direct", "p0", 1.0 + 0.05 * r, repeat=r, order=r) for r in range(10)]
    found = stability(cells)
    assert (found.order.correlation, found.drift.correlation) == (pytest.approx(1), pytest.approx(1))
    backwards = stability([replace(c, order=9 - c.order) for c in cells])
    assert (backwards.order.correlation, backwards.drift.correlation) == (pytest.approx(-1), pytest.approx(1))


def test_a_few_requests_that_happen_to_stand_in_order_are_no_trend():
    found = stability([cell("direct", "p0", 1.0 + 0.05 * r, repeat=r, order=r) for r in range(3)])
    assert (found.order, found.drift) == (None, None)


@pytest.mark.parametrize(
    ("effect", "flag"),
    [
        (lambda at, c: 1.01 if c.order == 2 else 1.0, "order of arms"),  # 1 % on the last arm of three, noise 1 %
        (lambda at, c: 1 + 0.02 * at / 360, "drifts"),  # 2 % from start to end
        (lambda at, c: 1.0, None),
    ],
)
def test_small_order_effects_and_drifts_are_found_and_nothing_else(effect, flag):
    """Arms in every place alike, as the schedule puts them."""
    slots = list(schedule(["direct", "draft", "refine"], [GREEDY], [(f"p{p}", 1) for p in range(40)], [0], 3, 0))
    cells = [cell(s.arm, s.prompt, repeat=s.repeat, order=s.order) for s in slots]
    noise = np.random.default_rng(11).normal(0, 0.01, len(cells))
    cells = [
        replace(c, latency_s=math.exp(e) * effect(at, c)) for at, (c, e) in enumerate(zip(cells, noise, strict=True))
    ]
    flags = stability(cells).flags
    assert [flag in one for one in flags] == [True] if flag else flags == ()


def test_slow_first_repeats_ask_for_more_warmup():
    found = stability(quiet_grid(lambda at, c: 1.1 if c.repeat == 0 else 1.0))
    assert math.exp(found.first_repeat.estimate) == pytest.approx(1.1, abs=0.01)
    assert any("raise warmup" in flag for flag in found.flags)


@pytest.mark.parametrize("cells", [[], [cell("direct")], [cell("direct", f"p{i}") for i in range(9)]])
def test_too_little_to_tell(cells):
    found = stability(cells)
    assert found.spread is None
    assert found.flags == ()


def test_constant_latencies():
    assert stability([cell("direct", f"p{i}", repeat=r, order=r) for i in range(9) for r in range(3)]).flags == ()
