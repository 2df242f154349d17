"""Does a drafter know what it knows? Its confidence in each drafted token against how often the target says that token.

Slots count while all tokens before them were right: a token behind a wrong one is never asked for, whatever it is. The
token is the raw draft's, before refinement. Under `rejection` the target draws afresh, and ids say nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from xpress_bench.analyse.intervals import Measure, Unknown
from xpress_bench.analyse.ledger import share_of, signed_ratio
from xpress_bench.analyse.passes import known, walk
from xpress_bench.records import Trace

BINS = 10  # of equal width


@dataclass(frozen=True, slots=True)
class Bin:
    """Tokens of a confidence from `low` on and below `high`, 1 included in the last: their number, their mean
    confidence, and the share that is right."""

    low: float
    high: float
    tokens: int
    confidence: float
    right: Measure


@dataclass(frozen=True, slots=True)
class Calibration:
    """The reliability curve: the bins that hold a token.

    error: expected calibration error, the mean over tokens of the distance between confidence and share right of their
    bin (Guo et al. 2017); chance alone makes it positive, the more so the fewer the tokens. excess: mean confidence
    less share right; above 0 the drafter is too sure.
    """

    bins: tuple[Bin, ...]
    error: float
    excess: Measure


@dataclass(frozen=True, slots=True)
class _Token:
    prompt: str
    confidence: float
    right: bool


def calibration(traces: Sequence[Trace]) -> Calibration | Unknown:
    """Calibration of the drafter of one arm; Unknown where it gives no confidence."""
    whole = known(traces)
    if isinstance(whole, Unknown):
        return whole
    tokens = [token for trace in whole for token in _tokens(trace)]
    if not tokens:
        return Unknown("the drafter gives no law to take a confidence from")
    groups: defaultdict[int, list[_Token]] = defaultdict(list)
    for token in tokens:
        groups[min(int(token.confidence * BINS), BINS - 1)].append(token)
    bins = tuple(_bin(place, groups[place]) for place in sorted(groups))
    off = [one.tokens * abs(one.confidence - (one.right.estimate or 0.0)) for one in bins]
    per_prompt = _by_prompt(tokens)
    doubts = [sum(token.confidence - token.right for token in group) for group in per_prompt]
    return Calibration(bins, sum(off) / len(tokens), signed_ratio(doubts, list(map(len, per_prompt))))


def _tokens(trace: Trace) -> Iterator[_Token]:
    for step in walk(trace):
        for confidence, token, own in zip(step.confidence, step.blocks[0], step.said, strict=False):
            yield _Token(trace.prompt, confidence, token == own)
            if token != own:
                break


def _bin(place: int, tokens: Sequence[_Token]) -> Bin:
    per_prompt = _by_prompt(tokens)
    right = [sum(token.right for token in group) for group in per_prompt]
    sure = fmean(token.confidence for token in tokens)
    return Bin(place / BINS, (place + 1) / BINS, len(tokens), sure, share_of(right, list(map(len, per_prompt))))


def _by_prompt(tokens: Sequence[_Token]) -> list[list[_Token]]:
    groups: defaultdict[str, list[_Token]] = defaultdict(list)
    for token in tokens:
        groups[token.prompt].append(token)
    return list(groups.values())
