"""A run from start to end: load, check, warm up, measure every arm interleaved, judge differences, write it down."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from xpress_bench.errors import RunError, UsageError, redact
from xpress_bench.journals import read_run
from xpress_bench.measure.faults import told
from xpress_bench.measure.interrupts import STATUS, Interrupted, Interrupts
from xpress_bench.measure.journal import SETTINGS, Journal, header_of, locked, new_run_folder
from xpress_bench.measure.memory import measure_arms
from xpress_bench.measure.progress import Progress
from xpress_bench.measure.provenance import header, refuse_secrets
from xpress_bench.measure.ready import make_ready
from xpress_bench.measure.replay import replay
from xpress_bench.measure.requests import Requests
from xpress_bench.measure.resume import Say, refuse_other_run, reopen, standing, stored_settings
from xpress_bench.measure.schedule import Slot, schedule
from xpress_bench.measure.trace import traces
from xpress_bench.measure.turns import with_later_turns
from xpress_bench.records import Cell, Footer, Header, Launch, Replay, Run
from xpress_bench.settings import Settings
from xpress_bench.suites import load_suite

TOLD = 100  # added to the exit status of a launch whose last line is an error; 1 may be anything
Event = Literal["started", "ended", "lost"]


@dataclass(frozen=True, slots=True)
class Sitting:
    """One command that measures into a run's folder: what all its launches share."""

    settings: Settings
    folder: Path
    argv: Sequence[str]
    progress: Progress
    interrupts: Interrupts
    number: int  # 0: the command that began the run


def run(settings: Settings, argv: Sequence[str], progress: Progress) -> Path:
    """Run everything `settings` ask for. Returns the run's folder.

    Raises UsageError before anything is measured, RunError when it cannot go on, Interrupted after one Ctrl-C.
    """
    refuse_secrets(settings)
    suite = load_suite(settings.suite)
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    name = f"{stamp}-{suite.name}-{settings.sha256()[:4]}"
    folder = new_run_folder(Path(settings.out), name, settings.to_json())
    with locked(folder) as lock, Interrupts() as interrupts:
        _measure_what_is_left(Sitting(settings, folder, argv, progress, interrupts, 0), lock)
    return folder


def resume(folder: Path, given: Settings | None, argv: Sequence[str], progress: Progress, say: Say) -> Path:
    """Go on with a run: launches that ended are kept, every other is measured again from its start.

    Raises as `run`, and UsageError if `folder` is no run, if its settings are not those `given`, or if its suite or
    models have changed.
    """
    settings = stored_settings(folder, given)
    with locked(folder) as lock, Interrupts() as interrupts:
        reopen(folder, settings, say)
        left = standing(settings, _read(folder))
        if left.complete and left.closed:
            say("the run is complete, nothing is left to measure")
        else:
            _measure_what_is_left(Sitting(settings, folder, argv, progress, interrupts, left.sitting), lock)
    return folder


def _measure_what_is_left(sitting: Sitting, lock: int) -> None:
    started = time.monotonic()
    try:
        for index in standing(sitting.settings, _read(sitting.folder)).launches:
            if sitting.settings.launches == 1:
                launch(sitting, index)
            else:
                _launch_process(sitting, index, lock)
        _append_memory(sitting)
    except Interrupted as stop:
        stop.folder = None if header_of(sitting.folder) is None else sitting.folder
        raise
    finally:
        _close(sitting, time.monotonic() - started)


def launch(sitting: Sitting, index: int) -> None:
    """One process launch: every arm over the suite once per seed and repeat. The first writes the journal's header."""
    settings, folder, progress = sitting.settings, sitting.folder, sitting.progress
    progress(0, 0, "loading models")
    ready = make_ready(settings)
    if any(ready.suite.turns_of(prompt.item, settings.turns) > 1 for prompt in ready.prompts):
        progress(0, 0, "answering the first turns of conversations")
        ready = with_later_turns(ready, settings, folder)
    now = header(settings, ready, sitting.argv, folder.name)
    with Journal(folder) as journal:
        began = header_of(folder)
        if began is None:
            journal.write(now)
        else:
            refuse_other_run(folder, began, now)
        journal.write(_mark(sitting, index, "started", now))
        progress(0, 0, "warming up")
        warm_up(ready.requests, settings)
        cells = _measure(sitting, ready.requests, index, journal)
        with sitting.interrupts.held():  # short beside the requests, which would be measured again for the want of it
            for judged in _judge(ready.requests, cells):
                journal.write(judged)
            if index == 0:
                for traced in traces(ready.requests, settings, progress):
                    journal.write(traced)
            journal.write(_mark(sitting, index, "ended"))


def warm_up(requests: Requests, settings: Settings) -> None:
    """Untimed requests, so that every stage of every arm has seen the shapes to come: shortest and longest prompt."""
    by_length = sorted(requests.prompts.values(), key=lambda prompt: len(prompt.ids))
    for condition in settings.conditions():
        for prompt in (by_length[0], by_length[-1]):
            for _ in range(settings.warmup):
                for arm in requests.arms:
                    requests.run(Slot(condition, prompt.item.id, settings.seeds[0], 0, arm, 0, prompt.turn), launch=-1)


def _measure(sitting: Sitting, requests: Requests, index: int, journal: Journal) -> list[Cell]:
    settings, arms, prompts = sitting.settings, list(requests.arms), list(requests.prompts)
    slots = list(schedule(arms, settings.conditions(), prompts, settings.seeds, settings.repeats, index))
    cells = []
    for done, slot in enumerate(slots):
        sitting.progress(done, len(slots), f"{slot.arm} {slot.prompt}")
        with sitting.interrupts.held():
            cell = requests.run(slot, index)
            journal.write(cell)
        cells.append(cell)
    sitting.progress(len(slots), len(slots), "")
    return cells


def _judge(requests: Requests, cells: list[Cell]) -> Iterator[Replay]:
    """A replay for every (condition, prompt, seed, arm) whose ids differ from direct generation's."""
    own = {
        (cell.condition, cell.prompt, cell.turn, cell.seed): cell
        for cell in reversed(cells)
        if cell.arm == "direct" and not cell.error
    }
    judged = set()
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
        judged.add(key)
        try:
            yield replay(requests.target, requests.prompts[slot.key].ids, direct, cell, requests.sampling(slot))
        except Exception as error:  # whatever the device raises; the difference stays unjudged
            print(f"xpress-bench: no replay of {cell.arm} on {cell.prompt}: {told(error)}", file=sys.stderr)


def _mark(sitting: Sitting, index: int, event: Event, now: Header | None = None, reason: str | None = None) -> Launch:
    machine = now.machine | {"versions": now.versions, "git": now.git} if now else {}
    return Launch(index, event, datetime.now(UTC).isoformat(timespec="seconds"), sitting.number, machine, reason)


def _launch_process(sitting: Sitting, index: int, lock: int) -> None:
    """A launch in a process of its own, which keeps the run locked should this one be killed.

    Raises the error that it told, or RunError if it was lost before anything was written. One that is killed or crashes
    later is written down as lost, and the run goes on.
    """
    folder = sitting.folder
    words = [str(folder), str(index), str(sitting.number), *sitting.argv]
    with sitting.interrupts.held():
        done = subprocess.run(
            [sys.executable, "-m", "xpress_bench.measure.launch", *words],
            check=False,
            stdout=subprocess.PIPE,
            pass_fds=(lock,),
            encoding="utf-8",
            errors="replace",
        )
    if done.returncode == STATUS:
        raise Interrupted
    said = done.stdout.strip().rpartition("\n")[2]
    if done.returncode == TOLD + UsageError.exit_code:
        raise UsageError(said)
    if done.returncode == TOLD + RunError.exit_code:
        raise RunError(f"{said}; what was measured is in {folder}")
    if done.returncode:
        reason = f"it ended with status {done.returncode}{f', {said}' if said else ''}"
        if header_of(folder) is None:
            raise RunError(f"launch {index + 1} was lost before anything was measured: {reason}")
        sitting.progress(0, 0, f"launch {index + 1} was lost: {reason}")
        with Journal(folder) as journal:
            journal.write(_mark(sitting, index, "lost", reason=redact(reason)))


def run_one_arm(settings_file: Path, arm: str) -> None:
    """What the memory pass's fresh process does: load one arm and run it once over the longest prompt."""
    settings = Settings.from_json(settings_file.read_text(encoding="utf-8"))
    ready = with_later_turns(make_ready(settings, only=arm), settings, settings_file.parent)
    longest = max(ready.prompts, key=lambda prompt: len(prompt.ids))
    slot = Slot(settings.conditions()[0], longest.item.id, settings.seeds[0], 0, arm, 0, longest.turn)
    cell = ready.requests.run(slot, launch=-1)
    if cell.error:
        raise RunError(cell.error)


def _append_memory(sitting: Sitting) -> None:
    """Peak memory of every arm whose is not known yet."""
    for arm in standing(sitting.settings, _read(sitting.folder)).arms:
        sitting.progress(0, 0, f"peak memory of {arm}, in a fresh process")
        with sitting.interrupts.held():  # an interruption reaches the measured process too: then its end means nothing
            (memory,) = measure_arms(sitting.folder / SETTINGS, [arm])
        with Journal(sitting.folder) as journal:
            journal.write(memory)


def _close(sitting: Sitting, seconds: float) -> None:
    """The footer, if there is anything to close."""
    measured = _read(sitting.folder)
    if measured is None:  # nothing was written: loading failed and has its own message
        _remove(sitting.folder)
        return
    errors = sum(cell.error is not None for cell in measured.cells)
    complete = standing(sitting.settings, measured).complete
    with Journal(sitting.folder) as journal:
        journal.write(Footer(len(measured.cells), errors, complete, round(seconds, 3)))


def _read(folder: Path) -> Run | None:
    return None if header_of(folder) is None else read_run(folder)


def _remove(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
