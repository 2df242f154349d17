"""Are drafts drawn from the law that `rejection` is told? If not, its output has not the target's law (methods.md 1.3).

The trace pass writes down where each token stands in its own law. Were the tokens drawn from it, these places would be
independent and uniform on 0..1, whatever the laws are and whatever they depend on (Rosenblatt 1952), for `rejection`
draws fresh noise for every draft. Kolmogorov and Smirnov's test is exact for that, at any number of tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from scipy import stats

from xpress_bench.analyse.intervals import Unknown
from xpress_bench.records import Trace

LEVEL = 1e-3  # share of honest arms that are accused under one condition
NO_LAW = Unknown("no request was traced")


@dataclass(frozen=True, slots=True)
class DraftLaw:
    """place: mean place of `tokens` tokens, 0.5 if they follow their law; above it they are likelier than the law says.
    p_value: that of places which are uniform."""

    tokens: int
    place: float
    p_value: float

    @property
    def refuted(self) -> bool:
        return self.p_value < LEVEL


def draft_law(traces: Sequence[Trace]) -> DraftLaw | Unknown:
    """The test of one arm under one condition; Unknown where nothing relies on a law."""
    if any(trace.condition.verifier != "rejection" for trace in traces):
        return Unknown("only rejection sampling relies on the law of a draft")
    places = [place for trace in traces for row in trace.places for place in row]
    if not places:
        return Unknown("drafts are point masses, which claim no law") if traces else NO_LAW
    return DraftLaw(len(places), fmean(places), float(stats.kstest(places, "uniform").pvalue))
