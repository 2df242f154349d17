"""The jobs of a sweep: given to a launcher, watched, and taken from earlier work where only counts are wanted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from xpress_bench.analyse.streaming import read_reduced
from xpress_bench.analyse.sweep_plan import ENDED, ended
from xpress_bench.errors import XpressError
from xpress_bench.measure.job import Order
from xpress_bench.measure.journal import header_of, write_whole
from xpress_bench.records import JOURNAL, Header

LOOK_EVERY_S = 0.2
SHOWN_AFTER_S = 60.0  # at most, until a file that another machine wrote is seen here (NFS keeps what it knew)
LOG = "launcher.log"
Say = Callable[[str], None]


def carry_out(orders: Sequence[Order], command: Sequence[str], folder: Path, say: Say) -> None:
    """Run `command`, which starts the jobs, until it ends. A job that has not ended by then is told; none raises."""
    for order in orders:
        order.write()
    waiting = [order.name for order in orders]
    with (folder / LOG).open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            while process.poll() is None:
                waiting = _told(folder, waiting, len(orders), say)
                time.sleep(LOOK_EVERY_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)  # also what it left behind: its session is its own
            process.wait()
    shown_by = time.monotonic() + (SHOWN_AFTER_S if process.returncode == 0 else 0)
    while (waiting := _told(folder, waiting, len(orders), say)) and time.monotonic() < shown_by:
        time.sleep(LOOK_EVERY_S)
    if waiting:
        say(f"{', '.join(waiting)}: not ended, the launcher did with status {process.returncode}; see {folder / LOG}")


def _told(folder: Path, waiting: Sequence[str], jobs: int, say: Say) -> list[str]:
    """Say which jobs have ended; returns those that have not."""
    left = list(waiting)
    for name in waiting:
        if (how := ended(folder, name)) is not None:
            left.remove(name)
            say(f"{jobs - len(left)} of {jobs} jobs ended: {name}{f' failed: {how}' if how else ''}")
    return left


def take(order: Order, like: Header, out: Path) -> Path | None:
    """Take the counts of a whole run of the same settings hash that is in the sweep or beside it; returns that run.

    None if there is none with the suite, weights, versions and code of the run `like`. Only for jobs that count: what
    they say does not depend on when.
    """
    sweep = Path(order.settings.out)
    for journal in chain(sweep.glob(f"*/{JOURNAL}"), out.glob(f"*/{JOURNAL}"), out.glob(f"*/*/{JOURNAL}")):
        found = journal.parent
        with suppress(XpressError):
            if found.name != order.name and _counted(found, order, like, own=found.parent == sweep):
                order.write()
                shutil.copytree(found, sweep / order.name, dirs_exist_ok=True)
                write_whole(order.file.with_suffix(f".{ENDED}"), "")
                return found
    return None


def _counted(found: Path, order: Order, like: Header, own: bool) -> bool:
    header = header_of(found)
    if header is None or header.settings_sha256 != order.settings.sha256() or _work(header) != _work(like):
        return False
    if header.git.get("dirty") and not own:  # two states that are in no commit cannot be told apart
        return False
    run = read_reduced(found)
    return run.footer is not None and run.footer.complete and not run.footer.errors


def _work(header: Header) -> list[object]:
    checkpoints = {arm.name: arm.checkpoints for arm in header.arms}
    return [header.suite["sha256"], header.target, header.versions, header.git, checkpoints]
