"""Several suites as one: one run, one journal, and results by suite beside the total."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from xpress_bench.errors import UsageError
from xpress_bench.suites.items import Item, Suite


def join(name: str, suites: Sequence[Suite]) -> Suite:
    """All items of `suites`, in order. UsageError if two of them mean different things by one id or category.

    The parity margin is the smallest that any of them declares.
    """
    margins = [suite.parity_margin for suite in suites if suite.parity_margin is not None]
    joined = Suite(
        name=name,
        version=", ".join(f"{suite.name} {suite.version}" for suite in suites),
        sha256=hashlib.sha256(" ".join(suite.sha256 for suite in suites).encode()).hexdigest(),
        items=_items(suites),
        budgets={category: tokens for suite in suites for category, tokens in suite.budgets.items()},
        scorers={kind: scorer for suite in suites for kind, scorer in suite.scorers.items()},
        parity_margin=min(margins, default=None),
        smoke=tuple(chain.from_iterable(suite.smoke for suite in suites)),
        turns=_turns(suites),
        report_by="suite",
    )
    for suite in suites:
        _refuse_other_meaning(suite, joined)
    return joined


def smoke(suite: Suite) -> Suite:
    """The few items of a suite that stand for it in a quick check."""
    picked = tuple(item for item in suite.items if item.id in suite.smoke)
    chosen = hashlib.sha256(" ".join((suite.sha256, *suite.smoke)).encode()).hexdigest()
    return replace(suite, sha256=chosen, items=picked)


def _items(suites: Sequence[Suite]) -> tuple[Item, ...]:
    home: dict[str, str] = {}
    items = []
    for suite in suites:
        for item in suite.items:
            if home.setdefault(item.id, suite.name) != suite.name:
                raise UsageError(f"suites {home[item.id]} and {suite.name} both have an item {item.id!r}")
            items.append(replace(item, suite=suite.name))
    return tuple(items)


def _refuse_other_meaning(suite: Suite, joined: Suite) -> None:
    for item in suite.items:
        own, other = (one.scorers.get(item.category) or one.scorers.get(item.answer_type) for one in (suite, joined))
        if suite.budget(item) != joined.budget(item) or own != other:
            raise UsageError(
                f"category {item.category!r} of suite {suite.name} is run or scored in another way in one of "
                f"{joined.version}: run them one by one"
            )


def _turns(suites: Sequence[Suite]) -> int | None:
    """What those with conversations agree on."""
    said = {suite.turns for suite in suites if any(item.turns for item in suite.items)}
    if len(said) > 1:
        raise UsageError(f"suites {', '.join(suite.name for suite in suites)} differ in turns: run them one by one")
    return said.pop() if said else None
