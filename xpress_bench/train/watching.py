"""What a long training shows: a bar with the time left on a terminal, a plain line now and then elsewhere; and curves.

All on stderr. Curves need matplotlib, which is an extra: without it the step says so and goes on.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

LINE_EVERY_S = 60.0
SMOOTHED_OVER = 50  # steps

Watch = Callable[[float, str], None]  # (done, what); the unit of done is that of the total


@contextmanager
def watch(title: str, total: float) -> Iterator[Watch]:
    """Yields `show(done, what)`; both bar and lines estimate the end from the pace since this call."""
    if sys.stderr.isatty():
        with _bar(title, total) as show:
            yield show
    else:
        yield _Lines(title, total)


class _Lines:
    def __init__(self, title: str, total: float) -> None:
        self.title, self.total = title, total
        self._began: tuple[float, float] | None = None
        self._last = 0.0

    def __call__(self, done: float, what: str) -> None:
        now = time.monotonic()
        began, from_done = self._began = self._began or (now, done)
        if now - self._last < LINE_EVERY_S:
            return
        self._last = now
        pace = (done - from_done) / (now - began) if now > began else 0.0
        left = f", about {(self.total - done) / pace / 60:.0f} min left" if pace > 0 else ""
        print(f"{self.title}: {done / self.total:.0%}{left}, {what}", file=sys.stderr, flush=True)


@contextmanager
def _bar(title: str, total: float) -> Iterator[Watch]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done, what: bar.update(task, completed=done, description=f"{title} {escape(what)}"[:90])


def draw_curves(folder: Path) -> Path | None:
    """`losses.svg` of every loss against minutes, smoothed; None without matplotlib or without a step."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print(f"train: no curve for {folder}: pip install 'xpress-bench[plots]'", file=sys.stderr)
        return None
    lines = [json.loads(line) for line in (folder / "losses.jsonl").read_text(encoding="utf-8").splitlines()]
    if not lines:  # the minutes were over before a step was done
        return None
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for name in [name for name, value in lines[-1].items() if isinstance(value, float) and name not in NO_LOSS]:
        points = [(line["seconds"] / 60, line[name]) for line in lines if name in line]
        axes.plot([minutes for minutes, _ in points], smoothed([value for _, value in points]), label=name)
    axes.set(xlabel="minutes", ylabel=f"loss, mean of the last {SMOOTHED_OVER} steps", title=folder.name)
    axes.legend()
    figure.savefig(folder / "losses.svg")
    return folder / "losses.svg"


NO_LOSS = ("norm", "seconds")


def smoothed(values: list[float], over: int = SMOOTHED_OVER) -> list[float]:
    """Each value's mean with up to `over` - 1 values before it."""
    sums = [0.0]
    for value in values:
        sums.append(sums[-1] + value)
    return [(sums[i + 1] - sums[max(0, i + 1 - over)]) / min(i + 1, over) for i in range(len(values))]
