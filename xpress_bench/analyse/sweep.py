"""A sweep: settings that are varied, a run for every value, and what its journals say of the values.

Runs are processes of their own and machines drift, so values are not compared by their latency. They are compared by
the speed-up over the direct arm of the same launch and by tokens per step, both paired by prompt. That ratio differs
between processes too, so every value is timed in several rounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from xpress_bench.analyse.contest import Contest, Logs, between_rounds, contest, simultaneous
from xpress_bench.analyse.headers import machines, refuse
from xpress_bench.analyse.intervals import Measure, Unknown
from xpress_bench.analyse.metrics import NO_STEP
from xpress_bench.analyse.parity import Parity
from xpress_bench.analyse.reduce import Cells, pair, select
from xpress_bench.analyse.streaming import read_reduced
from xpress_bench.analyse.summary import DIRECT, ArmSummary, ConditionSummary, summarise
from xpress_bench.analyse.sweep_plan import Job, Plan, Values, ended, read_plan
from xpress_bench.analyse.verdict import headline
from xpress_bench.errors import UsageError
from xpress_bench.records import Header, Run

PENDING = Unknown("not run yet")


@dataclass(frozen=True, slots=True)
class Measured:
    """What a job says of the arm that is swept: the last, refine where there is one. All numbers are by prompt.

    `log_speed_ups`: over the direct arm of the same launch, the mean over rounds. `rounds`: the mean of all prompts in
    each. Header and arm are those of one round, of that with the most outputs that were not direct generation's.
    """

    header: Header
    of: ConditionSummary
    arm: ArmSummary
    log_speed_ups: Mapping[str, float]
    committed: Mapping[str, float]
    steps: Mapping[str, float]
    rounds: tuple[float, ...] = ()

    @property
    def speed_up(self) -> Measure:
        """Over direct generation."""
        speed = self.of.speed_up(self.arm.arm.name)
        return speed.gmean_paired if speed else Unknown("the run has no direct arm")

    @property
    def tokens_per_step(self) -> Measure:
        """Of all steps."""
        return self.arm.tokens_per_step


@dataclass(frozen=True, slots=True)
class Point:
    """A job and what it measured, or why it counts for nothing."""

    job: Job
    found: Measured | Unknown


@dataclass(frozen=True)
class Factor:
    """The values of one key compared, or the combinations of several. `base`: what was carried here."""

    keys: tuple[str, ...]
    points: tuple[Point, ...]
    base: Point
    counts: bool

    @cached_property
    def measured(self) -> dict[str, Measured]:
        """What counts, by the job's name."""
        return {point.job.name: point.found for point in self.points if isinstance(point.found, Measured)}

    @cached_property
    def by_tokens(self) -> Contest:
        """By tokens per step."""
        return contest(self.measured, _log_tokens_per_step, log_token_ratios)

    @cached_property
    def by_speed(self) -> Contest:
        """By speed-up over direct generation."""
        values = self.measured
        spread = between_rounds([one.rounds for one in values.values()])
        return contest(values, lambda one: fmean(one.log_speed_ups.values()), log_speed_ratios, spread)

    @property
    def contest(self) -> Contest:
        """What the recommendation goes by."""
        return self.by_tokens if self.counts else self.by_speed

    @property
    def recommended(self) -> Point:
        """The base, unless another is shown to be better, of all values and with the base among those that count."""
        name = self.base.job.name
        if self.pending or name not in self.measured:
            return self.base
        return self.point(self.contest.recommended(name, ordered=len(self.keys) == 1))

    @property
    def pending(self) -> bool:
        """Whether a job has still to be run."""
        return any(point.found is PENDING for point in self.points)

    def point(self, job: str) -> Point:
        """The point of a job by its name."""
        return next(point for point in self.points if point.job.name == job)


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep as far as it has come; `factors` in the order in which they were varied."""

    folder: Path
    plan: Plan
    factors: tuple[Factor, ...]

    @property
    def complete(self) -> bool:
        """Whether every job was run, well or not."""
        return len(self.factors) == len(self.plan.groups) and not self.factors[-1].pending

    @property
    def unfinished(self) -> bool:
        """Whether going on would run something: jobs that are left, and those that did not end well."""
        jobs = [point.job for factor in self.factors for point in factor.points]
        runs = [job.again(nth).name for job in jobs for nth in range(self.plan.rounds)]
        return not self.complete or any(ended(self.folder, run) for run in runs)

    @property
    def faults(self) -> list[tuple[Job, str]]:
        """Jobs that count for nothing, and why."""
        points = (point for factor in self.factors for point in factor.points)
        return [(point.job, point.found.reason) for point in points if isinstance(point.found, Unknown)]

    def drift(self) -> list[tuple[str, str, Measure]]:
        """Pairs of jobs that measured the same setting: the later's speed-up over the earlier's is 1 but for drift."""
        pairs = []
        for before, after in pairwise(self.factors):
            first = before.recommended
            again = next(point for point in after.points if point.job.values == first.job.values)
            if isinstance(first.found, Measured) and isinstance(again.found, Measured):
                ratio = simultaneous(log_speed_ratios(again.found, first.found), 1)
                pairs.append((first.job.name, again.job.name, ratio))
        return pairs


def read_sweep(folder: Path) -> Sweep:
    """A sweep from its plan and journals. Raises UsageError."""
    plan = read_plan(folder)
    carried, factors = plan.base, list[Factor]()
    for at in range(len(plan.groups)):
        factors.append(read_factor(folder, plan, at, carried))
        if factors[-1].pending:
            break
        carried = factors[-1].recommended.job.values
    return Sweep(folder, plan, tuple(factors))


def read_factor(folder: Path, plan: Plan, at: int, carried: Values) -> Factor:
    """One group of jobs. Raises UsageError if they were not asked the same."""
    points = tuple(Point(job, _of_rounds(folder, job, plan)) for job in plan.jobs(at, carried))
    headers = [point.found.header for point in points if isinstance(point.found, Measured)]
    for ours, theirs in pairwise(headers):
        refuse(ours, theirs)
    base = next(point for point in points if point.job.values == carried)
    return Factor(plan.groups[at], points, base, plan.counts)


def log_speed_ratios(a: Measured, b: Measured) -> Logs:
    """log(speed-up of a / speed-up of b) of each prompt that both timed."""
    if other := machines(a.header, b.header):
        return Unknown(f"not the same {', '.join(one.what for one in other)}")
    return [
        a.log_speed_ups[prompt] - b.log_speed_ups[prompt] for prompt in a.log_speed_ups if prompt in b.log_speed_ups
    ]


def log_token_ratios(a: Measured, b: Measured) -> Logs:
    """Values of each prompt whose mean is log(tokens per step of a / of b), all steps pooled (delta method)."""
    prompts = [prompt for prompt in a.steps if prompt in b.steps]
    above, below = ((a.committed, b.steps), (b.committed, a.steps))
    logs = [0.0] * len(prompts)
    for side, sign in ((above, 1), (below, -1)):
        for column in side:
            mean = fmean(column[prompt] for prompt in prompts)
            logs = [log + sign * (math.log(mean) + column[p] / mean - 1) for log, p in zip(logs, prompts, strict=True)]
    return logs


def _log_tokens_per_step(one: Measured) -> float:
    return math.log(sum(one.committed.values()) / sum(one.steps.values()))


def _of_rounds(folder: Path, job: Job, plan: Plan) -> Measured | Unknown:
    found = [_found(folder, job.again(nth).name, plan.counts) for nth in range(plan.rounds)]
    if faults := [one for one in found if isinstance(one, Unknown)]:
        return PENDING if PENDING in faults else faults[0]
    return together([one for one in found if isinstance(one, Measured)])


def together(rounds: Sequence[Measured]) -> Measured | Unknown:
    """One value measured in several rounds. Unknown if these were on machines that differ."""
    if other := {one.what for later in rounds[1:] for one in machines(rounds[0].header, later.header)}:
        return Unknown(f"its rounds ran on machines that differ ({', '.join(sorted(other))})")
    logs = [one.log_speed_ups for one in rounds]
    return replace(
        min(rounds, key=_identical),
        log_speed_ups={p: fmean(one[p] for one in logs) for p in logs[0] if all(p in one for one in logs)},
        rounds=tuple(fmean(one.values()) for one in logs if one),
    )


def _identical(one: Measured) -> float:
    share = one.arm.parity.identical if isinstance(one.arm.parity, Parity) else None
    return 0.0 if share is None or share.estimate is None else share.estimate


def _found(folder: Path, job: str, counts: bool) -> Measured | Unknown:
    how = ended(folder, job)
    if how is None:
        return PENDING
    try:
        run = read_reduced(folder / job)
    except UsageError as error:
        return Unknown(how or str(error))
    if run.footer is None or not run.footer.complete:
        return Unknown(how or "its journal is not complete")
    failed = [cell for cell in run.cells if cell.error]
    if failed:
        return Unknown(f"{len(failed)} of {len(run.cells)} requests failed, the first: {failed[0].error}")
    found = measured(run)
    if isinstance(found, Measured) and not (counts or found.log_speed_ups):
        return Unknown("nothing was timed")
    return found


def measured(run: Run) -> Measured | Unknown:
    """What a whole run says of its last arm, under its first condition."""
    of = summarise(run).conditions[0]
    arm = headline(of)
    if arm is None or arm.arm.name == DIRECT:
        return Unknown("it has no arm that drafts")
    selection = select(run, of.condition).whole()
    cells = Cells.of(selection.of(arm.arm.name))
    steps, committed = ({p: n for p, n in _by_prompt(cells, name).items() if n} for name in ("steps", "committed"))
    if not steps:
        return Unknown(NO_STEP)
    return Measured(
        run.header,
        of,
        arm,
        log_speed_ups=pair(selection.timed(DIRECT), selection.timed(arm.arm.name)).log_ratios(),
        committed=committed,
        steps=steps,
    )


def _by_prompt(cells: Cells, name: str) -> dict[str, float]:
    return dict(zip(cells.prompts[1], cells.per_prompt(cells.tallied(name)).tolist(), strict=True))
