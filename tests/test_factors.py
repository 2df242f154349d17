"""What the words of a sweep mean: which settings vary over which values, and what is refused before a model loads."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from xpress_bench.errors import UsageError
from xpress_bench.factors import asked_for, planned
from xpress_bench.fan_out import choices
from xpress_bench.records import Arm

CPU = ("--device", "cpu")
REFINE = Arm("refine", "dflash", "xpress", 16, 1, 6)
DRAFT = Arm("draft", "prompt_lookup", None, 8, 1, None)


def refused(*words: str) -> str:
    with pytest.raises(UsageError) as caught:
        asked_for([*CPU, *words])
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("block_size=4,8", ("block_size", ["4", "8"])),
        ("block_size=range(2,5)", ("block_size", ["2", "3", "4"])),
        ("refiner.name=none,xpress", ("refiner.name", ["none", "xpress"])),
        ("drafter.path='a,b','c=d'", ("drafter.path", ["'a,b'", "'c=d'"])),
        ("seeds=[0,1]", None),
        ("drafter.path='a,b'", None),
        ('drafter.path="a,b"', None),
        ("block_size=4", None),
        ("block_size=[", None),  # for the run to refuse
    ],
)
def test_c46_only_a_bare_list_is_several_values(word: str, found: object) -> None:
    assert choices(word) == found


def test_an_interval_is_no_list() -> None:
    with pytest.raises(UsageError, match="a sweep takes a list"):
        choices("block_size=interval(2,8)")


def test_factors_come_in_their_order_with_the_base_among_their_values() -> None:
    asked = asked_for(
        [*CPU, "candidates.count=1,4", "drafter.params.window=3,2", "refiner.passes=4,0", "block_size=4,8", "limit=3"]
    )
    base, factors = planned(asked, REFINE)
    assert list(factors.items()) == [
        ("block_size", ("4", "8", "16")),
        ("refiner.passes", ("0", "4", "6")),
        ("candidates.count", ("1", "4")),
        ("drafter.params.window", ("2", "3")),
    ]
    assert base == {
        "block_size": "16",
        "refiner.passes": "6",
        "candidates.count": "1",
        "drafter.params.window": "3",  # not set: its first value
    }


def test_a_value_that_is_set_is_the_base() -> None:
    asked = asked_for([*CPU, "block_size=8", "block_size=4,8", 'drafter.path="a, b"', "drafter.path='c d',null"])
    base, factors = planned(asked, REFINE)
    assert base == {"block_size": "8", "drafter.path": "'a, b'"}
    assert factors == {"block_size": ("4", "8"), "drafter.path": ("'c d'", "null", "'a, b'")}
    assert asked.settings(base).drafter.path == "a, b"
    assert asked.settings({"drafter.path": factors["drafter.path"][0]}).drafter.path == "c d"


def test_without_lists_blocks_that_fit_and_passes_up_to_the_last_that_changes_anything() -> None:
    base, factors = planned(asked_for(list(CPU)), REFINE)
    assert factors == {"block_size": ("2", "4", "8", "16"), "refiner.passes": ("0", "1", "2", "4", "6", "8", "15")}
    assert planned(asked_for(list(CPU)), DRAFT)[1] == {"block_size": ("2", "4", "8")}
    assert base == {"block_size": "16", "refiner.passes": "6"}


def test_passes_of_several_refiners_are_no_setting_of_one() -> None:
    several = Arm("refine", "dflash", "xpress+remask", 8, 1, 7)
    assert planned(asked_for([*CPU, "refiner.passes=1,2"]), several)[0] == {"refiner.passes": "null"}


def test_what_cannot_vary_is_refused() -> None:
    assert "a list as one value is seeds=[...]" in refused("seeds=0,1")
    assert "a list as one value is temperatures=[...]" in refused("temperatures=0,1")
    with pytest.raises(UsageError, match="there is no refiner"):
        planned(asked_for([*CPU, "refiner.passes=0,1"]), DRAFT)
    with pytest.raises(UsageError, match="drafter is none"):
        planned(asked_for([*CPU, "block_size=4,8"]), Arm("direct", None, None, None, None, None))


def test_wrong_values_are_told_before_anything_runs() -> None:
    assert "block_size is 1" in refused("block_size=1,4")
    assert "there is no setting 'refiner.pases'" in refused("refiner.pases=1,2")
    assert "trained weights" in refused("--weights", "random")
    assert "hydra" in refused("hydra.sweep.dir=elsewhere")


def test_a_sweep_looks_at_one_condition() -> None:
    assert "a sweep looks at one condition, here are 2" in refused("--temperature", "0,1")
    assert asked_for([*CPU, "--temperature", "1"]).own.conditions()[0].temperature == 1
    assert "here are 3" in refused("--profile", "paper")  # greedy, coupled, rejection


def test_seeds_as_a_list_stay_one_value() -> None:
    assert asked_for([*CPU, "block_size=4,8", "seeds=[0,1]"]).own.seeds == (0, 1)


def test_where_only_counts_are_wanted_nothing_is_made_twice() -> None:
    settings = asked_for([*CPU, "--counts", "repeats=3", "seeds=[0,1]", "trace=4"]).own
    assert (settings.seeds, settings.repeats, settings.memory, settings.trace, settings.controls) == (
        (0,),
        1,
        False,
        0,
        0,
    )
    sampled = asked_for([*CPU, "--counts", "seeds=[0,1]", "--temperature", "1"]).own
    assert sampled.seeds == (0, 1)


def test_a_launcher_that_is_not_here_is_told_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert refused("--launcher", "ray").endswith(
        "is a plug-in of hydra that is not here: pip install hydra-ray-launcher"
    )


def test_elsewhere_the_device_has_to_be_said_and_is_not_looked_for_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    with pytest.raises(UsageError, match="--device cuda or cpu"):
        asked_for(["--launcher", "submitit_slurm"])
    asked = asked_for(["--launcher", "submitit_slurm", "--device", "cuda"])
    assert asked.own.device == "cuda"
    assert asked.own.profile == "quick"


def test_words_are_those_of_the_run() -> None:
    asked = asked_for([*CPU, "--suite", "qa", "--compile", "block_size=4,8", "limit=3", "hydra.launcher.n_jobs=2"])
    assert asked.hydra == ["hydra.launcher.n_jobs=2"]
    assert asked.words({"block_size": "4"}) == [
        *("--suite", "qa", "--device", "cpu", "--profile", "quick", "--compile", "limit=3", "block_size=4")
    ]


def test_sweeps_are_told_apart_by_what_they_measure_alone() -> None:
    hashes = {
        asked_for([*CPU, *words]).sha256
        for words in (
            ["block_size=4,8"],
            ["block_size=4,8", "--out", "elsewhere"],
            ["block_size=4,8", "--launcher", "basic", "hydra.launcher.n_jobs=2"],
            ["block_size=4,8,16"],
            ["block_size=4,8", "limit=2"],
            ["block_size=4,8", "--counts"],
            ["block_size=4,8", "--grid"],
            ["block_size=4,8", "--rounds", "3"],
        )
    }
    assert len(hashes) == 6


def test_values_are_timed_in_two_rounds_and_counted_once() -> None:
    assert asked_for([*CPU, "block_size=4,8"]).options.rounds == 2
    assert asked_for([*CPU, "block_size=4,8", "--counts"]).options.rounds == 1
    assert "counts are the same every time" in refused("block_size=4,8", "--counts", "--rounds", "2")
    assert "--rounds 0: give 1 or more" in refused("block_size=4,8", "--rounds", "0")


def test_the_commands_of_the_docs_are_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    text = (Path(__file__).parents[1] / "docs" / "sweeps.md").read_text(encoding="utf-8").replace("\\\n", " ")
    commands = re.findall(r"^(?:\w+=\w+ )?xpress-bench sweep (.*)$", text, re.MULTILINE)
    assert len(commands) == 5
    for command in commands:
        asked_for(shlex.split(command))
