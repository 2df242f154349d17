import math

import pytest

from xpress_bench.analyse.controls import controlled
from xpress_bench.analyse.intervals import Interval, Unknown
from xpress_bench.records import Control


def control(against, prompt, latency_s, control_s, tokens=10, control_tokens=10, same=True):
    return Control(against, prompt, "direct", latency_s, control_s, tokens, control_tokens, same)


def test_each_way_is_a_ratio_of_seconds_per_token_with_one_value_per_prompt():
    pairs = [control("generate", "a", 1.0, 2.0), control("generate", "a", 1.0, 8.0), control("generate", "b", 1.0, 4.0)]
    (one,) = controlled(pairs)
    assert (one.against, one.arm, one.same, one.prompts) == ("generate", "direct", 2, 2)
    assert one.ratio.estimate == pytest.approx(4)  # a: geometric mean of 2 and 8; b: 4
    (other,) = controlled([control("unstamped", "a", 1.1, 1.0), control("unstamped", "b", 1.1, 1.0)])
    assert other.ratio.estimate == pytest.approx(1.1)


def test_outputs_of_other_lengths_are_compared_by_the_token():
    (one,) = controlled([control("generate", "a", 1.0, 3.0, tokens=10, control_tokens=20, same=False)])
    assert math.isclose(one.ratio.estimate, 1.5)
    assert (one.same, one.prompts) == (0, 1)


@pytest.mark.parametrize(("slower", "disturbs"), [(1.2, True), (1.04, False)])
def test_stamping_disturbs_only_where_the_whole_interval_says_so(slower, disturbs):
    spread = [
        control("unstamped", name, slower * noise, 1.0) for name, noise in zip("abc", (0.999, 1, 1.001), strict=True)
    ]
    (one,) = controlled(spread)
    assert isinstance(one.ratio, Interval)
    assert one.disturbs is disturbs
    (generate,) = controlled([control("generate", name, 1.0, 2.0) for name in "abc"])
    assert not generate.disturbs


def test_what_was_not_measured_has_its_reason():
    (one,) = controlled([Control("generate", "a", "direct", reason="the target is no transformers model")])
    assert one.ratio == Unknown("the target is no transformers model")
    assert controlled([]) == ()
