"""How far a run has come, and whether what is about to go on is still the same run."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from xpress_bench.errors import UsageError
from xpress_bench.journals import from_line, read_run
from xpress_bench.measure.journal import SETTINGS, drop_torn_line, header_of
from xpress_bench.records import JOURNAL, Header, Launch, Run
from xpress_bench.settings import Settings, flat
from xpress_bench.suites import load_suite

Say = Callable[[str], None]
FREE = ("out", "threads")  # settings that another machine may change: the folder, and one thread per core


@dataclass(frozen=True, slots=True)
class Standing:
    """What is left of a run: launches that have not ended, arms whose peak memory is not measured.

    `sitting` is the number of the command that goes on with it. `closed`: a footer ends the journal.
    """

    launches: tuple[int, ...]
    arms: tuple[str, ...] = ()
    sitting: int = 0
    closed: bool = False

    @property
    def complete(self) -> bool:
        return not self.launches and not self.arms


def standing(settings: Settings, run: Run | None) -> Standing:
    """Read off what counts in the journal; `run` None: nothing is written yet."""
    if run is None:
        return Standing(tuple(range(settings.launches)))
    ended = {mark.launch for mark in run.launches if mark.event == "ended"}
    measured = {memory.arm for memory in run.memory}
    return Standing(
        launches=tuple(index for index in range(settings.launches) if index not in ended),
        arms=tuple(arm.name for arm in run.header.arms if settings.memory and arm.name not in measured),
        sitting=1 + max((mark.sitting for mark in run.launches), default=-1),
        closed=run.footer is not None,
    )


def void_before(folder: Path, launch: int) -> str | None:
    """Why an earlier attempt at a launch was void; None if none was. The journal holds no torn line."""
    with (folder / JOURNAL).open("rb") as lines:
        marks = [from_line(line) for line in lines if line.startswith(b'{"kind":"launch"')]
    void = (mark for mark in marks if isinstance(mark, Launch) and (mark.launch, mark.event) == (launch, "void"))
    return next((mark.reason for mark in void), None)


def stored_settings(folder: Path, given: Settings | None) -> Settings:
    """The settings of a run. UsageError if there are none, or if those `given` are others."""
    file = folder / SETTINGS
    try:
        settings = Settings.from_json(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{folder}: no run to resume, {SETTINGS} cannot be read ({error.strerror})") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(f"{file}: not the settings of a run of this version ({error})") from error
    if given is None and settings.target.trust_remote_code:
        raise UsageError(
            f"{file} asks to run code that comes with the target; say so again: --resume with the run's own words, "
            "target.trust_remote_code=true among them"
        )
    if given is not None:
        refuse_changes(folder, _settings(asdict(settings)), _settings(asdict(given)))
    return settings


def unfinished(settings: Settings) -> Path | None:
    """The newest run of these very settings in their output folder that has not ended; None if there is none."""
    for folder in sorted(Path(settings.out).glob(f"*-{settings.sha256()[:4]}*"), reverse=True):
        with suppress(UsageError):
            stored_settings(folder, settings)
            left = standing(settings, None if header_of(folder) is None else read_run(folder))
            if not (left.complete and left.closed):
                return folder
    return None


def reopen(folder: Path, settings: Settings, say: Say) -> None:
    """Make a journal fit to be gone on with and say what becomes of what it holds.

    UsageError if settings or suite are not those that it began with.
    """
    if torn := drop_torn_line(folder / JOURNAL):
        say(f"half a line at the end of the journal is dropped ({torn} bytes)")
    header = header_of(folder)
    if header is None:
        say("nothing was measured yet, the run begins anew")
        return
    suite = {"sha256": load_suite(settings.suite).sha256}
    began = _settings(header.settings) | {"suite": {"sha256": header.suite["sha256"]}}
    refuse_changes(folder, began, _settings(asdict(settings)) | {"suite": suite})
    run = read_run(folder)
    left = standing(settings, run)
    for index in range(settings.launches):
        which, here = f"launch {index + 1} of {settings.launches}", sum(cell.launch == index for cell in run.cells)
        if index not in left.launches:
            say(f"{which} is kept")
        elif here:
            say(f"{which} was partial: {here} of {_requests(header)} requests are measured again")


def refuse_other_run(folder: Path, began: Header, now: Header) -> None:
    """UsageError that names the first thing by which a launch would measure something else than the run's others."""
    refuse_changes(folder, _identity(began), _identity(now))


def refuse_changes(folder: Path, began: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """UsageError that names the first value, by its dotted key, that is not what it was when the run began."""
    before, after = (flat(json.loads(json.dumps(side))) for side in (began, now))
    for key in dict.fromkeys((*before, *after)):
        if before.get(key) != after.get(key):
            values = [reprlib.repr(side.get(key)) for side in (before, after)]
            raise UsageError(
                f"{folder}: {key} was {values[0]} when the run began and is {values[1]} now; start another run"
            )


def _settings(values: Mapping[str, Any]) -> dict[str, Any]:
    return {"settings": {name: value for name, value in values.items() if name not in FREE}}


def _identity(header: Header) -> dict[str, Any]:
    body = asdict(header)
    shared = ("suite", "target", "conditions", "prompts", "turns", "batches")
    arms = {arm["name"]: arm for arm in body["arms"]}
    return _settings(header.settings) | {name: body[name] for name in shared} | {"arms": arms}


def _requests(header: Header) -> int:
    """Requests of one launch."""
    prompts = sum(header.turns.get(prompt, 1) for prompt in header.prompts)
    settings = header.settings
    return prompts * len(header.arms) * len(header.conditions) * len(settings["seeds"]) * int(settings["repeats"])
