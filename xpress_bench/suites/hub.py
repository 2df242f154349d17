"""Datasets as suites: 'hf:owner/name?config=main&split=test', or 'hf:./FOLDER' for a folder of data files.

Quote it for the shell. After the question mark, all optional:
  config, split         as `datasets` names them; the split is test unless said
  revision              a commit, tag or branch of the hub; the newest if not said
  prompt                the column of prompts: a text each, or a list of texts, one per turn
  references            the column of accepted answers: a text, a whole number, or a list of texts
  category, id          columns of those
  answer_type           how references are scored: exact (default), set, date or text
Columns need naming only for a set that is neither one of `public` nor in our own format. Write % as %25 and & as %26.

The suite's version is the commit that the data is of. Offline (HF_HUB_OFFLINE or HF_DATASETS_OFFLINE) the library takes
what its cache holds, whatever was asked for; the commit is then read from the cache's folder and compared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from xpress_bench.errors import UsageError, nearest
from xpress_bench.suites import public
from xpress_bench.suites.items import Item, Suite, digest
from xpress_bench.suites.jsonl import Convert, Row, items_of, own_format

PREFIX = "hf:"
COLUMNS = ("prompt", "references", "category", "id")
KEYS = ("config", "split", "revision", *COLUMNS, "answer_type")
ANSWER_TYPES = ("exact", "set", "date", "text")
COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Address:
    """What stands behind hf: as a path (hub id or folder) and options by key."""

    path: str
    options: Mapping[str, str]

    @property
    def name(self) -> str:
        """A name for files: the last part of the path."""
        return re.sub(r"[^\w.-]+", "-", Path(self.path).expanduser().resolve().name) or "dataset"

    def columns(self) -> dict[str, str]:
        """The columns that were named, by what they are."""
        return {key: self.options[key] for key in COLUMNS if key in self.options}

    def refuse(self, what: str) -> NoReturn:
        raise UsageError(f"dataset {self.path!r} {what}")


def load(name: str) -> Suite:
    """The suite behind an address. UsageError if it cannot be had, or naming row and column if one is wrong."""
    address = parsed(name)
    dataset, version = _fetched(address)
    columns = address.columns()
    for column in columns.values():
        if column not in dataset.column_names:
            address.refuse(f"has no column {column!r}; {_nearest(column, dataset.column_names)}")
    if columns:
        dataset = dataset.select_columns(list(dict.fromkeys(columns.values())))
    rows = [Row(f"dataset {address.path!r}", "row", number, row) for number, row in enumerate(dataset, start=1)]
    if not rows:
        address.refuse("is empty")
    known = None if columns else public.recognise(rows)
    if known:
        return public.suite(known, version, rows)
    items = items_of(rows, _converter(address, dataset.column_names))
    return Suite(address.name, version, digest(items), items)


def parsed(name: str) -> Address:
    """Path and options of an address. UsageError with the nearest key if one is unknown."""
    path, _, query = name.removeprefix(PREFIX).partition("?")
    try:
        pairs = parse_qsl(query.replace("+", "%2B"), keep_blank_values=True, strict_parsing=bool(query))
    except ValueError as error:
        raise UsageError(f"suite {name!r}: {error}; give KEY=VALUE, several with & between them") from error
    options = dict(pairs)
    for key, value in pairs:
        if key not in KEYS:
            raise UsageError(f"suite {name!r}: there is no option {key!r}; {_nearest(key, KEYS)}")
        if not value or options[key] != value:
            raise UsageError(f"suite {name!r}: give one value of {key!r}")
    if not path:
        raise UsageError(f"suite {name!r}: give a dataset as hf:owner/name, or a folder as hf:./FOLDER")
    if options.get("answer_type", "exact") not in ANSWER_TYPES:
        raise UsageError(f"suite {name!r}: answer_type is one of {', '.join(ANSWER_TYPES)}")
    if options.keys() & {*COLUMNS, "answer_type"} and "prompt" not in options:
        raise UsageError(f"suite {name!r}: say also which column holds the prompts, as prompt=COLUMN")
    return Address(path, options)


def _converter(address: Address, names: Sequence[str]) -> Convert:
    """For the columns that were named, or for our own format."""
    chosen = address.columns()
    if not chosen and "prompt" not in names:
        address.refuse(
            f"has the columns {', '.join(names)}, those of no known set; "
            f"say which holds the prompts: 'hf:{address.path}?prompt=COLUMN'"
        )
    if not chosen:
        return own_format(address.name)

    def convert(row: Row, position: int) -> Item:
        prompt, references = chosen["prompt"], chosen.get("references")
        turns = row.texts(prompt) if isinstance(row.fields[prompt], list) else (row.text(prompt),)
        return Item(
            id=row.label(chosen["id"]) if "id" in chosen else f"{address.name}-{position:04d}",
            prompt=turns[0],
            category=row.label(chosen["category"]) if "category" in chosen else "all",
            turns=turns if len(turns) > 1 else None,
            references=_references(row, references) if references else (),
            answer_type=address.options.get("answer_type", "exact") if references else "none",
            source=address.path,
            source_id=address.name,
        )

    return convert


def _references(row: Row, column: str) -> tuple[str, ...]:
    """Accepted answers; none where the row has none."""
    value = row.fields[column]
    if value is None or value == []:
        return ()
    return row.texts(column) if isinstance(value, list) else (row.label(column),)


def _fetched(address: Address) -> tuple[Any, str]:
    """The dataset's split, and the commit that it is of; "local" for a folder."""
    asked = address.options.get("revision")
    try:
        folder = Path(address.path).expanduser()
        is_folder, is_file = folder.is_dir(), folder.is_file()
    except (OSError, RuntimeError):  # too long for a path, or the home of nobody
        address.refuse("is neither a path nor a hub id")
    if is_folder:
        if asked:
            address.refuse("is a folder and has no revisions: leave revision= out")
        return _loaded(address, str(folder), None), "local"
    if is_file:
        address.refuse("is a file: give its folder, or leave hf: out if it is JSONL")
    if address.path.startswith((".", "/", "~")) or address.path.count("/") > 1:
        address.refuse("is no folder here, and no hub id, which looks like owner/name")
    from datasets import config
    from huggingface_hub import constants

    offline = config.HF_HUB_OFFLINE or constants.HF_HUB_OFFLINE
    wanted = asked if offline else _commit(address, asked)
    dataset = _loaded(address, address.path, wanted)
    held = _held(dataset)
    if wanted and held and COMMIT.fullmatch(wanted) and wanted != held:
        address.refuse(f"is in the cache as of commit {held}, not {wanted}; connect, or give revision={held}")
    return dataset, held or ("offline, revision unknown" if offline else str(wanted))


def _commit(address: Address, asked: str | None) -> str:
    """The commit behind a revision of the hub, the newest if none is asked for."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        found = HfApi().dataset_info(address.path, revision=asked).sha
    except RevisionNotFoundError:
        address.refuse(f"has no revision {asked!r} on the hub")
    except GatedRepoError:
        address.refuse("is gated: ask for access on its page, then log in with `hf auth login`")
    except (RepositoryNotFoundError, HFValidationError):
        address.refuse("is no folder here and not on the hub, or private: check owner/name, or log in")
    except Exception as error:  # the hub's client raises its transport's errors, which have no common base of ours
        raise UsageError(
            f"dataset {address.path!r} is no folder here, and the hub cannot be reached ({type(error).__name__}); "
            "give a local folder, or fill the cache and set HF_HUB_OFFLINE=1"
        ) from error
    return str(found)


def _loaded(address: Address, where: str, revision: str | None) -> Any:
    """A split as `datasets` loads it; code that comes with a dataset is never run."""
    import datasets

    datasets.disable_progress_bars()
    try:
        return datasets.load_dataset(
            where, name=address.options.get("config"), split=address.options.get("split", "test"), revision=revision
        )
    except Exception as error:  # the library raises errors of many kinds; none of them may end as a traceback
        cause = error.__cause__ if isinstance(error, datasets.exceptions.DatasetGenerationError) else error
        said = " ".join(str(cause or error).partition("Example of usage")[0].split())
        raise UsageError(f"dataset {address.path!r} does not load ({said}){_todo(error)}") from error


def _todo(error: Exception) -> str:
    if isinstance(error, ConnectionError):
        return "; connect once, so that the cache holds it"
    return "; choose with config=, split= and revision=" if isinstance(error, ValueError) else ""


def _held(dataset: Any) -> str | None:
    """The commit that a hub dataset's files are of, which names their folder in the cache."""
    found = {Path(file["filename"]).parent.name for file in dataset.cache_files}
    commit = found.pop() if len(found) == 1 else ""
    return commit if COMMIT.fullmatch(commit) else None


def _nearest(word: str, known: Sequence[str]) -> str:
    return nearest(word, known, f"there are {', '.join(known)}", most=1)
