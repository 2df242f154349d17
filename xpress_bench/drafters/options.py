"""Checking `drafter.params`: which options a drafter knows, and which values each may have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

from xpress_bench.errors import UsageError
from xpress_bench.settings import DrafterSettings


@dataclass(frozen=True, slots=True)
class Option:
    """`words` say what `allows` allows."""

    words: str
    allows: Callable[[Any], bool]


def whole(least: int) -> Option:
    return Option(f"a whole number of at least {least}", lambda value: type(value) is int and value >= least)


def above_zero(most: float = inf) -> Option:
    words = f"a number above 0{f', {most:g} at most' if most < inf else ''}"
    return Option(words, lambda value: type(value) in (int, float) and 0 < value <= most)


def switch() -> Option:
    return Option("true or false", lambda value: isinstance(value, bool))


def checked(settings: DrafterSettings, known: dict[str, Option]) -> dict[str, Any]:
    """`drafter.params`, to be given to the drafter by name. UsageError for a name or a value that it does not know."""
    unknown = sorted(set(settings.params) - set(known))
    if unknown:
        names = ", ".join(f"drafter.params.{name}" for name in known)
        raise UsageError(f"{settings.name} knows {names}, not {', '.join(unknown)}")
    for name, value in settings.params.items():
        if not known[name].allows(value):
            raise UsageError(f"drafter.params.{name} is {value!r}: give {known[name].words}")
    return dict(settings.params)
