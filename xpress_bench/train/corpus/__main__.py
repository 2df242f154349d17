"""Command line: the folder to build in, then ids or countries to leave out."""

from __future__ import annotations

import sys
from pathlib import Path

from xpress_bench.train.corpus.building import build


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0].startswith("-"):
        print("usage: python -m xpress_bench.train.corpus FOLDER [EXCLUDED ...]")
        return 2
    return 0 if build(Path(arguments[0]), arguments[1:]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
