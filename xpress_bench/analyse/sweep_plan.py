"""What a sweep varies, and its folder: the plan, a run folder per job, and `jobs/` with how each job ended."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import msgspec

from xpress_bench.errors import UsageError

PLAN = "sweep.json"
JOBS = "jobs"
ENDED = "ended"  # suffix of the file that says how a job ended: nothing if it went well
Values = dict[str, str]  # key -> value, as words of the command line
_AWKWARD = re.compile(r"[^A-Za-z0-9_.]+")  # in the name of a folder
_LONGEST = 60  # characters of such a name


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a sweep, and every later run of the same. `name`: of its folder. `values`: of every swept key."""

    name: str
    values: Values

    def again(self, round_: int) -> Job:
        """The run of this job in a round, counted from 0."""
        return self if round_ == 0 else Job(f"{self.name}-round-{round_ + 1}", self.values)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a sweep measures, written when it begins.

    words: of the run that is varied. asked: hash of what was asked for. base: the swept keys as that run has them.
    factors: key -> its values in the order of their cost, the base's among them. grid: all combinations. counts:
    acceptance alone, nothing is timed. rounds: runs of each value, so that what processes differ by is seen.
    """

    words: tuple[str, ...]
    asked: str
    base: Values
    factors: dict[str, tuple[str, ...]]
    grid: bool = False
    counts: bool = False
    rounds: int = 1

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The keys that are varied together: one after the other, or all at once."""
        return (tuple(self.factors),) if self.grid else tuple((key,) for key in self.factors)

    def jobs(self, at: int, carried: Values) -> tuple[Job, ...]:
        """The jobs of one group; what it does not vary has the values `carried`."""
        keys = self.groups[at]
        found = (dict(zip(keys, values, strict=True)) for values in product(*map(self.factors.__getitem__, keys)))
        return tuple(Job(_name(f"{at + 1}-{nth}", values), carried | values) for nth, values in enumerate(found, 1))

    def runs(self, at: int, carried: Values) -> tuple[Job, ...]:
        """Every run of these jobs in turn: all of a round, then all of the next, in the opposite order."""
        jobs = self.jobs(at, carried)
        return tuple(job.again(nth) for nth in range(self.rounds) for job in (jobs if nth % 2 == 0 else jobs[::-1]))


def _name(number: str, values: Values) -> str:
    told = "-".join(f"{key.rpartition('.')[2]}-{value}" for key, value in values.items())
    return f"{number}-{_AWKWARD.sub('-', told)}"[:_LONGEST].strip("-.")


def read_plan(folder: Path) -> Plan:
    """The plan of a sweep. Raises UsageError."""
    file = folder / PLAN
    try:
        plan = msgspec.json.decode(file.read_bytes(), type=Plan)
    except OSError as error:
        raise UsageError(f"{folder}: no sweep, {PLAN} cannot be read ({error.strerror})") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(f"{file}: not the plan of a sweep of this version ({error})") from error
    if plan.base.keys() != plan.factors.keys() or any(plan.base[key] not in plan.factors[key] for key in plan.base):
        raise UsageError(f"{file}: the setting itself is not among its values")
    return plan


def ended(folder: Path, job: str) -> str | None:
    """How a job ended: nothing if it went well; None if it did not."""
    file = folder / JOBS / f"{job}.{ENDED}"
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else None
