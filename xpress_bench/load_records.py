"""What a load run writes, and how it is read back: `load.jsonl`, beside a journal that holds the run's header alone.

First a plan, then for each stage and arm a mark where it starts, a line for every request, a mark where it ended. Times
are seconds since the start of the stage. Strict JSON, and no torch. Of a stage that was run again the last time counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from xpress_bench.errors import UsageError
from xpress_bench.journals import read_run
from xpress_bench.records import JOURNAL, Header

LOAD = "load.jsonl"  # file name inside a run folder
OBJECTIVES = ("ttft", "latency", "token")  # times that an objective can limit
Status = Literal["ok", "deadline", "failed", "shed", "cut"]
# shed: not sent, for the circuit was open. cut: in hand when the stage was interrupted.
STATUSES: tuple[Status, ...] = ("ok", "deadline", "failed", "shed", "cut")
Arrivals = Literal["poisson", "fixed"]
Unit = tuple[str, str, int]  # stage, arm, repeat: what is run, resumed and reported as one


@dataclass(frozen=True, slots=True)
class Stage:
    """How requests come. Closed loop: each of `clients` asks again once it has its answer. Open loop: `rate` a second.

    New ones come for `seconds`, or until there were `requests`; those in hand then are waited for.
    """

    name: str
    clients: int | None = None
    rate: float | None = None
    arrivals: Arrivals = "poisson"
    seconds: float | None = None
    requests: int | None = None


@dataclass(frozen=True, slots=True)
class Degrade:
    """A request that waited longer than `after_s`, or whose memory ran out, gets fewer tokens, or another arm."""

    after_s: float
    max_new_tokens: int | None = None
    arm: str | None = None

    def __str__(self) -> str:
        return f"arm {self.arm}" if self.arm else f"at most {self.max_new_tokens} tokens"


@dataclass(frozen=True, slots=True)
class Policy:
    """What becomes of a request that gets no answer.

    `retries`: of one whose connection failed or whose server was busy; waits double from `backoff_s` to `longest_s`,
    each drawn from 0 to that (full jitter). The circuit opens after `failures` in a row; `probe_s` later one request is
    let through, and all others are shed until one succeeds. `rows`: at most so many are decoded together in process.
    """

    deadline_s: float
    retries: int = 1
    backoff_s: float = 0.5
    longest_s: float = 10.0
    failures: int = 5
    probe_s: float = 2.0
    degrade: Degrade | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """First line. `objective`: seconds that a good request stays within, by ttft, latency or token."""

    stages: tuple[Stage, ...]
    repeats: int
    policy: Policy
    objective: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Mark:
    """A stage of an arm starts, has ended, or was stopped: interrupted, or with its circuit open.

    Of the end: `asked`, the requests that came; `opened`, how often the circuit did; `memory`, pairs of seconds and
    bytes of this process or its board, empty where that is not the engine's; `reason`, why it was stopped.
    """

    stage: str
    arm: str
    repeat: int
    event: Literal["started", "ended", "stopped"]
    at_utc: str
    asked: int = 0
    opened: int = 0
    memory: tuple[tuple[float, int], ...] = ()
    reason: str | None = None

    @property
    def unit(self) -> Unit:
        return self.stage, self.arm, self.repeat


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, whatever became of it. What did not happen is null.

    arrival_s: when it was meant to come, even if nobody could look; latency counts from there. started_s: when it was
    given to the engine for the last time, after waiting for a free row. first_s: its first token; gaps_s: seconds from
    each delivery to the next; delivered: tokens of each delivery, several where a verify step accepted drafts, empty
    where a server does not tell. output: sha256 of ids or of text, as its prefix says. degraded: to what.
    """

    stage: str
    arm: str
    repeat: int
    index: int
    prompt: str
    seed: int
    status: Status
    arrival_s: float
    ended_s: float
    attempts: int = 0
    started_s: float | None = None
    first_s: float | None = None
    tokens: int | None = None
    gaps_s: tuple[float, ...] = ()
    delivered: tuple[int, ...] = ()
    output: str | None = None
    degraded: str | None = None
    reason: str | None = None

    @property
    def unit(self) -> Unit:
        return self.stage, self.arm, self.repeat


@dataclass(frozen=True, slots=True)
class Probe:
    """Whether so many rows of an arm ran in a fresh process without running out of memory; if not, `reason`.

    peak_bytes: of the process, or on a GPU what torch reserved.
    """

    arm: str
    rows: int
    fits: bool
    peak_bytes: int | None = None
    reason: str | None = None


Line = Plan | Mark | Asked
_KINDS: dict[str, type[Any]] = {"plan": Plan, "stage": Mark, "request": Asked}
_NAMES = {kind: name for name, kind in _KINDS.items()}


@dataclass(frozen=True, slots=True)
class Load:
    """A load run read back: what counts of each unit, by its last mark and its requests, in the order they were run.

    `header`: of the journal beside it, None before anything was loaded.
    """

    folder: Path
    plan: Plan
    header: Header | None
    marks: dict[Unit, Mark]
    requests: dict[Unit, tuple[Asked, ...]]

    @property
    def arms(self) -> tuple[str, ...]:
        return tuple(arm.name for arm in self.header.arms) if self.header else ()

    def left(self) -> list[Unit]:
        """What of the plan has not ended, stage by stage."""
        of = self.plan
        units = [(stage.name, arm, n) for stage in of.stages for n in range(of.repeats) for arm in self.arms]
        return [unit for unit in units if unit not in self.marks or self.marks[unit].event != "ended"]

    @property
    def complete(self) -> bool:
        return self.header is not None and not self.left()


def to_line(record: Line) -> str:
    """One strict-JSON line, without the newline. Raises ValueError on NaN or Infinity."""
    body = {"kind": _NAMES[type(record)], **asdict(record)}
    return json.dumps(body, allow_nan=False, separators=(",", ":"))


def read_load(path: Path) -> Load:
    """Read a folder, or its `load.jsonl`. A torn last line is dropped; any other bad line is a UsageError."""
    file = path / LOAD if path.is_dir() else path
    if not file.is_file():
        raise UsageError(f"no load run at {file}; give the folder that `xpress-bench load` printed")
    lines = iter(_lines(file))
    plan = next(lines, None)
    if not isinstance(plan, Plan):
        raise UsageError(f"{file}: a load run starts with its plan")
    marks: dict[Unit, Mark] = {}
    requests: dict[Unit, list[Asked]] = {}
    for line in lines:
        if isinstance(line, Mark):
            marks[line.unit] = line
            if line.event == "started":
                requests[line.unit] = []
        elif isinstance(line, Asked) and line.unit in requests:
            requests[line.unit].append(line)
        else:
            raise UsageError(f"{file}: a {_NAMES[type(line)]} stands where it cannot")
    found = {unit: tuple(these) for unit, these in requests.items()}
    return Load(file.parent, plan, _header(file.parent), marks, found)


def _header(folder: Path) -> Header | None:
    empty = (folder / JOURNAL).is_file() and not (folder / JOURNAL).stat().st_size
    return None if empty else read_run(folder).header


def _lines(file: Path) -> Iterator[Line]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):  # cut while it was written
                return
            try:
                body = msgspec.json.decode(line)
                yield msgspec.convert(body, _KINDS[body.pop("kind")])
            except (msgspec.MsgspecError, UnicodeError, AttributeError, TypeError, KeyError, RecursionError) as error:
                raise UsageError(f"{file}, line {number}: not a record of a load run ({error})") from error
