"""How often does the wall-time gate cry wolf, and how often does it miss? Whole gates, on this machine, now.

    OMP_NUM_THREADS=1 python scripts/gate_trials.py --equal 40 --slower 20 --pairs 5 --log trials.jsonl

Equal gates compare this checkout with itself; slower ones plant the slow-down that the gate promises to see into the
refiner. Each gate is a line of the log, appended: run again, it goes on where it stopped. At the end stand the tallies
and, from the spread between pairs that was seen, the false alarms and misses of the full design by simulation.

A launch is a fork of a process that has imported everything and loaded nothing: imports are half of a short launch.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from xpress_bench.analyse.gate import Check, Design, outcome_of, timing, timing_check
from xpress_bench.cli import main as xpress_bench
from xpress_bench.journals import read_run
from xpress_bench.measure import runner  # noqa: F401  the imports that a launch is spared
from xpress_bench.measure.paired import Side, paired_checks
from xpress_bench.measure.planted import slow
from xpress_bench.records import Run

WORDS = "--suite short limit=3 seeds=[0] repeats=4 max_new_tokens=16 threads=1 trace=0".split()
SIMULATED = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--equal", type=int, default=40)
    parser.add_argument("--slower", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--log", type=Path, default=Path("gate_trials.jsonl"))
    parser.add_argument("words", nargs="*", default=WORDS)
    options = parser.parse_args()
    design = Design(pairs=options.pairs)
    done = [json.loads(line) for line in options.log.read_text().splitlines()] if options.log.exists() else []
    # Alternating, so that a change of the machine's mood meets both kinds.
    kinds = [kind for i in range(max(options.equal, options.slower)) for kind in _due(i, options)]
    for kind in kinds[len(done) :]:
        checks = gate(kind, options.words, design)
        done.append(
            {
                "kind": kind,
                "pairs": options.pairs,
                "outcome": outcome_of(checks),
                "said": {check.name: check.outcome for check in checks},
                "values": {check.name: check.values for check in checks if check.values},
                "details": [text for check in checks for text in check.details],
            }
        )
        with options.log.open("a") as out:
            out.write(json.dumps(done[-1]) + "\n")
        print(f"{len(done)}/{len(kinds)} {kind}: {done[-1]['outcome']}", flush=True)
    report(done)


def _due(index: int, options: argparse.Namespace) -> list[str]:
    return ["equal"] * (index < options.equal) + ["slower"] * (index < options.slower)


@dataclass(frozen=True, slots=True)
class Forked(Side):
    """A side whose launches are forks of this process, slower by `share`."""

    share: float = 0.0

    def launch(self, words: Sequence[str], out: Path) -> Run:
        out.mkdir(parents=True)
        child = os.fork()
        if not child:
            status = 1
            with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
                with slow(self.share, refining=True) if self.share else nullcontext():
                    status = xpress_bench([*words, "--out", str(out)])
                os._exit(status)
        os.waitpid(child, 0)
        return read_run(next(out.iterdir()))


def gate(kind: str, words: list[str], design: Design) -> list[Check]:
    """One whole gate, confirmation included."""
    share = 0.0 if kind == "equal" else design.slow_down
    sides = Forked("base", sys.executable, None), Forked("candidate", sys.executable, None, share=share)
    return list(paired_checks(*sides, words, design, limits=None))


def report(done: list[dict[str, object]]) -> None:
    for kind in ("equal", "slower"):
        outcomes = [one["outcome"] for one in done if one["kind"] == kind]
        print(kind, {name: outcomes.count(name) for name in sorted(set(map(str, outcomes)))})
    spreads = {}
    for name in done[0]["values"]:  # type: ignore[attr-defined]
        sds = [np.std(one["values"][name], ddof=1) for one in done if name in one["values"]]  # type: ignore[index]
        spreads[name] = float(np.sqrt(np.mean(np.square(sds))))
        print(f"sd between pairs, {name}: {spreads[name]:.2%} (median gate {np.median(sds):.2%})")
    for pairs in (10, 20):
        for slow_down in (0.0, 0.05):
            print(f"{pairs} pairs, {slow_down:.0%} slower: {simulated(list(spreads.values()), pairs, slow_down)}")


def simulated(spreads: list[float], pairs: int, slow_down: float) -> dict[str, float]:
    """Share of each outcome of whole gates; the last metric, the refiner's, is the slower one."""
    rng, design = np.random.default_rng(0), Design(pairs=pairs)
    outcomes = []
    for _ in range(SIMULATED):
        checks = []
        for at, sd in enumerate(spreads):
            mean = math.log1p(slow_down) if at == len(spreads) - 1 else 0.0
            first, fresh = (timing(rng.normal(mean, sd, pairs).tolist(), len(spreads), design) for _ in range(2))
            checks.append(timing_check("x", first, fresh if first.outcome == "regression" else None, design))
        outcomes.append(outcome_of(checks))
    return {name: outcomes.count(name) / SIMULATED for name in ("pass", "inconclusive", "regression")}


if __name__ == "__main__":
    main()
