"""The journal: what one run writes and everything after it reads (`journals.py` has its lines).

A journal is one append-only JSONL file: a header line, one line per cell and per extra observation (memory, replay,
trace), a footer with counts. It is strict JSON: no NaN, no Infinity. What is unknown is null and a reason stands beside
it. It is the only bridge between measuring and analysing: nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from xpress_bench.tally import Count as Count  # so that a journal's records are all found here
from xpress_bench.tally import Counts as Counts
from xpress_bench.tally import Steps as Steps
from xpress_bench.tally import Tally

SCHEMA = 1
JOURNAL = "journal.jsonl"  # file name inside a run folder
PACKED = f"{JOURNAL}.gz"  # the same with gzip, in a submission
Seconds = Annotated[float, msgspec.Meta(ge=0)]
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
class Cell:
    """One measured request: (launch, prompt, turn, seed, arm, repeat) under one condition.

    `turn` counts from 1; later turns of a conversation are requests of their own with the same `prompt`.
    `latency_s` is the whole request after tokenising: prefill, drafting, verifying, until the last id is on the host.
    `ttft_s` is the time to the first output id. `rest_s` is `latency_s` less prefill and the three stages.
    `ids` holds exactly the output ids, a stop id that ended the output included. With `error` set, everything measured
    is null and the cell takes part in no aggregate.
    `batch`: the place in `Header.batches` of the batch that the request was a row of. Its times then run from the start
    of the batch to its own last id, so that one second stands in all rows that were not yet done.
    `counts` stands in place of `steps` where a server answered. Its prompt is known by the messages, of which
    `prompt_sha256` is the hash, and only its server knows the `prompt_tokens`; `ids` are empty if it gives none.
    """

    launch: int
    prompt: str
    seed: int
    arm: str
    repeat: int
    order: int  # place of this cell within its (prompt, seed, repeat), 0 first
    condition: Condition
    prompt_tokens: int | None  # None: a server failed before it said
    prompt_sha256: str  # of the prompt's token ids, or messages: arms must agree on it
    ids: tuple[int, ...] = ()
    text: str = ""
    stop_reason: StopReason | None = None
    latency_s: Seconds | None = None
    ttft_s: Seconds | None = None
    prefill_s: Seconds | None = None
    rest_s: Seconds | None = None
    steps: Steps = field(default_factory=Steps)
    error: str | None = None
    turn: int = 1
    batch: int | None = None
    counts: Counts | None = None

    @property
    def tokens(self) -> int:
        """Output tokens."""
        return self.counts.tokens if self.counts else len(self.ids)

    @property
    def tally(self) -> Tally:
        """Its verify steps as sums."""
        return self.counts.tally if self.counts else self.steps.tally

    @property
    def output(self) -> tuple[int, ...] | str:
        """What it said: ids, or the text where a server gives none."""
        return self.ids if self.ids or not self.counts else self.text


@dataclass(frozen=True, slots=True)
class Memory:
    """Peak memory of one arm, measured in a fresh process of its own. Unknown is None with a reason.

    parts_bytes: what the weights of target, drafter and refiner take, the caches (all other tensors that these hold
    after the longest request) and captured CUDA graphs; less than the peak by activations, libraries and the process.
    stage_peak_bytes: most that torch had allocated during each stage. unknown: of both, what is None and why.
    """

    arm: str
    quantity: Literal["nvml_device_peak_minus_idle", "process_peak_rss"]
    peak_bytes: int | None
    torch_reserved_peak_bytes: int | None = None
    torch_allocated_peak_bytes: int | None = None
    device_uuid: str | None = None
    reason: str | None = None
    parts_bytes: dict[str, int | None] = field(default_factory=dict)
    stage_peak_bytes: dict[str, int | None] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)


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
class Trace:
    """A request run once more, untimed, with every block watched: what the timed requests do not stop to look at.

    `ids` is its output; the other fields have one entry per verify step, rows one number per token offered.
    blocks: the tokens after k refinement passes, k from 0, which is the raw draft; that alone where the passes of the
    arm cannot be set; no row where no draft was made.
    confidence: the drafter's probability of each token of its raw draft at the sampling temperature, at 1 if greedy; a
    row is empty where the drafter gave no logits.
    places: where each token to be verified stands in the law it is said to be drawn from: the mass of all less likely
    tokens and of a random share of its own, which is uniform on 0..1 if it was (Rosenblatt 1952); a row is empty for a
    point mass, which claims no law.
    With `error` set, all of them are empty.
    """

    prompt: str
    seed: int
    arm: str
    condition: Condition
    ids: tuple[int, ...] = ()
    committed: tuple[int, ...] = ()
    blocks: tuple[tuple[tuple[int, ...], ...], ...] = ()
    confidence: tuple[tuple[float, ...], ...] = ()
    places: tuple[tuple[float, ...], ...] = ()
    error: str | None = None
    turn: int = 1


Against = Literal["generate", "unstamped"]


@dataclass(frozen=True, slots=True)
class Control:
    """One request run two ways in turn, to check the measuring itself; both warmed up.

    generate: direct beside transformers' own greedy generation. unstamped: an arm as measured beside itself without
    stage times. `latency_s` and `tokens` are the arm's, those named `control` of the other way. With `reason` set
    nothing was measured.
    """

    against: Against
    prompt: str
    arm: str
    latency_s: Seconds | None = None
    control_s: Seconds | None = None
    tokens: int | None = None
    control_tokens: int | None = None
    same_ids: bool | None = None
    reason: str | None = None


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
    candidates: int | None = None  # M drafts per step; None: one
    nodes: int | None = None  # budget of the tree that is verified; None: no tree is grown
    compiled: tuple[str, ...] = ()  # of target, drafter, refiner: those whose steps are compiled


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
    batches: tuple[tuple[str, ...], ...] = ()  # prompts that are decoded together, everywhere; none at batch size 1
    schema: int = SCHEMA

    @property
    def rows(self) -> int:
        """Requests decoded together."""
        return len(self.batches[0]) if self.batches else 1


@dataclass(frozen=True, slots=True)
class Launch:
    """A mark: the timed requests of an attempt at a launch start here, have ended or are void, or it was lost.

    What is measured between its marks belongs to the attempt. One that did not end is partial, and resuming the run
    makes another: the last attempt at a launch counts (`counting`), a void one never does. Where and when stand on the
    first mark, and why there was a void attempt before. `reason` of the last mark: what disturbed or ended the attempt.
    """

    launch: int
    event: Literal["started", "ended", "void", "lost"]
    at_utc: str
    sitting: int  # 0: the command that began the run; one more each time it was resumed
    # Started: as in the header, with `versions`, `git`, and `cooled_s` waited for a cooler board. Then: `after`.
    machine: dict[str, Any] = field(default_factory=dict)
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Footer:
    """Counts of all cells that count, and the seconds that the command which closed the run took."""

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
    traces: tuple[Trace, ...] = ()
    controls: tuple[Control, ...] = ()
    launches: tuple[Launch, ...] = ()  # marks of the attempts that count; none in older journals


def first_difference(ours: Sequence[object], theirs: Sequence[object]) -> int | None:
    """First index at which two outputs differ, the shorter length if one is a prefix of the other; None if equal."""
    return next((i for i, (a, b) in enumerate(zip_longest(ours, theirs)) if a != b), None)
