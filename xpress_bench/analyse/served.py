"""Runs that servers answered: what a reader has to know of how it was counted, and what such a run cannot tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from xpress_bench.errors import UsageError
from xpress_bench.records import Cell, Header, Run

DIRECT = "direct"  # the arm that the others are compared with

_FROM = {
    "request": "what came with each answer",
    "counters": "the server's counters",
    "both": "what came with each answer and the server's counters, which agree",
}


def refuse_served(header: Header, what: str) -> None:
    """UsageError for a run that servers answered, where `what` needs single verify steps."""
    if servers(header):
        raise UsageError(
            f"{what} needs the verify steps of run {header.run!r}, and servers do not tell them; "
            "see `xpress-bench report RUN`"
        )


def servers(header: Header) -> dict[str, dict[str, Any]]:
    """What the server of each arm said of itself; empty for a run in process."""
    found = header.target.get("servers")
    return found if isinstance(found, dict) else {}


def served(run: Run) -> tuple[str, ...]:
    """Sentences on a run that servers answered; none for any other."""
    if not servers(run.header):
        return ()
    told = [f"{arm}: {_server(says)}" for arm, says in servers(run.header).items()]
    told.append("dtype, block size and all else of the servers is their own; machine and clock are those of the client")
    by_arm = {arm.name: [cell for cell in run.cells if cell.arm == arm.name and cell.counts] for arm in run.header.arms}
    for name, cells in by_arm.items():
        told += (f"{name}: {line}" for line in (*_counted(cells), *_miscounted(cells, by_arm.get(DIRECT, []))))
    return tuple(told)


def _server(says: dict[str, Any]) -> str:
    engine = f"{says.get('engine')} {says.get('version') or 'of unknown version'}"
    return f"{engine} at {says.get('url')}, model {says.get('model')}"


def _miscounted(cells: list[Cell], direct: list[Cell]) -> Iterator[str]:
    """A server whose usage is not the number of tokens: for the same text it says another number than direct's."""
    tokens = {(cell.prompt, cell.turn, cell.text): cell.tokens for cell in direct}
    others = {key: cell for cell in cells if (key := (cell.prompt, cell.turn, cell.text)) in tokens}
    wrong = [key for key, cell in others.items() if cell.tokens != tokens[key]]
    if wrong:
        yield (
            f"of {len(others)} outputs with the text of {DIRECT} {len(wrong)} have another number of tokens, it says: "
            "do not believe its tokens/s and tokens/step"
        )


def _counted(cells: list[Cell]) -> Iterator[str]:
    counts = [cell.counts for cell in cells if cell.counts]
    by_usage = sum(one.by == "usage" for one in counts)
    if by_usage:
        yield f"tokens of {by_usage} of {len(counts)} requests are what the server says, for it gives no ids"
    for source, requests in Counter(one.source for one in counts if one.source).items():
        yield f"speculation of {requests} of {len(counts)} requests by {_FROM[source]}"
    for reason, requests in Counter(one.reason for one in counts if one.reason).items():
        yield f"speculation of {requests} of {len(counts)} requests is not known: {reason}"
    drafts, steps = sum(one.drafts or 0 for one in counts), sum(one.tally.steps for one in counts)
    if steps and all(one.drafts is not None for one in counts if one.tally.steps):
        yield f"something was drafted in {drafts} of {steps} verify steps"
    cached = sum(bool(one.cached) for one in counts)
    if cached:
        yield f"the prompt of {cached} of {len(counts)} requests was at least partly in the server's cache"
