"""One launch in a process of its own: `python -m xpress_bench.measure.launch RUN_FOLDER INDEX [ARGV…]`.

Its standard output is for its parent: the one line of an error, if there is one.
"""

from __future__ import annotations

import sys
from pathlib import Path

from xpress_bench.errors import XpressError
from xpress_bench.measure.progress import progress_for
from xpress_bench.measure.runner import SETTINGS, launch
from xpress_bench.settings import Settings


def main() -> int:
    folder, index, argv = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    settings = Settings.from_json((folder / SETTINGS).read_text(encoding="utf-8"))
    try:
        with progress_for(f"launch {index + 1} of {settings.launches}") as progress:
            launch(settings, folder, index, argv, progress)
    except XpressError as error:
        print(error)
        return error.exit_code
    except KeyboardInterrupt:  # the parent gets it too, and says so
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
