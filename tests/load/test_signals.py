"""Real processes and real signals: Ctrl-C ends a load run in order, a kill does not lose it, and both go on."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import rig

from xpress_bench.load_records import LOAD, Load, read_load

pytestmark = pytest.mark.slow
LOADING = (sys.executable, "-c", "import sys; from xpress_bench.loading import load; sys.exit(load(sys.argv[1:]))")
TOY = "--target toy --drafter toy --refiner none --device cpu max_new_tokens=16 threads=1 --clients 3 --seconds 4"


def words(folder: Path) -> list[str]:
    return [*TOY.split(), "--suite", str(rig.suite(folder, "one", "and two")), "--out", str(folder / "runs")]


def stopped(folder: Path, by: signal.Signals) -> tuple[int, str, Load]:
    """The exit status, what was printed, and what was written of a load run that got a signal in its second stage."""
    process = subprocess.Popen([*LOADING, *words(folder)], stdout=subprocess.PIPE, text=True)
    while not any(file.read_text().count('"event":"started"') > 1 for file in folder.glob(f"runs/*/{LOAD}")):
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(by)
    told, _ = process.communicate(timeout=60)
    (made,) = (folder / "runs").iterdir()
    return process.returncode, told, read_load(made)


@pytest.mark.parametrize(("by", "status", "event"), [(signal.SIGINT, 130, "stopped"), (signal.SIGKILL, -9, "started")])
def test_a_load_run_that_is_stopped_goes_on_by_the_same_command(
    tmp_path: Path, by: signal.Signals, status: int, event: str
) -> None:
    code, told, before = stopped(tmp_path, by)
    assert code == status
    first, second = before.marks.values()
    assert (first.event, second.event) == ("ended", event)
    if by is signal.SIGINT:
        assert "xpress-bench load --resume" in told
        assert second.asked == len(before.requests[second.unit])
        assert {one.status for one in before.requests[second.unit]} == {"ok", "cut"}
    again = subprocess.run([*LOADING, *words(tmp_path)], capture_output=True, text=True, timeout=120)
    assert again.returncode == 0, again.stderr
    assert "going on with" in again.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    after = read_load(folder)
    assert after.complete
    assert after.requests[first.unit] == before.requests[first.unit]
    for unit, mark in after.marks.items():
        assert [one.index for one in sorted(after.requests[unit], key=lambda one: one.index)] == list(range(mark.asked))
