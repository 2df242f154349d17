"""Jane Austen's novels by chapter."""

from __future__ import annotations

import re
from pathlib import Path

from xpress_bench.train.corpus.rdata import r_texts
from xpress_bench.train.corpus.text import Pages, clean

# Persuasion and Northanger Abbey are missing on purpose: they are kept for evaluation.
_BOOKS = {
    "emma": "Emma",
    "mansfieldpark": "Mansfield Park",
    "prideprejudice": "Pride and Prejudice",
    "sensesensibility": "Sense and Sensibility",
}
_CHAPTER = re.compile(r"(?im)^\s*chapter\s+[ivxlc\d]+\.?\s*$")
_VOLUME_OR_END = re.compile(r"(?m)^\s*(?:VOLUME\s+[IVX]+|FINIS|THE END)\.?\s*$")


def extract_austen(folder: Path) -> Pages:
    """Four novels by chapter."""
    found = sorted(folder.rglob("janeaustenr/data/Rdata.rdx"))
    for book, text in sorted(r_texts(found[0]).items()) if found else []:
        if book in _BOOKS:
            for number, chapter in enumerate(chapters(text), 1):
                yield f"{book}/{number:02d}", f"{_BOOKS[book]}, chapter {number}\n\n{chapter}"


def chapters(text: str) -> list[str]:
    """Split a novel at its chapter headings and unwrap its paragraphs."""
    out: list[str] = []
    for chapter in _CHAPTER.split(text)[1:]:
        paragraphs = [" ".join(p.split()) for p in re.split(r"\n\s*\n", _VOLUME_OR_END.sub("", chapter))]
        out.append(clean("\n\n".join(p.replace("_", "") for p in paragraphs if p)))
    return out
