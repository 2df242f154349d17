"""Temperatures for a confidence head, so that the survival of a slot is the share of drafts that are accepted so far.

Sequential temperature scaling (DSpark, methods.md 3.4): from left to right, every slot gets the temperature with which
the product of confidences up to it errs least; those before it stay. `scripts/fit_confidence.py` fits them to a suite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from xpress_bench.drafters import Context, Draft
from xpress_bench.refiners.confidence import Confidence
from xpress_bench.sampling import Sampling

GRID = 2.0 ** np.linspace(-4, 4, 129)  # temperatures that are tried
BINS = 10  # of equal width


class Judged(NamedTuple):
    """What the head said of each token of a draft, in logits, and how many of them the target accepted."""

    logits: Sequence[float]
    accepted: int


@dataclass
class Recorder:
    """A refiner that changes nothing: stands behind the others and keeps what became of each draft, in `judged`.

    What was accepted is seen when the next block is drafted, so the last draft of a request is left out: it may have
    ended by a stop id or a limit, not by the target's refusal.
    """

    confidence: Confidence
    judged: list[Judged] = field(default_factory=list)
    causal: bool = True
    passes: int | None = None

    def __post_init__(self) -> None:
        self._last: tuple[list[int], int, list[float]] | None = None  # tokens of a request, how many, logits

    def refine(self, draft: Draft, context: Context, sampling: Sampling) -> Draft:
        if self._last is not None and self._last[0] is context.tokens:
            _, before, logits = self._last
            self.judged.append(Judged(logits, len(context.tokens) - before - 1))
        self._last = context.tokens, len(context.tokens), self.confidence.logits(draft, context)[0].tolist()
        return draft


def fit(judged: Sequence[Judged]) -> tuple[float, ...]:
    """One temperature for each slot of the longest draft."""
    survival, found = np.ones(len(judged)), []
    for slot in range(max((len(one.logits) for one in judged), default=0)):
        rows = np.array([row for row, one in enumerate(judged) if slot < len(one.logits)])
        logits = np.array([judged[row].logits[slot] for row in rows])
        happened = np.array([slot < judged[row].accepted for row in rows])
        tried = [survival[rows] / (1 + np.exp(-logits / temperature)) for temperature in GRID]
        # At a tie the one that changes least.
        best = min(range(len(GRID)), key=lambda index: (_error(tried[index], happened), abs(np.log(GRID[index]))))
        survival[rows] = tried[best]
        found.append(float(GRID[best]))
    return tuple(found)


def _error(chance: np.ndarray, happened: np.ndarray) -> float:
    """Expected calibration error (Guo et al. 2017): the mean distance of chance and share over bins, by their sizes."""
    bins = np.minimum((chance * BINS).astype(int), BINS - 1)
    off = np.bincount(bins, weights=chance - happened, minlength=BINS)
    return float(np.abs(off).sum() / len(chance))
