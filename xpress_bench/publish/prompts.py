"""What a suite holds: its items counted by category, or one item in full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median

from xpress_bench.analyse.digits import NONE
from xpress_bench.analyse.score import scorer_of
from xpress_bench.errors import UsageError, nearest
from xpress_bench.publish.lines import printable
from xpress_bench.publish.page import Page, Section, Table
from xpress_bench.suites import Item, Suite

COLUMNS = ("category", "items", "languages", "origin", "memorised", "scorer", "prompt tokens", "new tokens at most")
TALLIES: tuple[tuple[str, Callable[[Item], str]], ...] = (
    ("languages", lambda item: item.lang),
    ("sources", lambda item: item.source_id),
    ("licences", lambda item: item.licence or "unknown"),
    ("origin", lambda item: item.origin),
    ("memorised", lambda item: item.memorised),
)
Lengths = Mapping[str, int]  # item id -> prompt tokens, as a target's tokenizer counts them


def suite_page(suite: Suite, lengths: Lengths, target: str, context: int | None) -> Page:
    """One row per category; below it how the items divide by language, source, licence, origin and memorised share."""
    groups: dict[str, list[Item]] = {}
    for item in suite.items:
        groups.setdefault(item.category, []).append(item)
    rows = tuple(_row(suite, name, items, lengths) for name, items in groups.items())
    lines = [(name, _tally(suite.items, read)) for name, read in TALLIES]
    lines.append(("lengths", f"prompt tokens of target {target}: {_range([lengths[one.id] for one in suite.items])}"))
    long = [one.id for one in suite.items if context and lengths[one.id] + suite.budget(one) > context]
    if long:
        lines.append(("too long", f"{len(long)} prompts with their budget, for a context of {context} tokens"))
    conversations = sum(len(item.turns or ()) > 1 for item in suite.items)
    if conversations:
        lines.append(("turns", f"{conversations} conversations; {_turns(suite)}"))
    margin = NONE if suite.parity_margin is None else f"{suite.parity_margin:g} of the score"
    lines.append(("parity", f"margin {margin}"))
    title = (f"suite {suite.name} {suite.version}", f"{len(suite.items)} items", f"sha256 {suite.sha256}")
    known = sum(item.memorised == "high" for item in suite.items)
    verdict = f"{known} of {len(suite.items)} items are texts that large models know by heart"
    section = Section(None, verdict, Table(COLUMNS, rows), (), None)
    return Page(title, (section,), tuple((name, printable(text)) for name, text in lines))


def item_of(suite: Suite, name: str) -> Item:
    """An item by id. UsageError with the nearest id."""
    found = {item.id: item for item in suite.items}
    if name not in found:
        hint = nearest(name, found, f"the first is {suite.items[0].id}")
        raise UsageError(f"suite {suite.name} has no item {name!r}; {hint}")
    return found[name]


def item_text(suite: Suite, item: Item, length: int) -> str:
    """An item in full as plain text: what it is, then every turn and reference as it stands."""
    about = {
        "category": item.category, "lang": item.lang, "answer type": item.answer_type,
        "scorer": scorer_of(item, suite.scorers) or NONE, "source": item.source, "licence": item.licence,
        "origin": item.origin, "memorised": item.memorised, "prompt tokens": str(length),
        "new tokens at most": str(suite.budget(item)),
    }  # fmt: skip
    blocks = [(f"turn {at}" if item.turns else "prompt", text) for at, text in enumerate(_said(item), start=1)]
    blocks += [("reference", text) for text in item.references]
    head = "\n".join(f"{name:<20}{printable(value)}" for name, value in about.items() if value)
    return f"{item.id}\n{head}\n" + "".join(f"\n--- {name}\n{_lines(text)}\n" for name, text in blocks)


def _said(item: Item) -> Sequence[str]:
    return item.turns or (item.prompt,)


def _lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def _turns(suite: Suite) -> str:
    return (
        "all turns are run"
        if suite.turns is None
        else f"the first {suite.turns} of each are run unless turns=N says so"
    )


def _row(suite: Suite, name: str, items: list[Item], lengths: Lengths) -> tuple[str, ...]:
    scorers = {scorer_of(item, suite.scorers) if item.references else NONE for item in items}
    cells = (
        name,
        str(len(items)),
        _several(item.lang for item in items),
        _several(item.origin for item in items),
        _several(item.memorised for item in items),
        _several(scorers),
        _range([lengths[item.id] for item in items]),
        str(suite.budget(items[0])),
    )
    return tuple(map(printable, cells))


def _several(values: Iterable[str]) -> str:
    return ", ".join(sorted(set(values)))


def _range(counts: Sequence[int]) -> str:
    low, middle, high = min(counts), round(median(counts)), max(counts)
    return str(low) if low == high else f"{low} to {high}, median {middle}"


def _tally(items: Sequence[Item], read: Callable[[Item], str]) -> str:
    return ", ".join(f"{value} {count}" for value, count in Counter(map(read, items)).most_common())
