"""Size budgets of the package: no function above 60 lines, no file above 300. Also prints the medians we aim at.

A function's lines run from its `def` to its last, docstring included and decorators not. A file that is plain data (a
docstring, imports and names bound to literals, nothing else) has no limit: splitting a table makes it no clearer.
Exit status 1 if anything is over its budget.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

PACKAGE = Path(__file__).resolve().parents[1] / "xpress_bench"
MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 300


@dataclass(frozen=True, slots=True)
class Size:
    """One function or file and its number of lines."""

    where: str
    lines: int


def main() -> int:
    files: list[Size] = []
    tables: list[Size] = []
    functions: list[Size] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source, str(path))
        where = path.relative_to(PACKAGE.parent).as_posix()
        (tables if is_plain_data(tree) else files).append(Size(where, len(source.splitlines())))
        functions += functions_of(tree, where)
    over = [size for size in files if size.lines > MAX_FILE_LINES]
    over += [size for size in functions if size.lines > MAX_FUNCTION_LINES]
    print(summary("functions", functions, "aim: median 10, p90 30", MAX_FUNCTION_LINES))
    print(summary("files", files, "aim: median 120", MAX_FILE_LINES))
    for table in tables:
        if table.lines > MAX_FILE_LINES:
            print(f"plain data, no limit: {table.where}: {table.lines} lines")
    for size in over:
        print(f"over budget: {size.where}: {size.lines} lines")
    return 1 if over else 0


def functions_of(tree: ast.Module, where: str) -> Iterator[Size]:
    """Every function and method, nested ones too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            last = node.end_lineno or node.lineno
            yield Size(f"{where}:{node.lineno} {node.name}", last - node.lineno + 1)


def is_plain_data(tree: ast.Module) -> bool:
    """Whether the file only binds names to literals, and binds at least one."""
    bindings = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
    others = [node for node in tree.body if node not in bindings]
    return bool(bindings) and all(map(is_literal, bindings)) and all(map(is_preamble, others))


def is_preamble(node: ast.stmt) -> bool:
    """An import or a bare string: what may stand beside a table."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return True
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def is_literal(node: ast.Assign | ast.AnnAssign) -> bool:
    if node.value is None:
        return True
    try:
        ast.literal_eval(node.value)
    except ValueError:
        return False
    return True


def summary(kind: str, sizes: list[Size], aim: str, limit: int) -> str:
    """One line: how many there are, their median, 90th percentile and largest, beside the aim and the limit."""
    if not sizes:
        raise SystemExit(f"no {kind} under {PACKAGE}: nothing was checked")
    lines = [size.lines for size in sizes]
    p90 = quantiles(lines, n=10, method="inclusive")[-1] if len(lines) > 1 else lines[0]
    return (
        f"{len(lines)} {kind}: median {median(lines):g}, p90 {p90:g}, largest {max(lines)} lines ({aim}; limit {limit})"
    )


if __name__ == "__main__":
    sys.exit(main())
