"""The most rows that an arm decodes together before memory runs out: each number is tried in a fresh process.

Run as `python -m xpress_bench.load.limit SETTINGS_JSON ARM ROWS LIMIT_BYTES`, this file is that process; 0 is no limit.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from xpress_bench.errors import RunError
from xpress_bench.load.loop import OUT_OF_MEMORY
from xpress_bench.load_records import Probe
from xpress_bench.measure.faults import told
from xpress_bench.measure.memory import peak_rss_bytes
from xpress_bench.measure.progress import Progress
from xpress_bench.settings import Settings

CHILD = ("-m", "xpress_bench.load.limit")
KILLED = (-signal.SIGKILL, -signal.SIGABRT)  # by the system, or by an allocation in C++ that nobody caught


def find_limits(settings: Settings, limit_bytes: int | None, most: int, progress: Progress) -> list[Probe]:
    """Every number of rows that was tried, arm by arm. RunError if a probe fails for want of anything but memory."""
    from xpress_bench.parts import assemble

    arms = [planned.arm.name for planned in assemble(settings).arms]
    with tempfile.TemporaryDirectory(prefix="xpress-bench-") as scratch:
        file = Path(scratch) / "settings.json"
        file.write_text(settings.to_json(), encoding="utf-8")

        def probe(arm: str, rows: int) -> Probe:
            progress(0, 0, f"{arm}: {rows} rows, in a fresh process")
            return _probe(file, arm, rows, limit_bytes)

        return [one for arm in arms for one in bisect(partial(probe, arm), most)]


def bisect(probe: Callable[[int], Probe], most: int) -> list[Probe]:
    """Probes of 1, 2, 4, ... rows until one does not fit, then between the last two; `most` at most.

    Memory is taken to grow with rows, so the largest that fits and the least that does not are neighbours at the end.
    """
    found, fits, fails = list[Probe](), 0, most + 1
    while fits + 1 < fails:
        rows = (fits + fails) // 2 if fails <= most else min(max(1, 2 * fits), most)
        found.append(probe(rows))
        if found[-1].fits:
            fits = rows
        else:
            fails = rows
    return found


def _probe(settings: Path, arm: str, rows: int, limit_bytes: int | None) -> Probe:
    child = subprocess.run(
        (sys.executable, *CHILD, str(settings), arm, str(rows), str(limit_bytes or 0)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        encoding="utf-8",
        errors="replace",
    )
    said = child.stdout.strip().rpartition("\n")[2]
    if child.returncode == 0 and said:
        return Probe(**json.loads(said))
    if child.returncode in KILLED:
        return Probe(arm, rows, False, reason=f"the process was killed by signal {-child.returncode}")
    last = child.stderr.strip().rpartition("\n")[2]
    if OUT_OF_MEMORY in last or "MemoryError" in last:  # before there was anything to decode
        return Probe(arm, rows, False, reason=last)
    raise RunError(f"{rows} rows of {arm}: the probe ended with status {child.returncode}: {last or 'no message'}")


def fill(settings: Settings, arm: str, rows: int) -> None:
    """Decode the longest prompt in `rows` rows, to the end. Raises what the device raises."""
    from xpress_bench.load.batch import BatchEngine
    from xpress_bench.load.engine import Ask
    from xpress_bench.measure.ready import make_ready

    ready = make_ready(settings, only=arm)
    longest = max(ready.prompts, key=lambda prompt: len(prompt.ids) + prompt.budget)
    engine = BatchEngine(ready.requests, arm, settings.conditions()[0], rows)
    for index in range(rows):
        engine.submit(Ask(index, arm, longest, settings.seeds[0], longest.budget))
    done = 0
    while done < rows:
        for event in engine.poll(engine.now()):
            if event.kind == "failed":
                raise RunError(event.reason)
            done += event.kind == "done"


def _bound(device: str, limit_bytes: int) -> None:
    """No more than that for this process, or for its part of the board."""
    if device.startswith("cuda"):
        import torch

        torch.cuda.set_per_process_memory_fraction(
            min(1.0, limit_bytes / torch.cuda.get_device_properties(device).total_memory), device
        )
    else:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))  # private memory, files mapped apart


def _peak_bytes(device: str) -> int:
    """Most that this process held, or on a GPU that torch reserved."""
    if not device.startswith("cuda"):
        return peak_rss_bytes()
    import torch

    return torch.cuda.max_memory_reserved(device)


def main() -> None:
    """Print the Probe of one number of rows; any failure but of memory is one line on stderr and status 1."""
    file, arm, rows, limit_bytes = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    settings, reason = Settings.from_json(file.read_text(encoding="utf-8")), None
    try:
        if limit_bytes:
            _bound(settings.device, limit_bytes)
        fill(settings, arm, rows)
    except Exception as error:
        reason = str(error) if isinstance(error, RunError) else told(error)
        if not reason.startswith(OUT_OF_MEMORY):
            sys.exit(reason)
    print(json.dumps(asdict(Probe(arm, rows, reason is None, _peak_bytes(settings.device), reason))))


if __name__ == "__main__":
    main()
