"""Kill runs with SIGKILL at random moments, resume each until it is complete, and count what was lost.

    python scripts/kill_runs.py [RUNS] [SEED]

A run has two launches of the toy models under three conditions, and is killed once or twice: the command alone, a
launch alone, or all at once, at a moment drawn from the growth of the journal or from the clock. It must end with the
cells of a run that nobody touched, each once, with the same ids and counts; what stood in the journal at a kill must
still stand there, byte for byte; and launches that had ended must keep their timings. Status 1 if a run does not.

Commands and launches are forked from this process, which has loaded everything: started afresh they would spend nine
tenths of their time on imports, and so would the kills.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from multiprocessing.context import ForkProcess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from xpress_bench import cli
from xpress_bench.errors import UsageError
from xpress_bench.journals import read_run
from xpress_bench.measure import launch, runner
from xpress_bench.records import JOURNAL, Cell, Run

FLAGS = "--target toy --drafter toy --refiner none --device cpu --temperature 0,1 --verifier coupled,rejection"
SETTINGS = "launches=2 max_new_tokens=64 memory=false trace=0 threads=1"
PROMPTS = ("What is one?", "Tell me about two things.", "Three", "And at last, what comes after the third of them?")
BUSY = "another process is measuring"  # what a launch that outlives its command makes the next command say
LIMIT_S = 120.0  # for one command; beyond it, it hangs
VICTIMS = {"command": "the command", "launch": "a launch", "all": "all", "ended": "none, it had ended"}
FORK = multiprocessing.get_context("fork")
Counted = dict[tuple[Any, ...], tuple[Any, ...]]  # which cell -> what is the same on every machine


@dataclass
class Trial:
    """One run, and what happened to it."""

    out: Path
    rng: random.Random
    log: list[str] = field(default_factory=list)

    def start(self) -> ForkProcess:
        """The command that begins the run or, if there is something to resume, goes on with it."""
        folder = self.folder()
        words = ["--resume", str(folder)] if folder else [*FLAGS.split(), *SETTINGS.split()]
        if not folder:
            words += ["--suite", str(self.out.parent / "suite.jsonl"), "--out", str(self.out)]
        process = FORK.Process(target=command, args=(words, self.told()))
        process.start()
        return process

    def finish(self) -> int | None:
        """Start, again while a launch of a killed command still ends its request, and wait; the exit status."""
        until = time.monotonic() + LIMIT_S
        while True:
            process = self.start()
            process.join(LIMIT_S)
            if BUSY not in self.told().read_text() or time.monotonic() > until:
                return process.exitcode
            time.sleep(0.01)

    def kill(self, process: ForkProcess, bytes_: int, time_s: float) -> None:
        """SIGKILL at a random moment of a run that takes so many bytes and seconds."""
        victim = self.rng.choice(("command", "launch", "all"))
        by_clock = self.rng.random() < 0.25
        until = time.monotonic() + (self.rng.uniform(0, time_s) if by_clock else LIMIT_S)
        size = self.size() + self.rng.uniform(0, bytes_)
        while process.is_alive() and time.monotonic() < until and self.size() < size:
            time.sleep(0.0005)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        launched = [int(pid) for pid in children.read_text().split()] if process.is_alive() else []
        self.log.append(f"{victim} at {self.size()} bytes" if process.is_alive() else "ended before its kill")
        for pid in {"command": [], "launch": launched, "all": launched}[victim]:
            os.kill(pid, signal.SIGKILL)
        if victim != "launch" or not launched:
            process.kill()
        process.join(LIMIT_S)

    def folder(self) -> Path | None:
        return next((file.parent for file in self.out.glob("*/settings.json")), None)

    def told(self) -> Path:
        return self.out.with_suffix(".stderr")

    def journal(self) -> bytes:
        file = (self.folder() or self.out) / JOURNAL
        return file.read_bytes() if file.exists() else b""

    def size(self) -> int:
        file = (self.folder() or self.out) / JOURNAL
        return file.stat().st_size if file.exists() else 0

    def read(self) -> Run | None:
        try:
            return read_run(self.folder() or self.out)
        except UsageError:  # nothing is written yet
            return None


def command(words: list[str], told: Path) -> None:
    """A command line in a process of its own, whose launches are forked too."""
    runner.subprocess = SimpleNamespace(run=forked, PIPE=subprocess.PIPE)  # type: ignore[assignment]
    with told.open("w") as err, Path(os.devnull).open("w") as out, redirect_stderr(err), redirect_stdout(out):
        status = cli.main(words)
    sys.exit(status)


def forked(words: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
    """Stands for `subprocess.run` of `python -m xpress_bench.measure.launch`."""
    sys.argv = words[2:]
    process = FORK.Process(target=lambda: sys.exit(launch.main()))
    process.start()
    process.join()
    return subprocess.CompletedProcess(words, process.exitcode or 0, "")


def tried(trial: Trial, bytes_: int, time_s: float, wanted: Counted) -> list[str]:
    """Kill and resume one run; everything that is not as it must be."""
    held: list[tuple[bytes, list[Cell]]] = []
    for _ in range(trial.rng.choice((1, 2))):
        trial.kill(trial.start(), bytes_, time_s)
        written = trial.journal()
        held.append((written[: written.rfind(b"\n") + 1], ended(trial.read())))
    status, run = trial.finish(), trial.read()
    if run is None or run.footer is None or not run.footer.complete or status:
        return [f"status {status}, not complete: {trial.told().read_text()[-300:]}"]
    faults = []
    if len(run.cells) != len(wanted) or counted(run) != wanted:
        faults.append(f"{len(wanted.keys() - counted(run).keys())} lost, {len(run.cells) - len(counted(run))} doubled")
    if not all(trial.journal().startswith(before) for before, _ in held):
        faults.append("the journal was rewritten")
    if not all(cell in run.cells for _, cells in held for cell in cells):
        faults.append("a launch that had ended was measured again")
    return faults


def ended(run: Run | None) -> list[Cell]:
    """Cells of the launches that ended."""
    done = {mark.launch for mark in run.launches if mark.event == "ended"} if run else set()
    return [cell for cell in run.cells if cell.launch in done] if run else []


def counted(run: Run) -> Counted:
    return {
        (cell.launch, cell.condition, cell.prompt, cell.seed, cell.arm, cell.repeat): (
            (cell.ids, cell.stop_reason, cell.steps.offered, cell.steps.accepted, cell.steps.committed)
        )
        for cell in run.cells
    }


def main() -> int:
    runs, seed = (*map(int, sys.argv[1:]), *(100, 0)[len(sys.argv) - 1 :])
    tally: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as work:
        suite = Path(work) / "suite.jsonl"
        suite.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in PROMPTS), encoding="utf-8")
        untouched, began = Trial(Path(work) / "untouched", random.Random(seed)), time.monotonic()
        untouched.finish()
        whole, time_s = untouched.read(), time.monotonic() - began
        if whole is None:
            sys.exit(f"no run to compare with: {untouched.told().read_text()}")
        for number in range(1, runs + 1):
            trial = Trial(Path(work) / f"run-{number}", random.Random(f"{seed}/{number}"))
            faults = tried(trial, untouched.size(), time_s, counted(whole))
            tally.update(event.partition(" ")[0] for event in trial.log)
            tally["faults"] += bool(faults)
            print(f"run {number}: {', '.join(trial.log)}: {'; '.join(faults) or 'complete'}", flush=True)
    kills = ", ".join(f"{tally[victim]} of {what}" for victim, what in VICTIMS.items())
    print(f"{runs} runs of {len(whole.cells)} cells, seed {seed}, kills: {kills}; {tally['faults']} runs with a fault")
    return 1 if tally["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
