"""The tables of a page for a paper: booktabs, each in a `table` with its verdict as caption.

Only what a table holds is set; the lines below it follow as comments. Text is escaped, and a character that pdfTeX has
no glyph for becomes its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xpress_bench.analyse.digits import NONE
from xpress_bench.publish.lines import Line
from xpress_bench.publish.page import Page, Section, Table

PREAMBLE = r"% needs \usepackage{booktabs,graphicx}"
_SHRUNK = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"  # only a table that is too wide
_ESCAPED = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}


def latex(page: Page) -> str:
    """LaTeX to be put into a document that loads booktabs and graphicx."""
    return "\n".join([PREAMBLE, _comment(" · ".join(page.title)), *_sections(page), *_comments(page.lines)]) + "\n"


def _sections(page: Page) -> Iterator[str]:
    for section in page.sections:
        yield from _table(section.table, _caption(section, section.verdict))
        if section.breakdown:
            yield from _table(section.breakdown, _caption(section, "By group."))
        yield from _comments(section.lines)


def _caption(section: Section, text: str) -> str:
    return f"{section.heading}: {text}" if section.heading else text


def _table(table: Table, caption: str) -> Iterator[str]:
    yield r"\begin{table}"
    yield r"  \centering"
    yield rf"  \caption{{{escaped(caption)}}}"
    yield f"  {_SHRUNK}"
    yield rf"  \begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}"
    yield rf"    \toprule {_row(table.columns)}"
    yield r"    \midrule"
    yield from (f"    {_row(row)}" for row in table.rows)
    yield r"    \bottomrule"
    yield r"  \end{tabular}}"
    yield r"\end{table}"


def _row(cells: Iterable[str]) -> str:
    # A bracket or a star behind the end of the row before would be taken for its argument.
    return rf"{{}}{' & '.join('--' if cell == NONE else escaped(cell) for cell in cells)} \\"


def escaped(text: str) -> str:
    """Text that LaTeX sets as it stands."""
    return "".join(map(_character, text))


def _character(character: str) -> str:
    if character.isascii() or "À" <= character <= "ÿ":
        return _ESCAPED.get(character, character)
    return f"[U+{ord(character):04X}]"


def _comments(lines: Iterable[Line]) -> Iterator[str]:
    return (_comment(f"{label}: {text}") for label, text in lines)


def _comment(text: str) -> str:
    return f"% {text}"
