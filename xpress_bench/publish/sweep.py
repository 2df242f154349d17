"""A sweep as a page, as CSV, and as a folder with its plots."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from xpress_bench.analyse.contest import Contest
from xpress_bench.analyse.digits import NONE, shown, significant
from xpress_bench.analyse.headers import machines
from xpress_bench.analyse.intervals import Interval, Measure, Unknown
from xpress_bench.analyse.parity import Parity
from xpress_bench.analyse.sweep import PENDING, Factor, Measured, Point, Sweep, read_sweep
from xpress_bench.analyse.sweep_plan import Values
from xpress_bench.errors import UsageError
from xpress_bench.publish.lines import Line, count, named, printable, printable_lines
from xpress_bench.publish.markdown import markdown
from xpress_bench.publish.page import Page, Section, Table
from xpress_bench.publish.printing import lay_out
from xpress_bench.publish.tables_csv import Row, numbers, written

STAGES = ("draft", "refine", "verify")
CSV = ("factor", "job", "values", "metric", "estimate", "low", "high", "method", "n", "reason")
METHOD = (
    "paired by prompt; the intervals of all pairs of a factor hold together (Bonferroni), and less than 1 % is never "
    "called better"
)
ROUNDS = (
    "{} runs of every value in turn; what they differ by is in the intervals of all comparisons. Times of stages are "
    "of one of them"
)
ONE_ROUND = "every value was run once, and what processes differ by is not known: none is called faster; add --rounds 2"


def show_sweep(folder: Path, layout: str, plot: Path | None = None) -> int:
    """Print what a sweep's journals say; `plot`: the folder for its files. 1 if a job failed or is left."""
    found = read_sweep(folder)
    if layout == "csv":
        print(csv(found), end="")
    else:
        lay_out(page(found), layout)
    if plot:
        write(plot, found)
    return 0 if found.complete and not found.faults else 1


def page(sweep: Sweep) -> Page:
    """What is recommended for every factor, its values, and which of them may be the best."""
    return Page(
        tuple(map(printable, _title(sweep))),
        tuple(_section(factor) for factor in sweep.factors),
        tuple(printable_lines(_closing(sweep))),
    )


def _title(sweep: Sweep) -> Iterator[str]:
    jobs = sum(len(factor.points) for factor in sweep.factors)
    yield f"sweep of {count(jobs, 'job')}{', counts alone' if sweep.plan.counts else ''}"
    for one in _all_measured(sweep)[:1]:
        suite, target = one.header.suite, one.header.target
        yield f"suite {suite['name']}: {suite['selected']} of {count(suite['items'], 'prompt')} ({one.of.condition})"
        yield f"target {target['name']} {target['dtype']}"
        yield str(target["device"])


def _all_measured(sweep: Sweep) -> list[Measured]:
    return [one for factor in sweep.factors for one in factor.measured.values()]


def _section(factor: Factor) -> Section:
    columns = (*factor.keys, "tokens/step", "accepted")
    if not factor.counts:
        columns += (*(f"{stage}, ms" for stage in STAGES), "speed-up vs direct")
    columns += ("vs the best", "identical", "")
    rows = tuple(tuple(map(printable, _row(factor, point))) for point in factor.points)
    return Section(
        heading=printable(", ".join(factor.keys)),
        verdict=printable(verdict(factor)),
        table=Table(tuple(map(printable, columns)), rows),
        lines=tuple(printable_lines(_lines(factor))),
        breakdown=None,
    )


def verdict(factor: Factor) -> str:
    """What to do with this factor, in one sentence."""
    if factor.pending:
        left = sum(point.found is PENDING for point in factor.points)
        return f"Not finished: {left} of {count(len(factor.points), 'job')} left."
    base, chosen = factor.base.job.name, factor.recommended
    own = told(factor, factor.base)
    if base not in factor.measured:
        return f"{own} failed, so no other value is shown to be better than it."
    if chosen is factor.base:
        other = "no other value was measured" if len(factor.measured) == 1 else f"no other is shown to {_do(factor)}"
        return f"Stay with {own}: {other}."
    ratio = shown(factor.contest.ratios[chosen.job.name, base])
    what = "tokens per step" if factor.counts else "speed"
    return f"Take {told(factor, chosen)}: {ratio} times the {what} of {own}."


def _do(factor: Factor) -> str:
    return "add more tokens per step" if factor.counts else "be faster"


def told(factor: Factor, point: Point) -> str:
    """A point by the values that its factor varies: "block_size 8"."""
    return ", ".join(f"{key} {point.job.values[key]}" for key in factor.keys)


def _row(factor: Factor, point: Point) -> Iterator[str]:
    yield from (point.job.values[key] for key in factor.keys)
    one = point.found
    if isinstance(one, Unknown):
        yield from (NONE,) * (4 if factor.counts else 8)
        yield "" if one is PENDING else "failed"
        return
    yield shown(one.tokens_per_step)
    yield _percent(one.arm.acceptance.draft_accept_rate_step)
    if not factor.counts:
        yield from (_milliseconds(_stage_s(one, stage)) for stage in STAGES)
        yield shown(one.speed_up)
    best = factor.contest.best
    yield "1" if point.job.name == best else shown(factor.contest.ratios[point.job.name, best])
    yield _identical(one)
    yield ", ".join(_marks(factor, point))


def _marks(factor: Factor, point: Point) -> Iterator[str]:
    if point is factor.base:
        yield "as it is"
    if len(factor.keys) == 1 and factor.contest.separates and point.job.name == factor.contest.knee:
        yield "knee"
    if point is factor.recommended and point is not factor.base:
        yield "recommended"


def _percent(share: Measure) -> str:
    return NONE if share.estimate is None else f"{shown(share, 100, bounds=False)} %"


def _stage_s(one: Measured, stage: str) -> Measure:
    """Seconds per verify step; a stage has no interval."""
    stages = one.arm.stages
    return stages if isinstance(stages, Unknown) else Unknown("no interval", getattr(stages, f"{stage}_s"))


def _milliseconds(time_s: Measure) -> str:
    return NONE if time_s.estimate is None else significant(time_s.estimate * 1e3, 3)


def _identical(one: Measured) -> str:
    share = one.arm.parity.identical if isinstance(one.arm.parity, Parity) else one.arm.parity
    return f"{round(share.estimate * share.n)}/{share.n}" if isinstance(share, Interval) else NONE


def _lines(factor: Factor) -> Iterator[Line]:
    if len(factor.measured) > 1:
        contests = [("tokens per step", factor.by_tokens)]
        if not factor.counts:
            contests.insert(0, ("speed-up", factor.by_speed))
        for what, contest in contests:
            yield f"by {what}", _knee(factor, contest)
    for point in factor.points:
        if isinstance(point.found, Unknown):
            yield "left out", f"{told(factor, point)}: {point.found.reason}"
        elif isinstance(point.found.arm.parity, Parity) and point.found.arm.parity.outcome != "shown":
            yield "output", f"{told(factor, point)}: {point.found.arm.parity.reason}"


def _knee(factor: Factor, contest: Contest) -> str:
    if not contest.separates:
        return "no value is shown to be better than another"
    among = [told(factor, factor.point(job)) for job in contest.undecided]
    best = f"the best is {among[0]}" if len(among) == 1 else f"the best may be any of {', '.join(among)}"
    if len(factor.keys) > 1:  # combinations have no order
        return best
    return f"the knee is {told(factor, factor.point(contest.knee))}, no larger value is shown to be better; {best}"


def _closing(sweep: Sweep) -> Iterator[Line]:
    yield "better", METHOD
    found = _all_measured(sweep)
    other = {one.what for measured in found[1:] for one in machines(found[0].header, measured.header)}
    if other and not sweep.plan.counts:
        yield "warning", f"jobs ran on machines that differ ({named(sorted(other))}): no speed is compared between them"
    if not sweep.plan.counts:
        yield "rounds", ROUNDS.format(sweep.plan.rounds) if sweep.plan.rounds > 1 else ONE_ROUND
    for before, after, ratio in () if sweep.plan.counts else sweep.drift():
        yield "drift", f"{after} is the setting of {before} again: {shown(ratio)} times its speed-up"
    yield "sweep", f"{sweep.folder}/"
    yield "next", _next(sweep)


def _next(sweep: Sweep) -> str:
    if sweep.unfinished:
        return f"the same command with --out {shlex.quote(str(sweep.folder.parent))} runs what is left"
    return shlex.join(["xpress-bench", *sweep.plan.words, *words(sweep.factors[-1].recommended.job.values)])


def words(values: Values) -> list[str]:
    """Values as overrides."""
    return [f"{key}={value}" for key, value in values.items()]


def csv(sweep: Sweep) -> str:
    """Every measure of every job, a row each, and its ratio to the best of its factor."""
    rows = (
        (" ".join(factor.keys), point.job.name, " ".join(words(point.job.values)), *row)
        for factor in sweep.factors
        for point in factor.points
        for row in _measures(factor, point)
    )
    return written(CSV, rows)


def _measures(factor: Factor, point: Point) -> Iterator[Row]:
    one = point.found
    if isinstance(one, Unknown):
        yield "job", *numbers(one)
        return
    yield "tokens_per_step", *numbers(one.tokens_per_step)
    yield "draft_accept_rate", *numbers(one.arm.acceptance.draft_accept_rate_step)
    contests = [("tokens_per_step", factor.by_tokens)]
    if not factor.counts:
        yield from ((f"{stage}_s", *numbers(_stage_s(one, stage))) for stage in STAGES)
        yield "speed_up", *numbers(one.speed_up)
        contests.append(("speed_up", factor.by_speed))
    for name, contest in contests:
        if point.job.name != contest.best:
            yield f"{name}_vs_best", *numbers(contest.ratios[point.job.name, contest.best])


def write(out: Path, sweep: Sweep) -> None:
    """sweep.md, sweep.csv and plots/*.svg, .pdf, .png. UsageError if `out` cannot be written."""
    from xpress_bench.publish import canvas
    from xpress_bench.publish.sweep_plots import drawn

    files = {"sweep.md": markdown(page(sweep)).encode(), "sweep.csv": csv(sweep).encode()}
    for name, figure in drawn(sweep).items():
        files |= {f"plots/{name}.{layout}": canvas.file_of(figure, layout) for layout in canvas.FORMATS}
    try:
        for file, content in files.items():
            (out / file).parent.mkdir(parents=True, exist_ok=True)
            (out / file).write_bytes(content)
    except OSError as error:
        raise UsageError(f"--plot {out}: {error.strerror}; name a folder that can be written") from error
