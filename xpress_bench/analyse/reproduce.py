"""A run beside a publication: which figures have a counterpart, which of those may be compared, and do they agree.

A figure is compared only if nothing that is known to move it differs; every difference is a reason. What the
publication does not say cannot be checked, and is named instead. Two values agree if they are no farther apart than the
authors allow, or where they say nothing, than the rounding of their digits and half of our interval.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Literal

from xpress_bench.analyse.intervals import Interval, Measure, Unknown, clustered_ratio_interval, mean_interval
from xpress_bench.analyse.metrics import NO_STEP, mean_of_categories, metrics, speedups
from xpress_bench.analyse.published import SPEED_UPS, THROUGHPUTS, UNCUT, Dataset, Metric, Publication, Row
from xpress_bench.analyse.reduce import Selection, select
from xpress_bench.analyse.summary import DIRECT
from xpress_bench.records import Arm, Cell, Condition, Header, Run
from xpress_bench.suites import Item, hub

Outcome = Literal["reproduced", "not reproduced", "not comparable"]
Names = Sequence[str]
WIDE = 0.05  # of the value: methods in these tables differ by that much, so a wider interval confirms none of them
OTHER_NAMES = {"openaihumaneval": "humaneval", "mtbenchprompts": "mtbench", "aime2025": "aime25"}
UNMEASURED = Unknown("no run of ours measures it")


@dataclass(frozen=True, slots=True)
class Compared:
    """One published figure beside ours. `reasons`: why the two cannot be compared."""

    row: Row
    dataset: str
    metric: str
    how: Metric
    theirs: float
    arm: str
    condition: Condition
    ours: Measure
    reasons: tuple[str, ...]

    @property
    def tolerance(self) -> float | None:
        """How far apart the two may be; None where they are not compared."""
        if self.reasons or not isinstance(self.ours, Interval):
            return None
        return self.how.tolerance or 0.5 * 10.0**-self.how.decimals + _half_width(self.ours)

    @property
    def outcome(self) -> Outcome:
        if self.tolerance is None or self.ours.estimate is None:
            return "not comparable"
        return "reproduced" if abs(self.ours.estimate - self.theirs) <= self.tolerance else "not reproduced"

    def unsaid(self) -> list[str]:
        """What could differ and is not known of theirs."""
        row = self.row
        names = ["block_size", "max_new_tokens", "thinking", "batch_size", "dtype"]
        names += ["verifier"] if self.condition.temperature else []
        names += ["passes"] if row.refiner == "xpress" else []
        return [name for name in names if getattr(row, name) is None]


@dataclass(frozen=True)
class Ours:
    """What one arm did on one data set under one condition, first turns only. `categories`: of prompts, if at hand."""

    header: Header
    arm: Arm
    selection: Selection
    categories: Mapping[str, str] | None

    @property
    def cells(self) -> list[Cell]:
        return self.selection.of(self.arm.name)

    @cached_property
    def lengths(self) -> Mapping[str, Measure]:
        """Every acceptance metric of ours by name."""
        return metrics(self.cells, self.categories)

    def measure(self, metric: str) -> Measure:
        """The value by the rule that the name stands for."""
        if metric in SPEED_UPS:
            return speedups(self.selection, self.arm.name, DIRECT)[metric]
        return _uncut(self, metric) if metric.startswith(UNCUT) else self.lengths.get(metric, UNMEASURED)


def against(run: Run, publication: Publication, items: Sequence[Item] = ()) -> list[Compared]:
    """Every published figure whose target, drafter, refiner, data set and temperature the run has, in their order.

    `items` of the run's suite tell the data sets of a joined suite apart; of a single one its name says it. The run is
    one with its steps, as `journals.read_run` gives it.
    """
    prompts = {_plain(name): prompts for name, prompts in _datasets(run.header, items).items()}
    categories = {item.id: item.category for item in items} or None

    @cache
    def ours(arm: str, condition: Condition, dataset: str) -> Ours:
        cells = tuple(cell for cell in run.cells if cell.turn == 1 and cell.prompt in prompts[dataset])
        found = next(one for one in run.header.arms if one.name == arm)
        return Ours(run.header, found, select(replace(run, cells=cells), condition), categories)

    return [
        _compared(ours(arm.name, condition, _plain(dataset)), publication, row, dataset, metric, value)
        for row, dataset, metric, value in publication.figures()
        if _plain(dataset) in prompts and _alike(run.header.settings["target"]["name"], row.target)
        for arm in run.header.arms
        if arm.drafter and arm.refiner == row.refiner and _alike(_drafter(run.header), row.drafter)
        for condition in run.header.conditions
        if row.temperature in (None, condition.temperature)
    ]


def sought(header: Header, publication: Publication, items: Sequence[Item] = ()) -> Iterator[tuple[str, Names, Names]]:
    """By what a figure is found: what it is, then all there are of it in the publication, and in the run."""
    rows, arms = publication.rows, [arm for arm in header.arms if arm.drafter]
    yield "target", [row.target for row in rows], [header.settings["target"]["name"]]
    yield "drafter", [row.drafter for row in rows], [_drafter(header)]
    yield "refiner", [row.refiner or "none" for row in rows], [arm.refiner or "none" for arm in arms]
    yield "data set", list(publication.datasets), list(_datasets(header, items))
    there = [f"{row.temperature:g}" for row in rows if row.temperature is not None]
    yield "temperature", there, [f"{condition.temperature:g}" for condition in header.conditions]


def _compared(ours: Ours, publication: Publication, row: Row, dataset: str, metric: str, theirs: float) -> Compared:
    how, measure = publication.metrics[metric], ours.measure(metric)
    reasons = (
        *_of_prompts(ours, publication.datasets[dataset]),
        *_of_checkpoints(ours.header, row),
        *_of_settings(ours, row),
        *(f"{metric}: {reason}" for reason in _of_metric(ours, row, metric, how, measure)),
    )
    return Compared(row, dataset, metric, how, theirs, ours.arm.name, ours.selection.condition, measure, reasons)


def _of_prompts(ours: Ours, dataset: Dataset) -> Iterator[str]:
    answered = len({cell.prompt for cell in ours.cells})
    if dataset.suite is None:
        yield f"other prompts: of theirs is known, {dataset.drawn}"
    elif not any(_same_address(address, dataset.suite) for address in ours.header.settings["suite"].split(",")):
        yield f"other prompts: theirs are those of {dataset.suite}"
    elif answered != dataset.prompts:
        yield f"other prompts: {answered} answered here, {dataset.prompts} there"
    left_out = sum(cell.arm == ours.arm.name for cell in (*ours.selection.failed, *ours.selection.short))
    if left_out:
        yield f"{left_out} of our requests failed or ended short"


def _of_checkpoints(header: Header, row: Row) -> Iterator[str]:
    head = header.settings["refiner"]["name"]
    named = {"target": (header.settings["target"]["name"], row.target), "drafter": (_drafter(header), row.drafter)}
    if row.refiner and head not in ("auto", row.refiner):
        named["refiner"] = (head, row.drafter)
    for part, (here, there) in named.items():
        if here != there:  # a folder of the same name: nobody has compared its weights with the hub's
            yield f"perhaps another checkpoint: {part} is {here} here, {there} there"


def _of_settings(ours: Ours, row: Row) -> Iterator[str]:
    settings, condition = ours.header.settings, ours.selection.condition
    values = {name: settings.get(name) for name in ("max_new_tokens", "batch_size", "dtype")}
    values |= {"thinking": settings["target"].get("thinking"), "block_size": ours.arm.block_size}
    values |= {"verifier": condition.verifier} if condition.temperature else {}
    for name, here in values.items():
        there = getattr(row, name)
        if there is not None and here != there:
            yield f"another {name}: {here} here, {there} there"
    if row.temperature is None:
        yield "their temperature is not known"
    if row.passes and ours.arm.passes not in row.passes:
        yield f"other passes: {ours.arm.passes} here, {' or '.join(map(str, row.passes))} there"


def _of_metric(ours: Ours, row: Row, metric: str, how: Metric, measure: Measure) -> Iterator[str]:
    if metric in (*SPEED_UPS, *THROUGHPUTS):
        yield from _of_speed(ours.header, row)
    if how.unlike:
        yield f"another pooling rule, {how.unlike}"
    seeds = {cell.seed for cell in ours.cells if ours.selection.condition.temperature}
    if metric.endswith("_prompt") and len(seeds) > 1:
        yield "another pooling rule, theirs is a mean over responses and here prompts have several"
    if isinstance(measure, Unknown):
        yield f"ours is not known, {measure.reason}"
    elif how.tolerance is None and _half_width(measure) > WIDE * measure.estimate:
        yield f"half of our interval is more than {WIDE:.0%} of the value, too much to tell"


def _of_speed(header: Header, row: Row) -> Iterator[str]:
    board = (header.machine.get("hard") or {}).get("gpu_name") or header.target.get("device")
    if row.hardware is None or row.hardware not in str(board).split():
        yield f"another machine, {board} here, {row.hardware or 'not known'} there"
    if row.engine:
        yield f"another loop, theirs is {row.engine}"


def _uncut(ours: Ours, metric: str) -> Measure:
    """Tokens per step with everything counted that was accepted before stop rules, by the rule of the metric's end."""
    tokens, steps = defaultdict[str, int](int), defaultdict[str, int](int)
    for cell in ours.cells:
        for (*_, matched), count in cell.steps.tally.rounds:
            if matched is None:
                return Unknown("the journal is older and does not say what was accepted behind a stop id")
            tokens[cell.prompt] += count * (1 + matched)
            steps[cell.prompt] += count
    if not steps:
        return Unknown(NO_STEP)
    if metric.endswith("_step"):
        return clustered_ratio_interval(list(tokens.values()), list(steps.values()))
    ratios = {prompt: tokens[prompt] / count for prompt, count in steps.items()}
    if metric.endswith("_prompt"):
        return mean_interval(list(ratios.values()))
    return mean_of_categories(ratios, ours.categories)


def _half_width(measure: Interval) -> float:
    return (measure.high - measure.low) / 2


def _datasets(header: Header, items: Sequence[Item]) -> dict[str, set[str]]:
    """The prompts of a run by the name of their data set."""
    suites = {item.id: item.suite for item in items if item.suite}
    found = defaultdict[str, set[str]](set)
    for prompt in header.prompts:
        found[suites.get(prompt, header.suite["name"])].add(prompt)
    return found


def _drafter(header: Header) -> str:
    """The checkpoint that was asked for, or the name of a drafter without one."""
    settings = header.settings["drafter"]
    return str(settings.get("path") or settings["name"])


def _alike(here: str, there: str) -> bool:
    """The same hub id, or a folder of that name."""
    return here.rstrip("/").rpartition("/")[2].casefold() == there.rpartition("/")[2].casefold()


def _same_address(here: str, there: str) -> bool:
    """The same suite, whatever revision of it is pinned."""
    if not (here.strip().startswith(hub.PREFIX) and there.startswith(hub.PREFIX)):
        return here.strip() == there
    ours, theirs = hub.parsed(here.strip()), hub.parsed(there)
    return (ours.path, {**ours.options, "revision": ""}) == (theirs.path, {**theirs.options, "revision": ""})


def _plain(name: str) -> str:
    letters = re.sub(r"[^a-z0-9]", "", name.lower())
    return OTHER_NAMES.get(letters, letters)
