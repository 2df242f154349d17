"""What the leaderboard shows of submissions: their rows, and the rank of each among those it can be compared with."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from xpress_bench.analyse.board import MIN_LAUNCHES, MIN_PROMPTS
from xpress_bench.analyse.digits import NONE, shown
from xpress_bench.analyse.intervals import Interval, Measure, Unknown
from xpress_bench.analyse.knee import STAGES
from xpress_bench.analyse.parity import Parity
from xpress_bench.analyse.ranking import ranks
from xpress_bench.analyse.reduce import pair, select
from xpress_bench.analyse.summary import DIRECT, ArmSummary, ConditionSummary, by
from xpress_bench.analyse.verdict import described
from xpress_bench.publish.checks.submission import Submission
from xpress_bench.publish.lines import count, printable
from xpress_bench.publish.page import Page, page
from xpress_bench.records import Header, Memory

LOCAL = ("run", "next")  # lines of a page that are about the submitter's own folder
Span = tuple[float, float, float]  # estimate, low, high


@dataclass(frozen=True, slots=True, order=True)
class Board:
    """What rows have to share to be ranked: suite, way of sampling, target, and the kind of machine."""

    suite: str
    condition: str
    target: str
    machine: str
    sha256: str  # of suite and target: names can mislead

    @property
    def anchor(self) -> str:
        """A name for links, the same on every build."""
        return f"board-{hashlib.sha256(repr(self).encode()).hexdigest()[:10]}"


@dataclass(frozen=True, slots=True)
class Badge:
    """A level that a row has reached or not: `tone` is good, bad or open."""

    label: str
    value: str
    tone: str


@dataclass(frozen=True, slots=True)
class Row:
    """An arm of a submission under a condition, in text, with what its rank is made of.

    span: speed-up over direct. logs: its logarithm by prompt. accepted: by draft position, the share of verify steps
    that accepted so many. stages_ms: of a verify step. unranked: why it has no rank, None if it has one.
    """

    board: Board
    arm: str
    speed_up: str
    span: Span | None
    tokens_per_step: str
    latency_ms: str
    peak_mib: str
    identical: str
    score: str
    badges: tuple[Badge, ...]
    unranked: str | None
    logs: dict[str, float]
    accepted: tuple[Span, ...]
    stages_ms: dict[str, float]


@dataclass(frozen=True, slots=True)
class Entry:
    """A submission as the site needs it, without its journal. `measured`: the day, UTC."""

    name: str
    contact: str | None
    url: str | None
    measured: str
    package: str
    commit: str | None
    argv: tuple[str, ...]
    journal_sha256: str
    page: Page
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """A row in its board. `rank` is None where the row says why."""

    entry: Entry
    row: Row
    rank: int | None


def entry_of(submission: Submission, journal_sha256: str) -> Entry:
    """What the site shows of an admitted submission."""
    run, declaration = submission.run, submission.declaration
    header = run.header
    groups = by(run, submission.suite.items if submission.suite else (), header.suite["report_by"] or "source_id")
    content = page(submission.summary, groups)
    return Entry(
        declaration.name,
        printable(declaration.contact) if declaration.contact else None,
        declaration.url,
        header.created_utc[:10],
        printable(header.versions.get("xpress-bench") or NONE),
        header.git["commit"],
        tuple(map(printable, header.argv)),
        journal_sha256,
        Page(content.title, content.sections, tuple(line for line in content.lines if line[0] not in LOCAL)),
        tuple(_rows(submission)),
    )


def boards(entries: Iterable[Entry]) -> dict[Board, list[Standing]]:
    """Every board with its rows: those with a rank first, the best on top; then the others, named with their reason."""
    found: defaultdict[Board, list[tuple[Entry, Row]]] = defaultdict(list)
    for entry in entries:
        for row in entry.rows:
            found[row.board].append((entry, row))
    return {board: _standings(found[board]) for board in sorted(found)}


def _standings(rows: list[tuple[Entry, Row]]) -> list[Standing]:
    rows = sorted(rows, key=lambda one: (one[1].unranked is not None, -_speed(one[1]), one[0].name, one[1].arm))
    placed = ranks([row.logs for _, row in rows if row.unranked is None])
    standings = [Standing(entry, row, rank) for (entry, row), rank in zip(rows, placed, strict=False)]
    standings.sort(key=lambda one: one.rank or 0)  # stable: those who share a rank stay in the order of their speed
    return standings + [Standing(entry, row, None) for entry, row in rows[len(placed) :]]


def _speed(row: Row) -> float:
    return row.span[0] if row.span else 0.0


def _rows(submission: Submission) -> Iterator[Row]:
    run = submission.run
    for of in submission.summary.conditions:
        board, selection = _board(run.header, str(of.condition)), select(run, of.condition).whole()
        for one in of.arms:
            if one.arm.name != DIRECT:
                logs = pair(selection.of(DIRECT), selection.of(one.arm.name)).log_ratios()
                yield _row(board, run.header, of, one, logs)


def _row(board: Board, header: Header, of: ConditionSummary, one: ArmSummary, logs: dict[str, float]) -> Row:
    speed = of.speed_up(one.arm.name)
    ratio: Measure = speed.gmean_paired if speed else Unknown("it was not compared with direct")
    took = one.tokens_per_step
    return Row(
        board,
        printable(described(one.arm)),
        shown(ratio),
        (ratio.estimate, ratio.low, ratio.high) if isinstance(ratio, Interval) else None,
        shown(took),
        shown(one.latency_s, 1e3),
        _peak_mib(one),
        _identical(one),
        shown(one.score),
        tuple(_badges(of, one)),
        _unranked(header, of, one, ratio),
        logs,
        tuple(_ends(share) for share in one.acceptance.accept_marginal_step if share.estimate is not None),
        {} if isinstance(one.stages, Unknown) else {name: getattr(one.stages, f"{name}_s") * 1e3 for name in STAGES},
    )


def _ends(share: Measure) -> Span:
    """A share with its interval; one without an interval has no width."""
    value = share.estimate or 0.0
    return (value, share.low, share.high) if isinstance(share, Interval) else (value, value, value)


def _board(header: Header, condition: str) -> Board:
    suite, target, hard = header.suite, header.target, header.machine["hard"]
    cuda = target["device"].startswith("cuda")
    kind = hard.get("gpu_name") if cuda else f"{hard.get('cpu_model')}, {hard.get('torch_threads')} threads"
    mig = ", MIG" if cuda and hard.get("gpu_mig") else ""
    size = f" ({target['parameters'] / 1e6:,.0f} M)" if target.get("parameters") else ""
    steps = ", compiled" if header.settings.get("compile") else ""
    identity = f"{suite['sha256']} {target.get('weights_sha256') or target['name']}"
    return Board(
        printable(f"{suite['name']} {suite['version']}"),
        condition,
        printable(f"{target['name']}{size}"),
        printable(f"{kind}{mig}, {target['dtype']}{steps}, batch 1"),
        hashlib.sha256(identity.encode()).hexdigest(),
    )


def _unranked(header: Header, of: ConditionSummary, one: ArmSummary, ratio: Measure) -> str | None:
    """The gravest reason: a wrong output before a missing figure before too small a study."""
    parity = one.parity
    if not isinstance(parity, Parity) or parity.outcome != "shown":
        return printable(f"output {parity.reason}" if isinstance(parity, Parity) else parity.reason)
    if not of.levels(one).runs:
        return f"only {of.usable} of {of.expected} requests succeeded"
    if isinstance(ratio, Unknown):
        return ratio.reason
    if ratio.n < MIN_PROMPTS:
        return f"preliminary: {count(ratio.n, 'prompt')}, {MIN_PROMPTS} are needed"
    launches = header.settings["launches"]
    return f"preliminary: {count(launches, 'launch')}, {MIN_LAUNCHES} are needed" if launches < MIN_LAUNCHES else None


def _badges(of: ConditionSummary, one: ArmSummary) -> Iterator[Badge]:
    levels = of.levels(one)
    tones: Mapping[str, str] = {"shown": "good", "refuted": "bad", "faster": "good", "slower": "bad"}
    yield Badge("runs", "yes" if levels.runs else "no", "good" if levels.runs else "bad")
    yield Badge("same output", levels.quality, tones.get(levels.quality, "open"))
    yield Badge("speed", levels.latency, tones.get(levels.latency, "open"))
    yield Badge("stable", "yes" if levels.stable else "no", "good" if levels.stable else "bad")


def _peak_mib(one: ArmSummary) -> str:
    known = isinstance(one.memory, Memory) and one.memory.peak_bytes
    return f"{known / 2**20:.0f}" if known else NONE


def _identical(one: ArmSummary) -> str:
    share = one.parity.identical if isinstance(one.parity, Parity) else one.parity
    return f"{round(share.estimate * share.n)}/{share.n}" if isinstance(share, Interval) else NONE
