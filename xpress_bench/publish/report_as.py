"""The columns that other systems print, from our journal: their names, their rules, one table per system.

A rule that the journal cannot follow to the letter gives "-" and a line that says why. These systems print no
intervals, so there are none here: the plain report has them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from xpress_bench.analyse.digits import NONE
from xpress_bench.analyse.intervals import Unknown
from xpress_bench.analyse.reduce import select
from xpress_bench.analyse.served import refuse_served
from xpress_bench.analyse.summary import DIRECT, summarise
from xpress_bench.errors import UsageError, nearest
from xpress_bench.publish import systems
from xpress_bench.publish.columns import Columns, Requests
from xpress_bench.publish.lines import Line, named, printable
from xpress_bench.publish.page import Page, Section, Table, page
from xpress_bench.records import Condition, Run


@dataclass(frozen=True, slots=True)
class System:
    """`rules`: one sentence on what is printed and how it is averaged. `columns`: a row of it."""

    rules: str
    columns: Callable[[Requests], Columns]


SYSTEMS = {
    "vllm": System(
        "vllm bench serve: pooled over drafts, the target's own token in the length and not in the rate, drafts behind "
        "a stop id counted; TPOT over all ids but the first",
        systems.vllm,
    ),
    "sglang": System(
        "SGLang meta_info, mean over requests: all output ids over verify steps, the prompt's first id included; rate "
        "over whole blocks without the anchor; SpecForge pools",
        systems.sglang,
    ),
    "spec-bench": System(
        "Spec-Bench speed.py, choice 0: lengths pooled over steps, the target's own token in, cut at the stop id; "
        "tokens per second as the mean over questions, of their whole time",
        systems.spec_bench,
    ),
    "dflash": System(
        "dflash 0.1.0 from PyPI: mean over responses of their mean length, the target's own token in, cut at the stop "
        "id; throughput is 1 over the mean TPOT, decode time over all ids",
        systems.dflash,
    ),
    "deepspec": System(
        "DeepSpec, first turns: pooled over steps, the target's own token in the length, both drafts and accepted cut "
        "at a stop id; accept_rate@i of the steps that offer so many",
        systems.deepspec,
    ),
    "specdec_bench": System(
        "specdec_bench: mean over requests of their mean chunk, the prompt's chunk of one id in, the stop id out; "
        "rates by chunk length, so key k is draft k - 1",
        systems.specdec_bench,
    ),
}


def report_as(run: Run, system: str) -> Page:
    """What `system` would print for the arms of this run. UsageError if it is none of `SYSTEMS`."""
    if system not in SYSTEMS:
        hint = nearest(system, SYSTEMS, f"choose one of {', '.join(SYSTEMS)}", most=2)
        raise UsageError(f"--report-as {system!r}: no such system; {hint}")
    if run.header.batches:
        raise UsageError(f"run {run.header.run!r} is of batches, and --report-as of single requests; use batch_size=1")
    refuse_served(run.header, "--report-as")
    ours = page(summarise(run))
    conditions = zip(run.header.conditions, ours.sections, strict=True)
    sections = tuple(_section(run, condition, system, section) for condition, section in conditions)
    return Page((*ours.title, f"reported as {system}"), sections, ours.lines)


def _section(run: Run, condition: Condition, system: str, ours: Section) -> Section:
    selection, first_seed = select(run, condition), run.header.settings["seeds"][0]
    arms = sorted(run.header.arms, key=lambda arm: arm.name != DIRECT)  # stable: direct first, the rest as configured
    requests = [Requests(arm, selection, first_seed) for arm in arms]
    found = [SYSTEMS[system].columns(one) for one in requests]
    names = list(dict.fromkeys(chain.from_iterable(found)))
    rows: dict[str, Columns] = {}
    for one, row in zip(requests, found, strict=True):
        absent = Unknown(one.no_step or "its blocks are shorter")
        rows[printable(one.arm.name)] = {name: row.get(name, absent) for name in names}
    cells = tuple((arm, *(NONE if isinstance(v, Unknown) else v for v in row.values())) for arm, row in rows.items())
    left_out = [line for line in ours.lines if line[0] in ("failed", "short")]
    return Section(
        ours.heading, SYSTEMS[system].rules, Table(("arm", *names), cells), (*_reasons(rows), *left_out), None
    )


def _reasons(rows: dict[str, Columns]) -> Iterator[Line]:
    columns: defaultdict[tuple[str, str], list[str]] = defaultdict(list)  # arm, reason -> columns
    for arm, row in rows.items():
        for name, value in row.items():
            if isinstance(value, Unknown):
                columns[arm, value.reason].append(name)
    arms: defaultdict[tuple[str, str], list[str]] = defaultdict(list)  # columns, reason -> arms
    for (arm, reason), names in columns.items():
        arms[named(names), reason].append(arm)
    for (names_of, reason), of in arms.items():
        yield "not known", printable(f"{names_of} of {', '.join(of)}: {reason}")
