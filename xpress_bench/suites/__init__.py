"""Prompt suites: fixed lists of prompts with references, budgets and scorers. No torch.

A suite is a JSONL file of items, beside it a YAML file that says how it is run and scored. Ours are inside the package
and checked against their manifest; a user's file needs only a `prompt` per line, or is a public set as it was
downloaded (`public`); a dataset is named as hf:owner/name (`hub`).
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable
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
MAX_SETTINGS_BYTES = 100_000
ALL, SMOKE = "all", "smoke"  # every suite of the package, whole and by its smoke list
SUITES: Registry[Path] = Registry("suites")
_SHORT = reprlib.Repr()  # aliases of YAML can stand for far more text than the file has
_SHORT.maxlevel = 2


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
        if name == SMOKE:
            parts = list(map(smoke, parts))
        return join(name if name in SUITES else ",".join(part.name for part in parts), parts)
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
    """The suite with what the YAML file beside `file` says, if there is one. UsageError naming file and setting."""
    beside = file.with_name(f"{jsonl.stem(file)}.suite.yaml")
    how = _how(beside)

    def said(key: str, fits: Callable[[Any], bool], wanted: str) -> Any:
        value = how.get(key)
        if value is None or fits(value):
            return value
        raise UsageError(f"{beside}: suite setting {key!r} is {_SHORT.repr(value)}: give {wanted}")

    report = said("report", lambda value: _by(value) in GROUPED_BY, f"'by: FIELD', one of {', '.join(GROUPED_BY)}")
    return replace(
        suite,
        budgets=suite.budgets
        | (said("output_budget", _table(_whole), "a whole number of at least 1 per category") or {}),
        scorers=said("scorers", _table(_text), "the name of a scorer per category or answer type") or {},
        parity_margin=said("parity_margin", _share, "the loss of score that is allowed, from 0 to 1"),
        smoke=tuple(said("smoke", _texts, "a list of ids") or ()),
        turns=said("turns", _whole, "a whole number of at least 1"),
        report_by=_by(report),
    )


def _how(file: Path) -> dict[str, Any]:
    """The settings in a YAML file, empty if there is no file."""
    return yaml_table(file, MAX_SETTINGS_BYTES, "these are no settings of a suite") if file.is_file() else {}


def yaml_table(file: Path, most_bytes: int, otherwise: str) -> dict[str, Any]:
    """The table in a YAML file of at most `most_bytes`. UsageError, one line, on anything else; `otherwise` ends it."""
    import yaml

    try:
        if file.stat().st_size > most_bytes:
            raise UsageError(f"{file}: larger than {most_bytes} bytes, {otherwise}")
        body = yaml.safe_load(file.read_bytes())
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a date or number that there is not
        raise UsageError(f"{file}: not YAML ({' '.join(str(error).split())})") from error
    except OSError as error:
        raise UsageError(f"{file}: {(error.strerror or str(error)).lower()}") from error
    if not isinstance(body, dict):
        raise UsageError(f"{file}: holds no table of settings")
    return body


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _table(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(_text, value)) and all(map(fits, value.values()))


def _by(report: Any) -> Any:
    return report.get("by") if isinstance(report, dict) else report
