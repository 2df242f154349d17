"""The command line. torch is imported only inside the commands that run models.

Exit codes: 0 fine, 1 something failed while running, 2 the command or an input is wrong, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from xpress_bench.doctor import doctor
from xpress_bench.errors import XpressError
from xpress_bench.flags import FLAGS, QUESTION, SWITCHES, chosen, resolve_device, run_parser, settings_of
from xpress_bench.gating import gate
from xpress_bench.inspecting import convert, inspect
from xpress_bench.leaderboard import site, submit
from xpress_bench.loading import load
from xpress_bench.reading import Parser, compare, explain, list_names, report, show, show_report
from xpress_bench.sweeping import sweep

if TYPE_CHECKING:
    from xpress_bench.settings import Settings

EPILOG = """\
commands:
  xpress-bench --suite qa                  run: direct, draft and refine over the suite, then the table
  xpress-bench --resume RUN                go on with a run that was stopped
  xpress-bench check [same flags]          validate target, drafter and refiner, then plan the run
  xpress-bench --target openai:URL         a server (vLLM, SGLang, llama.cpp, ...) as an arm: docs/served.md
  xpress-bench sweep [same flags]          one setting varied at a time, and where more of it stops paying
  xpress-bench load [same flags]           many requests at once: percentiles, goodput, what memory holds
  xpress-bench doctor                      what would make this machine noisy, and what to do
  xpress-bench inspect PATH [--target T]   what a checkpoint is, which target it needs, whether it fits
  xpress-bench convert PATH OUT --to F     the same drafter in another public format
  xpress-bench report RUN                  the table again, from the journal alone, or as another system prints it
  xpress-bench report RUN --plot           plots, CSV, LaTeX and one HTML page, written to RUN/report
  xpress-bench report A B C --together     several runs as one table, for a paper or a README
  xpress-bench explain RUN                 where a run loses, and what to try next
  xpress-bench compare A B                 two runs, or with --arm X --arm Y two arms of one run
  xpress-bench gate                        regression gate for CI: gate --help
  xpress-bench submit RUN                  a run as a submission to the leaderboard, if it keeps its rules
  xpress-bench site                        the leaderboard as static pages, from leaderboard/submissions/
  xpress-bench list [KIND]                 targets, drafters, refiners, verifiers, suites
  xpress-bench show SUITE [ID]             what a suite holds, or one of its prompts in full
  xpress-bench train --help                the recipe of the embedded models

After the flags any setting can be given by its key, e.g. block_size=8 refiner.passes=4 (hydra overrides).
"""

TRAIN_STEPS = ("data", "tokenizer", "target", "answers", "drafter", "refiner", "markov", "draft_model", "all")
TRAIN_EPILOG = """\
steps, in this order:
  data           fetch licence-clean prose (network)
  tokenizer      byte-level BPE over prose and tasks
  target         a small Qwen3 from scratch
  answers        what the target says to train-split prompts, and what it saw while saying it
  drafter        DFlash drafter against the frozen target
  refiner        xPress head together with that drafter
  markov         Markov head beside the same drafter, for comparison
  draft_model    small autoregressive draft model
  all            all of them

Drafters for another model: data, then answers and on, with target.name=FOLDER_OR_HUB_ID and a --work of its own.
A DFlash drafter that is there already, with or without an xPress head: start=FOLDER_OR_HUB_ID for answers and refiner,
which go on with it; drafter is left out.
Settings are those of xpress_bench/train/recipe.py, e.g. drafter.minutes=5 answers.answers=500 shape.layers=3.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. A user's mistake is one line on stderr."""
    words = list(sys.argv[1:] if argv is None else argv)
    command = COMMANDS.get(words[0]) if words else None
    try:
        return command(words[1:]) if command else run(words)
    except XpressError as error:
        print(f"xpress-bench: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("xpress-bench: interrupted; what was measured is in the run folder", file=sys.stderr)
        return 130


def run(words: list[str]) -> int:
    """Measure, or go on with a run that was stopped, then print the report; 130 if Ctrl-C stopped it in good order."""
    parser = run_parser("xpress-bench", QUESTION, EPILOG)
    parser.add_argument("--resume", type=Path, metavar="RUN", help="go on with a run that was stopped, as it began")
    options = parser.parse_intermixed_args(words)
    asked = options.overrides or any(getattr(options, flag) is not None for flag in (*FLAGS, *SWITCHES))
    settings = chosen(options) if asked or not options.resume else None
    from xpress_bench.measure.interrupts import STATUS, Interrupted

    try:
        # The same command into the same named folder goes on with what it began; without a name it is a new run.
        folder, status = measure(options.resume, settings, words, again=options.out is not None), 0
    except Interrupted as stop:
        if stop.folder is None:
            raise
        folder, status = stop.folder, STATUS
    return max(status, show_report([folder], "terminal", None, suite=settings.suite if settings else None))


def measure(resumed: Path | None, settings: Settings | None, words: list[str], again: bool) -> Path:
    """Begin a run, or go on with `resumed`, or with an unfinished one of the same settings if `again`; its folder."""
    from xpress_bench.analyse.board import hindrances
    from xpress_bench.measure import runner
    from xpress_bench.measure.progress import progress_for
    from xpress_bench.measure.resume import unfinished

    if again and not resumed and settings and (resumed := unfinished(settings)):
        print(f"xpress-bench: going on with {resumed}; another --out begins a new run", file=sys.stderr)
    if not resumed and settings and settings.profile != "quick" and (found := hindrances(settings)):
        print(f"xpress-bench: not for the leaderboard as it is asked: {'; '.join(found)}", file=sys.stderr)
    with progress_for("xpress-bench") as progress:
        if resumed:
            return runner.resume(resumed, settings, words, progress, partial(print, file=sys.stderr))
        assert settings is not None
        return runner.run(settings, words, progress)


def check(words: list[str]) -> int:
    """Validate the pipeline and plan the run; nothing is written."""
    settings = settings_of(words, "xpress-bench check", EPILOG)
    from xpress_bench.measure.check import check_and_plan

    check_and_plan(settings, print)
    return 0


def train(words: list[str]) -> int:
    """The recipe that made the embedded models, or a step of it."""
    parser = Parser(
        prog="xpress-bench train",
        description="The recipe of the embedded models. Every step can be stopped and goes on where it was.",
        epilog=TRAIN_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("step", choices=TRAIN_STEPS)
    parser.add_argument("--work", type=Path, default=Path("train"), help="folder for everything made on the way")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="any setting of the recipe by its key")
    options = parser.parse_intermixed_args(words)  # settings may stand behind --work
    from xpress_bench.config import overridden
    from xpress_bench.train import recipe

    settings = overridden(recipe.Recipe(), options.overrides)
    recipe.run(options.step, options.work, replace(settings, device=resolve_device(settings.device)))
    return 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "check": check,
    "convert": convert,
    "doctor": doctor,
    "report": report,
    "compare": compare,
    "explain": explain,
    "gate": gate,
    "inspect": inspect,
    "list": list_names,
    "load": load,
    "site": site,
    "submit": submit,
    "show": show,
    "sweep": sweep,
    "train": train,
}
