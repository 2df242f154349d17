"""Frozen settings of one run: what `config.compose` makes and everything else reads. No hydra, no torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from xpress_bench.errors import UsageError
from xpress_bench.records import Condition

Admission = Literal["warn", "void", "off"]  # told; made once more in another process, and told; not judged
ADMISSIONS: tuple[Admission, ...] = ("warn", "void", "off")
Dtype = Literal["float64", "float32", "bfloat16", "float16"]
DTYPES: tuple[Dtype, ...] = ("float64", "float32", "bfloat16", "float16")
Weights = Literal["trained", "random"]  # random: made from configs alone, to measure what a step costs and no more
WEIGHTS: tuple[Weights, ...] = ("trained", "random")
VERIFIERS = ("greedy", "coupled", "rejection")
SOURCES = ("noise", "first", "any")
MERGES = ("tree", "best", "slots")
SERVED = "openai:"  # how the name of a server begins
MOST_ROWS = 64  # of a batch
SAMPLED = (1e-4, 1e4)  # temperatures: below, logits / T are so large that rounding hides the noise; above, all is noise


@dataclass(frozen=True, slots=True)
class TargetSettings:
    """`name`: a registry name, a hub id, a local folder, or `openai:URL`, a server.

    `revision` pins a hub id; `gguf_file` is a file in it. `model` is which model of a server, None: its only one.
    """

    name: str
    revision: str | None = None
    gguf_file: str | None = None
    dequantize: bool = True  # GGUF: dense weights; False keeps them packed
    attn_implementation: str | None = None
    trust_remote_code: bool = False
    thinking: bool = False  # passed to chat templates that know `enable_thinking`
    chat_template: bool = True  # False: the prompt is continued as plain text
    model: str | None = None
    api_key_env: str | None = None  # name of the environment variable that holds a server's key

    @property
    def served(self) -> bool:
        """Whether servers answer, not this process."""
        return self.name.startswith(SERVED)


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


@dataclass(frozen=True, slots=True)
class CandidateSettings:
    """How many drafts a step has, and what becomes of them; the defaults are the one draft of a chain.

    `source` says what the drafts beside the first are. `noise`: drawn again from the laws of the draft's slots; without
    a temperature there is nothing to draw, and it is `first`. `first`: another first token, the likeliest of them.
    `any`: another token in any one slot, where the draft is likeliest to be right up to there and wrong there.
    `merge` says what is verified, after refinement. `tree`: all of them, as one prefix tree. `best`: the one that the
    drafter, or the refiner behind it, is surest of. `slots`: in each slot the token that it is surest of.
    `nodes`: verify a tree of so many tokens, the likeliest by the laws of the slots, grown around the drafts (DDTree).
    """

    count: int = 1  # M
    source: str = "noise"
    merge: str = "tree"
    nodes: int | None = None

    def __post_init__(self) -> None:
        _at_least(1, **{"candidates.count": self.count})
        if self.nodes is not None:
            _at_least(1, **{"candidates.nodes": self.nodes})
        for name, known in (("source", SOURCES), ("merge", MERGES)):
            if getattr(self, name) not in known:
                raise UsageError(f"candidates.{name} {getattr(self, name)!r}: choose one of {', '.join(known)}")
        if self.nodes is not None and self.merge != "tree":
            raise UsageError(f"candidates.nodes is {self.nodes}: only a tree has nodes, and merge is {self.merge}")


# Groups of settings inside a run's, by key.
PARTS: dict[str, type[Any]] = {
    "target": TargetSettings,
    "drafter": DrafterSettings,
    "refiner": RefinerSettings,
    "candidates": CandidateSettings,
}


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
    batch_size: int  # requests decoded together; above 1 what is timed is a batch
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
    weights: Weights = "trained"
    compile: bool = False  # compiled steps over fixed shapes, for every arm alike
    controls: int = 0  # prompts run a second way beside, to check the measuring itself (`measure.controls`); 0: none
    admission: Admission = "warn"  # what becomes of a launch that something disturbed (`analyse.admission`)
    candidates: CandidateSettings = field(default_factory=CandidateSettings)

    def __post_init__(self) -> None:
        _at_least(1, repeats=self.repeats, launches=self.launches, warmup=self.warmup, deadline_s=self.deadline_s)
        for name in ("limit", "turns", "max_new_tokens", "threads"):
            if getattr(self, name) is not None:
                _at_least(1, **{name: getattr(self, name)})
        if self.block_size is not None:
            _at_least(2, block_size=self.block_size)
        if self.refiner.passes is not None:
            _at_least(0, **{"refiner.passes": self.refiner.passes})
        _at_least(0, trace=self.trace, controls=self.controls)
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
        self._refuse_batch()
        if self.admission not in ADMISSIONS:
            raise UsageError(f"admission {self.admission!r}: choose one of {', '.join(ADMISSIONS)}")
        if self.weights not in WEIGHTS:
            raise UsageError(f"weights {self.weights!r}: choose one of {', '.join(WEIGHTS)}")
        if self.compile and self.candidates.merge == "tree" and (self.candidates.count > 1 or self.candidates.nodes):
            raise UsageError("--compile verifies chains only: add candidates.merge=best, or leave --compile out")
        if self.dtype not in DTYPES:
            raise UsageError(f"dtype {self.dtype!r}: choose one of {', '.join(DTYPES)}")
        self.conditions()  # refuses a temperature without a rule now, not after the models are loaded

    def _refuse_batch(self) -> None:
        """UsageError for a batch size that is none, and for what is made of single requests beside one above 1."""
        _at_least(1, batch_size=self.batch_size)
        if self.batch_size > MOST_ROWS:
            raise UsageError(f"batch_size {self.batch_size}: at most {MOST_ROWS} requests are decoded together")
        several = self.candidates.count > 1 or self.candidates.nodes is not None
        single = {"--compile": self.compile, "candidates": several, "turns above 1": (self.turns or 1) > 1}
        asked = [what for what, asked in single.items() if asked]
        if asked and self.batch_size > 1:
            raise UsageError(f"batch_size {self.batch_size} does not go with {asked[0]}: give one of them up")

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
        return cls(**body | {name: kind(**body[name]) for name, kind in PARTS.items() if name in body})

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


ONE_DRAFT = CandidateSettings()  # a chain; made here, where its checks are known
