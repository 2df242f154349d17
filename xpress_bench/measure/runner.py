"""A run from start to end: load, check, warm up, measure every arm interleaved, judge differences, write it down."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from xpress_bench.analyse.admission import disturbance
from xpress_bench.errors import RunError, UsageError, redact
from xpress_bench.journals import read_run
from xpress_bench.measure.conditions import conditions, cool_down
from xpress_bench.measure.controls import controls
from xpress_bench.measure.interrupts import STATUS, Interrupted, Interrupts
from xpress_bench.measure.journal import SETTINGS, Journal, header_of, locked, new_run_folder, stamped
from xpress_bench.measure.memory import measure_arms
from xpress_bench.measure.progress import Progress
from xpress_bench.measure.provenance import header, refuse_secrets
from xpress_bench.measure.ready import make_ready
from xpress_bench.measure.replay import replays
from xpress_bench.measure.requests import Requests
from xpress_bench.measure.resume import Say, refuse_other_run, reopen, standing, stored_settings, void_before
from xpress_bench.measure.schedule import Slot, schedule_batches
from xpress_bench.measure.served import unmeasured
from xpress_bench.measure.trace import traces
from xpress_bench.measure.turns import with_later_turns
from xpress_bench.records import Cell, Control, Footer, Header, Launch, Replay, Run, Trace
from xpress_bench.settings import Settings
from xpress_bench.suites import load_suite

TOLD = 100  # added to the exit status of a launch whose last line is an error; 1 may be anything
WARMED = 2  # prompts, or batches, that are warmed up with
VOID = 75  # exit status of a launch that has to be made once more
Event = Literal["started", "ended", "void", "lost"]


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
    if settings.batch_size > 1:
        progress(0, 0, f"batches of {settings.batch_size}: first turns of conversations only, no traces, no controls")
    folder = new_run_folder(Path(settings.out), stamped(suite.name, settings.sha256()), settings.to_json())
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
    except RunError as error:
        if header_of(sitting.folder) is None:
            raise
        kept = f"what was measured is in {sitting.folder}; go on with --resume {sitting.folder}"
        raise RunError(f"{error}; {kept}") from error
    finally:
        _close(sitting, time.monotonic() - started)


def launch(sitting: Sitting, index: int) -> bool:
    """One process launch: every arm over the suite once per seed and repeat. The first writes the journal's header.

    False if it is void: something disturbed it, and the settings ask for another attempt.
    """
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
        again = void_before(folder, index)
        progress(0, 0, "warming up")
        cooled_s = cool_down(settings.device, _first_temperature_c(began))
        warm_up(ready.requests, settings)
        before = conditions(settings.device)
        here = now.machine | {"versions": now.versions, "git": now.git, "cooled_s": cooled_s, "before": before}
        journal.write(_mark(sitting, index, "started", here, again))
        cells = _measure(sitting, ready.requests, index, journal)
        end = _end(sitting, index, before, again)
        with sitting.interrupts.held():  # short beside the requests, which would be measured again for the want of it
            if end.event == "ended":
                for record in _afterwards(ready.requests, settings, cells, progress):
                    journal.write(record)
            journal.write(end)
    return end.event == "ended"


def _first_temperature_c(began: Header | None) -> float | None:
    return began.machine.get("before", {}).get("gpu_temperature_c") if began else None


def _end(sitting: Sitting, index: int, before: dict[str, Any], again: str | None) -> Launch:
    """The mark after the timed requests. `again`: why the attempt before this one was void; a second one counts."""
    settings, after = sitting.settings, conditions(sitting.settings.device)
    # What is busy beside the client of a served engine may be the engine.
    judged = settings.admission != "off" and not settings.target.served
    reason = disturbance(before, after) if judged else None
    # A launch in this very process cannot be made afresh.
    void = reason and settings.admission == "void" and settings.launches > 1 and again is None
    return _mark(sitting, index, "void" if void else "ended", {"after": after}, reason)


def _afterwards(
    requests: Requests, settings: Settings, cells: list[Cell], progress: Progress
) -> Iterator[Replay | Trace | Control]:
    """What is looked at again: every difference from direct; once a run some blocks and the measuring itself."""
    if settings.weights == "random" or settings.target.served:  # the output means nothing, or nobody sees inside
        return
    yield from replays(requests, cells)
    if cells and cells[0].launch == 0 and looked_at_again(settings):
        yield from traces(requests, settings, progress)
        yield from controls(requests, settings, progress)


def looked_at_again(settings: Settings) -> bool:
    """Whether a run also makes traces and controls: both look at requests by themselves, and inside."""
    return settings.weights != "random" and not settings.target.served and settings.batch_size == 1


def warm_up(requests: Requests, settings: Settings) -> None:
    """Untimed requests, so that every stage of every arm has seen the shapes to come: shortest and longest prompt."""
    by_length = sorted(requests.batches, key=lambda batch: max(len(requests.prompts[key].ids) for key in batch))
    seed = settings.seeds[0]
    for condition in settings.conditions():
        for batch in (by_length[0], by_length[-1]):
            for _ in range(settings.warmup):
                for arm in requests.arms:
                    slots = [Slot(condition, prompt, seed, 0, arm, 0, turn) for prompt, turn in batch]
                    requests.run_together(slots, launch=-1)


def _measure(sitting: Sitting, requests: Requests, index: int, journal: Journal) -> list[Cell]:
    settings, arms = sitting.settings, list(requests.arms)
    conditions, seeds, repeats = settings.conditions(), settings.seeds, settings.repeats
    batches = list(schedule_batches(arms, conditions, requests.batches, seeds, repeats, index))
    cells: list[Cell] = []
    total = sum(map(len, batches))
    for slots in batches:
        sitting.progress(len(cells), total, f"{slots[0].arm} {slots[0].prompt}")
        with sitting.interrupts.held():
            made = requests.run_together(slots, index)
            for cell in made:
                journal.write(cell)
        cells += made
    sitting.progress(total, total, "")
    return cells


def _mark(sitting: Sitting, index: int, event: Event, machine: dict[str, Any], reason: str | None) -> Launch:
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
    if done.returncode == VOID:
        sitting.progress(0, 0, f"launch {index + 1} was void and is made once more")
        _launch_process(sitting, index, lock)
        return
    said = done.stdout.strip().rpartition("\n")[2]
    if done.returncode == TOLD + UsageError.exit_code:
        raise UsageError(said)
    if done.returncode == TOLD + RunError.exit_code:
        raise RunError(said)
    if done.returncode:
        reason = f"it ended with status {done.returncode}{f', {said}' if said else ''}"
        if header_of(folder) is None:
            raise RunError(f"launch {index + 1} was lost before anything was measured: {reason}")
        sitting.progress(0, 0, f"launch {index + 1} was lost: {reason}")
        with Journal(folder) as journal:
            journal.write(_mark(sitting, index, "lost", {}, redact(reason)))


def _append_memory(sitting: Sitting) -> None:
    """Peak memory of every arm whose is not known yet."""
    for arm in standing(sitting.settings, _read(sitting.folder)).arms:
        sitting.progress(0, 0, f"peak memory of {arm}, in a fresh process")
        with sitting.interrupts.held():  # an interruption reaches the measured process too: then its end means nothing
            served = sitting.settings.target.served
            memory = unmeasured(arm) if served else measure_arms(sitting.folder / SETTINGS, [arm])[0]
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
