"""A server's Prometheus page: its counters before and after a request, and what the request added to them.

Prometheus text format 0.0.4. Names and meanings as the documentation of vLLM, SGLang and llama.cpp gives them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from math import isfinite

_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+([^\s{}]+)(?:\s+-?\d+)?\s*")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
MOST_DIGITS = 5  # of a position in a draft, less 1
Labels = Mapping[str, str]
Page = list[tuple[str, Labels, float]]  # name, labels and value of each sample


@dataclass(frozen=True, slots=True)
class Family:
    """Names of the counters of one kind of engine.

    drafts: verify steps that had a draft; offered, accepted: draft tokens; reached: of the accepted, those at each
    `position`, from 0. requests or tokens: what shows that no other request was counted meanwhile.
    """

    drafts: str
    offered: str | None = None
    accepted: str | None = None
    reached: str | None = None
    requests: str | None = None
    tokens: str | None = None


FAMILIES = (
    Family(
        drafts="vllm:spec_decode_num_drafts_total",
        offered="vllm:spec_decode_num_draft_tokens_total",
        accepted="vllm:spec_decode_num_accepted_tokens_total",
        reached="vllm:spec_decode_num_accepted_tokens_per_pos_total",
        requests="vllm:request_success_total",
    ),
    Family(
        drafts="llamacpp:spec_decode_num_drafts_total",
        offered="llamacpp:spec_decode_num_draft_tokens_total",
        accepted="llamacpp:spec_decode_num_accepted_tokens_total",
        reached="llamacpp:spec_decode_num_accepted_tokens_per_pos_total",
        tokens="llamacpp:tokens_predicted_total",
    ),
    Family(drafts="sglang:spec_verify_calls_total", requests="sglang:num_requests_total"),
)


@dataclass(frozen=True, slots=True)
class Speculation:
    """What a server did for one request. None: not told.

    drafts: verify steps in which something was drafted. offered, accepted: draft tokens. reached[i - 1]: steps that
    accepted at least i of them.
    """

    drafts: int | None
    offered: int | None
    accepted: int | None
    reached: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of one page: sums over its engines, of the model that was asked where they say which."""

    family: Family
    values: Mapping[str, float]
    reached: tuple[float, ...]

    def of(self, name: str) -> float:
        """A counter by its name; one that is not there has counted nothing yet."""
        return self.values.get(name, 0.0)


def samples(page: str) -> Page:
    """Every sample of a page; lines that are none, as comments, are left out."""
    found: Page = []
    for line in page.splitlines():
        if match := _SAMPLE.fullmatch(line):
            name, labels, value = match.groups()
            try:
                found.append((name, dict(_LABEL.findall(labels or "")), float(value)))
            except ValueError:  # a word where a number belongs
                continue
    return found


def counters(page: str, model: str) -> Counters | None:
    """The counters of speculation on a page, for the model of that name; None if it has none."""
    values, at = defaultdict[str, float](float), defaultdict[int, float](float)
    reached = {one.reached for one in FAMILIES}
    for name, labels, value in samples(page):
        if labels.get("model_name", model) == model and isfinite(value):
            values[name] += value
            place = labels.get("position", "")
            if name in reached and place.isdecimal() and len(place) < MOST_DIGITS:
                at[int(place)] += value
    family = next((one for one in FAMILIES if one.drafts in values), None)
    if family is None:
        return None
    return Counters(family, values, tuple(at[place] for place in range(1 + max(at, default=-1))))


def added(before: Counters, after: Counters, tokens: int) -> Speculation | str:
    """What one request of so many output tokens added; a reason where the counters cannot tell."""
    family = after.family
    names = family.drafts, family.offered, family.accepted
    more = {name: after.of(name) - before.of(name) for name in (*names, family.requests, family.tokens) if name}
    reached = [one - was for one, was in zip_longest(after.reached, before.reached, fillvalue=0.0)]
    if min(*more.values(), *reached, 0.0) < 0:
        return "the server's counters went back: it was started anew"
    if not counted(before, after, tokens):
        return "the server's counters do not tell of this request alone"
    drafts, offered, accepted = (int(more[name]) if name else None for name in names)
    while reached and not reached[-1]:
        reached.pop()
    return Speculation(drafts, offered, accepted, tuple(map(int, reached)))


def counted(before: Counters, after: Counters, tokens: int) -> bool:
    """Whether exactly one request of so many output tokens was counted between the two."""
    family = after.family
    name, expected = (family.requests, 1) if family.requests else (family.tokens, tokens)
    return name is not None and after.of(name) - before.of(name) == expected
