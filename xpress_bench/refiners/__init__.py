"""Refiners: correct a proposed block before verification. A refiner edits a draft, never chooses one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from xpress_bench.registry import Registry
from xpress_bench.settings import RefinerSettings

if TYPE_CHECKING:
    from xpress_bench.drafters import Context, Draft, Drafter
    from xpress_bench.sampling import Sampling
    from xpress_bench.targets import Target


class Refiner(Protocol):
    """Turns a draft into a better one with the same number of slots."""

    causal: bool  # slot k depends on draft tokens before k only; if not, the draft's law is lost
    passes: int | None  # K, for the report

    def refine(self, draft: Draft, context: Context, sampling: Sampling) -> Draft:
        """The refined draft; `draft.noise` is reused, so that its law stays the recorded one (methods.md 1.3)."""
        ...


RefinerFactory = Callable[[RefinerSettings, "Target", "Drafter"], Refiner]

REFINERS: Registry[RefinerFactory] = Registry("refiners")
REFINERS.add("xpress", "xpress_bench.refiners.xpress:load", "K parallel Jacobi passes of a small causal head (xPress)")
REFINERS.add("markov", "xpress_bench.refiners.markov:load", "one left-to-right walk of a first-order head (DSpark)")
