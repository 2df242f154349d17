"""A run from start to end: load, check, warm up, measure every arm interleaved, judge differences, write it down."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from xpress_bench.errors import RunError, UsageError
from xpress_bench.measure.journal import Journal, new_run_folder
from xpress_bench.measure.memory import measure_arms
from xpress_bench.measure.provenance import header
from xpress_bench.measure.ready import make_ready
from xpress_bench.measure.replay import replay
from xpress_bench.measure.requests import Requests
from xpress_bench.measure.schedule import Slot, schedule
from xpress_bench.measure.turns import with_later_turns
from xpress_bench.records import JOURNAL, Cell, Footer, Memory, read_run
from xpress_bench.settings import Settings
from xpress_bench.suites import load_suite

SETTINGS = "settings.json"  # beside the journal: what the child processes of a run read
Progress = Callable[[int, int, str], None]  # cells done, cells in all, what comes next


def run(settings: Settings, argv: Sequence[str], progress: Progress) -> Path:
    """Run everything `settings` ask for. Returns the run's folder. Raises UsageError before anything is measured."""
    suite = load_suite(settings.suite)
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    folder = new_run_folder(Path(settings.out), f"{stamp}-{suite.name}-{settings.sha256()[:4]}")
    (folder / SETTINGS).write_text(settings.to_json(), encoding="utf-8")
    started = time.monotonic()
    complete = False
    try:
        if settings.launches == 1:
            launch(settings, folder, 0, argv, progress)
        else:
            for index in range(settings.launches):
                _launch_process(folder, index, argv)
        if settings.memory:
            progress(0, 0, "peak memory, one fresh process per arm")
            _append_memory(settings, folder)
        complete = True
    finally:
        _close(folder, complete, time.monotonic() - started)
    return folder


def launch(settings: Settings, folder: Path, index: int, argv: Sequence[str], progress: Progress) -> None:
    """One process launch: every arm over the suite once per seed and repeat. Launch 0 writes the journal's header."""
    progress(0, 0, "loading models")
    ready = make_ready(settings)
    if any(ready.suite.turns_of(prompt.item, settings.turns) > 1 for prompt in ready.prompts):
        progress(0, 0, "answering the first turns of conversations")
        ready = with_later_turns(ready, settings, folder)
    with Journal(folder) as journal:
        if index == 0:
            journal.write(header(settings, ready, argv, folder.name))
        progress(0, 0, "warming up")
        warm_up(ready.requests, settings)
        cells = _measure(ready.requests, settings, index, journal, progress)
        for judged in _judge(ready.requests, cells):
            journal.write(judged)


def warm_up(requests: Requests, settings: Settings) -> None:
    """Untimed requests, so that every stage of every arm has seen the shapes to come: shortest and longest prompt."""
    by_length = sorted(requests.prompts.values(), key=lambda prompt: len(prompt.ids))
    for condition in settings.conditions():
        for prompt in (by_length[0], by_length[-1]):
            for _ in range(settings.warmup):
                for arm in requests.arms:
                    requests.run(Slot(condition, prompt.item.id, settings.seeds[0], 0, arm, 0, prompt.turn), launch=-1)


def _measure(requests: Requests, settings: Settings, index: int, journal: Journal, progress: Progress) -> list[Cell]:
    slots = list(
        schedule(
            list(requests.arms), settings.conditions(), list(requests.prompts), settings.seeds, settings.repeats, index
        )
    )
    cells = []
    for done, slot in enumerate(slots):
        progress(done, len(slots), f"{slot.arm} {slot.prompt}")
        cell = requests.run(slot, index)
        journal.write(cell)
        cells.append(cell)
    progress(len(slots), len(slots), "")
    return cells


def _judge(requests: Requests, cells: list[Cell]) -> list[Any]:
    """A replay for every (condition, prompt, seed, arm) whose ids differ from direct generation's."""
    own = {
        (cell.condition, cell.prompt, cell.turn, cell.seed): cell
        for cell in reversed(cells)
        if cell.arm == "direct" and not cell.error
    }
    judged = {}
    for cell in cells:
        direct = own.get((cell.condition, cell.prompt, cell.turn, cell.seed))
        key = (cell.condition, cell.prompt, cell.turn, cell.seed, cell.arm)
        if (
            direct is None
            or cell.error
            or cell.ids == direct.ids
            or cell.condition.verifier == "rejection"
            or key in judged
        ):
            continue
        slot = Slot(cell.condition, cell.prompt, cell.seed, 0, "direct", 0, cell.turn)
        judged[key] = replay(requests.target, requests.prompts[slot.key].ids, direct, cell, requests.sampling(slot))
    return list(judged.values())


def run_one_arm(settings_file: Path, arm: str) -> None:
    """What the memory pass's fresh process does: load one arm and run it once over the longest prompt."""
    settings = Settings.from_json(settings_file.read_text(encoding="utf-8"))
    ready = with_later_turns(make_ready(settings, only=arm), settings, settings_file.parent)
    longest = max(ready.prompts, key=lambda prompt: len(prompt.ids))
    slot = Slot(settings.conditions()[0], longest.item.id, settings.seeds[0], 0, arm, 0, longest.turn)
    cell = ready.requests.run(slot, launch=-1)
    if cell.error:
        raise RunError(cell.error)


def _append_memory(settings: Settings, folder: Path) -> None:
    arms = [arm.name for arm in read_run(folder).header.arms]
    found: list[Memory] = measure_arms(folder / SETTINGS, arms)
    with Journal(folder) as journal:
        for memory in found:
            journal.write(memory)


def _launch_process(folder: Path, index: int, argv: Sequence[str]) -> None:
    command = [sys.executable, "-m", "xpress_bench.measure.launch", str(folder), str(index), *argv]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, encoding="utf-8", errors="replace")
    told = done.stdout.strip().rpartition("\n")[2]
    if done.returncode == UsageError.exit_code and told:
        raise UsageError(told)
    if done.returncode != 0:
        told = told or f"launch {index + 1} ended with status {done.returncode}"
        raise RunError(f"{told}; what was measured is in {folder}")


def _close(folder: Path, complete: bool, seconds: float) -> None:
    """The footer, if there is anything to close."""
    if not (folder / JOURNAL).stat().st_size:  # nothing was written: loading failed and has its own message
        _remove_empty(folder)
        return
    measured = read_run(folder)
    errors = sum(cell.error is not None for cell in measured.cells)
    with Journal(folder) as journal:
        journal.write(Footer(len(measured.cells), errors, complete, round(seconds, 3)))


def _remove_empty(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
