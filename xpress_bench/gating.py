"""`xpress-bench gate`: has this code become slower, wrong, or worse at drafting? Exit codes 0, 1, 2, 3 say how sure."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from xpress_bench.errors import UsageError
from xpress_bench.flags import chosen, run_parser, settings_of, words_of
from xpress_bench.publish.printing import FORMATS, lay_out

if TYPE_CHECKING:
    from xpress_bench.analyse.gate import Check, Design
    from xpress_bench.records import Run

ABOUT = "Has this code become slower, wrong, or worse at drafting?"
EPILOG = """\
evidence:
  xpress-bench gate                           counted work against baselines/counted/, exact on any machine
  xpress-bench gate --against main            wall time: this checkout and that revision, launched in turn
  xpress-bench gate --against RUN             the same with a run's own revision and settings
  xpress-bench gate --stored                  wall time against the accepted sessions of this machine
  xpress-bench gate --self-test               plant a slow-down, a wrong token and worse drafts: each must be seen

baselines:
  xpress-bench gate --record                  count again what baselines/counted/ holds
  xpress-bench gate --record --name mine --suite qa --drafter ./mine limit=8 dtype=float64
  xpress-bench gate --stored --record         accept this session

exit code: 0 pass, 1 regression, 2 wrong command or baseline, 3 inconclusive
"""
# What wall time is measured on if the command line does not say: every suite, short enough to be launched often.
TIMED = ("--suite", "all", "limit=8", "seeds=[0]", "repeats=5", "max_new_tokens=32", "trace=0", "controls=0")
COUNTED = "counted"


def gate(words: list[str]) -> int:
    """Compare, print, and return the outcome's exit code."""
    started = time.monotonic()
    options = _parser().parse_intermixed_args(words)
    if chosen(options).weights == "random":  # a wrong flag is told before anything runs
        raise UsageError("--weights random: a gate compares output and speed, which need trained weights; leave it out")
    _refuse_contradictions(options)
    if options.record and not options.stored:
        return _record_counted(options)
    checks = list(_checks(options))
    return _publish(checks, options, time.monotonic() - started)


def _parser() -> argparse.ArgumentParser:
    parser = run_parser("xpress-bench gate", ABOUT, EPILOG)
    parser.add_argument("--against", metavar="REV|RUN", help="git revision, or a run folder made by one")
    parser.add_argument("--base-python", metavar="PYTHON", default=sys.executable, help="interpreter of the base")
    parser.add_argument("--stored", action="store_true", help="judge this session by stored ones")
    parser.add_argument("--counted", action="store_true", help="counted work too, beside --against or --stored")
    parser.add_argument("--self-test", action="store_true", help="can this gate fail? plants defects and looks")
    parser.add_argument("--record", action="store_true", help="write the baseline instead of comparing with it")
    parser.add_argument("--name", help="one counted baseline instead of all")
    parser.add_argument("--baselines", type=Path, default=Path("baselines"), metavar="DIR", help="default: baselines")
    parser.add_argument("--pairs", type=int, default=10, help="pairs of launches (default: 10)")
    parser.add_argument("--max-slow-down", type=float, default=0.05, metavar="SHARE", help="default: 0.05")
    parser.add_argument("--max-acceptance-drop", type=float, default=0.01, metavar="SHARE", help="default: 0.01")
    parser.add_argument("--max-memory-rise", type=float, default=0.05, metavar="SHARE", help="default: 0.05")
    parser.add_argument("--format", choices=FORMATS, default="terminal")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="JUnit XML")
    parser.add_argument("--json", type=Path, metavar="FILE", help="everything as one line of JSON")
    parser.add_argument("--summary", type=Path, metavar="FILE", help="Markdown; default: GITHUB_STEP_SUMMARY")
    return parser


def _refuse_contradictions(options: argparse.Namespace) -> None:
    if options.against and options.stored:
        raise UsageError("--against and --stored are two ways to judge wall time; give one")
    if options.record and (options.against or options.self_test):
        raise UsageError("--record writes a baseline and compares nothing; leave --against and --self-test out")
    if options.pairs < 2:
        raise UsageError(f"--pairs {options.pairs}: at least 2, and 10 for a gate that can be trusted")
    for name in ("max_slow_down", "max_acceptance_drop", "max_memory_rise"):
        if not 0 < getattr(options, name) < 1:
            raise UsageError(f"--{name.replace('_', '-')} {getattr(options, name)}: give a share between 0 and 1")
    own = words_of(options, options.overrides)
    if own and not (options.against or options.stored or options.self_test or options.name):
        raise UsageError(
            f"{' '.join(own)}: a counted baseline carries its own settings; give --record --name NAME to make another"
        )


def _checks(options: argparse.Namespace) -> Iterator[Check]:
    if options.self_test:
        from xpress_bench.self_test import self_test

        yield from self_test(words_of(options, options.overrides) or list(TIMED), _design(options))
        return
    if options.counted or not (options.against or options.stored):
        yield from _counted(options)
    if options.against:
        yield from _against(options)
    if options.stored:
        yield from _stored(options)


def _design(options: argparse.Namespace) -> Design:
    from xpress_bench.analyse.gate import Design

    return Design(pairs=options.pairs, slow_down=options.max_slow_down)


# --- counted work


def _counted(options: argparse.Namespace) -> Iterator[Check]:
    from xpress_bench.analyse.counted import EVIDENCE, counted_checks
    from xpress_bench.analyse.gate import Check
    from xpress_bench.journals import read_run

    for file in _baseline_files(options):
        try:
            base = read_run(file)
            found = _count(list(base.header.argv), file.stem)
        except UsageError as error:
            yield Check(EVIDENCE, file.stem, "broken", 0, "the baseline can not be compared with", (str(error),))
            continue
        yield from counted_checks(base, found, file.stem)


def _count(words: Sequence[str], name: str) -> Run:
    settings = settings_of(list(words), "xpress-bench gate")
    from xpress_bench.measure.counting import count
    from xpress_bench.measure.progress import progress_for

    with progress_for(f"counting {name}") as progress:
        return count(settings, words, name, progress)


def _baseline_files(options: argparse.Namespace) -> list[Path]:
    folder = options.baselines / COUNTED
    wanted = f"{options.name}.jsonl" if options.name else "*.jsonl"
    files = sorted(folder.glob(wanted))
    if not files:
        known = ", ".join(sorted(file.stem for file in folder.glob("*.jsonl"))) or "none"
        raise UsageError(
            f"baseline not found at {folder / wanted} (there: {known}); 0 compared. "
            f"Make one: xpress-bench gate --record --name NAME --suite SUITE dtype=float64"
        )
    return files


def _record_counted(options: argparse.Namespace) -> int:
    """Count and write: a new baseline from the command line's own words, or those that are there from theirs."""
    own = words_of(options, options.overrides)
    folder = options.baselines / COUNTED
    if own:
        plans = [(folder / f"{options.name}.jsonl", own)]
    else:
        from xpress_bench.journals import read_run

        plans = [(file, list(read_run(file).header.argv)) for file in _baseline_files(options)]
    from xpress_bench.measure.counting import write_baseline

    for file, words in plans:
        run = _count(words, file.stem)
        write_baseline(run, file)
        print(f"recorded {len(run.cells)} cells in {file}: xpress-bench {' '.join(words)}")
    return 0


# --- wall time


def _against(options: argparse.Namespace) -> Iterator[Check]:
    from xpress_bench.measure.paired import Limits, Side, checkout, paired_checks, top_of

    revision, words = _base_of(options)
    with checkout(revision, Path.cwd()) as (tree, commit):
        base = Side("base", options.base_python, tree)
        candidate = Side("candidate", sys.executable, top_of(Path.cwd()))
        limits = Limits(options.max_acceptance_drop, options.max_memory_rise)
        yield from paired_checks(base, candidate, words, _design(options), limits, commit)


def _base_of(options: argparse.Namespace) -> tuple[str, list[str]]:
    """Revision and words of the base. A run folder stands for the commit it was made by and its own words."""
    own = words_of(options, options.overrides)
    if not Path(options.against).exists():
        return options.against, own or list(TIMED)
    from xpress_bench.analyse.cost import refuse_random
    from xpress_bench.journals import read_run

    header = read_run(Path(options.against)).header
    refuse_random(header)
    if not header.git.get("commit") or header.git.get("dirty"):
        why = header.git.get("reason") or "it was made by a checkout with uncommitted changes"
        raise UsageError(
            f"--against {options.against}: no commit can be launched for this run ({why}); give a revision"
        )
    return header.git["commit"], own or list(header.argv)


def _stored(options: argparse.Namespace) -> Iterator[Check]:
    from xpress_bench.analyse.admission import disturbed, unjudged
    from xpress_bench.analyse.gate import Check
    from xpress_bench.analyse.sessions import append_session, read_sessions, session_checks, session_of
    from xpress_bench.journals import read_run
    from xpress_bench.measure import runner
    from xpress_bench.measure.progress import progress_for

    words = words_of(options, options.overrides) or [*TIMED, "launches=3"]
    settings = settings_of(words, "xpress-bench gate")
    if settings.launches == 1:
        raise UsageError("--stored measures in processes of their own, but launches=1 in this one: add launches=3")
    files = sorted(options.baselines.glob(f"*/{Path(settings.suite).stem}.jsonl"))
    files = [file for file in files if file.parent.name != COUNTED]
    stored = [session for file in files for session in read_sessions(file)]
    if not stored and not options.record:
        raise UsageError(
            f"baseline not found under {options.baselines}/; 0 compared. "
            f"Accept sessions of this machine: xpress-bench gate --stored --record, five times at least"
        )
    with progress_for("session") as progress:
        run = read_run(runner.run(settings, words, progress))
    if settings.admission != "off":
        noisy, unknown = disturbed(run.launches), unjudged(run.launches, settings.device)
        if found := list((noisy or unknown).values()):
            why = f"the machine was not quiet: {found[0]}" if noisy else f"nobody can say if it was quiet: {found[0]}"
            yield Check("wall time", "session", "inconclusive", len(run.cells), why)
            return
    if options.record:
        if run.header.git.get("dirty"):
            raise UsageError("this session is not recorded: the package has uncommitted changes; commit them first")
        file = options.baselines / run.header.machine["sha256"][:12] / f"{Path(settings.suite).stem}.jsonl"
        append_session(session_of(run), file)
        yield Check("wall time", "recorded", "pass", len(run.cells), f"session added to {file}")
        return
    yield from session_checks(stored, session_of(run), _design(options), options.max_acceptance_drop)


# --- output


def _publish(checks: Sequence[Check], options: argparse.Namespace, seconds: float) -> int:
    from xpress_bench.analyse.gate import EXIT_CODES, outcome_of
    from xpress_bench.publish import gating, markdown

    page = gating.page(checks, f"xpress-bench gate, {gating.whole_seconds(seconds)}")
    lay_out(page, options.format)
    if options.junit:
        options.junit.write_text(gating.junit(checks, seconds), encoding="utf-8")
    if options.json:
        options.json.write_text(gating.as_json(checks) + "\n", encoding="utf-8")
    summary = options.summary or os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        with Path(summary).open("a", encoding="utf-8") as out:
            out.write(markdown.markdown(page) + "\n")
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in gating.workflow_commands(checks):
            print(line)
    return EXIT_CODES[outcome_of(checks)]
