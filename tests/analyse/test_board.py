"""What the settings of a run tell of its chances on the leaderboard; the rules themselves are in publish.checks."""

from dataclasses import replace

import pytest

from xpress_bench.analyse.board import hindrances
from xpress_bench.config import settings_from

PAPER = settings_from({}, ["profile=paper"])
GREEDY = replace(PAPER, temperatures=(0.0,))


def test_the_documented_ways_have_no_hindrance():
    assert hindrances(PAPER) == []
    assert hindrances(settings_from({}, ["profile=standard", "launches=5"])) == []


@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        ({"profile": "quick"}, "profile=paper"),
        ({"limit": 64}, "no limit"),
        ({"turns": 2, "max_new_tokens": 16}, "no turns, max_new_tokens"),
        ({"batch_size": 4}, "batch_size=1"),
        ({"weights": "random"}, "weights=trained"),
        ({"memory": False}, "memory=true"),
        ({"seeds": (0,)}, "repeats=2"),
        ({"launches": 2}, "launches=5"),
    ],
)
def test_a_hindrance_is_told_with_its_remedy(change, remedy):
    (told,) = hindrances(replace(GREEDY, **change))
    assert remedy in told


def test_seeds_repeat_a_prompt_at_temperature_0_alone():
    (told,) = hindrances(replace(PAPER, temperatures=(1.0,)))
    assert "repeats=2" in told
    assert hindrances(replace(GREEDY, seeds=(0,), repeats=2)) == []
