"""The command line. torch is imported only inside the commands that run models.

Exit codes: 0 fine, 1 something failed while running, 2 the command or an input is wrong, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from xpress_bench import __version__
from xpress_bench.errors import UsageError, XpressError
from xpress_bench.reading import Parser, compare, explain, list_names, report, show, show_report

if TYPE_CHECKING:
    from xpress_bench.settings import Settings

# flag -> (key of the configuration, what it is)
FLAGS: dict[str, tuple[str, str]] = {
    "suite": ("suite", "short, long, qa, translation, all, FILE.jsonl, or hf:owner/name; several with commas"),
    "target": ("target.name", "embedded, a hub id, or a folder of a transformers causal LM"),
    "drafter": ("drafter.name", "none, dflash, draft_model, prompt_lookup, a plug-in, a hub id, or a folder"),
    "refiner": ("refiner.name", "auto, none, xpress, markov, a plug-in, a hub id, or a checkpoint folder"),
    "verifier": ("verifiers", "rule above temperature 0: coupled, rejection, or both with a comma"),
    "seeds": ("seeds", "comma-separated, e.g. 0,1,2; repeats at temperature 0"),
    "limit": ("limit", "prompts at most, spread evenly over the suite"),
    "temperature": ("temperatures", "one or several with commas, e.g. 0,1"),
    "device": ("device", "auto, cpu, cuda, cuda:1"),
    "dtype": ("dtype", "float64, float32, bfloat16, float16"),
    "profile": ("profile", "quick (default on CPU), standard (default on a GPU), paper"),
    "out": ("out", "folder that gets one folder per run (default: runs)"),
}
LISTS = ("verifiers", "seeds", "temperatures")
PLAIN = ("limit", "profile")
EPILOG = """\
commands:
  xpress-bench --suite qa                  run: direct, draft and refine over the suite, then the table
  xpress-bench check [same flags]          validate target, drafter and refiner, then plan the run
  xpress-bench report RUN                  the table again, from the journal alone, or as another system prints it
  xpress-bench explain RUN                 where a run loses, and what to try next
  xpress-bench compare A B                 two runs, or with --arm X --arm Y two arms of one run
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
    """Measure, then print the report."""
    settings = settings_of(words, "xpress-bench")
    from xpress_bench.measure import runner
    from xpress_bench.measure.progress import progress_for

    with progress_for("xpress-bench") as progress:
        folder = runner.run(settings, words, progress)
    return show_report([folder], "terminal", None)


def check(words: list[str]) -> int:
    """Validate the pipeline and plan the run; nothing is written."""
    settings = settings_of(words, "xpress-bench check")
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
    "report": report,
    "compare": compare,
    "explain": explain,
    "list": list_names,
    "show": show,
    "train": train,
}


def settings_of(words: list[str], program: str) -> Settings:
    """Flags and overrides -> settings with the device resolved; the profile follows the device unless it was given."""
    parser = Parser(
        prog=program,
        description="Does a drafter, with or without refinement, make a model faster, and is the output the same?",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"xpress-bench {__version__}")
    for flag, (_, text) in FLAGS.items():
        parser.add_argument(f"--{flag}", metavar=flag.upper(), help=text)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="any setting by its key, after the flags")
    options = vars(parser.parse_args(words))
    overrides: list[str] = options.pop("overrides")
    from xpress_bench.config import settings_from

    flags = {FLAGS[flag][0]: as_override(FLAGS[flag][0], value) for flag, value in options.items() if value is not None}
    settings = settings_from(flags, overrides)
    device = resolve_device(settings.device)
    given = "profile" in flags or any(word.startswith("profile=") for word in overrides)
    if device != "cpu" and not given:
        settings = settings_from(flags | {"profile": "standard"}, overrides)
    return replace(settings, device=device)


def as_override(key: str, value: str) -> str:
    """A flag's plain text as the value of a hydra override."""
    from xpress_bench.config import quote

    if key in LISTS:
        parts = [part.strip() for part in value.strip("[]").split(",") if part.strip()]
        return f"[{','.join(parts)}]"
    if key in PLAIN:
        if not value.replace("_", "").isalnum():
            raise UsageError(f"--{key} {value!r}: give one word or number")
        return value
    return quote(value)


def resolve_device(name: str) -> str:
    """`auto` -> cuda if there is one, else cpu. Refuses a device that is not here, saying how many are."""
    if name == "cpu":
        return name
    import torch

    boards = torch.cuda.device_count()
    if name == "auto":
        return "cuda" if boards else "cpu"
    kind, _, index = name.partition(":")
    if kind != "cuda" or (index and not index.isdecimal()):
        raise UsageError(f"device {name!r}: choose auto, cpu, cuda or cuda:N")
    if int(index or 0) >= boards:
        raise UsageError(f"device {name!r}: {boards} visible CUDA device{'s' if boards != 1 else ''} here")
    return name
