"""Cleaning that every source shares."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

Pages = Iterator[tuple[str, str]]  # name within its source, text

MAX_CODE_LINES = 12  # longer listings teach a small prose model little
MIN_REPEAT = 40  # characters; shorter paragraphs ("Example:") may repeat

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffd\u200b-\u200f\ufeff\u00ad]")
_ADDRESS = re.compile(
    r"[(<]?\b(?:https?|ftp)://[^\s<>\x22\x27`]*[^\s<>\x22\x27`.,;:!?)][)>]?"
    r"|<?\b[\w.+-]+@[\w-]+\.[\w.-]+\w>?"
)


def slug(name: str) -> str:
    """Lower-case ASCII form of a name, so that spelling variants of a country compare equal."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")


def clean(text: str) -> str:
    """NFC text with blanks collapsed and exactly one blank line between paragraphs.

    Leading blanks stay, because they carry the meaning of code and nested lists.
    """
    text = unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\xa0", " "))
    text = _ADDRESS.sub("", _CONTROL.sub("", text).expandtabs(4))
    lines = [re.sub(r"(?<=\S)[^\S\n]{2,}", " ", line).rstrip() for line in text.split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


def is_prose(paragraph: str) -> bool:
    """Tell text from tables, grammars and rulers by its share of letters and blanks."""
    kept = sum(1 for c in paragraph if c.isalpha() or c in " ,.'")
    return kept >= 0.72 * len(paragraph) and any(c.isalpha() for c in paragraph)


def finish(paragraphs: Iterable[str], seen: set[str]) -> str:
    """Clean and join paragraphs, leaving out noise and what an earlier page already said.

    An empty paragraph marks a place where something was left out; `seen` grows by what is kept.
    """
    kept: list[str] = []
    for raw in paragraphs:
        paragraph = clean(raw)
        if not is_prose(paragraph) or paragraph in seen:
            _drop_announcement(kept)
            continue
        if len(paragraph) >= MIN_REPEAT:
            seen.add(paragraph)
        kept.append(paragraph)
    return "\n\n".join(kept)


def _drop_announcement(kept: list[str]) -> None:
    """Take back the sentence that announced a listing or table which was left out."""
    if kept and kept[-1].endswith(":"):
        rest = re.match(r"(?s).*[.!?)](?=\s)", kept.pop())
        if rest:
            kept.append(rest[0])
