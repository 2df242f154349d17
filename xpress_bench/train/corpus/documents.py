"""The built documents: reading them, leaving some out, and looking for overlap with evaluation texts."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

from xpress_bench.train.corpus.text import slug


def read(folder: Path, exclude: Iterable[str] = frozenset()) -> Iterator[dict[str, str]]:
    """The documents built in `folder`, without the excluded ones."""
    excluded = frozenset(exclude)
    for path in sorted((folder / "text").glob("*.jsonl")):
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                document: dict[str, str] = json.loads(line)
                if not held_out(document["id"], excluded):
                    yield document


def held_out(document_id: str, exclude: Iterable[str]) -> bool:
    """Whether a document is excluded by its id, with or without the source, or by a Factbook country's name or code."""
    source, _, name = document_id.partition("/")
    names = [document_id, name]
    if source == "factbook":
        names += name.split("/")
    keys = {_key(name) for name in names}
    return any(_key(entry.removesuffix(".html")) in keys for entry in exclude)


def _key(name: str) -> str:
    """What names are compared by: "The Bahamas" and "Bahamas" are one country."""
    return slug(name).removeprefix("the-")


def shared_ngrams(texts: Iterable[str], references: Iterable[str], n: int = 13) -> set[tuple[str, ...]]:
    """Word n-grams that occur both in `texts` and in `references`; only those of `references` are held in memory.

    An empty result proves that no run of n words of an evaluation item stands in the training text.
    """
    wanted = {gram for text in references for gram in _ngrams(text, n)}
    return {gram for text in texts for gram in _ngrams(text, n) if gram in wanted}


def _ngrams(text: str, n: int) -> Iterator[tuple[str, ...]]:
    words = re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())
    return zip(*(words[start:] for start in range(n)), strict=False)
