"""How a run says where it is: a bar on a terminal, a plain line every few seconds elsewhere. All on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LINE_EVERY_S = 15.0
Progress = Callable[[int, int, str], None]  # done, how many in all (0: not known), what comes next


@contextmanager
def progress_for(title: str) -> Iterator[Progress]:
    """Yields `progress(done, total, what)`; total 0 means a step whose length is not known."""
    if sys.stderr.isatty():
        with _bar(title) as show:
            yield show
    else:
        yield _Lines(title)


class _Lines:
    def __init__(self, title: str) -> None:
        self.title = title
        self._last = float("-inf")

    def __call__(self, done: int, total: int, what: str) -> None:
        now = time.monotonic()
        if total and done < total and now - self._last < LINE_EVERY_S:
            return
        self._last = now
        count = f"{done}/{total} requests" if total else what
        print(f"{self.title}: {count}", file=sys.stderr, flush=True)


@contextmanager
def _bar(title: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def show(done: int, total: int, what: str) -> None:
            label = f"{title}: {escape(what)}" if what else title
            bar.update(task, completed=done, total=total or None, description=label[:60])

        yield show
