"""A load run from start to end: models or servers, then every stage of every arm, written down as it happens."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from xpress_bench.errors import RunError, UsageError
from xpress_bench.load.arrivals import order, order_of_arms
from xpress_bench.load.batch import BatchEngine
from xpress_bench.load.engine import Ask, Engine
from xpress_bench.load.loop import Loop
from xpress_bench.load.server import ServedEngine
from xpress_bench.load_records import LOAD, Asked, Load, Mark, Plan, Stage, Unit, read_load, to_line
from xpress_bench.measure import nvml
from xpress_bench.measure.faults import told
from xpress_bench.measure.interrupts import Interrupted, Interrupts
from xpress_bench.measure.journal import SETTINGS, Journal, header_of, locked, new_run_folder, stamped
from xpress_bench.measure.machine import board_of
from xpress_bench.measure.progress import Progress
from xpress_bench.measure.prompts import Prompt
from xpress_bench.measure.provenance import header, refuse_secrets
from xpress_bench.measure.ready import Ready, make_ready
from xpress_bench.measure.resume import refuse_other_run
from xpress_bench.measure.served import Servers
from xpress_bench.records import Header
from xpress_bench.settings import Settings
from xpress_bench.suites import load_suite

_STATM = Path("/proc/self/statm")
Event = Literal["started", "ended", "stopped"]


@dataclass(frozen=True, slots=True)
class Made:
    """What all stages share: an engine for each arm, made anew for each stage, the prompts, and how to see memory."""

    engine: Callable[[str], Engine]
    prompts: Sequence[Prompt]
    held_bytes: Callable[[], int | None]


def begin(settings: Settings, plan: Plan) -> Path:
    """A new folder for a load run, with its settings and its plan."""
    refuse_secrets(settings)
    digest = hashlib.sha256((settings.sha256() + to_line(plan)).encode()).hexdigest()
    name = stamped(f"load-{load_suite(settings.suite).name}", digest)
    # Wrapped, so that no command takes the folder for a run's.
    folder = new_run_folder(Path(settings.out), name, json.dumps({"load": asdict(settings)}, indent=1))
    with Journal(folder, LOAD) as lines:
        lines.append(to_line(plan))
    return folder


def stored(folder: Path) -> Settings:
    """The settings of a load run. UsageError if the folder holds none."""
    file = folder / SETTINGS
    try:
        return Settings.from_json(json.dumps(json.loads(file.read_text(encoding="utf-8"))["load"]))
    except OSError as error:
        raise UsageError(f"{folder}: no load run, {SETTINGS} cannot be read ({error.strerror})") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(f"{file}: not the settings of a load run of this version ({error})") from error


def unfinished(settings: Settings, plan: Plan) -> Path | None:
    """The newest load run of these very settings and plan in their output folder of which something is left."""
    for folder in sorted(Path(settings.out).glob("*-load-*"), reverse=True):
        with suppress(UsageError):
            load = read_load(folder)
            if not load.complete and load.plan == plan and stored(folder).sha256() == settings.sha256():
                return folder
    return None


def go_on(folder: Path, argv: Sequence[str], progress: Progress) -> None:
    """Run what is left of the plan in `folder`.

    Raises UsageError before anything is asked, RunError when an engine has failed for good, Interrupted after one
    Ctrl-C; the stage in hand then is run again by whoever goes on.
    """
    settings = stored(folder)
    with locked(folder), Interrupts() as interrupts:
        if read_load(folder).complete:
            return
        progress(0, 0, "loading models")
        plan = read_load(folder).plan
        made, now = _loaded(folder, settings, plan, argv)
        with Journal(folder) as journal:
            began = header_of(folder)
            if began is None:
                journal.write(now)
            else:
                refuse_other_run(folder, began, now)
        with Journal(folder, LOAD) as lines:
            for unit in _in_order(read_load(folder)):
                progress(0, 0, f"{unit[0]}, {unit[1]}, {unit[2] + 1} of {plan.repeats}")
                try:
                    _run(made, plan, unit, settings, lines, interrupts)
                except Interrupted as stop:
                    stop.folder = folder
                    raise


def _loaded(folder: Path, settings: Settings, plan: Plan, argv: Sequence[str]) -> tuple[Made, Header]:
    """Models or servers, and what they are. If they cannot be had, a folder in which nothing was asked goes."""
    try:
        ready = make_ready(settings)
        made = _made(settings, ready, plan)
        for planned in ready.parts.arms:
            made.engine(planned.arm.name)  # what does not go into a batch says so now
        return made, header(settings, ready, argv, folder.name)
    except BaseException:
        if header_of(folder) is None:
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()
        raise


def _in_order(load: Load) -> Iterator[Unit]:
    """Units that are left: stages in turn, in each repeat the arms in an order drawn anew."""
    left = set(load.left())
    for stage in load.plan.stages:
        for repeat in range(load.plan.repeats):
            units = [(stage.name, arm, repeat) for arm in order_of_arms(stage, repeat, load.arms)]
            yield from (unit for unit in units if unit in left)


def _made(settings: Settings, ready: Ready, plan: Plan) -> Made:
    (condition,), servers = settings.conditions(), ready.parts.target
    if isinstance(servers, Servers):
        return Made(lambda arm: ServedEngine(servers, condition, settings.deadline_s), ready.prompts, lambda: None)
    rows = plan.policy.rows or 1
    return Made(
        lambda arm: BatchEngine(ready.requests, arm, condition, rows), ready.prompts, held_bytes(settings.device)
    )


def _run(made: Made, plan: Plan, unit: Unit, settings: Settings, lines: Journal, interrupts: Interrupts) -> None:
    """One stage of one arm, between its marks."""
    name, arm, repeat = unit
    stage = next(one for one in plan.stages if one.name == name)
    engine, looks = made.engine(arm), list[tuple[float, int]]()
    _warm_up(engine, made.prompts, plan, settings, arm)

    def watch(now_s: float) -> None:
        if (size := made.held_bytes()) is not None:
            looks.append((round(now_s, 3), size))

    def record(one: Asked) -> None:
        lines.append(to_line(one))

    loop = Loop(
        engine, stage, arm, repeat, plan.policy, _asking(made.prompts, stage, arm, repeat, settings), record, watch
    )
    lines.append(to_line(_mark(unit, "started")))
    try:
        seconds = loop.run(interrupts.held)
    except BaseException as error:
        why = "interrupted" if isinstance(error, KeyboardInterrupt) else told(error)
        lines.append(to_line(_mark(unit, "stopped", loop, looks, why)))
        raise
    watch(seconds)
    if loop.circuit.open:
        lines.append(to_line(_mark(unit, "stopped", loop, looks, f"the circuit is open: {loop.circuit.reason}")))
        raise RunError(
            f"{arm} does not answer any more ({loop.circuit.reason}); when it does again, go on with "
            f"xpress-bench load --resume {lines.file.parent}"
        )
    lines.append(to_line(_mark(unit, "ended", loop, looks)))


def _warm_up(engine: Engine, prompts: Sequence[Prompt], plan: Plan, settings: Settings, arm: str) -> None:
    """A few requests, one at a time, that nobody counts."""
    stage = Stage("warm-up", clients=1, requests=settings.warmup)
    asking = _asking(prompts, stage, arm, 0, settings)
    Loop(engine, stage, arm, 0, plan.policy, asking, lambda one: None).run()


def _asking(prompts: Sequence[Prompt], stage: Stage, arm: str, repeat: int, settings: Settings) -> Callable[[int], Ask]:
    """What request number i asks: prompts in the stage's order, and each time through them with the next seed."""
    drawn, seeds = order(stage, repeat, prompts), settings.seeds

    def ask(index: int) -> Ask:
        turn, at = divmod(index, len(drawn))
        return Ask(index, arm, drawn[at], seeds[turn % len(seeds)], drawn[at].budget)

    return ask


def _mark(
    unit: Unit, event: Event, loop: Loop | None = None, looks: Sequence[tuple[float, int]] = (), why: str | None = None
) -> Mark:
    asked, opened = (loop.asked, loop.circuit.opened) if loop else (0, 0)
    return Mark(*unit, event, datetime.now(UTC).isoformat(timespec="seconds"), asked, opened, tuple(looks), why)


def held_bytes(device: str) -> Callable[[], int | None]:
    """How much memory this process holds, or on a GPU its board, now; None where the system does not say."""
    board = board_of(device)
    if board is not None:
        return lambda: nvml.device_memory(board).used_bytes
    if not _STATM.exists():
        return lambda: None
    return lambda: int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
