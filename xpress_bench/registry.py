"""One generic registry for targets, drafters, refiners, verifiers and suites.

An entry is found by name, either registered here as ``"module:object"`` (resolved on first use, so that listing names
imports no torch) or published by an installed package under the entry-point group ``xpress_bench.<kind>``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from xpress_bench.errors import UsageError, nearest

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry:
    """What `list` shows of one registered name."""

    name: str
    summary: str
    origin: str  # "xpress_bench" or the distribution that published the entry point


class Registry(Generic[T]):
    """Names of one kind and how to get the object behind each.

    `kind` is the plural used in messages and in the entry-point group, e.g. ``drafters``.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._own: dict[str, tuple[str | T, str]] = {}

    def add(self, name: str, where: str | T, summary: str) -> None:
        """Register `name`; `where` is an object or ``"module:object"``. Refuses a name that is taken."""
        if name in self._own:
            raise ValueError(f"{self.kind}: the name {name!r} is taken")
        self._own[name] = (where, summary)

    def register(self, name: str, summary: str) -> Callable[[T], T]:
        """Decorator form of `add`, for code that is imported anyway."""

        def keep(thing: T) -> T:
            self.add(name, thing, summary)
            return thing

        return keep

    def _published(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=f"xpress_bench.{self.kind}")}

    def entries(self) -> list[Entry]:
        """Every name with its one-line summary and origin, own entries first. Plug-ins are imported, to try them."""
        own = [Entry(name, summary, "xpress_bench") for name, (_, summary) in self._own.items()]
        others = [
            Entry(name, self._tried(point), point.dist.name if point.dist else "unknown")
            for name, point in sorted(self._published().items())
        ]
        return own + others

    def _tried(self, point: EntryPoint) -> str:
        """Where a plug-in is, and why it cannot be used if it cannot."""
        if point.name in self._own:
            return f"{point.value}, hidden: its name is taken, it needs another"
        try:
            _load(point)
        except UsageError as error:
            return f"{point.value}, broken: {error}"
        return point.value

    def names(self) -> list[str]:
        return [*self._own, *sorted(set(self._published()) - set(self._own))]

    def __contains__(self, name: str) -> bool:
        return name in self._own or name in self._published()

    def get(self, name: str) -> T:
        """The object behind `name`. Raises UsageError with the nearest names if there is none."""
        if name in self._own:
            where = self._own[name][0]
            return _resolve(where) if isinstance(where, str) else where
        published = self._published()
        if name not in published:
            raise UsageError(self.unknown(name))
        try:
            return _load(published[name])  # type: ignore[no-any-return]
        except UsageError as error:
            raise UsageError(
                f"{self.kind}: the plug-in {name!r} ({published[name].value}) is broken: {error}"
            ) from error

    def unknown(self, name: str) -> str:
        """The message for a name that is not here, nearest names first."""
        hint = nearest(name, self.names(), f"known: {', '.join(self.names())}.")
        return (
            f"no {self.kind.removesuffix('s')} called {name!r}; {hint} `xpress-bench list {self.kind}` shows them all"
        )


def _load(point: EntryPoint) -> Any:
    """The object of a plug-in. A broken one is the user's to mend, whatever it raises: UsageError says why."""
    try:
        return point.load()
    except (Exception, SystemExit) as error:
        raise UsageError(f"{type(error).__name__}: {error}") from error


def _resolve(where: str) -> Any:
    module, _, attribute = where.partition(":")
    return getattr(importlib.import_module(module), attribute)
