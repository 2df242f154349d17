"""The suite of a run that is read back. A journal may be a stranger's: what it names is not fetched for that alone."""

from __future__ import annotations

import sys
from pathlib import Path

from xpress_bench.errors import UsageError
from xpress_bench.records import Header
from xpress_bench.suites import SUITES, Item, Suite, load_suite

NAMED = "the suite of the run, to score its outputs; needed where it is a dataset"  # help of --suite


def items_of(header: Header, named: str | None = None) -> tuple[Item, ...]:
    """The items that a run's outputs are scored against; none, and a line on stderr, if they are not at hand.

    `named`: the suite as the user says it. What only the journal names is read where it is registered or a plain file,
    and used only if its hash is the run's.
    """
    try:
        suite = load_suite(named) if named else _at_hand(str(header.settings["suite"]))
    except UsageError as error:
        print(f"xpress-bench: no scores, the suite of this run is not here ({error})", file=sys.stderr)
        return ()
    if suite.sha256 != header.suite["sha256"]:
        print(f"xpress-bench: no scores, suite {suite.name} is another than that of this run", file=sys.stderr)
        return ()
    return suite.items


def _at_hand(name: str) -> Suite:
    if not (_reachable(name) or all(map(_reachable, name.split(",")))):
        raise UsageError(f"{name[:200]!r} is no suite of this machine; if you trust it, name it with --suite")
    return load_suite(name)


def _reachable(name: str) -> bool:
    try:
        return name.strip() in SUITES or Path(name.strip()).expanduser().is_file()
    except (OSError, RuntimeError):  # a name too long for a path, or the home of nobody
        return False
