"""The journal: what one run writes and everything after it reads.

A journal is one append-only JSONL file: a header line, one line per cell and per extra observation (memory, replay),
a footer with counts. It is strict JSON: no NaN, no Infinity. What is unknown is null and a reason stands beside it.
It is the only bridge between measuring and analysing: nothing here imports torch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

from xpress_bench.errors import UsageError

SCHEMA = 1
JOURNAL = "journal.jsonl"  # file name inside a run folder
StopReason = Literal["eos", "stop", "length", "context", "short"]
# "short": the arm ended although neither a stop id nor a limit asked for it; such a cell is flagged, never averaged
# in silence.


@dataclass(frozen=True, slots=True)
class Condition:
    """Sampling setting that a set of cells shares; reports never mix two conditions."""

    temperature: float
    verifier: str  # greedy | coupled | rejection

    def __str__(self) -> str:
        return "greedy" if self.temperature == 0 else f"temperature {self.temperature:g}, {self.verifier}"


@dataclass(frozen=True, slots=True)
class Steps:
    """The verify steps of one request, one entry per step and field. All are empty for the direct arm.

    offered: draft tokens sent to the target (anchor not counted). accepted: of those, the leading run the target agrees
    with, cut at a stop id or the limit. committed: tokens really added, the target's own token included.
    matched: that leading run before it is cut at a stop id, which some systems count; empty in older journals.
    drafts, refined: the ids offered before and after refinement (refined is empty without a refiner).
    Times are seconds per step.
    """

    offered: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()
    committed: tuple[int, ...] = ()
    drafts: tuple[tuple[int, ...], ...] = ()
    refined: tuple[tuple[int, ...], ...] = ()
    draft_s: tuple[float, ...] = ()
    refine_s: tuple[float, ...] = ()
    verify_s: tuple[float, ...] = ()
    matched: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Cell:
    """One measured request: (launch, prompt, turn, seed, arm, repeat) under one condition.

    `turn` counts from 1; later turns of a conversation are requests of their own with the same `prompt`.
    `latency_s` is the whole request after tokenising: prefill, drafting, verifying, until the last id is on the host.
    `ttft_s` is the time to the first output id. `rest_s` is `latency_s` less prefill and the three stages.
    `ids` holds exactly the output ids, a stop id that ended the output included. With `error` set, everything measured
    is null and the cell takes part in no aggregate.
    """

    launch: int
    prompt: str
    seed: int
    arm: str
    repeat: int
    order: int  # place of this cell within its (prompt, seed, repeat), 0 first
    condition: Condition
    prompt_tokens: int
    prompt_sha256: str  # of the prompt's token ids: arms must agree on it
    ids: tuple[int, ...] = ()
    text: str = ""
    stop_reason: StopReason | None = None
    latency_s: float | None = None
    ttft_s: float | None = None
    prefill_s: float | None = None
    rest_s: float | None = None
    steps: Steps = field(default_factory=Steps)
    error: str | None = None
    turn: int = 1


@dataclass(frozen=True, slots=True)
class Memory:
    """Peak memory of one arm, measured in a fresh process of its own. Unknown is None with a reason."""

    arm: str
    quantity: Literal["nvml_device_peak_minus_idle", "process_peak_rss"]
    peak_bytes: int | None
    torch_reserved_peak_bytes: int | None = None
    torch_allocated_peak_bytes: int | None = None
    device_uuid: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Replay:
    """Teacher-forced judgement of one place where an arm first leaves direct generation.

    `gap` is the target's logit of direct's token less that of the arm's token, on the common prefix; `tolerance` is
    how much that difference moved when the same prefix was run in one-token and block-shaped passes.
    """

    prompt: str
    seed: int
    arm: str
    condition: Condition
    position: int
    direct_token: int
    arm_token: int | None  # None: the arm had already stopped
    gap: float | None
    tolerance: float | None
    verdict: Literal["tie", "near_tie", "real"]
    turn: int = 1


@dataclass(frozen=True, slots=True)
class Arm:
    """One way of generating that the run measured, as the report shows it."""

    name: str  # direct | draft | refine | any other
    drafter: str | None
    refiner: str | None
    block_size: int | None
    denoising_steps: int | None
    passes: int | None
    checkpoints: dict[str, str | None] = field(default_factory=dict)  # part -> sha256 of its weights


@dataclass(frozen=True, slots=True)
class Skipped:
    """A prompt that no arm ran, and why (C41). `tokens`: what it would have needed, its output budget included."""

    prompt: str
    reason: str
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Header:
    """First line of a journal: everything needed to know what was run, on what, with which code."""

    run: str
    created_utc: str
    argv: tuple[str, ...]
    settings: dict[str, Any]
    settings_sha256: str
    suite: dict[str, Any]  # name, version, sha256, items (in the suite), selected, parity_margin, scorers
    target: dict[str, Any]  # name, parameters, dtype, device, weights_sha256, tokenizer_sha256, vocab_size, context
    arms: tuple[Arm, ...]
    conditions: tuple[Condition, ...]
    prompts: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    versions: dict[str, str | None]
    git: dict[str, Any]
    machine: dict[str, Any]
    profile: str
    in_process: bool
    turns: dict[str, int] = field(default_factory=dict)  # prompts of which more than one turn was run -> how many
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class Footer:
    cells: int
    errors: int
    complete: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Run:
    """A journal read back."""

    header: Header
    cells: tuple[Cell, ...]
    memory: tuple[Memory, ...]
    replays: tuple[Replay, ...]
    footer: Footer | None  # None: the run did not end by itself
    folder: Path


def first_difference(ours: Sequence[int], theirs: Sequence[int]) -> int | None:
    """First index at which two outputs differ, the shorter length if one is a prefix of the other; None if equal."""
    return next((i for i, (a, b) in enumerate(zip_longest(ours, theirs)) if a != b), None)


Record = Header | Cell | Memory | Replay | Footer
_KINDS: dict[str, type[Any]] = {"header": Header, "cell": Cell, "memory": Memory, "replay": Replay, "footer": Footer}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def to_line(record: Record) -> str:
    """One strict-JSON line, without the newline. Raises ValueError on NaN or Infinity."""
    body = {"kind": _NAMES[type(record)], **asdict(record)}
    return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def from_line(line: str) -> Record:
    """The record of one line. Raises ValueError, KeyError or TypeError on anything else."""
    body = json.loads(line, parse_constant=_refuse_constant)
    if not isinstance(body, dict):
        raise TypeError(f"holds a {type(body).__name__}, not an object")
    kind = _KINDS[body.pop("kind")]
    if kind is Header:
        body["arms"] = tuple(Arm(**arm) for arm in body["arms"])
        body["conditions"] = tuple(Condition(**condition) for condition in body["conditions"])
        body["skipped"] = tuple(Skipped(**one) for one in body["skipped"])
    if "condition" in body:
        body["condition"] = Condition(**body["condition"])
    if kind is Cell:
        body["steps"] = Steps(**{name: _tuples(value) for name, value in body["steps"].items()})
    return kind(**{name: _tuples(value) if isinstance(value, list) else value for name, value in body.items()})  # type: ignore[no-any-return]


def read_run(path: Path) -> Run:
    """Read a run folder or a journal file. A torn last line is dropped; any other bad line is a UsageError."""
    file = path / JOURNAL if path.is_dir() else path
    if not file.is_file():
        raise UsageError(f"no journal at {file}; give the run folder that `xpress-bench --suite ...` printed")
    records = list(_records(file))
    headers = [record for record in records if isinstance(record, Header)]
    if len(headers) != 1 or records[0] is not headers[0]:
        raise UsageError(f"{file}: a journal starts with exactly one header, this one has {len(headers)}")
    if headers[0].schema != SCHEMA:
        raise UsageError(f"{file}: written in schema {headers[0].schema}, this version reads schema {SCHEMA}")
    footers = [record for record in records if isinstance(record, Footer)]
    return Run(
        header=headers[0],
        cells=tuple(record for record in records if isinstance(record, Cell)),
        memory=tuple(record for record in records if isinstance(record, Memory)),
        replays=tuple(record for record in records if isinstance(record, Replay)),
        footer=footers[-1] if footers else None,
        folder=file.parent,
    )


def _records(file: Path) -> Iterator[Record]:
    lines = file.read_bytes().split(b"\n")
    torn = lines.pop()  # empty when the file ends with a newline, else a line that was cut while being written
    for number, line in enumerate(lines, start=1):
        try:
            yield from_line(line.decode("utf-8"))
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{file}, line {number}: not a journal record ({error})") from error
    if torn and not lines:
        raise UsageError(f"{file}: holds no complete line")


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")
