"""What one answered request of a load run says: when its tokens came, how far apart, and whether that was good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from xpress_bench.analyse.dependent import Deliveries
from xpress_bench.load_records import Asked


def counts(one: Asked) -> bool:
    """Whether a request is in the figures of its arm."""
    return one.status == "ok" and one.degraded is None


def meets(one: Asked, objective: Mapping[str, float]) -> bool:
    """Whether a request counts and each of its times, in seconds, is known and no longer than the objective says.

    A single token has no time per further token, and meets any.
    """
    times = {
        "ttft": None if one.first_s is None else one.first_s - one.arrival_s,
        "latency": one.ended_s - one.arrival_s,
        "token": 0.0 if one.tokens == 1 else token_s(one),
    }
    return counts(one) and all((taken := times[name]) is not None and taken <= most for name, most in objective.items())


def token_s(one: Asked) -> float | None:
    """Seconds per token after the first; None where there is none, or nobody counted them."""
    return sum(one.gaps_s) / (one.tokens - 1) if one.gaps_s and one.tokens and one.tokens > 1 else None


def deliveries(run: Sequence[Asked]) -> Deliveries:
    """When tokens came, and how many; where a server does not tell, its tokens are spread evenly over deliveries."""
    when, how_many = list[float](), list[float]()
    for one in run:
        times = _times_s(one) or [one.ended_s]
        when += times
        how_many += one.delivered or [(one.tokens or 0) / len(times)] * len(times)
    return when, how_many


def ends(run: Sequence[Asked]) -> Deliveries:
    """When requests ended, each once."""
    return [one.ended_s for one in run], [1.0] * len(run)


def gaps_s(run: Sequence[Asked]) -> list[float]:
    """All gaps between deliveries, in the order in which they ended."""
    ended = [pair for one in run for pair in zip(_times_s(one)[1:], one.gaps_s, strict=True)]
    return [gap for _, gap in sorted(ended)]


def _times_s(one: Asked) -> list[float]:
    return [] if one.first_s is None else list(accumulate(one.gaps_s, initial=one.first_s))
