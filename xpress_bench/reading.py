"""The commands that read what is there: journals, suites and registries. None of them runs a model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from xpress_bench.errors import UsageError

if TYPE_CHECKING:
    from xpress_bench.publish.page import Page
    from xpress_bench.records import Header
    from xpress_bench.suites import Item

FORMATS = ("terminal", "markdown")


class Parser(argparse.ArgumentParser):
    """Tells a wrong command in one line, as every other mistake is told."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see `{self.prog} --help`")


def report(words: list[str]) -> int:
    """Print a run's report from its journal; needs no torch."""
    parser = Parser(prog="xpress-bench report", description="The report of a run, from its journal alone.")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run folder or its journal.jsonl")
    parser.add_argument("--format", choices=FORMATS, default="terminal")
    from xpress_bench.publish.report_as import SYSTEMS
    from xpress_bench.suites import GROUPED_BY

    parser.add_argument("--by", choices=GROUPED_BY, help="divide the results by this field (default: the suite's own)")
    parser.add_argument("--report-as", metavar="SYSTEM", help=f"the columns of another system: {', '.join(SYSTEMS)}")
    options = parser.parse_args(words)
    return show_report(options.runs, options.format, options.by, options.report_as)


def show_report(folders: Sequence[Path], layout: str, field: str | None, system: str | None = None) -> int:
    """Print the report of each run folder, as another system would if named. 1 if one did not end or had a failure."""
    from xpress_bench.analyse.summary import by, summarise
    from xpress_bench.publish import page
    from xpress_bench.publish.report_as import report_as
    from xpress_bench.records import read_run

    status = 0
    for folder in folders:
        measured = read_run(folder)
        if system:
            content = report_as(measured, system)
        else:
            items = items_of(measured.header)
            chosen = field or measured.header.suite.get("report_by")
            content = page.page(summarise(measured, items), by(measured, items, chosen) if chosen else None)
        lay_out(content, layout)
        if measured.footer is None or not measured.footer.complete or measured.footer.errors:
            status = 1
    return status


def explain(words: list[str]) -> int:
    """Say what is wrong with a run and what to try next, from its journal alone; needs no torch."""
    parser = Parser(prog="xpress-bench explain", description="Where a run loses, and what to try next.")
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder or its journal.jsonl")
    parser.add_argument("--format", choices=FORMATS, default="terminal")
    options = parser.parse_args(words)
    from xpress_bench.publish import explaining
    from xpress_bench.records import read_run

    measured = read_run(options.run)
    lay_out(explaining.page(measured, items_of(measured.header)), options.format)
    return 0


def lay_out(content: Page, layout: str) -> None:
    """Print a page as `terminal` or `markdown`."""
    from xpress_bench.publish import markdown, text

    if layout == "markdown":
        print(markdown.markdown(content))
    else:
        text.show(content)


def compare(words: list[str]) -> int:
    """Run B against run A, or one arm of a run against another; needs no torch."""
    parser = Parser(prog="xpress-bench compare", description="Run B against run A, or two arms of one run.")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="two run folders, or one with two --arm")
    parser.add_argument(
        "--arm", action="append", default=[], dest="arms", metavar="ARM", help="an arm; may be repeated"
    )
    parser.add_argument("--format", choices=FORMATS, default="terminal")
    options = parser.parse_args(words)
    from xpress_bench.analyse import between
    from xpress_bench.publish import comparing
    from xpress_bench.records import read_run

    runs = [read_run(folder) for folder in options.runs]
    lay_out(comparing.page(between.compare(runs, options.arms, items_of(runs[0].header))), options.format)
    return 0


def items_of(header: Header) -> tuple[Item, ...]:
    """The items that a run's outputs are scored against; none, and a line on stderr, if the suite is not the run's."""
    from xpress_bench.suites import load_suite

    try:
        suite = load_suite(header.settings["suite"])
    except UsageError as error:
        print(f"xpress-bench: no scores, the suite of this run is not here ({error})", file=sys.stderr)
        return ()
    if suite.sha256 != header.suite["sha256"]:
        print(f"xpress-bench: no scores, suite {suite.name} has changed since this run", file=sys.stderr)
        return ()
    return suite.items


def list_names(words: list[str]) -> int:
    """Print the registered names of one kind or of all; imports none of them."""
    from xpress_bench.drafters import DRAFTERS
    from xpress_bench.refiners import REFINERS
    from xpress_bench.suites import SUITES
    from xpress_bench.targets import TARGETS
    from xpress_bench.verifiers import VERIFIERS

    kinds = {each.kind: each for each in (TARGETS, DRAFTERS, REFINERS, VERIFIERS, SUITES)}
    parser = Parser(prog="xpress-bench list", description="Registered names.")
    parser.add_argument("kind", nargs="?", choices=list(kinds))
    chosen = parser.parse_args(words).kind
    for kind, registry in kinds.items():
        if chosen in (None, kind):
            print(kind)
            for entry in registry.entries():
                origin = "" if entry.origin == "xpress_bench" else f"  ({entry.origin})"
                print(f"  {entry.name:<16}{entry.summary}{origin}")
    return 0


def show(words: list[str]) -> int:
    """Print what a suite holds, or one item in full; lengths are those of a target's tokenizer."""
    parser = Parser(prog="xpress-bench show", description="What a suite holds, or one of its prompts in full.")
    parser.add_argument("suite", metavar="SUITE", help="as for --suite")
    parser.add_argument("id", nargs="?", metavar="ID", help="an item of it")
    parser.add_argument("--target", default="embedded", help="whose tokenizer and chat template count the tokens")
    options = parser.parse_args(words)
    from xpress_bench.publish import prompts, text
    from xpress_bench.suites import load_suite

    suite = load_suite(options.suite)
    chosen = prompts.item_of(suite, options.id) if options.id else None
    from xpress_bench.measure.prompts import prompt_lengths

    lengths, context = prompt_lengths([chosen] if chosen else suite.items, options.target)
    if chosen:
        print(prompts.item_text(suite, chosen, lengths[chosen.id]))
    else:
        text.show(prompts.suite_page(suite, lengths, options.target, context))
    return 0
