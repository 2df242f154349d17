"""Prompt suites: fixed lists of prompts with references, budgets and scorers. No torch.

A suite is a JSONL file of items, beside it a YAML file that says how it is run and scored. Ours are inside the package
and checked against their manifest; a user's file needs only a `prompt` per line, or is a public set as it was
downloaded (`public`); a dataset is named as hf:owner/name (`hub`).
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from xpress_bench.errors import UsageError
from xpress_bench.registry import Registry
from xpress_bench.suites import hub, jsonl, public
from xpress_bench.suites.items import DEFAULT_BUDGET, GROUPED_BY, Item, Suite, digest, spread
from xpress_bench.suites.joined import join, smoke

__all__ = ["DEFAULT_BUDGET", "GROUPED_BY", "SUITES", "Item", "Suite", "digest", "folder", "load_suite", "spread"]

ENDINGS = (".jsonl", ".jsonl.gz", ".json", ".json.gz")
ALL, SMOKE = "all", "smoke"  # every suite of the package, whole and by its smoke list
SUITES: Registry[Path] = Registry("suites")


def folder() -> Path:
    """Where the package's suites lie: inside the wheel, or at the top of a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "_suites"
    return inside if inside.is_dir() else package.parent / "suites"


def _manifest(name: str) -> dict[str, Any]:
    """What was written down of a suite of ours when it was built."""
    found: dict[str, Any] = json.loads((folder() / "MANIFEST.json").read_text(encoding="utf-8"))[name]
    return found


def _summary(name: str) -> str:
    known = _manifest(name)
    languages = ", ".join(sorted(known["languages"]))
    by_heart = known["memorised"].get("high", 0) / known["count"]
    return f"{known['count']} prompts ({languages}), {by_heart:.0%} memorised, {', '.join(sorted(known['licences']))}"


for _file in sorted(folder().glob("*.jsonl")):
    SUITES.add(_file.stem, _file, _summary(_file.stem))
SUITES.add(ALL, folder(), "the suites of the package as one run, results by suite")
SUITES.add(SMOKE, folder(), "a few short prompts of each, for a quick check")


def load_suite(name: str) -> Suite:
    """A suite by name, a file of a user's, or a dataset; several of them with commas, where %2C stands for a comma.

    Raises UsageError naming file, line and field.
    """
    if name in SUITES and name not in (ALL, SMOKE):
        return _ours(name, SUITES.get(name))
    if name.startswith(hub.PREFIX) and "," not in name:
        return hub.load(name)
    try:
        file = Path(name).expanduser()
        exists = file.exists()
    except (OSError, RuntimeError) as error:  # a name too long for a path, or the home of nobody
        raise UsageError(f"suite {name[:80]!r}: {error.__class__.__name__}, this is no path") from error
    if name in (ALL, SMOKE) or ("," in name and not exists):
        parts = list(map(load_suite, _names(name)))
        return join(name, list(map(smoke, parts)) if name == SMOKE else parts)
    if exists or name.endswith(ENDINGS):
        return _theirs(file)
    raise UsageError(f"{SUITES.unknown(name)}; a file of your own is given as FILE.jsonl, a dataset as hf:owner/name")


def _names(name: str) -> list[str]:
    """The names in a list with commas; `all` and `smoke` stand for every suite of the package."""
    if name in (ALL, SMOKE):
        ours = [entry.name for entry in SUITES.entries() if entry.origin == "xpress_bench"]
        return [one for one in ours if one not in (ALL, SMOKE)]
    names = [part.strip() for part in name.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise UsageError(f"suite {name!r}: give different names between the commas")
    return names


def _ours(name: str, file: Path) -> Suite:
    manifest = _manifest(name)
    rows, sha256 = _read(file)
    if sha256 != manifest["sha256"]:
        raise UsageError(
            f"{file}: its bytes are not those of the manifest ({sha256[:12]}, expected {manifest['sha256'][:12]})"
        )
    items = jsonl.items_of(rows, jsonl.own_format(jsonl.stem(file)))
    return _with_settings(Suite(name, str(manifest.get("version", "1")), sha256, items), file)


def _theirs(file: Path) -> Suite:
    rows, sha256 = _read(file)
    known = public.recognise(rows)
    if known:
        return _with_settings(public.suite(known, "public", rows), file)
    name = jsonl.stem(file)
    return _with_settings(Suite(name, "user", sha256, jsonl.items_of(rows, jsonl.own_format(name))), file)


def _read(file: Path) -> tuple[list[jsonl.Row], str]:
    rows, sha256 = jsonl.read(file)
    if not rows:
        raise UsageError(f"{file}: the suite is empty")
    return rows, sha256


def _with_settings(suite: Suite, file: Path) -> Suite:
    """The suite with what the YAML file beside `file` says, if there is one."""
    how = _how(file.with_name(f"{jsonl.stem(file)}.suite.yaml"))
    return replace(
        suite,
        budgets=suite.budgets | _table(how, "output_budget", int),
        scorers=_table(how, "scorers", str),
        parity_margin=how.get("parity_margin"),
        smoke=tuple(how.get("smoke", ())),
        turns=_turns(how),
        report_by=_report_by(how),
    )


def _how(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    import yaml

    try:
        body = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not YAML ({' '.join(str(error).split())})") from error
    if not isinstance(body, dict):
        raise UsageError(f"{file}: holds no table of settings")
    return body


def _table(how: dict[str, Any], key: str, kind: type[Any]) -> dict[str, Any]:
    table = how.get(key) or {}
    if not isinstance(table, dict) or not all(isinstance(value, kind) and value for value in table.values()):
        raise UsageError(f"suite setting {key!r} is {table!r}: give one {kind.__name__} per category")
    return table


def _report_by(how: dict[str, Any]) -> str | None:
    report = how.get("report") or {}
    field = report.get("by") if isinstance(report, dict) else report
    if field is None or field in GROUPED_BY:
        return field
    raise UsageError(f"suite setting 'report: by' is {field!r}: choose one of {', '.join(GROUPED_BY)}")


def _turns(how: dict[str, Any]) -> int | None:
    turns = how.get("turns")
    if turns is None or (isinstance(turns, int) and not isinstance(turns, bool) and turns >= 1):
        return turns
    raise UsageError(f"suite setting 'turns' is {turns!r}: give a whole number of at least 1")
