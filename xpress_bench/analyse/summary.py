"""One run as numbers: per condition, per arm, per pair of arms. Everything is derived from the journal alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from xpress_bench.analyse.acceptance import Acceptance, acceptance, tokens_per_step
from xpress_bench.analyse.compare import Latency, SpeedUp, speed_ups
from xpress_bench.analyse.controls import Controlled, controlled
from xpress_bench.analyse.cost import Cost, cost
from xpress_bench.analyse.intervals import Measure, Unknown, clustered_ratio_interval, mean_interval, median_interval
from xpress_bench.analyse.law import draft_law
from xpress_bench.analyse.parity import Outcome, Parity, parity
from xpress_bench.analyse.reduce import Cells, Selection, by_batch, prompt_latencies, select
from xpress_bench.analyse.score import Scorable, prompt_scores, usable
from xpress_bench.analyse.served import served
from xpress_bench.analyse.sittings import not_judged, sittings
from xpress_bench.analyse.stability import Stability, stability
from xpress_bench.analyse.stages import Stages, stages
from xpress_bench.analyse.streaming import no_collector
from xpress_bench.errors import UsageError
from xpress_bench.records import Arm, Cell, Condition, Header, Memory, Run

DIRECT = "direct"
SLOWER_SHARE = 0.05  # of the prompts; above it a speed-up is not called stable
Scores = dict[str, dict[str, float]]  # arm -> prompt -> score


@dataclass(frozen=True, slots=True)
class Levels:
    """What an arm has reached: it runs, says the same, is faster, and so on nearly every prompt of a quiet machine."""

    runs: bool
    quality: Outcome
    latency: Latency
    stable: bool


@dataclass(frozen=True, eq=False)
class ArmSummary:
    """One arm under one condition, from its usable `cells` and those of direct generation.

    What takes long is worked out when it is first asked for: a report by category shows little of each.
    """

    arm: Arm
    cells: Cells
    timed: Cells  # whole batches at a batch size above 1
    direct: Cells
    memory: Memory | Unknown
    parity: Parity | Unknown
    score: Measure

    @property
    def requests(self) -> int:
        """Usable ones."""
        return len(self.cells)

    @cached_property
    def latency_s(self) -> Measure:
        """Median over prompts; in batches over them, of their median request."""
        return median_interval(list(prompt_latencies(by_batch(self.cells)).values()))

    @cached_property
    def tokens_per_s(self) -> Measure:
        """All tokens over all time, which in batches is that of the batches."""
        return _tokens_per_s(self.timed)

    @cached_property
    def acceptance(self) -> Acceptance:
        """What the target kept of the drafts."""
        return acceptance(self.cells)

    @cached_property
    def tokens_per_step(self) -> Measure:
        """Committed tokens per verify step, all steps pooled."""
        return tokens_per_step(self.cells)

    @cached_property
    def stages(self) -> Stages | Unknown:
        """Times of the stages of a request; a step of its batch is a step of it."""
        return stages(self.cells)

    @cached_property
    def cost(self) -> Cost | Unknown:
        """Against direct generation, of a request as in `stages`."""
        return cost(self.direct, self.cells)


@dataclass(frozen=True, eq=False)
class ConditionSummary:
    """All arms under one condition. `expected`: requests the settings ask for; `failed`, `short`: cells left out."""

    condition: Condition
    arms: tuple[ArmSummary, ...]
    speed_ups: tuple[SpeedUp, ...]
    timed: Cells
    expected: int
    usable: int
    failed: tuple[Cell, ...]
    short: tuple[Cell, ...]
    complete: bool

    @cached_property
    def stability(self) -> Stability:
        """How quiet the machine was."""
        return stability(self.timed)

    def speed_up(self, arm: str, base: str = DIRECT) -> SpeedUp | None:
        """The comparison of two arms, None if the run lacks one of them."""
        return next((one for one in self.speed_ups if (one.arm, one.base) == (arm, base)), None)

    def levels(self, one: ArmSummary) -> Levels:
        """The four levels of an arm against direct generation."""
        speed = self.speed_up(one.arm.name)
        steady = speed is not None and len(speed.slower) <= SLOWER_SHARE * speed.prompts
        return Levels(
            runs=self.complete and self.usable == self.expected,
            quality=one.parity.outcome if isinstance(one.parity, Parity) else "not shown",
            latency=speed.latency if speed else "not shown",
            stable=steady and self.stability.quiet,
        )


@dataclass(frozen=True, slots=True)
class Summary:
    """A whole run. `complete` is False when the journal has no footer or the footer says so.

    notes: what to know of how it was measured, as of launches that were lost or of a later day. served: the same of a
    run that servers answered.
    """

    header: Header
    conditions: tuple[ConditionSummary, ...]
    complete: bool
    folder: Path
    notes: tuple[str, ...] = ()
    controls: tuple[Controlled, ...] = ()
    served: tuple[str, ...] = ()


@no_collector()
def summarise(run: Run, items: Sequence[Scorable] = ()) -> Summary:
    """Summary of a run; `items` of its suite give the task scores. UsageError on a journal that contradicts itself."""
    complete = run.footer is not None and run.footer.complete
    known = {item.id: item for item in items}
    conditions = tuple(_condition(run, condition, known, complete) for condition in run.header.conditions)
    notes = (*sittings(run.launches), *not_judged(run.header, run.launches))
    return Summary(run.header, conditions, complete, run.folder, notes, controlled(run.controls), served(run))


def by(run: Run, items: Sequence[Scorable], field: str) -> dict[str, Summary]:
    """One summary for each value of an item's field, e.g. its category; in the order of the suite."""
    groups: defaultdict[str, set[str]] = defaultdict(set)
    for item in items:
        if not hasattr(item, field):
            raise UsageError(f"suite items have no field {field!r}")
        if item.id in run.header.prompts:
            groups[str(getattr(item, field))].add(item.id)
    return {value: summarise(_restricted(run, prompts), items) for value, prompts in groups.items()}


def _restricted(run: Run, prompts: set[str]) -> Run:
    header = replace(
        run.header,
        prompts=tuple(prompt for prompt in run.header.prompts if prompt in prompts),
        skipped=tuple(one for one in run.header.skipped if one.prompt in prompts),
    )
    return replace(
        run,
        header=header,
        cells=tuple(cell for cell in run.cells if cell.prompt in prompts),
        replays=tuple(replay for replay in run.replays if replay.prompt in prompts),
        traces=tuple(trace for trace in run.traces if trace.prompt in prompts),
    )


def _condition(run: Run, condition: Condition, items: dict[str, Scorable], complete: bool) -> ConditionSummary:
    selection = select(run, condition)
    whole = selection.whole()
    arms = sorted(run.header.arms, key=lambda arm: arm.name != DIRECT)  # stable: direct first, the rest as configured
    scores, unscored = _scores(run, whole, items)
    judged = {arm.name: _parity(run, selection, arm.name, scores) for arm in arms}
    return ConditionSummary(
        condition,
        arms=tuple(_arm(run, whole, arm, judged[arm.name], scores, unscored) for arm in arms),
        speed_ups=speed_ups(whole, [arm.name for arm in arms]),
        timed=whole.timed(),
        expected=_expected(run.header),
        usable=len(selection.usable),
        failed=selection.failed,
        short=selection.short,
        complete=complete,
    )


def _arm(run: Run, whole: Selection, arm: Arm, judged: Parity | Unknown, scores: Scores, unscored: str) -> ArmSummary:
    own = scores.get(arm.name)
    return ArmSummary(
        arm,
        whole.of(arm.name),
        whole.timed(arm.name),
        whole.of(DIRECT),
        memory=_memory(run, arm.name),
        parity=judged,
        score=mean_interval(list(own.values())) if own else Unknown(unscored),
    )


def _tokens_per_s(cells: Sequence[Cell]) -> Measure:
    cells = Cells.of(cells)
    tokens = cells.per_prompt(np.where(np.isnan(cells.latency_s), 0.0, cells.tokens))
    time_s = cells.per_prompt(cells.latency_s)
    if not time_s.any():
        return Unknown("nothing was timed")
    return clustered_ratio_interval(tokens[time_s > 0].tolist(), time_s[time_s > 0].tolist())


def _memory(run: Run, arm: str) -> Memory | Unknown:
    found = [memory for memory in run.memory if memory.arm == arm]
    return found[-1] if found else Unknown("peak memory was not measured")


def _parity(run: Run, selection: Selection, arm: str, scores: Scores) -> Parity | Unknown:
    if arm == DIRECT:
        return Unknown("direct is what the others are compared with")
    if DIRECT not in {one.name for one in run.header.arms}:
        return Unknown("the run has no direct arm")
    law = draft_law([one for one in run.traces if (one.arm, one.condition) == (arm, selection.condition)])
    return parity(selection, arm, DIRECT, run.replays, scores, run.header.suite.get("parity_margin"), law)


def _scores(run: Run, selection: Selection, items: dict[str, Scorable]) -> tuple[Scores, str]:
    """Mean score per arm and prompt, and why there is none where there is none."""
    scorers = run.header.suite.get("scorers")
    found = {arm.name: prompt_scores(selection.of(arm.name), items, scorers) for arm in run.header.arms}
    known = {arm: own for arm, own in found.items() if own}
    _, prompts = selection.usable.prompts
    names = (usable(items[prompt], scorers) for prompt in prompts if prompt in items)
    reasons = (name.reason for name in names if isinstance(name, Unknown))
    return known, next(reasons, "the suite's items are not at hand")


def _expected(header: Header) -> int:
    prompts = set(header.prompts) - {one.prompt for one in header.skipped}
    requests = sum(header.turns.get(prompt, 1) for prompt in prompts)
    seeds, repeats, launches = (header.settings[name] for name in ("seeds", "repeats", "launches"))
    return requests * len(header.arms) * len(seeds) * int(repeats) * int(launches)
