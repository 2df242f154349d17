"""Paragraphs of a reStructuredText page."""

from __future__ import annotations

import re

from xpress_bench.train.corpus.rst_inline import inline
from xpress_bench.train.corpus.text import MAX_CODE_LINES

_DIRECTIVE = re.compile(r"^\.\.\s+([\w:+.-]+?)::(?:\s+(.*))?$")
_OPTION = re.compile(r":[\w-]+:")
_PAGE_FIELD = re.compile(r"^:[\w-]+:(\s|$)")
_RULER = re.compile(r"^([=\-~^\"'`#*+.:_])\1{2,}$")
_SIMPLE_TABLE = re.compile(r"^=+(?:\s+=+)+$")
_ITEM = re.compile(r"^(?:[*+-]|#\.|\d+[.)]|\(?[a-z]\))\s+(?=\S)")
_PARAMETER = re.compile(r"(?:^|(?<= )):(?:param |type )?([\w *]+?):+(?= |$)")

_DROP = frozenset({
    "index", "toctree", "module", "image", "figure", "only", "raw", "highlight", "highlightlang",
    "currentmodule", "moduleauthor", "sectionauthor", "tabularcolumns", "csv-table", "list-table", "table",
    "productionlist", "contents", "literalinclude", "include", "testsetup", "testcleanup", "graphviz",
    "rst-class", "cssclass", "role", "default-role", "default-domain", "audit-event", "audit-event-table",
    "limited-api-list", "availability", "py:module", "py:currentmodule",
})  # fmt: skip
_CODE = frozenset({
    "code", "code-block", "sourcecode", "parsed-literal", "console", "prompt", "doctest", "testcode",
    "testoutput", "ipython",
})  # fmt: skip
_SAY = {
    "versionadded": "New in version", "versionchanged": "Changed in version",
    "deprecated": "Deprecated since version", "deprecated-removed": "Deprecated since version",
    "note": "Note:", "warning": "Warning:", "caution": "Caution:", "tip": "Tip:", "hint": "Hint:",
    "important": "Important:", "impl-detail": "Implementation detail:",
    "seealso": "See also:", "danger": "Danger:", "attention": "Attention:",
}  # fmt: skip
_BARE = frozenset({
    "admonition", "topic", "rubric", "sidebar", "centered", "container", "glossary", "hlist", "describe",
})  # fmt: skip


def rst_paragraphs(text: str) -> list[str]:
    """Paragraphs of a page with its markup taken away lightly; '' where something was left out."""
    lines = [line.rstrip() for line in text.expandtabs(8).split("\n")]
    out: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at].strip()
        if not line or _RULER.match(line) or (_PAGE_FIELD.match(line) and not out):
            at += 1
        elif line == ".." or line.startswith(".. "):
            at = _explicit(lines, at, out)
        elif _SIMPLE_TABLE.match(line):
            at = _table_end(lines, at)
            out.append("")
        elif line.startswith(("+--", "+==", "__ ")):
            at = _block_end(lines, at)
            out.append("")
        elif line.startswith((">>> ", "$ ")):
            end = _block_end(lines, at)
            out.append(_code_block(lines[at:end]))
            at = end
        else:
            at = _plain(lines, at, out)
    return out


def _explicit(lines: list[str], at: int, out: list[str]) -> int:
    """Handle a line that begins with two dots; return the index to go on at."""
    end = _body_end(lines, at + 1, _indent(lines[at]))
    match = _DIRECTIVE.match(lines[at].strip())
    if not match:
        return end  # comment, label, footnote or substitution
    name, argument = match[1].lower(), match[2] or ""
    if name in _DROP:
        return end
    if name in _CODE:
        out.append(_code_block(lines[at + 1 : end]))
        return end
    said = _directive(name, argument)
    at += 1
    while at < end and (line := lines[at].strip()):  # options and further signatures touch the directive
        if not _OPTION.match(line):
            if name in _SAY or name in _BARE:
                break
            said += "\n" + line.replace("\\", "")
        at += 1
    out.append(inline(said))
    return at  # the body is read as ordinary text


def _directive(name: str, argument: str) -> str:
    """What a directive says itself, before its body."""
    if name in _SAY:
        said = f"{_SAY[name]} {argument}".rstrip()
        return said if _SAY[name].endswith(":") else said + "."
    if name in _BARE:
        return argument
    return argument.replace("\\", "")  # object descriptions: the signature


def _plain(lines: list[str], at: int, out: list[str]) -> int:
    """Emit an ordinary block and the listing that its closing '::' announces; return the index to go on at."""
    end = _block_end(lines, at)
    block = lines[at:end]
    announces = block[-1].endswith("::")
    paragraph = _paragraph(block)
    if announces:
        paragraph = paragraph[:-2].rstrip() if paragraph.endswith(" ::") else paragraph[:-1]
    if paragraph != ":":
        out.append(paragraph)
    if not announces:
        return end
    stop = _body_end(lines, end, _indent(block[-1]))
    out.append(_code_block(lines[end:stop]))
    return stop


def _paragraph(lines: list[str]) -> str:
    """Unwrap one block: list items stay on their own lines, terms precede definitions."""
    items: list[str] = []
    for number, line in enumerate(lines):
        text = line.strip()
        bullet = _ITEM.match(text)
        if bullet:
            mark = bullet[0].strip()
            items.append(f"{'-' if mark in ('*', '+', '-', '#.') else mark} {text[bullet.end() :]}")
        elif not items:
            items.append(text)
        else:
            defines = number == 1 and _indent(line) > _indent(lines[0]) and not _ITEM.match(lines[0].strip())
            items[-1] += (": " if defines else " ") + text
    return "\n".join(inline(_PARAMETER.sub(r"\1:", item)) for item in items)


def _code_block(lines: list[str]) -> str:
    """Show a short listing as it stands, without its common indentation."""
    filled = [line for line in lines if line.strip() and not _OPTION.match(line.lstrip())]
    if not filled or len(filled) > MAX_CODE_LINES:
        return ""
    least = min(_indent(line) for line in filled)
    return "\n".join(line[least:] for line in filled)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _block_end(lines: list[str], at: int) -> int:
    """Index of the blank line, ruler or directive that ends the block beginning at `at`."""
    end = at + 1
    while end < len(lines) and (line := lines[end].strip()):
        if _RULER.match(line) or line.startswith(".. "):
            break
        end += 1
    return end


def _body_end(lines: list[str], start: int, indent: int) -> int:
    """Index after the block that is indented deeper than `indent`."""
    end = start
    for at in range(start, len(lines)):
        if lines[at].strip():
            if _indent(lines[at]) <= indent:
                break
            end = at + 1
    return end


def _table_end(lines: list[str], start: int) -> int:
    """Index after a simple table: its last border is the one before a blank line."""
    borders = 0
    for at in range(start, len(lines)):
        if _SIMPLE_TABLE.match(lines[at].strip()):
            borders += 1
            if borders >= 2 and (at + 1 == len(lines) or not lines[at + 1].strip()):
                return at + 1
    return start + 1
