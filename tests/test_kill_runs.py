"""Real processes and real signals: a short form of scripts/kill_runs.py, and Ctrl-C on a run with launches."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import rig

from xpress_bench.journals import read_run
from xpress_bench.records import JOURNAL

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parent.parent / "scripts" / "kill_runs.py"
RUN = (sys.executable, "-m", "xpress_bench")
TOY = "--target toy --drafter toy --refiner none --device cpu memory=false trace=0 launches=2 repeats=20"


def test_killed_runs_are_resumed_without_loss() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "3", "1"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 runs with a fault" in done.stdout


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_reaches_a_launch_and_the_run_goes_on_later(tmp_path: Path, times: int) -> None:
    """As a terminal does it: to the whole group. Once: the report so far; twice: at once."""
    words = [*TOY.split(), "--suite", str(rig.suite(tmp_path, "one", "and two")), "--out", str(tmp_path / "runs")]
    process = subprocess.Popen([*RUN, *words], stdout=subprocess.PIPE, text=True, start_new_session=True)
    while not sum(file.stat().st_size for file in tmp_path.glob(f"runs/*/{JOURNAL}")) > 30_000:
        assert process.poll() is None
        time.sleep(0.01)
    for _ in range(times):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.05)
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert ("did not finish" in shown) == (times == 1)
    (folder,) = (tmp_path / "runs").iterdir()
    run = read_run(folder)
    assert run.footer is not None
    assert not run.footer.complete
    assert 0 < len(run.cells) == run.footer.cells
    again = subprocess.run([*RUN, "--resume", folder, *words], capture_output=True, text=True, timeout=120)
    assert again.returncode == 0, again.stderr
    assert f"launch 1 of 2 was partial: {len(run.cells)} of 240 requests are measured again" in again.stderr
    whole = read_run(folder)
    assert len(whole.cells) == 480
    assert len({(c.launch, c.prompt, c.seed, c.arm, c.repeat) for c in whole.cells}) == 480
