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
    """Turns a draft into a better one, which may be shorter, down to no token, and is never longer.

    A causal refiner decides about slot k, its token and whether the draft ends before it, by the draft tokens before k
    and nothing behind them: then the law recorded for slot k is still the one its token was drawn from.

    Set `batchable = True` if rows may be drafts of different requests: it then reads no text and no position, and a row
    does not depend on the others.
    """

    causal: bool  # if not, the draft's law is lost, and its tokens count as certain
    passes: int | None  # K, for the report

    def refine(self, draft: Draft, context: Context, sampling: Sampling) -> Draft:
        """The refined draft; `draft.noise` is reused, so that its law stays the recorded one (methods.md 1.3)."""
        ...


RefinerFactory = Callable[[RefinerSettings, "Target", "Drafter"], Refiner]

REFINERS: Registry[RefinerFactory] = Registry("refiners")
REFINERS.add("xpress", "xpress_bench.refiners.xpress:load", "K parallel Jacobi passes of a small causal head (xPress)")
REFINERS.add("markov", "xpress_bench.refiners.markov:load", "one left-to-right walk of a first-order head (DSpark)")
REFINERS.add("confidence", "xpress_bench.refiners.confidence:load", "ends a draft where a trained head doubts it")
REFINERS.add("remask", "xpress_bench.refiners.remask:load", "drafts the least sure slots again (heuristic)")
