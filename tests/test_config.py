"""Flags and overrides -> settings: values come back as typed, and what is wrong is named in one line."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from xpress_bench.config import PROFILES, overridden, quote, settings_from
from xpress_bench.errors import UsageError

AWKWARD = [
    "ckpt/epoch=9-step=8.ckpt",
    "a folder/50%,v2",
    "#",
    "你好, 世界",
    'it\'s "quoted"',
    "back\\slash",
    "ends in two\\\\",
    "\\'",
    "${oc.env:HOME}",
    "{a: [b]}",
    " spaces around ",
    "null",
    "3",
    "a@b~c:d",
    "",
]


def refused(*overrides: str, **flags: str) -> str:
    with pytest.raises(UsageError) as caught:
        settings_from(flags, overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_c46_a_quoted_value_comes_back_as_it_was() -> None:
    values = {f"v{index}": value for index, value in enumerate(AWKWARD)}
    words = [f"drafter.params.{name}={quote(value)}" for name, value in values.items()]
    settings = settings_from({"target.name": quote("${oc.env:HOME}"), "out": quote("run=s, a")}, words)
    assert settings.drafter.params == values
    assert (settings.target.name, settings.out) == ("${oc.env:HOME}", "run=s, a")


def test_c46_documented_spellings() -> None:
    settings = settings_from({}, ['drafter.path="ckpt/epoch=9.ckpt"', "drafter.params.stops=['#','你好, 世界']"])
    assert settings.drafter.path == "ckpt/epoch=9.ckpt"
    assert settings.drafter.params == {"stops": ["#", "你好, 世界"]}


def test_c46_an_unquoted_value_fails_with_a_hint_how_to_quote() -> None:
    assert "quote a value" in refused("drafter.path=ckpt/epoch=9-step=8.ckpt")
    assert "quote a value" in refused("drafter.path=[1,2")


def test_c46_a_list_of_seeds_is_one_value_and_a_sweep_is_refused() -> None:
    assert settings_from({}, ["seeds=[1,2]"]).seeds == (1, 2)
    assert "one run takes one value" in refused("seeds=1,2")
    assert "one run takes one value" in refused("block_size=choice(4,8)")


def test_overrides_win_over_flags_and_flags_over_the_profile() -> None:
    settings = settings_from({"limit": "5", "profile": "quick"}, [])
    assert settings.limit == 5
    assert settings_from({"limit": "5"}, ["limit=7"]).limit == 7


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("blok_size=3", "did you mean block_size"),
        ("target.nam=x", "did you mean target.name"),
        ("+blok=3", "no setting blok; known: "),
        ("limits=3", "no setting 'limits'; did you mean limit"),
        ("drafter=dflash", "drafter.name=dflash"),
        ("qa", "neither a flag nor an override"),
        ("~seeds=[0]", "cannot be removed"),
        ("profile=fast", "quick, standard, paper"),
    ],
)
def test_a_wrong_key_is_named_with_what_is_nearest(override: str, told: str) -> None:
    assert told in refused(override, limit="5")


@pytest.mark.parametrize(
    "override",
    [
        "seeds=[]",
        "seeds=3",
        "seeds=[7,7,8]",
        "seeds=[-1]",
        "seeds=[a]",
        "seeds=[true]",
        "temperatures=[hot]",
        "temperatures=[nan]",
        "temperatures=[inf]",
        "temperatures=[-1]",
        "verifiers=[[coupled]]",
        "verifiers=[typical]",
        "target.name=3",
        "target.name=null",
        "memory=1",
        "drafter.params=3",
        "block_size=1",
        "block_size=8.5",
        "limit=0",
        "threads=true",
        "batch_size=65",
        "dtype=float8",
        "refiner.passes=-1",
        "refiner.passes=x",
    ],
)
def test_a_wrong_value_is_named_with_its_key(override: str) -> None:
    assert override.partition("=")[0] in refused(override)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("drafter.params.x=[" + "1," * 4000 + "1]", "longer than 4000 characters"),
        ("limit=" + "[" * 500 + "]" * 500, "override 'limit=[[["),
        ("k" * 300 + "=3", "too long or nested too deeply"),
        *(
            (f"{key}=3", f"no setting '{key}'")
            for key in ("", "hydra", "hydra/launcher", "hydra.searchpath", "@x", "a/b")
        ),
        ("profile=0.5", "quick, standard, paper"),
        ("profile=[[1]]", "quick, standard, paper"),
        ("+profile=null", "quick, standard, paper"),
    ],
)
def test_what_hydra_would_hang_or_break_on_is_refused(override: str, told: str) -> None:
    assert told in refused(override)


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ("quick", ((0.0,), ("coupled",), (0, 1, 2), 1, 28)),
        ("standard", ((0.0, 1.0), ("coupled",), (0, 1, 2), 3, None)),
        ("paper", ((0.0, 1.0), ("coupled", "rejection"), (0, 1, 2, 3, 4), 5, None)),
    ],
)
def test_profiles(profile: str, expected: tuple[object, ...]) -> None:
    assert profile in PROFILES
    got = settings_from({"profile": profile}, [])
    assert (got.temperatures, got.verifiers, got.seeds, got.launches, got.limit) == expected
    assert got.profile == profile


def test_a_number_beyond_every_float_is_refused_by_its_key() -> None:
    with pytest.raises(UsageError, match="temperatures: a whole number of 400 digits"):
        settings_from({}, [f"temperatures=[{'9' * 400}]"])


def test_so_is_one_among_the_settings_of_training() -> None:
    with pytest.raises(UsageError, match=r"minutes: a whole number of 400 digits"):
        overridden(Budget(), [f"minutes={'9' * 400}"])


@dataclass(frozen=True)
class Budget:
    minutes: float = 1.0
