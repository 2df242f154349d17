"""Documents of the long suite: Austen's novels and the pages of SQLite's manual, read from Debian packages."""

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from xpress_bench.train.corpus.austen import chapters
from xpress_bench.train.corpus.html import html_paragraphs, join_items
from xpress_bench.train.corpus.rdata import r_texts
from xpress_bench.train.corpus.sources import unpack
from xpress_bench.train.corpus.text import clean

AUSTEN_ARCHIVE = "r-cran-janeaustenr_1.0.0-1_all.deb"
SQLITE_ARCHIVE = "sqlite3-doc_3.40.1-2+deb12u2_all.deb"

# A modern editor's note and the novel's one footnote follow the last paragraph of Northanger Abbey.
_AFTER_THE_END = re.compile(r"\n\n(?:\*Vide a letter|A NOTE ON THE TEXT|Finis$).*", re.DOTALL)
_NUMBERED = re.compile(r"(\d+\.)+\d* +\S|\d+\.\d+ +\S")
_CAPTION = re.compile(r"Figure \d+: ")
_SUPERSCRIPT = re.compile(r"<sup>(.*?)</sup>", re.DOTALL)
_WRAPPED_ITEM = re.compile(r"<li>\s*<p>")
_EMPTY_CELL = re.compile(r" *: ,|(?<=[\w\])]) (?=, |: )")


@dataclass(frozen=True, slots=True)
class Paragraph:
    """One paragraph of a novel and the chapter, counted from 1 over the whole novel, that it stands in."""

    chapter: int
    text: str


@contextmanager
def unpacked(archive: Path) -> Iterator[Path]:
    """The files of a .deb archive, for as long as the block runs."""
    with tempfile.TemporaryDirectory() as folder:
        unpack(archive, Path(folder))
        yield Path(folder)


def novels(archive: Path, names: Sequence[str]) -> dict[str, list[Paragraph]]:
    """The named novels as paragraphs in order, without title page, volume headings and what follows the end."""
    with unpacked(archive) as folder:
        texts = r_texts(next(folder.rglob("janeaustenr/data/Rdata.rdx")))
    return {name: list(_paragraphs(texts[name])) for name in names}


def _paragraphs(novel: str) -> Iterator[Paragraph]:
    for number, chapter in enumerate(chapters(novel), 1):
        for text in _AFTER_THE_END.sub("", chapter).split("\n\n"):
            yield Paragraph(number, text.rstrip("*"))


def pages(archive: Path, names: Sequence[str]) -> dict[str, list[str]]:
    """The named pages of SQLite's manual as paragraphs, the title first."""
    with unpacked(archive) as folder:
        root = folder / "usr/share/doc/sqlite3"
        return {name: page_paragraphs((root / f"{name}.html").read_text(encoding="utf-8")) for name in names}


def page_paragraphs(page: str) -> list[str]:
    """Text of a page without menu, drawings and long listings, and without the words that announced a left-out part."""
    page = _SUPERSCRIPT.sub(lambda found: f"^{found[1]}" if found[1].isdigit() else "", page)
    kept: list[str] = []
    for raw in join_items(html_paragraphs(_WRAPPED_ITEM.sub("<li>", page))):
        text = clean(raw)
        if "\n" not in text:
            text = _EMPTY_CELL.sub(lambda found: ":" if ":" in found[0] else "", text)
        if _CAPTION.match(text):
            continue  # its figure is an image
        if text:
            kept.append(text)
        elif kept and kept[-1].endswith(":"):
            rest = re.match(r"(?s).*[.!?)](?=\s)", kept.pop())
            kept += [rest[0]] if rest else []
    return kept


def cut(paragraphs: Sequence[str], limit: float, longest: float) -> str:
    """Joined paragraphs; a text of more than `longest` characters ends before a numbered heading within `limit`."""
    size, end = -2, 0
    for at, text in enumerate(paragraphs):
        if size <= limit and _NUMBERED.match(text) and "\n" not in text:
            end = at
        size += len(text) + 2
    return "\n\n".join(paragraphs[:end] if size > longest else paragraphs)
