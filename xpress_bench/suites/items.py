"""What a suite is: prompts with references, and how they are run and scored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

DEFAULT_BUDGET = 128  # new tokens, where a suite does not say
GROUPED_BY = ("suite", "category", "source_id", "origin", "memorised", "lang")  # fields that results divide by
DIGESTED = ("id", "category", "prompt", "turns", "references", "answer_type")


@dataclass(frozen=True, slots=True)
class Item:
    """One prompt. `references` are accepted answers; `answer_type` is exact, set, date, text or none."""

    id: str
    prompt: str
    category: str = "all"
    lang: str = "en"
    turns: tuple[str, ...] | None = None
    references: tuple[str, ...] = ()
    answer_type: str = "none"
    source: str = ""
    source_id: str = "user"
    licence: str = ""
    origin: str = "user"
    memorised: str = "unknown"
    suite: str = ""


@dataclass(frozen=True, slots=True)
class Suite:
    """Items and how to run them; runs compare only where `sha256` matches.

    `sha256` is over the bytes of a JSONL file of our own format, unpacked, and over `digest` of the items of a public
    set. `turns` is how many turns of a conversation are run, None for all. `report_by` is the field of items by which
    a report divides its results.
    """

    name: str
    version: str
    sha256: str
    items: tuple[Item, ...]
    budgets: dict[str, int] = field(default_factory=dict)
    scorers: dict[str, str] = field(default_factory=dict)
    parity_margin: float | None = None
    smoke: tuple[str, ...] = ()
    turns: int | None = None
    report_by: str | None = None

    def budget(self, item: Item) -> int:
        """Most new tokens of an item's answer."""
        return self.budgets.get(item.category, DEFAULT_BUDGET)

    def turns_of(self, item: Item, wanted: int | None) -> int:
        """How many turns of an item are run: `wanted`, else what the suite says, else all it has."""
        there = len(item.turns or (item.prompt,))
        return min(there, wanted or self.turns or there)


T = TypeVar("T")


def spread(things: Sequence[T], limit: int | None) -> Sequence[T]:
    """`limit` of them at even distances: items lie grouped by category, so each category keeps its share."""
    if limit is None or limit >= len(things):
        return things
    return [things[index * len(things) // limit] for index in range(limit)]


def digest(items: Sequence[Item]) -> str:
    """sha256 over what is asked and how it is scored: a file and a dataset with the same items are one suite."""
    body = [{name: getattr(item, name) for name in DIGESTED} for item in items]
    canonical = json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
