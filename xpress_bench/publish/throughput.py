"""Throughput against batch size as a table and as CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xpress_bench.analyse.digits import NONE, shown
from xpress_bench.analyse.summary import DIRECT, Summary
from xpress_bench.analyse.throughput import Curve, curves, names
from xpress_bench.publish.lines import Line, printable
from xpress_bench.publish.page import Table
from xpress_bench.publish.tables_csv import numbers, written
from xpress_bench.records import Condition

COLUMNS = ("condition", "arm", "batch_size", "metric", "estimate", "low", "high", "method", "n", "reason")


def table(found: Sequence[Curve]) -> Table:
    """A row for each batch size: tokens per second of every arm, then speed-ups over direct."""
    short = names(found)
    columns = ("batch", *(f"{name} tokens/s" for name in short), *(f"{name} vs {DIRECT}" for name in short[1:]))
    rows = []
    for size in _sizes(found):
        points = [one.at(size) for one in found]
        rates = [shown(point.tokens_per_s) if point else NONE for point in points]
        rows.append((str(size), *rates, *(shown(point.speed_up) if point else NONE for point in points[1:])))
    return Table(tuple(map(printable, columns)), tuple(rows))


def verdict(found: Sequence[Curve]) -> str:
    """Up to which batch size each arm pays."""
    told = "; ".join(f"{one.arm} is {_until(one, _sizes(found)[-1])}" for one in found[1:])
    return f"{told}." if told else f"Only {DIRECT} was measured, so nothing can be compared."


def _until(one: Curve, largest: int) -> str:
    if not one.pays:
        return f"not shown to be faster than {DIRECT} at any batch size"
    last = one.pays[-1]
    return f"faster than {DIRECT} up to batch size {last}{', the largest of all' if last == largest else ''}"


def lines(found: Sequence[Curve]) -> Iterator[Line]:
    """How to read the verdict and the table."""
    for one in found[1:]:
        smaller = [point.batch_size for point in one.points if one.pays and point.batch_size < one.pays[-1]]
        missed = [str(size) for size in smaller if size not in one.pays]
        if missed:
            yield (
                "not shown",
                f"{one.arm}: to be faster at batch size {', '.join(missed)}, though it is at a larger one",
            )
    yield "faster", "the 95 % interval of the speed-up is above 1 as a whole, judged at each batch size by itself"
    yield "batch", "tokens/s are of whole batches, which last as long as their last request; speed-ups pair batches"


def csv(summaries: Sequence[Summary], conditions: Sequence[Condition]) -> str:
    """The table in long form, numbers in full."""
    rows = (
        (condition, one.arm, point.batch_size, metric, *numbers(measure))
        for condition in conditions
        for one in curves(summaries, condition)
        for point in one.points
        for metric, measure in (("tokens_per_s", point.tokens_per_s), ("speedup_gmean_paired", point.speed_up))
    )
    return written(COLUMNS, rows)


def _sizes(found: Sequence[Curve]) -> list[int]:
    return sorted({point.batch_size for one in found for point in one.points})
