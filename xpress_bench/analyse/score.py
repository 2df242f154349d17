"""Task score of an output against the references of its suite item, between 0 and 1.

Text is compared after SQuAD's normalisation (Rajpurkar et al. 2016) with NFKC and thousands separators removed. When
the output ends in the form "Answer: X" only X is compared, the last one counts.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from statistics import fmean
from typing import Protocol

from xpress_bench.analyse.intervals import Unknown
from xpress_bench.errors import UsageError
from xpress_bench.records import Cell


class Scorable(Protocol):
    """What scoring needs of a suite item; `answer_type` is exact, set, date, text or none."""

    @property
    def id(self) -> str: ...
    @property
    def references(self) -> Sequence[str]: ...
    @property
    def answer_type(self) -> str: ...
    @property
    def category(self) -> str: ...


_BY_ANSWER_TYPE = {"exact": "exact", "date": "exact", "set": "set_f1", "text": "chrf"}
_ANSWER = re.compile(r"^[ \t*#>]*answer[ \t*]*:[ \t*]*(\S.*)$", re.IGNORECASE | re.MULTILINE)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_SIGN_OR_POINT = re.compile(r"(?<!\w)-(?=\d)|(?<=\d)\.(?=\d)")


def score(text: str, item: Scorable, scorers: Mapping[str, str] | None = None) -> float | Unknown:
    """Score of one output, 0 to 1; Unknown and UsageError as `usable`."""
    name = usable(item, scorers)
    return name if isinstance(name, Unknown) else _scored(name, text, tuple(item.references))


@lru_cache(2**14)  # arms, repeats and groups of prompts mostly say the same, and chrF is slow
def _scored(name: str, text: str, references: tuple[str, ...]) -> float:
    return SCORERS[name](text, references)


def usable(item: Scorable, scorers: Mapping[str, str] | None = None) -> str | Unknown:
    """The name of an item's scorer; Unknown when the item has no reference or the scorer is not installed.

    `scorers` maps a category or an answer type to a scorer's name (exact, contains, token_f1, set_f1, chrf), the
    category first. UsageError on any other name.
    """
    if not item.references or item.answer_type == "none":
        return Unknown("no reference")
    name = scorer_of(item, scorers)
    if name not in SCORERS:
        raise UsageError(f"item {item.id}: scorer {name!r} is none of {', '.join(SCORERS)}")
    if name == "chrf" and find_spec("sacrebleu") is None:
        return Unknown("chrF needs sacrebleu: pip install 'xpress-bench[score]'")
    return name


def prompt_scores(
    cells: Sequence[Cell], items: Mapping[str, Scorable], scorers: Mapping[str, str] | None
) -> dict[str, float]:
    """Mean score of each prompt that has one; references are answers to the first turn."""
    said: defaultdict[str, list[str]] = defaultdict(list)
    for cell in cells:
        if cell.turn == 1 and cell.prompt in items:
            said[cell.prompt].append(cell.text)
    names = {prompt: usable(items[prompt], scorers) for prompt in said}
    return {
        prompt: fmean(_scored(name, text, tuple(items[prompt].references)) for text in said[prompt])
        for prompt, name in names.items()
        if not isinstance(name, Unknown)
    }


def scorer_of(item: Scorable, scorers: Mapping[str, str] | None = None) -> str:
    """Name of the scorer of an item: its category's, else its answer type's; empty if there is none."""
    table = {**_BY_ANSWER_TYPE, **(scorers or {})}
    return table.get(item.category) or table.get(item.answer_type, "")


def exact(text: str, references: Sequence[str]) -> float:
    """1 if the answer equals a reference after normalising."""
    return float(normalise(answer(text)) in {normalise(reference) for reference in references})


def contains(text: str, references: Sequence[str]) -> float:
    """1 if the words of a reference stand in the answer, whole and in a row: "12" is not in "112"."""
    words = f" {normalise(answer(text))} "
    return float(any(f" {normalise(reference)} " in words for reference in references if normalise(reference)))


def token_f1(text: str, references: Sequence[str]) -> float:
    """Best F1 of words, counted with multiplicity, over the references."""
    words = normalise(answer(text)).split()
    return max(_f1(Counter(words), Counter(normalise(reference).split())) for reference in references)


def set_f1(text: str, references: Sequence[str]) -> float:
    """F1 of the members listed in the answer, parted by commas, semicolons or "and"; each reference is one member."""
    wanted = {normalise(reference) for reference in references}
    parts = re.split(r"[;,\n]", _THOUSANDS.sub("", answer(text)))
    listed = {member for part in parts for member in _members(part, wanted)}
    return _f1(Counter(listed), Counter(wanted))


def chrf(text: str, references: Sequence[str]) -> float:
    """chrF of the whole output (Popovic 2015) by sacrebleu, divided by 100."""
    from sacrebleu.metrics.chrf import CHRF  # here, as it is slow to import and most suites need no chrF

    return float(CHRF().sentence_score(text, list(references)).score) / 100


SCORERS: Mapping[str, Callable[[str, Sequence[str]], float]] = {
    "exact": exact,
    "contains": contains,
    "token_f1": token_f1,
    "set_f1": set_f1,
    "chrf": chrf,
}


def answer(text: str) -> str:
    """What follows the last line that starts with "Answer:", else the whole text."""
    found = _ANSWER.findall(text)
    return found[-1].strip() if found else text.strip()


def normalise(text: str) -> str:
    """NFKC, lower case, single blanks; no articles, no punctuation but the sign and the decimal point of a number."""
    text = unicodedata.normalize("NFKC", text).lower().replace("\N{MINUS SIGN}", "-")
    text = _THOUSANDS.sub("", text)
    kept = {match.start() for match in _SIGN_OR_POINT.finditer(text)}
    bare = "".join(c for at, c in enumerate(text) if at in kept or unicodedata.category(c)[0] not in "PS")
    return " ".join(_ARTICLES.sub(" ", bare).split())


def _members(part: str, wanted: set[str]) -> set[str]:
    if normalise(part) in wanted:  # "Bosnia and Herzegovina" is one country
        return {normalise(part)}
    return {normalise(one) for one in re.split(r"\band\b", part, flags=re.IGNORECASE)} - {""}


def _f1(found: Counter[str], wanted: Counter[str]) -> float:
    if not found or not wanted:
        return float(found == wanted)
    shared = (found & wanted).total()
    return 2 * shared / (found.total() + wanted.total())
