"""A page on the terminal, in one of the formats that every page has."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xpress_bench.publish.page import Page

FORMATS = ("terminal", "markdown", "latex")


def lay_out(content: Page, layout: str) -> None:
    """Print a page in one of FORMATS."""
    from xpress_bench.publish import latex, markdown, text

    if layout == "markdown":
        print(markdown.markdown(content))
    elif layout == "latex":
        print(latex.latex(content), end="")
    else:
        text.show(content)
