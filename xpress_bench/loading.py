"""`xpress-bench load`: what an arm does when requests come in numbers, and how many it holds before memory runs out."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from xpress_bench.errors import RunError, UsageError
from xpress_bench.flags import chosen, run_parser
from xpress_bench.load_records import OBJECTIVES, Degrade, Plan, Policy, Stage, read_load
from xpress_bench.publish.printing import FORMATS
from xpress_bench.reading import BESIDE

if TYPE_CHECKING:
    from xpress_bench.settings import Settings

ABOUT = "What does each arm do under load: one request, one client, several at once?"
EPILOG = """\
examples:
  xpress-bench load --suite qa                          single, then 1, 4 and 16 clients, 60 s each, for every arm
  xpress-bench load --suite qa --clients 1,8,32 --seconds 120 repeats=5
  xpress-bench load --suite qa --rate 2,4 --objective ttft=1,latency=10
  xpress-bench load --find-limit --memory-limit 4GiB    most rows an arm holds, each number in a fresh process
  xpress-bench load --resume FOLDER                     go on; stages that ended are kept

Closed loop (--clients): each client asks again once it has its answer. Open loop (--rate): requests come when they
come, and one that the engine makes wait has waited. Prompts, order and arrival times are the same for every arm.
"""
SINGLE = Stage("single", clients=1, requests=3)
CLIENTS, SECONDS, ROWS, MOST_ROWS = "1,4,16", 60.0, 16, 1024
UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def load(words: list[str]) -> int:
    """Run, or go on, then print the report; 1 if a request was lost or the run did not end, 130 after Ctrl-C."""
    parser = _parser()
    options = parser.parse_intermixed_args(words)
    if options.resume:
        folder = _resumed(options, parser)
    else:
        settings = _settings(options)
        plan = _plan(options, settings)
        if options.find_limit:
            return _find_limit(settings, options)
        folder = _begun(settings, plan, again=options.out is not None)
    from xpress_bench.load.running import go_on
    from xpress_bench.measure.interrupts import STATUS, Interrupted
    from xpress_bench.measure.progress import progress_for
    from xpress_bench.publish.load import show_load

    plot = folder / BESIDE if options.plot == BESIDE else options.plot
    try:
        with progress_for("xpress-bench load") as progress:
            go_on(folder, words, progress)
    except Interrupted:
        return max(STATUS, show_load(folder, options.format, plot))
    except RunError:
        if folder.exists() and read_load(folder).marks:
            show_load(folder, options.format, plot)
        raise
    return show_load(folder, options.format, plot)


def _parser() -> argparse.ArgumentParser:
    parser = run_parser("xpress-bench load", ABOUT, EPILOG)
    parser.add_argument("--clients", metavar="N,...", help=f"closed loop: clients of each stage (default: {CLIENTS})")
    parser.add_argument("--rate", metavar="R,...", help="open loop: requests a second of each stage")
    parser.add_argument("--arrivals", choices=("poisson", "fixed"), default="poisson", help="of --rate")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"of a stage (default: {SECONDS:g})")
    parser.add_argument("--deadline", type=int, default=30, help="seconds from arrival to the end (default: 30)")
    parser.add_argument("--retries", type=int, default=1, help="of a failed connection, 429 or 5xx (default: 1)")
    parser.add_argument("--objective", metavar="K=S,...", help=f"seconds by {', '.join(OBJECTIVES)}, e.g. ttft=1")
    parser.add_argument("--batch", type=int, help=f"rows decoded together in process (default: {ROWS})")
    parser.add_argument("--degrade-after", type=float, metavar="S", help="seconds in the queue; needs --degrade-to")
    parser.add_argument("--degrade-to", metavar="N|direct", help="at most N tokens, or served by arm direct; marked")
    parser.add_argument("--find-limit", action="store_true", help="find the most rows that fit into memory")
    parser.add_argument("--memory-limit", metavar="SIZE", help="of a process of --find-limit, e.g. 4GiB")
    parser.add_argument("--resume", type=Path, metavar="FOLDER", help="go on with a load run, as it began")
    parser.add_argument("--format", choices=(*FORMATS, "csv"), default="terminal")
    parser.add_argument("--plot", nargs="?", type=Path, const=BESIDE, metavar="DIR", help="also write plots")
    return parser


def _resumed(options: argparse.Namespace, parser: argparse.ArgumentParser) -> Path:
    from xpress_bench.load.running import stored

    free = ("resume", "format", "plot")
    given = {name for name, value in vars(options).items() if value not in (parser.get_default(name), [])}
    if given - set(free):
        raise UsageError("--resume goes on as the load run began: give it alone, or all other words and no --resume")
    if stored(options.resume).target.trust_remote_code:
        raise UsageError("this load run runs code that comes with the target; go on by its own words and --out")
    return Path(options.resume)


def _begun(settings: Settings, plan: Plan, again: bool) -> Path:
    """A new folder, or with `again` that of the same load run if it did not end."""
    from xpress_bench.load.running import begin, unfinished

    if again and (folder := unfinished(settings, plan)):
        print(f"xpress-bench: going on with {folder}; another --out begins a new run", file=sys.stderr)
        return folder
    return begin(settings, plan)


def _settings(options: argparse.Namespace) -> Settings:
    """Those of a run, in one process and under one condition."""
    options.overrides.insert(0, f"deadline_s={options.deadline}")
    options.profile = options.profile or "quick"
    settings = chosen(options)
    if len(settings.conditions()) > 1:
        raise UsageError("load runs under one condition: give one --temperature and one --verifier")
    if settings.compile:
        raise UsageError("--compile has one request at a time, and load several: leave it out")
    for name, wanted in (("batch_size", "--batch"), ("launches", "repeats=N")):
        if getattr(settings, name) != 1:
            raise UsageError(f"{name} {getattr(settings, name)}: load is told by {wanted}; leave {name} out")
    return settings


def _plan(options: argparse.Namespace, settings: Settings) -> Plan:
    served, degrade = settings.target.served, _degrade(options)
    if degrade and degrade.arm and not served:
        raise UsageError("--degrade-to direct: in process a batch holds one arm; give a number of tokens")
    if served and options.batch is not None:
        raise UsageError("--batch: the target is served, and its server decides what it decodes together")
    if options.memory_limit and not options.find_limit:
        raise UsageError("--memory-limit is that of --find-limit, and a load run has none")
    if options.arrivals == "fixed" and not options.rate:
        raise UsageError("--arrivals fixed is for an open loop: give --rate R too")
    if options.retries < 0:
        raise UsageError(f"--retries {options.retries}: give 0 or more")
    rows = None if served else _whole("--batch", ROWS if options.batch is None else options.batch)
    policy = Policy(settings.deadline_s, options.retries, degrade=degrade, rows=rows)
    return Plan(tuple(_stages(options)), settings.repeats, policy, _objective(options.objective))


def _stages(options: argparse.Namespace) -> list[Stage]:
    seconds = _positive("--seconds", options.seconds)
    asked = options.clients or options.rate
    found = [] if asked else [SINGLE]
    for text in _parts(options.clients or ("" if asked else CLIENTS)):
        clients = _whole("--clients", text)
        found.append(Stage(f"{clients} client{'s' * (clients > 1)}", clients=clients, seconds=seconds))
    for text in _parts(options.rate or ""):
        rate = _positive("--rate", text)
        name = f"{rate:g}/s {options.arrivals}"
        found.append(Stage(name, rate=rate, arrivals=options.arrivals, seconds=seconds))
    if len({stage.name for stage in found}) < len(found):
        raise UsageError("--clients and --rate hold a value twice; repeats are asked for with repeats=N")
    return found


def _degrade(options: argparse.Namespace) -> Degrade | None:
    after, to = options.degrade_after, options.degrade_to
    if (after is None) != (to is None):
        raise UsageError("--degrade-after and --degrade-to go together: after how long, and to what")
    if after is None:
        return None
    if to == "direct":
        return Degrade(_positive("--degrade-after", after), arm=to)
    return Degrade(_positive("--degrade-after", after), max_new_tokens=_whole("--degrade-to", to))


def _objective(text: str | None) -> dict[str, float]:
    found = {}
    for part in _parts(text or ""):
        name, _, value = part.partition("=")
        if name not in OBJECTIVES:
            raise UsageError(f"--objective {part}: give {', '.join(f'{one}=SECONDS' for one in OBJECTIVES)}")
        found[name] = _positive(f"--objective {name}", value)
    return found


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _whole(flag: str, value: str | float) -> int:
    number = _positive(flag, value)
    if number != int(number):
        raise UsageError(f"{flag} {value}: give whole numbers")
    return int(number)


def _positive(flag: str, value: str | float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise UsageError(f"{flag} {value!r}: give a number above 0")
    return number


def _find_limit(settings: Settings, options: argparse.Namespace) -> int:
    from xpress_bench.load.limit import find_limits
    from xpress_bench.measure.progress import progress_for
    from xpress_bench.publish import load as pages

    if settings.target.served:
        raise UsageError("--find-limit: the target is served, and its memory is another process's")
    limit = _size(options.memory_limit)
    if limit is None and settings.device == "cpu":
        raise UsageError("--find-limit fills the memory; on a CPU say how much of it: --memory-limit 4GiB")
    with progress_for("xpress-bench load") as progress:
        probes = find_limits(settings, limit, options.batch or MOST_ROWS, progress)
    pages.show_limits(probes)
    return 0


def _size(text: str | None) -> int | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(|KiB|MiB|GiB)", text)
    if not found or not float(found[1]):
        raise UsageError(f"--memory-limit {text!r}: give bytes, or a number with KiB, MiB or GiB")
    return int(float(found[1]) * UNITS[found[2]])
