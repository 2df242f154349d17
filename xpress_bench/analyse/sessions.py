"""A session against the accepted sessions of the same machine, where the old code cannot run beside the new one (C.6).

Sessions drift more than pairs, so this finds less. It refuses rather than guesses: too few sessions, another machine,
or sessions that differ among themselves by more than what is to be found are all inconclusive.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from scipy import stats

from xpress_bench.analyse.gate import Check, Design, Outcome, limit_check
from xpress_bench.analyse.pairing import latencies, over_direct, tokens_per_step
from xpress_bench.analyse.reduce import select
from xpress_bench.errors import UsageError
from xpress_bench.records import Run

LEAST = 5  # sessions: with fewer the spread between them is a guess
_VERSIONS = ("torch", "transformers", "driver")


@dataclass(frozen=True, slots=True)
class Session:
    """What is kept of an accepted run. Times are geometric means over prompts, in seconds or as a ratio to direct.

    machine: the hard keys of the fingerprint, None if the run had none; other: what else must be the same.
    """

    created_utc: str
    commit: str | None
    machine: dict[str, Any] | None
    other: dict[str, Any]
    times: dict[str, float]
    tokens_per_step: dict[str, float]


def session_of(run: Run) -> Session:
    """The session of a complete run without failures. UsageError otherwise: it could not be judged against."""
    if run.footer is None or not run.footer.complete or run.footer.errors or not run.cells:
        raise UsageError(f"{run.folder}: not a complete run without failures, so it is no session")
    times, steps = dict[str, float](), dict[str, float]()
    for condition in run.header.conditions:
        by_arm = latencies(run, condition)
        logs = {arm: fmean(map(math.log, seconds.values())) for arm, seconds in by_arm.items() if seconds}
        times |= {f"{name}, {condition}": math.exp(value) for name, value in over_direct(logs)}
        for arm in logs:
            per_step = tokens_per_step(select(run, condition).of(arm))
            if per_step is not None:
                steps[f"tokens per step of {arm}, {condition}"] = per_step
    header = run.header
    other = {name: header.versions.get(name) for name in _VERSIONS}
    other |= {name: header.target.get(name) for name in ("dtype", "attention")}
    other |= {"settings": header.settings_sha256, "suite": header.suite.get("sha256")}
    return Session(header.created_utc, header.git.get("commit"), header.machine.get("hard"), other, times, steps)


def read_sessions(file: Path) -> list[Session]:
    """The sessions of one file, oldest first. UsageError naming the line that is none, or holds no usable number."""
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            session = Session(**json.loads(line))
            for name, value in (*session.times.items(), *session.tokens_per_step.items()):
                if type(value) not in (int, float) or not math.isfinite(value) or value <= 0:
                    raise ValueError(f"{name} is {value!r}")
        except (ValueError, TypeError, AttributeError) as error:
            raise UsageError(f"{file}, line {number}: not a session ({error})") from error
        found.append(session)
    if not found:
        raise UsageError(f"{file}: holds no sessions, 0 compared")
    return found


def append_session(session: Session, file: Path) -> None:
    """Add one session to its file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(asdict(session), allow_nan=False) + "\n")


def session_checks(stored: Sequence[Session], now: Session, design: Design, drop: float) -> Iterator[Check]:
    """Every time of the session against those of the same machine and settings; acceptance against the last of any."""
    same = [one for one in stored if one.machine == now.machine and one.other == now.other]
    remarks = _remarks(stored, now, len(same))
    for name in now.times:
        values = [one.times[name] for one in same if name in one.times]
        yield _judged(name, values, now.times[name], len(now.times), design, remarks)
    missing = sorted({name for one in same for name in one.times} - now.times.keys())
    if missing:
        yield Check("wall time", "missing", "regression", len(missing), "not in this run", tuple(missing))
    like = [one for one in stored if all(one.other.get(key) == now.other[key] for key in ("settings", "suite"))]
    for name, value in (like[-1].tokens_per_step if like else {}).items():
        yield limit_check("acceptance", name, value, now.tokens_per_step.get(name), drop, lower_is_better=False)


def _judged(
    name: str, stored: Sequence[float], now: float, tests: int, design: Design, remarks: tuple[str, ...]
) -> Check:
    k = len(stored)
    if k < LEAST:
        text = f"{k} accepted sessions like this one, {LEAST} needed; nothing is compared"
        return Check("wall time", name, "inconclusive", 0, text, remarks)
    logs = [math.log(value) for value in stored]
    change, scale = math.log(now) - fmean(logs), stdev(logs) * math.sqrt(1 + 1 / k)
    slow_down = math.expm1(change)
    if scale <= 1e-12:
        p, upper = (0.0 if change > 0 else 1.0), slow_down
    else:
        p = float(stats.t.sf(change / scale, k - 1))
        upper = math.expm1(change + scale * float(stats.t.ppf(design.excluded, k - 1)))
    slower = p < design.alpha / tests and slow_down > design.floor
    outcome: Outcome = "regression" if slower else "pass" if upper < design.slow_down else "inconclusive"
    notes = list(remarks)
    if outcome == "inconclusive":
        notes.append(
            f"sessions differ by {stdev(logs):.1%} among themselves, too much to exclude a slow-down of "
            f"{design.slow_down:.0%}; run both versions in one job: gate --against REVISION"
        )
    if slow_down < -design.floor and outcome == "pass":
        notes.append(f"{-slow_down:.1%} faster than the baseline, refresh it: gate --stored --record")
    text = f"{slow_down:+.2%}, at most {upper:+.2%}, p {p:.2g} (against {k} sessions)"
    return Check("wall time", name, outcome, k, text, tuple(notes))


def _remarks(stored: Sequence[Session], now: Session, same: int) -> tuple[str, ...]:
    """Why stored sessions were left out."""
    if same == len(stored):
        return ()
    nameless = sum(one.machine is None for one in stored)
    notes = [f"{nameless} sessions without a machine were left out"] if nameless else []
    others = [one for one in stored if one.machine is not None and (one.machine, one.other) != (now.machine, now.other)]
    if others:
        last = others[-1]
        keys = [*_differing(last.machine or {}, now.machine or {}), *_differing(last.other, now.other)]
        notes.append(
            f"{len(others)} sessions of other machines or settings were left out; the last differs in {', '.join(keys)}"
        )
    return tuple(notes)


def _differing(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    return [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
