"""Counted work: run every request once and write down what was done, not how long it took."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from xpress_bench.analyse.counted import untimed
from xpress_bench.errors import UsageError
from xpress_bench.journals import Record, to_line
from xpress_bench.measure.progress import Progress
from xpress_bench.measure.provenance import header
from xpress_bench.measure.ready import make_ready
from xpress_bench.measure.schedule import schedule_batches
from xpress_bench.measure.turns import with_later_turns
from xpress_bench.records import Cell, Footer, Run
from xpress_bench.settings import Settings


def count(settings: Settings, words: Sequence[str], name: str, progress: Progress) -> Run:
    """A run without times, warm-up or memory pass, held in memory. `words` are the command line it can be redone by."""
    with tempfile.TemporaryDirectory() as scratch:  # answers to earlier turns are kept beside a run
        ready = with_later_turns(make_ready(settings), settings, Path(scratch))
        batches = list(
            schedule_batches(
                list(ready.requests.arms),
                settings.conditions(),
                ready.requests.batches,
                settings.seeds,
                settings.repeats,
                launch=0,
            )
        )
        cells = list[Cell]()
        for done, slots in enumerate(batches):
            progress(done, len(batches), f"{slots[0].arm} {slots[0].prompt}")
            cells += map(untimed, ready.requests.run_together(slots, launch=0))
        progress(len(batches), len(batches), "")
        # Which machine counted does not matter, and nothing about it belongs into a file that is committed.
        top = replace(header(settings, ready, words, name), machine={})
    errors = sum(cell.error is not None for cell in cells)
    return Run(top, tuple(cells), (), (), footer=Footer(len(cells), errors, True, 0.0), folder=Path(name))


def write_baseline(run: Run, file: Path) -> None:
    """Write a counted run as a journal, replacing `file`. UsageError if a request failed or the code is not committed.

    A baseline says what is right, so it has to be what a commit does, and whole.
    """
    failed = next((cell for cell in run.cells if cell.error), None)
    if failed:
        raise UsageError(f"{file.name} is not recorded: {failed.arm} failed on {failed.prompt} ({failed.error})")
    if not run.cells:
        raise UsageError(f"{file.name} is not recorded: there was nothing to count")
    if run.header.git.get("dirty"):
        raise UsageError(f"{file.name} is not recorded: the package has uncommitted changes; commit them first")
    assert run.footer is not None
    file.parent.mkdir(parents=True, exist_ok=True)
    by_key = sorted(run.cells, key=lambda cell: (str(cell.condition), cell.prompt, cell.turn, cell.seed, cell.arm))
    records: list[Record] = [run.header, *by_key, run.footer]
    file.write_text("".join(to_line(one) + "\n" for one in records), encoding="utf-8")
