"""One job of a sweep: `start` in whatever process a launcher gives it, the run in a child of that, by crashes apart.

`python -m xpress_bench.measure.job FILE` is the child. Its last line of output is the reason, should it fail.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from xpress_bench.analyse.sweep_plan import ENDED, JOBS
from xpress_bench.errors import XpressError
from xpress_bench.journals import to_line
from xpress_bench.measure.journal import new_run_folder, write_whole
from xpress_bench.records import JOURNAL
from xpress_bench.settings import Settings

LOOK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Order:
    """What a job has to do: a run of `settings` into `settings.out / name`, as if `words` had been typed in `cwd`.

    counts: without any time, so that it may share the device with others.
    """

    name: str
    settings: Settings
    words: tuple[str, ...]
    counts: bool
    cwd: str

    @property
    def file(self) -> Path:
        """Where the order lies for the job to be read."""
        return Path(self.settings.out) / JOBS / f"{self.name}.json"

    def write(self) -> None:
        """Give the order."""
        self.file.parent.mkdir(exist_ok=True)
        self.file.with_suffix(f".{ENDED}").unlink(missing_ok=True)
        write_whole(self.file, json.dumps(asdict(self), indent=1))

    @classmethod
    def read(cls, file: Path) -> Order:
        """What `write` wrote."""
        body: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        settings = Settings.from_json(json.dumps(body["settings"]))
        return cls(**body | {"settings": settings, "words": tuple(body["words"])})


def start(config: Mapping[str, Any]) -> None:
    """Run the job `config.job` of the sweep in `config.folder`, and write down how it ended. Raises nothing of it."""
    file = Path(config["folder"]) / JOBS / f"{config['job']}.json"
    order, log = Order.read(file), file.with_suffix(".log")
    with alone(order), log.open("w", encoding="utf-8") as out:
        words = [sys.executable, "-m", "xpress_bench.measure.job", str(file)]
        status = subprocess.run(words, cwd=order.cwd, stdout=out, stderr=subprocess.STDOUT, check=False).returncode
    write_whole(file.with_suffix(f".{ENDED}"), _reason(status, log) if status else "")


def _reason(status: int, log: Path) -> str:
    if status < 0:
        return f"it was ended by signal {-status}"
    last = log.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
    return last or f"it ended with status {status}"


@contextmanager
def alone(order: Order) -> Iterator[None]:
    """Wait until no other timed job uses this machine's device; a job that only counts may share it."""
    if order.counts:
        yield
        return
    boards = os.environ.get("CUDA_VISIBLE_DEVICES", "all").replace("/", "-")
    name = f"xpress-bench-{os.getuid()}-{order.settings.device.replace(':', '-')}-{boards}.lock"
    handle = os.open(Path(tempfile.gettempdir()) / name, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def stop_with_parent(stop: Callable[[], None]) -> None:
    """From now on call `stop` once the process that started this one is gone."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_EVERY_S)
        stop()

    threading.Thread(target=watch, daemon=True).start()


def main() -> int:
    """Do what the order says."""
    stop_with_parent(lambda: os._exit(1))
    try:
        _carry_out(Order.read(Path(sys.argv[1])))
    except XpressError as error:
        print(error)
        return error.exit_code
    except Exception as error:
        from xpress_bench.measure.faults import told

        traceback.print_exc(file=sys.stdout)
        print(told(error))
        return 1
    return 0


def _carry_out(order: Order) -> None:
    from xpress_bench.measure.counting import count
    from xpress_bench.measure.progress import progress_for
    from xpress_bench.measure.runner import resume

    folder = Path(order.settings.out) / order.name
    if not folder.exists():
        new_run_folder(folder.parent, order.name, order.settings.to_json())
    with progress_for(order.name) as progress:
        if order.counts:
            run = count(order.settings, order.words, order.name, progress)
            records = (run.header, *run.cells, run.footer)
            write_whole(folder / JOURNAL, "".join(f"{to_line(one)}\n" for one in records if one))
        else:
            resume(folder, order.settings, order.words, progress, print)


if __name__ == "__main__":
    sys.exit(main())
