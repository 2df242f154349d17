"""The command line of a sweep -> what is varied, over which values, and the settings of every run of it."""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from xpress_bench.analyse.sweep_plan import Values
from xpress_bench.errors import UsageError
from xpress_bench.flags import chosen, run_parser, words_of
from xpress_bench.publish.printing import FORMATS
from xpress_bench.settings import Settings, flat

if TYPE_CHECKING:
    from xpress_bench.records import Arm

ABOUT = "One setting varied at a time, all else fixed: where does more stop to pay?"
EPILOG = """\
a list of values makes a factor, a list in brackets is one value:
  xpress-bench sweep --suite qa                                    a list for this drafter
  xpress-bench sweep --suite qa block_size=4,8,16 refiner.passes=0,1,2,4
  xpress-bench sweep --suite qa block_size=4,8 candidates.count=1,4 --grid
  xpress-bench sweep --suite all block_size=4,8,16 --counts --launcher joblib hydra.launcher.n_jobs=4

Factors are varied in the order block size, denoising steps, refinement passes, candidates, and then as given. The next
one goes on with a new value only if that is shown to be better. The same command with --out goes on with a sweep that
was stopped.
"""
ORDER = {  # factor -> field of an arm in a run's header
    "block_size": "block_size",
    "drafter.denoising_steps": "denoising_steps",
    "refiner.passes": "passes",
    "candidates.count": "candidates",
}
VARIED = ("block_size", "drafter.", "refiner.", "candidates.")
LAUNCHERS = {  # -> the package of the plug-in, none for hydra's own
    "basic": None,
    "joblib": "hydra-joblib-launcher",
    "ray": "hydra-ray-launcher",
    "submitit_local": "hydra-submitit-launcher",
    "submitit_slurm": "hydra-submitit-launcher",
}
ELSEWHERE = ("ray", "submitit_slurm")  # their jobs may run on machines that have other devices than this one
ROUNDS = 2

_PLAIN = re.compile(r"[\w./-]+")  # text that is a value as it stands


@dataclass(frozen=True)
class Asked:
    """The command line taken apart. `factors`: key -> listed values. `hydra`: overrides of the launcher, no run's."""

    options: argparse.Namespace
    factors: Mapping[str, Sequence[str]]
    overrides: Sequence[str]
    hydra: Sequence[str]

    def words(self, values: Values) -> list[str]:
        """What would be typed for the run that has these values."""
        return words_of(self.options, [*self.overrides, *(f"{key}={value}" for key, value in values.items())])

    def settings(self, values: Values) -> Settings:
        """The settings of that run, without what is only for times where there are none."""
        options, elsewhere = argparse.Namespace(**vars(self.options)), self.options.launcher in ELSEWHERE
        options.overrides = [*self.overrides, *(f"{key}={value}" for key, value in values.items())]
        if elsewhere:
            options.device = "cpu"  # the device is not here to be looked for
        settings = chosen(options)
        settings = replace(settings, device=self.options.device) if elsewhere else settings
        return counting(settings) if self.options.counts else settings

    @cached_property
    def own(self) -> Settings:
        """The setting itself, nothing varied."""
        return self.settings({})

    @property
    def sha256(self) -> str:
        """Hash of everything that a sweep can be told apart by; its folder and launcher are not."""
        options = self.options
        body = [self.own.sha256(), self.factors, options.grid, options.counts, options.rounds]
        return hashlib.sha256(json.dumps(body).encode()).hexdigest()


def asked_for(words: list[str]) -> Asked:
    """The command line taken apart. Raises UsageError for what is known to be wrong before a model is loaded."""
    parser = run_parser("xpress-bench sweep", ABOUT, EPILOG)
    parser.add_argument("--grid", action="store_true", help="all combinations of all values")
    parser.add_argument("--counts", action="store_true", help="acceptance alone: no times, so jobs may share a device")
    parser.add_argument("--rounds", type=int, help=f"how often every value is timed (default: {ROUNDS}; counts: once)")
    parser.add_argument("--launcher", choices=LAUNCHERS, default="basic", help="who runs the jobs (default: basic)")
    parser.add_argument("--format", choices=FORMATS, default="terminal")
    options = parser.parse_intermixed_args(words)
    if not options.profile and not any(word.startswith("profile=") for word in options.overrides):
        options.profile = "quick"  # on a GPU too: a sweep is for looking, and looks at one condition
    options.rounds = _rounds(options)
    _refuse_launcher(options)
    asked = _taken_apart(options)
    settings = asked.own
    if settings.weights == "random":
        raise UsageError("--weights random: a sweep goes by acceptance, which needs trained weights; leave it out")
    if len(found := settings.conditions()) > 1:
        raise UsageError(
            f"a sweep looks at one condition, here are {len(found)} ({', '.join(map(str, found))}): "
            "add temperatures=[0], or one temperature and one verifier"
        )
    for key, values in asked.factors.items():
        for value in values:
            asked.settings({key: value})
    return asked


def _rounds(options: argparse.Namespace) -> int:
    usual = 1 if options.counts else ROUNDS
    rounds: int = usual if options.rounds is None else options.rounds
    if rounds < 1:
        raise UsageError(f"--rounds {rounds}: give 1 or more; speed is only judged from 2 on")
    if options.counts and rounds > 1:
        raise UsageError(f"--rounds {rounds}: counts are the same every time; leave it out, or --counts")
    return rounds


def _refuse_launcher(options: argparse.Namespace) -> None:
    package = LAUNCHERS[options.launcher]
    plugin = f"hydra_plugins.{package.replace('-', '_')}" if package else "hydra"
    if importlib.util.find_spec(plugin.partition(".")[0]) is None or importlib.util.find_spec(plugin) is None:
        raise UsageError(f"--launcher {options.launcher} is a plug-in of hydra that is not here: pip install {package}")
    if options.launcher in ELSEWHERE and options.device in (None, "auto"):
        raise UsageError(
            f"--launcher {options.launcher}: jobs may run on other machines, say what they have: --device cuda or cpu"
        )


def _taken_apart(options: argparse.Namespace) -> Asked:
    from xpress_bench.fan_out import choices

    factors: dict[str, Sequence[str]] = {}
    overrides, launcher = [], []
    for word in options.overrides:
        if word.lstrip("+").startswith("hydra."):
            launcher.append(word)
        elif listed := choices(word):
            key, values = listed
            if not key.startswith(VARIED):
                raise UsageError(
                    f"override {word!r}: a sweep varies how drafts are made ({', '.join(VARIED)}); "
                    f"a list as one value is {key}=[...]"
                )
            factors[key] = values
        else:
            overrides.append(word)
    wrong = [word for word in launcher if not word.lstrip("+").startswith("hydra.launcher.")]
    if wrong:
        raise UsageError(f"override {wrong[0]!r}: of hydra's own settings a sweep takes those of its launcher")
    return Asked(options, factors, overrides, launcher)


def planned(asked: Asked, arm: Arm) -> tuple[Values, dict[str, tuple[str, ...]]]:
    """Base and factors of a plan, from what was asked for and the last arm of a run of the setting itself."""
    if arm.drafter is None:
        raise UsageError("nothing to sweep: drafter is none")
    factors = asked.factors or _usual(arm)
    if arm.refiner is None and any(key.startswith("refiner.") and key != "refiner.name" for key in factors):
        raise UsageError("refiner.* is to be varied and there is no refiner: give --refiner, or leave it out")
    settings = flat(asdict(asked.own))
    # A part's own option that is not set has a default that only the part knows: it begins with the first value.
    own = {key: _word(settings[key], arm, key) if key in settings else values[0] for key, values in factors.items()}
    listed = {key: _in_order([*values, own[key]]) for key, values in factors.items()}
    known = [key for key in ORDER if key in listed]
    return own, {key: listed[key] for key in (*known, *(key for key in listed if key not in ORDER))}


def _usual(arm: Arm) -> dict[str, list[str]]:
    """Where nothing is listed: smaller blocks, and passes up to B - 1, from where on nothing changes."""
    blocks, slots = arm.block_size or 2, (arm.block_size or 2) - 1
    found = {"block_size": [str(size) for size in (2, 4, 8, 16) if size <= blocks]}
    if arm.passes is not None and "+" not in (arm.refiner or ""):
        found["refiner.passes"] = [str(passes) for passes in (0, 1, 2, 4, 8, slots) if passes <= slots]
    return found


def _word(value: Any, arm: Arm, key: str) -> str:
    """A setting's value as a word of the command line; where the drafter or refiner chose it, what it has chosen."""
    from xpress_bench.config import quote

    if value is None and key in ORDER and "+" not in (arm.refiner or ""):
        value = getattr(arm, ORDER[key])
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return str(value) if _PLAIN.fullmatch(str(value)) else quote(str(value))


def _in_order(values: Sequence[str]) -> tuple[str, ...]:
    """Each value once; numbers by size, anything else as it was listed."""
    distinct = tuple(dict.fromkeys(values))
    try:
        return tuple(sorted(distinct, key=float))
    except ValueError:
        return distinct


def counting(settings: Settings) -> Settings:
    """The same run with every request once and nothing beside it: for counts, repeats are the same again."""
    seeds = settings.seeds if any(settings.temperatures) else settings.seeds[:1]
    return replace(
        settings, seeds=seeds, repeats=1, launches=1, memory=False, trace=0, controls=0, admission="off", warmup=1
    )
