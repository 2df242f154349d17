"""Frozen settings of one run: what `config.compose` makes and everything else reads. No hydra, no torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from xpress_bench.errors import UsageError
from xpress_bench.records import Condition

Dtype = Literal["float64", "float32", "bfloat16", "float16"]
DTYPES: tuple[Dtype, ...] = ("float64", "float32", "bfloat16", "float16")
VERIFIERS = ("greedy", "coupled", "rejection")
SAMPLED = (1e-4, 1e4)  # temperatures: below, logits / T are so large that rounding hides the noise; above, all is noise


@dataclass(frozen=True, slots=True)
class TargetSettings:
    """`name`: a registry name, a hub id or a local folder. `revision` pins a hub id; `gguf_file` is a file in it."""

    name: str
    revision: str | None = None
    gguf_file: str | None = None
    dequantize: bool = True  # GGUF: dense weights; False keeps them packed
    attn_implementation: str | None = None
    trust_remote_code: bool = False
    thinking: bool = False  # passed to chat templates that know `enable_thinking`
    chat_template: bool = True  # False: the prompt is continued as plain text


@dataclass(frozen=True, slots=True)
class DrafterSettings:
    """`name`: a registry name (`none`, `dflash`, `prompt_lookup`, ...), a hub id or a local checkpoint folder."""

    name: str
    path: str | None = None
    revision: str | None = None
    denoising_steps: int = 1
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RefinerSettings:
    """`name`: a registry name (`none`, `xpress`, `markov`) or a checkpoint. `passes`: K; None: the checkpoint's own."""

    name: str
    path: str | None = None
    revision: str | None = None
    passes: int | None = None
    params: dict[str, Any] = field(default_factory=dict)


# Groups of settings inside a run's, by key.
PARTS: dict[str, type[Any]] = {"target": TargetSettings, "drafter": DrafterSettings, "refiner": RefinerSettings}


@dataclass(frozen=True, slots=True)
class Settings:
    """One run. `limit` None takes every prompt; otherwise a draw spread evenly over the suite's categories."""

    suite: str
    target: TargetSettings
    drafter: DrafterSettings
    refiner: RefinerSettings
    block_size: int | None  # None: the drafter's own
    verifiers: tuple[str, ...]  # used above temperature 0; greedy is the only rule at 0
    temperatures: tuple[float, ...]
    seeds: tuple[int, ...]
    repeats: int
    launches: int
    limit: int | None
    turns: int | None  # of each conversation; None: as many as the suite runs
    max_new_tokens: int | None  # None: the suite's budget per category
    batch_size: int
    device: str
    dtype: Dtype
    threads: int | None  # torch threads; None: one per core
    warmup: int  # untimed requests per arm before the first measured one
    deadline_s: int  # for one request; beyond it the request has failed. A failed request is not tried again
    memory: bool  # measure peak memory, one fresh process per arm
    trace: int  # prompts that are run once more, untimed, with every block watched; 0: none
    profile: str
    out: str
    protocol: str | None = None  # the publication that set all of this, but for what was overridden

    def __post_init__(self) -> None:
        _at_least(1, repeats=self.repeats, launches=self.launches, warmup=self.warmup, deadline_s=self.deadline_s)
        for name in ("limit", "turns", "max_new_tokens", "threads"):
            if getattr(self, name) is not None:
                _at_least(1, **{name: getattr(self, name)})
        if self.block_size is not None:
            _at_least(2, block_size=self.block_size)
        if self.refiner.passes is not None:
            _at_least(0, **{"refiner.passes": self.refiner.passes})
        _at_least(0, trace=self.trace)
        _at_least(1, **{"drafter.denoising_steps": self.drafter.denoising_steps})
        _distinct("seeds", self.seeds)
        _distinct("temperatures", self.temperatures)
        _distinct("verifiers", self.verifiers)
        least, most = SAMPLED
        if any(temperature and not least <= temperature <= most for temperature in self.temperatures):
            raise UsageError(f"temperatures {list(self.temperatures)}: each is 0, or from {least:g} to {most:g}")
        for verifier in self.verifiers:
            if verifier not in VERIFIERS:
                raise UsageError(f"verifiers {list(self.verifiers)}: {verifier!r} is none of {', '.join(VERIFIERS)}")
        if self.batch_size != 1:
            raise UsageError(f"batch_size {self.batch_size}: measured runs are at batch 1 for now")
        if self.dtype not in DTYPES:
            raise UsageError(f"dtype {self.dtype!r}: choose one of {', '.join(DTYPES)}")
        self.conditions()  # refuses a temperature without a rule now, not after the models are loaded

    def conditions(self) -> tuple[Condition, ...]:
        """Temperature 0 has one rule, greedy; each temperature above it is run under every sampling verifier."""
        sampling = [verifier for verifier in self.verifiers if verifier != "greedy"]
        found = []
        for temperature in self.temperatures:
            if temperature == 0:
                found.append(Condition(0.0, "greedy"))
            elif not sampling:
                raise UsageError(
                    f"temperature {temperature:g} needs a sampling verifier: --verifier coupled or rejection"
                )
            else:
                found += [Condition(float(temperature), verifier) for verifier in sampling]
        return tuple(found)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """The settings that `to_json` wrote."""
        body: dict[str, Any] = json.loads(text)
        body |= {name: tuple(value) for name, value in body.items() if isinstance(value, list)}
        return cls(**body | {name: kind(**body[name]) for name, kind in PARTS.items()})

    def sha256(self) -> str:
        """Hash of everything that can change a result; the output folder can not."""
        body = {name: value for name, value in asdict(self).items() if name != "out"}
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted key; an empty table stands for itself."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        inner = isinstance(value, Mapping) and value
        found |= flat(value, f"{prefix}{name}.") if inner else {f"{prefix}{name}": value}
    return found


def _at_least(least: int, **values: int) -> None:
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise UsageError(f"{name} is {value!r}: give a whole number of at least {least}")


def _distinct(name: str, values: tuple[Any, ...]) -> None:
    if not values:
        raise UsageError(f"{name} is empty: give at least one, e.g. {name}=[0,1,2]")
    if len(set(values)) != len(values):
        raise UsageError(f"{name} {list(values)} holds a value twice; repeats are asked for with repeats=N")
