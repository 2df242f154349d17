"""Settings: what they refuse, which conditions they ask for, and that their hash holds all that matters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import rig

from xpress_bench.errors import UsageError
from xpress_bench.records import Condition
from xpress_bench.settings import DrafterSettings, RefinerSettings, Settings, TargetSettings

PLAIN = rig.settings()


def test_conditions_have_greedy_at_0_and_every_sampling_rule_above() -> None:
    settings = rig.settings(temperatures=(0.0, 0.7), verifiers=("greedy", "coupled", "rejection"))
    expected = [Condition(0.0, "greedy"), Condition(0.7, "coupled"), Condition(0.7, "rejection")]
    assert list(settings.conditions()) == expected


def test_a_temperature_without_a_rule_is_refused_when_settings_are_made() -> None:
    with pytest.raises(UsageError, match=r"temperature 1 needs a sampling verifier"):
        rig.settings(temperatures=(1.0,), verifiers=("greedy",))


@pytest.mark.parametrize("temperature", [-1.0, 1e-5, 1e5, float("inf"), float("nan")])
def test_a_temperature_at_which_sampling_means_nothing_is_refused(temperature: float) -> None:
    with pytest.raises(UsageError, match=r"each is 0, or from 0\.0001 to 10000"):
        rig.settings(temperatures=(temperature,))


@pytest.mark.parametrize(("seeds", "told"), [((7, 7, 8), "holds a value twice"), ((), "seeds is empty")])
def test_c40_seeds_are_distinct_and_there_is_one(seeds: tuple[int, ...], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        rig.settings(seeds=seeds)


def test_json_gives_the_same_settings_and_hash() -> None:
    drafter = DrafterSettings("dflash", params={"list": [1, {"你好": None}]})
    settings = rig.settings(drafter=drafter, temperatures=(0.0, 0.7), seeds=(3, 1), limit=4)
    assert Settings.from_json(settings.to_json()) == settings
    assert Settings.from_json(settings.to_json()).sha256() == settings.sha256()


@pytest.mark.parametrize(
    "change",
    [
        {"suite": "other"},
        {"target": TargetSettings("other")},
        {"target": TargetSettings("toy", revision="abc")},
        {"target": TargetSettings("toy", thinking=True)},
        {"target": TargetSettings("toy", chat_template=False)},
        {"drafter": DrafterSettings("other")},
        {"drafter": DrafterSettings("scripted", revision="abc")},
        {"drafter": DrafterSettings("scripted", params={"max_ngram": 2})},
        {"refiner": RefinerSettings("xpress")},
        {"refiner": RefinerSettings("none", passes=2)},
        {"dtype": "bfloat16"},
        {"block_size": 4},
        {"temperatures": (0.0, 1.0)},
        {"verifiers": ("rejection",)},
        {"seeds": (1,)},
        {"max_new_tokens": 9},
    ],
    ids=str,
)
def test_c02_c16_whatever_changes_a_result_changes_the_hash(change: dict[str, Any]) -> None:
    assert replace(PLAIN, **change).sha256() != PLAIN.sha256()


def test_the_output_folder_does_not_change_the_hash() -> None:
    assert replace(PLAIN, out="elsewhere").sha256() == PLAIN.sha256()
