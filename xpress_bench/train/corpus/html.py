"""Paragraphs of an HTML page."""

from __future__ import annotations

from collections.abc import Iterable
from html.parser import HTMLParser

from xpress_bench.train.corpus.text import MAX_CODE_LINES

_BREAKS = frozenset({
    "address", "article", "aside", "blockquote", "body", "center", "dd", "div", "dl", "dt", "fieldset",
    "form", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "main", "ol", "p", "pre", "section", "table",
    "tr", "ul",
})  # fmt: skip
_SKIP_TAGS = frozenset({"script", "style", "svg", "button", "select", "form", "head", "nav"})
_SKIP_CLASSES = frozenset({"nosearch", "navheader", "navfooter", "toc", "menu", "fancy_toc"})
_BOILERPLATE = ("This page last modified", "See also lists of ")


def html_paragraphs(page: str) -> list[str]:
    """Title and paragraphs of a page without menus, scripts and drawings; '' where something was left out."""
    parser = _Text()
    parser.feed(page)
    parser.close()
    parser.flush()
    title = " ".join(parser.title.split())
    body = [p for p in parser.paragraphs if not p.startswith(_BOILERPLATE)]
    if title and (not body or body[0].casefold() != title.casefold()):
        body.insert(0, title)
    return body


def join_items(paragraphs: Iterable[str]) -> list[str]:
    """Put list items that follow each other on neighbouring lines."""
    out: list[str] = []
    for paragraph in paragraphs:
        if out and paragraph.startswith("- ") and out[-1].rsplit("\n", 1)[-1].startswith("- "):
            out[-1] += "\n" + paragraph
        else:
            out.append(paragraph)
    return out


class _Text(HTMLParser):
    """Collect the paragraphs of a page; a skipped element ends with its own closing tag."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self.paragraphs: list[str] = []
        self._parts: list[str] = []
        self._skip = ""
        self._depth = 0
        self._in_title = False
        self._pre = False
        self._cells = 0

    def flush(self, prefix: str = "") -> None:
        """End the paragraph; the next one begins with `prefix`."""
        text = "".join(self._parts)
        if self._pre:
            text = text.strip("\n")
            if text.count("\n") >= MAX_CODE_LINES:
                self.paragraphs.append("")
                text = ""
        else:
            text = " ".join(text.split())
        if text and text != "-":
            self.paragraphs.append(text)
        self._parts = [prefix] if prefix else []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title" and not self.title:
            self._in_title = True
        if self._skip:
            self._depth += tag == self._skip
            return
        classes = (dict(attrs).get("class") or "").split()
        if tag in _SKIP_TAGS or not _SKIP_CLASSES.isdisjoint(classes):
            self._skip, self._depth = tag, 1
            if tag == "svg":  # a syntax diagram: its heading must go as well
                self.flush()
                self.paragraphs.append("")
        elif tag in _BREAKS:
            self.flush("- " if tag == "li" else "")
            self._pre = tag == "pre"
            self._cells = 0
        elif tag in ("td", "th"):
            self._parts.append(" " if self._cells == 0 else ": " if self._cells == 1 else ", ")
            self._cells += 1
        elif tag == "br":
            self._parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        if self._skip:
            self._depth -= tag == self._skip
            if self._depth == 0:
                self._skip = ""
        elif tag in _BREAKS:
            self.flush()
            self._pre = False

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        elif not self._skip:
            self._parts.append(data)
