"""What others have published: their tables as data, one YAML file per publication in `baselines/published`.

A file says where its figures stand, how sure they are, by which rule each is averaged (the names are those of
`metrics`), which prompts were run, and how. Every figure is a row of its own here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec

from xpress_bench.analyse.metrics import OF_REQUESTS, OF_STEPS
from xpress_bench.errors import UsageError, nearest
from xpress_bench.suites import yaml_table

MAX_BYTES = 100_000
UNCUT = "tokens_per_step_uncut"  # as tokens_per_step_nominal, with what was accepted behind a stop id counted
RULES = ("median_paired", "gmean_paired", "total_time", "mean_tps", "mean_tpot")
SPEED_UPS = tuple(f"speedup_{rule}" for rule in RULES)
THROUGHPUTS = ("tokens_per_s", "tokens_per_s_ratio")  # of an engine; no run of ours measures one
METRICS = (
    *(f"{name}{suffix}" for name in (*OF_STEPS, *OF_REQUESTS, UNCUT) for suffix in ("_step", "_prompt", "_suite")),
    *SPEED_UPS,
    *THROUGHPUTS,
)
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
Whole = Annotated[int, msgspec.Meta(ge=1)]
Figure = Annotated[float, msgspec.Meta(gt=0, le=1e9)]


class Metric(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Printed with `decimals`. `tolerance`: what the authors allow. `unlike`: how theirs is not ours of that name."""

    decimals: Annotated[int, msgspec.Meta(ge=0, le=6)]
    tolerance: Annotated[float, msgspec.Meta(gt=0)] | None = None
    unlike: Text | None = None


class Dataset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which prompts were run: all of `suite`, `prompts` many, first turns; or `drawn` says what we cannot run."""

    suite: Text | None = None
    prompts: Whole | None = None
    drawn: Text | None = None


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of a table: per data set the values of `metrics`, and how they came about, None where that is not known.

    `refiner`: the head in the drafter's checkpoint. `passes`: one of these. `hardware`: a word of the device's name.
    """

    metrics: tuple[Text, ...]
    values: dict[Text, tuple[Figure, ...]]
    target: Text
    drafter: Text
    refiner: Text | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0)] | None = None
    verifier: Text | None = None
    block_size: Whole | None = None
    passes: tuple[Whole, ...] | None = None
    max_new_tokens: Whole | None = None
    thinking: bool | None = None
    batch_size: Whole | None = None
    dtype: Text | None = None
    hardware: Text | None = None
    engine: Text | None = None
    confidence: Text | None = None


class Publication(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file. `source` says where the figures stand, `confidence` how they reached us."""

    title: Text
    source: Text
    confidence: Text
    metrics: dict[Text, Metric]
    datasets: dict[Text, Dataset]
    rows: tuple[Row, ...]

    def figures(self) -> Iterator[tuple[Row, str, str, float]]:
        """Every figure: its line, data set, metric and value."""
        for row in self.rows:
            for dataset, values in row.values.items():
                for metric, value in zip(row.metrics, values, strict=True):
                    yield row, dataset, metric, value


def folder() -> Path:
    """Where the files lie: inside the wheel, or in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "_published"
    return inside if inside.is_dir() else package.parent / "baselines" / "published"


def names() -> list[str]:
    """Publications that can be asked for by name."""
    return sorted(file.stem for file in folder().glob("*.yaml"))


def load(name: str) -> Publication:
    """A publication by name, or a user's own as FILE.yaml. UsageError naming file and key of what is wrong."""
    if name in names():
        return read(folder() / f"{name}.yaml")
    if name.endswith(".yaml"):
        return read(Path(name))
    known = names()
    hint = nearest(name, known, f"choose one of {', '.join(known)}")
    raise UsageError(f"--against-published {name!r}: no such publication; {hint}; your own is given as FILE.yaml")


def read(file: Path) -> Publication:
    """The publication in a file. UsageError as `load`."""
    try:
        found = msgspec.convert(
            _rows_filled(yaml_table(file, MAX_BYTES, "this is no table of a publication")), Publication
        )
    except msgspec.ValidationError as error:
        raise UsageError(f"{file}: {error}") from error
    fault = _fault(found)
    if fault:
        raise UsageError(f"{file}: {fault}")
    return found


def _rows_filled(body: dict[str, Any]) -> dict[str, Any]:
    """The file with what `common` says put into each row that does not say otherwise."""
    common, rows = body.get("common", {}), body.get("rows")
    if not isinstance(common, dict):
        raise msgspec.ValidationError("Expected `object` - at `$.common`")
    if isinstance(rows, list):
        rows = [{**common, **row} if isinstance(row, dict) else row for row in rows]
    return {key: value for key, value in body.items() if key != "common"} | {"rows": rows}


def _fault(found: Publication) -> str | None:
    """What the types cannot tell, with where it stands."""
    for name in found.metrics:
        if name not in METRICS:
            return f"metrics: {name!r} is none of ours; {nearest(name, METRICS, 'see analyse/metrics.py')}"
    for name, one in found.datasets.items():
        if (one.suite is None, one.prompts is None) != (one.drawn is not None,) * 2:
            return f"datasets.{name}: give either `suite` and `prompts`, or `drawn`"
    for at, row in enumerate(found.rows):
        unknown = {*row.metrics} - {*found.metrics} or {*row.values} - {*found.datasets}
        if unknown:
            return f"rows[{at}]: {min(unknown)!r} stands neither under metrics nor under datasets"
        if any(len(values) != len(row.metrics) for values in row.values.values()):
            return f"rows[{at}].values: give one value for each of {', '.join(row.metrics)}"
    return None
