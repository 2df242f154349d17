"""Base and candidate launched in turn, each launch a fresh process: what the wall-time gate is made of.

Both sides run the same command line. They differ by the checkout that is put before all else on the module path, and
by the interpreter if one is given. The journal is the only thing that comes back.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from xpress_bench.analyse.admission import disturbed
from xpress_bench.analyse.gate import Check, Design, Outcome, timing, timing_check
from xpress_bench.analyse.pairing import log_ratios, memory_checks, quality_checks, same_work
from xpress_bench.errors import RunError, UsageError
from xpress_bench.journals import read_run
from xpress_bench.measure.progress import Progress, progress_for
from xpress_bench.records import Run


@dataclass(frozen=True, slots=True)
class Limits:
    """By how much acceptance may drop and peak memory rise, as shares."""

    acceptance_drop: float
    memory_rise: float


@dataclass(frozen=True, slots=True)
class Side:
    """Who runs: `name` base or candidate, the interpreter, the checkout whose packages it takes, what it is to run."""

    name: str
    python: str
    tree: Path | None
    program: tuple[str, ...] = ("-m", "xpress_bench")

    def launch(self, words: Sequence[str], out: Path) -> Run:
        """Run `xpress-bench WORDS` once in a new process; requests that failed are in the journal.

        RunError with the last line it printed if it left no journal, UsageError if it refuses the words.
        """
        out.mkdir(parents=True, exist_ok=True)
        command = [self.python, *self.program, *words, "--out", str(out)]
        done = subprocess.run(
            command, check=False, env=self._environment(), capture_output=True, encoding="utf-8", errors="replace"
        )
        folders = [folder for folder in out.iterdir() if folder.is_dir()]
        if len(folders) != 1:
            told = (done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2]
            if done.returncode == UsageError.exit_code:
                raise UsageError(f"the {self.name} refuses this command: {told.removeprefix('xpress-bench: ')}")
            raise RunError(f"the {self.name} did not run (status {done.returncode}): {told}")
        return read_run(folders[0])

    def _environment(self) -> dict[str, str]:
        own = [str(self.tree), str(self.tree / "src")] if self.tree else []
        paths = os.pathsep.join(filter(None, [*own, os.environ.get("PYTHONPATH", "")]))
        # Safe path: the working folder must not decide which checkout is run, by the launch or by its own children.
        return dict(os.environ) | {"PYTHONPATH": paths, "PYTHONSAFEPATH": "1"}


def launch_pairs(
    base: Side, candidate: Side, words: Sequence[str], pairs: int, seed: int, progress: Progress, *, memory: bool
) -> Iterator[tuple[Run, Run]]:
    """`pairs` times (base, candidate), which of the two goes first balanced and drawn by `seed`.

    `memory` measures peaks in the first pair. A pair in which a launch is void is made once more. The run folders are
    gone when the iterator is done.
    """
    base_first = [True] * (pairs - pairs // 2) + [False] * (pairs // 2)
    random.Random(f"gate/{seed}").shuffle(base_first)
    with tempfile.TemporaryDirectory() as scratch:
        for index, first in enumerate(base_first):
            progress(index, pairs, f"pair {index + 1} of {pairs}")
            more = ("launches=1", f"memory={str(memory and index == 0).lower()}")
            yield _pair(base, candidate, (*words, *more), first, Path(scratch) / str(index))
    progress(pairs, pairs, "")


def _pair(base: Side, candidate: Side, words: Sequence[str], base_first: bool, scratch: Path) -> tuple[Run, Run]:
    for attempt in range(2):
        runs: dict[str, Run] = {}
        for side in (base, candidate) if base_first else (candidate, base):
            runs[side.name] = side.launch(words, scratch / f"{side.name}-{attempt}")
        reasons = [f"{name}: {reason}" for name, run in runs.items() if (reason := void(run))]
        if not reasons:
            return runs[base.name], runs[candidate.name]
        shutil.rmtree(scratch)
    raise RunError(f"a pair of launches was void twice ({'; '.join(reasons)}); this machine can judge no time now")


def void(run: Run) -> str | None:
    """Why a launch can not be judged, None if it can."""
    if run.footer is None or not run.footer.complete:
        return "its journal is not complete"
    return next(iter(disturbed(run.launches).values()), None)


def paired_checks(
    base: Side, candidate: Side, words: Sequence[str], design: Design, limits: Limits | None, commit: str | None = None
) -> Iterator[Check]:
    """Launch both sides in turn and judge every metric; a first alarm is confirmed on as many fresh pairs.

    `limits` None judges wall time alone. `commit`: what the base has to have run, where it can say so.
    """

    def launched(seed: int) -> list[tuple[Run, Run]]:
        with progress_for(f"gate, {'first' if seed == 0 else 'fresh'} pairs") as progress:
            memory = limits is not None and seed == 0
            return list(launch_pairs(base, candidate, words, design.pairs, seed, progress, memory=memory))

    try:
        pairs = launched(0)
        yield same_work(*pairs[0])
        ran = pairs[0][0].header.git.get("commit")
        if commit and ran and ran != commit and _is_ours(base):
            yield Check("wall time", "base", "broken", 0, f"the base ran commit {ran[:12]}, not {commit[:12]}")
            return
        logs = log_ratios(pairs)
        first = {name: timing(values, len(logs), design) for name, values in logs.items()}
        alarms = [name for name, one in first.items() if one.outcome == "regression"]
        fresh = log_ratios(launched(1)) if alarms else {}
        for name, one in first.items():
            again = timing(fresh[name], len(logs), design) if name in alarms else None
            yield timing_check(name, one, again, design)
        if limits:
            yield from quality_checks(*pairs[0], limits.acceptance_drop)
            yield from memory_checks(*pairs[0], limits.memory_rise)
    except RunError as error:
        outcome: Outcome = "regression" if str(error).startswith(f"the {candidate.name}") else "broken"
        if "void twice" in str(error):
            outcome = "inconclusive"
        yield Check("wall time", "launches", outcome, 0, "a launch could not be judged", (str(error),))


def _is_ours(base: Side) -> bool:
    """Whether the base's checkout holds xpress-bench itself, and not a plug-in for it."""
    return base.tree is not None and (base.tree / "xpress_bench").is_dir()


@contextmanager
def checkout(revision: str, repository: Path) -> Iterator[tuple[Path, str]]:
    """A worktree of `revision` and its full commit id; removed afterwards. UsageError if git does not know it."""
    top = top_of(repository)
    commit = _git(top, "rev-parse", "--verify", f"{revision}^{{commit}}", wrong=f"--against {revision!r}")
    folder = Path(tempfile.mkdtemp(prefix="xpress-bench-base-"))
    try:
        _git(top, "worktree", "add", "--detach", "--force", str(folder), commit, wrong=f"no worktree of {revision!r}")
        yield folder, commit
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(folder)], cwd=top, check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


def top_of(repository: Path) -> Path:
    """The root of the checkout that `repository` lies in. UsageError outside one."""
    return Path(_git(repository, "rev-parse", "--show-toplevel", wrong="a base comes from a git checkout"))


def _git(folder: Path, *arguments: str, wrong: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, encoding="utf-8")
    except FileNotFoundError as error:
        raise UsageError(f"{wrong}: git is not installed") from error
    except subprocess.CalledProcessError as error:
        told = error.stderr.strip().splitlines() or ["git failed"]
        raise UsageError(f"{wrong}: {told[0]}") from error
    return done.stdout.strip()
