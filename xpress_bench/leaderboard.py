"""The commands of the leaderboard: submit a run, build the site. Neither runs a model."""

from __future__ import annotations

import sys
from pathlib import Path

from xpress_bench.errors import UsageError
from xpress_bench.reading import Parser

SUBMISSIONS = Path("leaderboard/submissions")
CACHE = Path("~/.cache/xpress-bench/site")


def submit(words: list[str]) -> int:
    """Make the bundle of a run that keeps every rule of admission; needs no torch."""
    parser = Parser(
        prog="xpress-bench submit", description="A run as a submission: its log and what is declared of it."
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder or its journal.jsonl")
    parser.add_argument("--out", type=Path, default=SUBMISSIONS, metavar="DIR", help=f"default: {SUBMISSIONS}")
    parser.add_argument("--name", help="lower-case letters, digits and hyphens (default: the run's own)")
    parser.add_argument("--contact", help="shown on its page")
    parser.add_argument("--url", help="shown on its page; begins with https://")
    options = parser.parse_args(words)
    from xpress_bench.publish.submissions import submit as bundle

    folder = bundle(options.run, options.out, options.name, options.contact, options.url)
    print(f"{folder}: admitted. Look at it with `xpress-bench site`, then commit it")
    return 0


def site(words: list[str]) -> int:
    """Build the static site of all submissions; needs no torch. 1 if one of them is refused."""
    parser = Parser(prog="xpress-bench site", description="The leaderboard as static pages.")
    parser.add_argument("--out", type=Path, default=Path("site"), metavar="DIR", help="default: site")
    parser.add_argument("--submissions", type=Path, default=SUBMISSIONS, metavar="DIR", help=f"default: {SUBMISSIONS}")
    parser.add_argument("--cache", type=Path, default=CACHE, metavar="DIR", help=f"of figures (default: {CACHE})")
    options = parser.parse_args(words)
    from xpress_bench.publish.site import build

    try:
        built = build(options.submissions, options.out, options.cache.expanduser())
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}; choose folders with --out and --cache") from error
    for line in built.refused:
        print(f"xpress-bench: {line}", file=sys.stderr)
    print(f"{options.out / 'index.html'}: {built.submissions} submissions, {built.ranked} ranked rows")
    return 1 if built.refused else 0
