"""Checking `drafter.params` and `refiner.params`: which options a part knows, and which values each may have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

from xpress_bench.errors import UsageError
from xpress_bench.settings import DrafterSettings, RefinerSettings


@dataclass(frozen=True, slots=True)
class Option:
    """`words` say what `allows` allows."""

    words: str
    allows: Callable[[Any], bool]


def whole(least: int) -> Option:
    return Option(f"a whole number of at least {least}", lambda value: type(value) is int and value >= least)


def above_zero(most: float = inf) -> Option:
    words = f"a number above 0{f', {most:g} at most' if most < inf else ''}"
    return Option(words, lambda value: _number(value) and 0 < value <= most)


def share() -> Option:
    return Option("a number from 0 to 1", lambda value: _number(value) and 0 <= value <= 1)


def numbers_above_zero() -> Option:
    return Option(
        "a list of numbers above 0",
        lambda value: isinstance(value, list | tuple) and all(_number(one) and 0 < one < inf for one in value),
    )


def switch() -> Option:
    return Option("true or false", lambda value: isinstance(value, bool))


def checked(settings: DrafterSettings | RefinerSettings, known: dict[str, Option]) -> dict[str, Any]:
    """The part's `params`, to be given to it by name. UsageError for a name or a value that it does not know."""
    group = "drafter" if isinstance(settings, DrafterSettings) else "refiner"
    unknown = sorted(set(settings.params) - set(known))
    if unknown:
        names = ", ".join(f"{group}.params.{name}" for name in known) or f"no {group}.params"
        raise UsageError(f"{settings.name} knows {names}, not {', '.join(unknown)}")
    for name, value in settings.params.items():
        if not known[name].allows(value):
            raise UsageError(f"{group}.params.{name} is {value!r}: give {known[name].words}")
    return dict(settings.params)


def _number(value: Any) -> bool:
    return type(value) in (int, float)
