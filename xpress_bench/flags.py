"""The flags of a run: words of the command line -> settings. They are what `run`, `check` and `gate` share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from xpress_bench import __version__
from xpress_bench.errors import UsageError
from xpress_bench.reading import Parser

if TYPE_CHECKING:
    from xpress_bench.settings import Settings

QUESTION = "Does a drafter, with or without refinement, make a model faster, and is the output the same?"
# flag -> (key of the configuration, what it is)
FLAGS: dict[str, tuple[str, str]] = {
    "suite": ("suite", "short, long, qa, translation, all, FILE.jsonl, or hf:owner/name; several with commas"),
    "target": ("target.name", "embedded, a hub id, a folder of a transformers causal LM, or openai:URL, a server"),
    "model": ("target.model", "which model of a server, if it serves several"),
    "drafter": (
        "drafter.name",
        "none, a name of `xpress-bench list drafters`, a hub id, a checkpoint folder, or openai:URL",
    ),
    "refiner": (
        "refiner.name",
        "auto, none, a name of `list refiners`, a hub id, a folder, or openai:URL; several joined by +",
    ),
    "verifier": ("verifiers", "rule above temperature 0: coupled, rejection, or both with a comma"),
    "seeds": ("seeds", "comma-separated, e.g. 0,1,2; repeats at temperature 0"),
    "limit": ("limit", "prompts at most, spread evenly over the suite"),
    "temperature": ("temperatures", "one or several with commas, e.g. 0,1"),
    "device": ("device", "auto, cpu, cuda, cuda:1"),
    "dtype": ("dtype", "float64, float32, bfloat16, float16"),
    "weights": ("weights", "trained, or random: from configs alone, to know what a step costs before weights exist"),
    "profile": ("profile", "quick (default on CPU), standard (default on a GPU), paper"),
    "out": (
        "out",
        "folder for run folders (default: runs); an unfinished run of the same settings in it is gone on with",
    ),
}
SWITCHES: dict[str, str] = {  # keys that a flag alone sets to true
    "compile": "compile the steps of the target, drafter and refiner over fixed shapes; for every arm alike",
}
LISTS = ("verifiers", "seeds", "temperatures")
PLAIN = ("limit", "profile")


def settings_of(words: list[str], program: str, epilog: str | None = None) -> Settings:
    """The settings that the words of a command ask for."""
    return chosen(run_parser(program, QUESTION, epilog).parse_intermixed_args(words))


def run_parser(program: str, description: str, epilog: str | None = None) -> Parser:
    """A parser that knows the flags and overrides of a run; a command adds its own."""
    parser = Parser(
        prog=program,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"xpress-bench {__version__}")
    for flag, (_, text) in FLAGS.items():
        parser.add_argument(f"--{flag}", metavar=flag.upper(), help=text)
    for key, text in SWITCHES.items():
        parser.add_argument(f"--{key}", action="store_const", const="true", help=text)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="any setting by its key, after the flags")
    return parser


def chosen(options: argparse.Namespace) -> Settings:
    """Flags and overrides -> settings with the device resolved; the profile follows the device unless it was given."""
    from xpress_bench.config import settings_from
    from xpress_bench.settings import SERVED

    given = {flag: getattr(options, flag) for flag in FLAGS}
    flags = {FLAGS[flag][0]: as_override(FLAGS[flag][0], value) for flag, value in given.items() if value is not None}
    flags |= {key: "true" for key in SWITCHES if getattr(options, key)}
    if (options.target or "").startswith(SERVED):  # the drafter and refiner of other targets are none of a server
        flags = {"drafter.name": "none", "refiner.name": "none", **flags}
    settings = settings_from(flags, options.overrides)
    device = "cpu" if settings.target.served else resolve_device(settings.device)
    profiled = "profile" in flags or any(word.startswith("profile=") for word in options.overrides)
    if device != "cpu" and not profiled:
        settings = settings_from(flags | {"profile": "standard"}, options.overrides)
    return replace(settings, device=device)


def words_of(options: argparse.Namespace, overrides: Sequence[str]) -> list[str]:
    """The words that ask for a run: flags and switches as they were given, then `overrides`."""
    flags = [word for flag in FLAGS if (value := getattr(options, flag)) for word in (f"--{flag}", value)]
    return [*flags, *(f"--{key}" for key in SWITCHES if getattr(options, key)), *overrides]


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
