"""Rules about the shape of a journal: after them its numbers are bounded and its requests are those of a suite."""

from __future__ import annotations

import math
from itertools import product
from typing import Annotated, Literal

import msgspec

from xpress_bench.analyse.board import OWN
from xpress_bench.analyse.summary import DIRECT
from xpress_bench.publish.checks.submission import Submission
from xpress_bench.publish.lines import named
from xpress_bench.records import Condition

LEAST_S, MOST_S = 1e-9, 86_400.0  # of a request
MAX_PEAK_BYTES = 2**50
MAX_TEXT = 2000  # characters of a message

Name = Annotated[str, msgspec.Meta(max_length=200)]
Small = Annotated[int, msgspec.Meta(ge=1, le=1000)]
Many = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
Word = Annotated[str, msgspec.Meta(max_length=500)]


class _Settings(msgspec.Struct):
    seeds: Annotated[list[int], msgspec.Meta(min_length=1, max_length=1000)]
    repeats: Small
    launches: Small
    batch_size: Literal[1]
    threads: Many | None = None


class _Suite(msgspec.Struct):
    name: Name
    sha256: Name


class _Target(msgspec.Struct):
    name: Name
    dtype: Name
    device: Name
    stop_ids: list[int]
    parameters: Many | None = None
    weights_sha256: Name | None = None


class _Machine(msgspec.Struct):
    hard: dict[Name, Name | Many | float | bool | None]


class _Git(msgspec.Struct):
    commit: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{40,64}\Z")] | None
    dirty: bool | None


_Conditions = dict[Name, Name | float | bool | list[Name | float] | dict[Name, Word] | None]


class _Started(msgspec.Struct):
    """The machine on the mark of a launch; one that ended has `after` alone."""

    hard: dict[Name, Name | Many | float | bool | None] | None = None
    git: _Git | None = None
    versions: dict[Name, Name | None] | None = None
    before: _Conditions | None = None
    after: _Conditions | None = None


class _Mark(msgspec.Struct):
    at_utc: Name
    machine: _Started
    reason: Annotated[str, msgspec.Meta(max_length=MAX_TEXT)] | None


class _Arm(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    drafter: Name | None
    refiner: Name | None
    block_size: Many | None
    denoising_steps: Many | None
    passes: Many | None


class _Header(msgspec.Struct):
    run: Name
    created_utc: Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\dT[0-9:.+Z-]{5,30}\Z")]
    argv: Annotated[tuple[Word, ...], msgspec.Meta(max_length=100)]
    settings: _Settings
    suite: _Suite
    target: _Target
    machine: _Machine
    git: _Git
    arms: Annotated[tuple[_Arm, ...], msgspec.Meta(min_length=2, max_length=16)]
    conditions: Annotated[tuple[Condition, ...], msgspec.Meta(min_length=1, max_length=16)]
    versions: dict[Name, Name | None]
    profile: Name
    batches: Annotated[tuple[tuple[Name, ...], ...], msgspec.Meta(max_length=0)]


def header(one: Submission) -> str | None:
    """Header and marks of launches hold what every run writes; direct generation is one of at least two arms."""
    try:
        msgspec.convert(one.journal.header, _Header, from_attributes=True)
        msgspec.convert(one.journal.launches, list[_Mark], from_attributes=True)
    except msgspec.ValidationError as error:
        return f"the header or the mark of a launch is not one of a run ({error})"
    if DIRECT not in one.arms or len(set(one.arms)) < len(one.arms):
        return f"the arms are {named(one.arms)}, not {DIRECT} and others"
    return None


def numbers(one: Submission) -> str | None:
    """Every request ran alone and took between a nanosecond and a day; every peak of memory is a number of bytes."""
    for cell in one.journal.cells:
        tally = cell.steps.tally
        parts = cell.ttft_s, cell.prefill_s, cell.rest_s, tally.draft_s, tally.refine_s, tally.verify_s
        whole = cell.error is not None or LEAST_S <= (cell.latency_s or 0.0) <= MOST_S
        if not whole or any(time is not None and not 0 <= time <= MOST_S for time in parts):
            return f"a time of {cell.arm} on {cell.prompt} is missing, below 0 or above a day"
        if cell.batch is not None:
            return f"{cell.arm} answered {cell.prompt} in a batch, and boards are of single requests"
        if len(cell.error or "") > MAX_TEXT:
            return f"an error of {len(cell.error or '')} characters"
    for memory in one.journal.memory:
        if not 0 <= (memory.peak_bytes or 0) < MAX_PEAK_BYTES or len(memory.reason or "") > MAX_TEXT:
            return f"the peak memory of {memory.arm} is no number of bytes, or its reason too long"
    return None


def suite(one: Submission) -> str | None:
    """The suite is one of the package by its hash, run whole: every prompt and turn, with its own budgets."""
    header, found = one.journal.header, one.suite
    if found is None:
        return f"suite {header.suite['name']!r} ({header.suite['sha256'][:12]}) is none of the package's"
    changed = [name for name in OWN if header.settings.get(name) is not None]
    if changed:
        return f"suite {found.name} was run with its own {named(changed)}"
    left_out = {skipped.prompt.partition(", turn ")[0] for skipped in header.skipped}
    turns = {item.id: found.turns_of(item, None) for item in found.items}
    absent = sorted(turns.keys() - left_out - set(header.prompts))
    other = [id_ for id_ in header.prompts if header.turns.get(id_, 1) != turns.get(id_) and id_ not in left_out]
    if absent or other or len(set(header.prompts)) < len(header.prompts) or left_out - turns.keys():
        return f"prompts of suite {found.name} are absent, cut, twice or not its own: {named(absent or other)}"
    return None


def cells(one: Submission) -> str | None:
    """Every prompt, turn, seed, repeat, launch and arm is there exactly once, and the run ended by itself."""
    header = one.journal.header
    asked = [(prompt, 1 + turn) for prompt in header.prompts for turn in range(min(header.turns.get(prompt, 1), 100))]
    settings = header.settings
    design = (header.conditions, range(settings["launches"]), asked, settings["seeds"], range(settings["repeats"]))
    expected = math.prod(map(len, design)) * len(one.arms)
    if len(one.journal.cells) != expected:  # told before anything is made of numbers that a stranger chose
        return f"{len(one.journal.cells)} requests where the settings ask for {expected}"
    wanted = set(product(*design, one.arms))
    missing = wanted - {(c.condition, c.launch, (c.prompt, c.turn), c.seed, c.repeat, c.arm) for c in one.journal.cells}
    if missing:
        return f"{len(missing)} of {expected} requests are missing"
    if one.journal.footer is None or not one.journal.footer.complete:
        return "the run did not end by itself"
    return None
