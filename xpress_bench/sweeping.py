"""`xpress-bench sweep`: one setting varied at a time, each value a run of its own, through one of hydra's launchers."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from xpress_bench.analyse.sweep_plan import Values
from xpress_bench.errors import RunError, UsageError
from xpress_bench.factors import Asked, asked_for, counting, planned
from xpress_bench.settings import Settings

if TYPE_CHECKING:
    from xpress_bench.analyse.sweep_plan import Plan
    from xpress_bench.measure.job import Order
    from xpress_bench.records import Header

BASE = "0-base"  # a job on one prompt, for what the parts of the setting are


def sweep(words: list[str]) -> int:
    """Measure what is left of a sweep, then show it. 1 if a job failed."""
    asked = asked_for(words)
    folder = _unfinished(asked) or _new_folder(asked)
    plan, base = _plan(folder, asked)
    from xpress_bench.analyse.sweep import read_factor

    carried = plan.base
    for at, keys in enumerate(plan.groups):
        _say(f"{', '.join(keys)}, {at + 1} of {len(plan.groups)}")
        _measure(plan, at, carried, asked, folder, base)
        factor = read_factor(folder, plan, at, carried)
        if factor.pending:
            break
        carried = factor.recommended.job.values
    from xpress_bench.publish.sweep import show_sweep

    return show_sweep(folder, asked.options.format)


def _unfinished(asked: Asked) -> Path | None:
    """The newest sweep of these very words in the folder of --out that is not finished."""
    from xpress_bench.analyse.sweep import read_sweep

    if asked.options.out is None:
        return None
    for folder in sorted(Path(asked.options.out).glob("*-sweep-*"), reverse=True):
        with suppress(UsageError):
            found = read_sweep(folder)
            if found.plan.asked == asked.sha256 and found.unfinished:
                _say(f"going on with {folder}")
                return folder
    return None


def _new_folder(asked: Asked) -> Path:
    from xpress_bench.measure.journal import new_folder, stamped
    from xpress_bench.suites import load_suite

    settings = asked.own
    return new_folder(Path(settings.out).resolve(), stamped(f"sweep-{load_suite(settings.suite).name}", asked.sha256))


def _plan(folder: Path, asked: Asked) -> tuple[Plan, Header]:
    """The plan of a sweep, made if it has just begun, and the header of a short run of its base."""
    from xpress_bench.analyse.sweep_plan import PLAN, Plan, read_plan
    from xpress_bench.measure.journal import write_whole

    if (folder / PLAN).exists():
        return read_plan(folder), _header(folder)
    try:
        _try_base(folder, asked)
        base, factors = planned(asked, _header(folder).arms[-1])
    except UsageError:
        shutil.rmtree(folder)  # it would not go better another time
        raise
    options = asked.options
    words = tuple(asked.words({}))
    plan = Plan(words, asked.sha256, base, factors, options.grid, options.counts, options.rounds)
    write_whole(folder / PLAN, json.dumps(asdict(plan), indent=1))
    return plan, _header(folder)


def _header(folder: Path) -> Header:
    from xpress_bench.measure.journal import header_of

    header = header_of(folder / BASE)
    assert header is not None
    return header


def _try_base(folder: Path, asked: Asked) -> None:
    """One prompt of the setting itself. Raises UsageError if it does not run, RunError if the launcher does not."""
    from xpress_bench.analyse.sweep_plan import ended
    from xpress_bench.measure.jobs import LOG

    _say("the setting itself on one prompt")
    settings = replace(counting(asked.own), limit=1, max_new_tokens=1)
    _carry_out([_order(BASE, settings, asked, {}, folder, counts=True)], asked, folder)
    reason = ended(folder, BASE)
    if reason:
        raise UsageError(reason)
    if reason is None:
        said = (folder / LOG).read_text(encoding="utf-8", errors="replace").strip().partition("\n")[0]
        raise RunError(f"--launcher {asked.options.launcher} ran nothing: {said}; see {folder / LOG}")


def _measure(plan: Plan, at: int, carried: Values, asked: Asked, folder: Path, base: Header) -> None:
    """Run the jobs of one group that have not ended well."""
    from xpress_bench.analyse.sweep_plan import ended
    from xpress_bench.measure.jobs import take

    left = []
    for job in plan.runs(at, carried):
        if ended(folder, job.name) == "":
            continue
        order = _order(job.name, asked.settings(job.values), asked, job.values, folder, plan.counts)
        taken = take(order, base, folder.parent) if plan.counts else None
        if taken:
            _say(f"{job.name} is taken from {taken}")
        else:
            left.append(order)
    if left:
        _carry_out(left, asked, folder)


def _order(name: str, settings: Settings, asked: Asked, values: Values, folder: Path, counts: bool) -> Order:
    from xpress_bench.measure.job import Order

    words = tuple(asked.words(values))
    return Order(name, replace(settings, out=str(folder)), words, counts, cwd=str(Path.cwd()))


def _carry_out(orders: Sequence[Order], asked: Asked, folder: Path) -> None:
    from xpress_bench.config import quote
    from xpress_bench.measure.jobs import carry_out

    words = [f"hydra/launcher={asked.options.launcher}", f"folder={quote(str(folder))}"]
    words += [f"job={','.join(order.name for order in orders)}", *asked.hydra]
    carry_out(orders, [sys.executable, "-m", "xpress_bench.fan_out", "--multirun", *words], folder, _say)


def _say(text: str) -> None:
    print(f"sweep: {text}", file=sys.stderr, flush=True)
