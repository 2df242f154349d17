"""Jobs through hydra's launchers: `python -m xpress_bench.fan_out --multirun hydra/launcher=NAME folder=SWEEP job=a,b`.

A process of its own, because hydra's `main` reads the command line and keeps its state in globals.
"""

from __future__ import annotations

import os
import signal

import hydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from xpress_bench.errors import UsageError
from xpress_bench.measure.job import start, stop_with_parent


def choices(word: str) -> tuple[str, list[str]] | None:
    """Key and values of an override such as `block_size=4,8`, values as words; None for one that has a single value.

    A list in brackets and a quoted text are single values (C46). One that does not parse is for the run to refuse.
    """
    try:
        parsed = OverridesParser.create().parse_override(word)
    except HydraException:
        return None
    if not parsed.is_sweep_override():
        return None
    if not parsed.is_discrete_sweep():
        raise UsageError(f"{word!r}: a sweep takes a list of values, e.g. {parsed.key_or_group}=2,4,8")
    return parsed.key_or_group, [str(value) for value in parsed.sweep_string_iterator()]


def main() -> None:
    """Run the jobs that the command line names."""
    stop_with_parent(lambda: os.killpg(0, signal.SIGTERM))
    hydra.main(config_path="pkg://xpress_bench.conf", config_name="fan_out", version_base="1.3")(start)()


if __name__ == "__main__":
    main()
