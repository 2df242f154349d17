"""One launch in a process of its own: `python -m xpress_bench.measure.launch RUN_FOLDER INDEX SITTING [ARGV…]`.

The last line of its standard output is for its parent: an error, if there is one. It stops when its parent is gone.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

from xpress_bench.errors import XpressError
from xpress_bench.measure.faults import told
from xpress_bench.measure.interrupts import STATUS, Interrupts
from xpress_bench.measure.journal import SETTINGS
from xpress_bench.measure.progress import progress_for
from xpress_bench.measure.runner import TOLD, VOID, Sitting, launch
from xpress_bench.settings import Settings

CRASHED = 70  # by an error that nobody foresaw


def main() -> int:
    folder, index, number, argv = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    settings = Settings.from_json((folder / SETTINGS).read_text(encoding="utf-8"))
    try:
        with progress_for(f"launch {index + 1} of {settings.launches}") as progress, Interrupts(orphan=True) as asked:
            counts = launch(Sitting(settings, folder, argv, progress, asked, number), index)
    except XpressError as error:
        print(error)
        return TOLD + error.exit_code
    except KeyboardInterrupt:  # the parent gets it too, and says so
        return STATUS
    except Exception as error:
        traceback.print_exc()
        print(told(error))
        return CRASHED
    return 0 if counts else VOID


if __name__ == "__main__":
    sys.exit(main())
