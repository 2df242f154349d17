"""The commands that read what is there: journals, suites and registries. None of them runs a model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from xpress_bench.errors import UsageError
from xpress_bench.publish.printing import FORMATS, lay_out
from xpress_bench.records import PACKED
from xpress_bench.suites.of_run import NAMED, items_of

if TYPE_CHECKING:
    from xpress_bench.publish.view import Report
    from xpress_bench.records import Run

OF_RUNS = ("csv", "html")  # formats that only the report of a run has
BESIDE = Path("report")  # default of --plot: a folder inside the run's


class Parser(argparse.ArgumentParser):
    """Tells a wrong command in one line, as every other mistake is told."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see `{self.prog} --help`")


def report(words: list[str]) -> int:
    """Print a run's report from its journal; needs no torch."""
    parser = Parser(prog="xpress-bench report", description="The report of a run, from its journal alone.")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run folder, a submission, or a journal")
    parser.add_argument("--format", choices=(*FORMATS, *OF_RUNS), default="terminal")
    parser.add_argument(
        "--plot",
        nargs="?",
        type=Path,
        const=BESIDE,
        metavar="DIR",
        help="also write plots, tables as CSV, and the report as HTML, Markdown and LaTeX to DIR (default: RUN/report)",
    )
    parser.add_argument("--suite", metavar="SUITE", help=NAMED)
    from xpress_bench.publish.report_as import SYSTEMS
    from xpress_bench.suites import GROUPED_BY

    of = parser.add_mutually_exclusive_group()
    of.add_argument("--by", choices=GROUPED_BY, help="divide the results by this field (default: the suite's own)")
    of.add_argument("--together", action="store_true", help="one table with a row for each arm of every run")
    of.add_argument("--report-as", metavar="SYSTEM", help=f"the columns of another system: {', '.join(SYSTEMS)}")
    parser.add_argument("--against-published", metavar="NAME", help="beside a publication's figures; NAME or FILE.yaml")
    options = parser.parse_args(words)
    _refuse_in_submission(options)
    if (status := _report_of_its_own(options)) is not None:
        return status
    other = options.report_as or options.against_published
    if other and (options.plot or options.format in OF_RUNS):
        raise UsageError(f"--plot, csv and html are of the plain report only; choose --format {', '.join(FORMATS)}")
    if options.against_published:
        if options.by or options.report_as or options.together:
            raise UsageError(
                "--against-published is a report of its own: leave --by and --report-as out, and --together"
            )
        return show_against(options.runs, options.format, options.against_published, options.suite)
    if options.together:
        return show_together(options.runs, options.format, options.plot, options.suite)
    return show_report(options.runs, options.format, options.by, options.report_as, options.plot, options.suite)


def _refuse_in_submission(options: argparse.Namespace) -> None:
    """UsageError for --plot where it would put its files into a submission, which holds two and no more."""
    inside = [run for run in options.runs if (run / PACKED).is_file()]
    if inside and options.plot == BESIDE:
        raise UsageError(f"{inside[0]} is a submission and holds no other files: give a folder, --plot DIR")


def _report_of_its_own(options: argparse.Namespace) -> int | None:
    """The report of sweeps or of load runs, whose folders are no runs; None if there is none among them."""
    from xpress_bench.analyse.sweep_plan import PLAN
    from xpress_bench.load_records import LOAD
    from xpress_bench.publish.load import show_load
    from xpress_bench.publish.sweep import show_sweep

    runs: list[Path] = options.runs
    for name, file, show in (("sweep", PLAN, show_sweep), ("load run", LOAD, show_load)):
        own = [(folder / file).is_file() for folder in runs]
        if not any(own):
            continue
        asked = (options.by, options.together, options.report_as, options.against_published, options.suite)
        if not all(own) or any(asked) or options.format == "html":
            raise UsageError(
                f"a {name} has a report of its own: give {name}s alone, with no more than --plot and --format"
            )
        places = [options.plot and _beside(folder, options.plot, len(runs) > 1) for folder in runs]
        return max(show(folder, options.format, place) for folder, place in zip(runs, places, strict=True))
    return None


def _beside(folder: Path, plot: Path, several: bool) -> Path:
    """Where the files of --plot go: beside the run, or into the folder that was named."""
    return folder / BESIDE if plot == BESIDE else plot / folder.resolve().name if several else plot


def show_report(
    folders: Sequence[Path],
    layout: str,
    field: str | None,
    system: str | None = None,
    plot: Path | None = None,
    suite: str | None = None,
) -> int:
    """Print the report of each run folder, as another system would if named; `plot`: the folder for its files.

    1 if a run did not end or had a failure.
    """
    from xpress_bench.analyse.cost import refuse_random
    from xpress_bench.analyse.streaming import read_reduced
    from xpress_bench.journals import read_run
    from xpress_bench.publish import tables_csv
    from xpress_bench.publish.report_as import report_as
    from xpress_bench.publish.view import View
    from xpress_bench.publish.view import report as report_of

    if layout == "html" and len(folders) > 1:
        raise UsageError("html is the page of one run: give one, or --plot for a page of each")
    status, tables = 0, dict[str, Sequence[View]]()
    for folder in folders:
        measured = read_run(folder) if plot or layout == "html" else read_reduced(folder)
        if system or plot or layout in OF_RUNS:
            refuse_random(measured.header)
        if system:
            lay_out(report_as(measured, system), layout)
        else:
            items = items_of(measured.header, suite)
            told = report_of(measured, items, field or measured.header.suite.get("report_by"))
            if layout == "csv":
                tables[measured.header.run] = told.views
            else:
                _print(told, layout)
            if plot:
                _write(told, plot, several=len(folders) > 1)
        status = status if _ended(measured) else 1
    if tables:
        print(tables_csv.measures(tables), end="")
    return status


def _print(told: Report, layout: str) -> None:
    if layout == "html":
        from xpress_bench.publish.html import html

        print(html(told))
    else:
        lay_out(told.page, layout)


def _write(told: Report, plot: Path, several: bool) -> None:
    from xpress_bench.publish import folder

    out = _beside(told.run.folder, plot, several)
    folder.write(out, told)
    print(f"xpress-bench: wrote {out}/: report.html, report.md, report.tex, plots, tables", file=sys.stderr)


def _ended(measured: Run) -> bool:
    """Whether the run ended by itself and had no failure."""
    return measured.footer is not None and measured.footer.complete and not measured.footer.errors


def show_together(folders: Sequence[Path], layout: str, plot: Path | None = None, suite: str | None = None) -> int:
    """Print one table of all runs; `plot`: the folder for the curves of several batch sizes.

    1 if one of the runs did not end or had a failure.
    """
    from xpress_bench.analyse.streaming import read_reduced
    from xpress_bench.analyse.summary import summarise
    from xpress_bench.publish import throughput
    from xpress_bench.publish.together import common, several_sizes, together

    runs = _trained([read_reduced(folder) for folder in folders])
    summaries = [summarise(run, items_of(run.header, suite)) for run in runs]
    content = together(summaries)
    if (plot or layout in OF_RUNS) and (layout == "html" or plot == BESIDE or not several_sizes(summaries)):
        raise UsageError("--together: html is of the plain report only, csv and --plot DIR of several batch sizes")
    if layout == "csv":
        print(throughput.csv(summaries, common(summaries)), end="")
    else:
        lay_out(content, layout)
    if plot:
        from xpress_bench.publish import folder, throughput_plots

        folder.write_all(plot, throughput_plots.files(content, summaries, common(summaries)))
        print(f"xpress-bench: wrote {plot}/: throughput.md, .tex, .csv, plots", file=sys.stderr)
    return 0 if all(map(_ended, runs)) else 1


def show_against(folders: Sequence[Path], layout: str, name: str, suite: str | None) -> int:
    """Print each run beside a publication. 1 unless each has figures that could be compared, all of them reproduced."""
    from xpress_bench.analyse.published import load
    from xpress_bench.journals import read_run
    from xpress_bench.publish import against

    publication, status = load(name), 0
    for folder in folders:
        (measured,) = _trained([read_run(folder)])
        items = items_of(measured.header, suite) if suite or "," in measured.header.settings["suite"] else ()
        content, reproduced = against.page(measured, publication, items)
        lay_out(content, layout)
        status = status if reproduced else 1
    return status


def _trained(runs: list[Run]) -> list[Run]:
    """The same runs. UsageError for one with random weights, of which only the report of costs means anything."""
    from xpress_bench.analyse.cost import refuse_random

    for run in runs:
        refuse_random(run.header)
    return runs


def explain(words: list[str]) -> int:
    """Say what is wrong with a run and what to try next, from its journal alone; needs no torch."""
    parser = Parser(prog="xpress-bench explain", description="Where a run loses, and what to try next.")
    parser.add_argument("run", type=Path, metavar="RUN", help="a run folder or its journal.jsonl")
    parser.add_argument("--suite", metavar="SUITE", help=NAMED)
    parser.add_argument("--format", choices=FORMATS, default="terminal")
    options = parser.parse_args(words)
    from xpress_bench.journals import read_run
    from xpress_bench.publish import explaining

    (measured,) = _trained([read_run(options.run)])
    lay_out(explaining.page(measured, items_of(measured.header, options.suite)), options.format)
    return 0


def compare(words: list[str]) -> int:
    """Run B against run A, or one arm of a run against another; needs no torch."""
    parser = Parser(prog="xpress-bench compare", description="Run B against run A, or two arms of one run.")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="two run folders, or one with two --arm")
    parser.add_argument(
        "--arm", action="append", default=[], dest="arms", metavar="ARM", help="an arm; may be repeated"
    )
    parser.add_argument("--suite", metavar="SUITE", help=NAMED)
    parser.add_argument("--format", choices=FORMATS, default="terminal")
    options = parser.parse_args(words)
    from xpress_bench.analyse import between
    from xpress_bench.analyse.streaming import read_reduced
    from xpress_bench.publish import comparing

    runs = _trained([read_reduced(folder) for folder in options.runs])
    items = items_of(runs[0].header, options.suite)
    lay_out(comparing.page(between.compare(runs, options.arms, items)), options.format)
    return 0


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
