"""Inline markup of reStructuredText."""

from __future__ import annotations

import re
from collections.abc import Callable


def inline(text: str) -> str:
    """Replace inline markup by the words a reader sees."""
    for pattern, shown in _MARKUP:
        text = pattern.sub(shown, text)
    return text


def _role(match: re.Match[str]) -> str:
    """A role shows its label, or the last part of a target that begins with a tilde."""
    content = " ".join(match[1].split())
    label = re.match(r"(.+?)\s*<[^>]*>$", content)
    if label:
        return label[1]
    if content.startswith("~"):
        return content[1:].rsplit(".", 1)[-1]
    return content.lstrip("!").removeprefix("*")


def _numbered(match: re.Match[str]) -> str:
    """:pep:`8` shows its name too; what follows is left to `_role`."""
    return f"{match[1].upper()} :n:`{match[2]}"


_Shown = str | Callable[[re.Match[str]], str]
_RULES: tuple[tuple[str, _Shown], ...] = (  # in this order
    (r":(pep|rfc):`(\d+)", _numbered),
    (r":[\w+:.-]+:`([^`]*)`", _role),
    (r"\|(?=[^\s|])([\w. -]+)\|", r"\1"),  # substitution
    (r"``(.+?)``", r"\1"),  # literal
    (r"`([^`<]*?)\s*<[^`>]*>`__?", r"\1"),  # link with its address
    (r"`([^`]+)`_{0,2}", r"\1"),  # link by name, default role
    (r"\s?\[(?:#\w*|\d+|\*)\]_", ""),  # footnote
    (r"\*\*(?=\S)(.+?)(?<=\S)\*\*", r"\1"),
    (r"(?<![\w*])\*(?=[^\s*])([^*]*?[^\s*])\*(?![\w*])", r"\1"),
    (r"(?<=\w)_\b(?=[\s.,;:)]|$)", ""),  # link of one word
    (r"\\(\s|$|(?=s\b))", ""),  # escaped blank
    (r"\\([\\*`|_\"'<>-])", r"\1"),
    (r"\s---\s|(?<=\w)---(?=\w)", " — "),
    (r"(?<=[\w\s])--(?=\s)", "\u2013"),
)
_MARKUP = tuple((re.compile(pattern), shown) for pattern, shown in _RULES)
