import re
from io import StringIO

from rich.console import Console
from runs import cell, exact_study, failed, run

from xpress_bench.analyse.summary import summarise
from xpress_bench.publish.page import page
from xpress_bench.publish.text import plain, show


def terminal(width):
    return Console(file=StringIO(), width=width, force_terminal=True, color_system="standard", legacy_windows=False)


def without_style(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_verdict_stands_above_the_table_and_the_run_below():
    text = plain(page(summarise(run(exact_study()))))
    places = [
        text.index(part) for part in ("xpress-bench 0.1.0", "is 2.00x faster", "median latency", "levels", "runs/r1/")
    ]
    assert places == sorted(places)


def test_no_terminal_no_style_and_no_cut():
    console = Console(file=StringIO(), width=40, force_terminal=False)
    show(page(summarise(run(exact_study()))), console)
    text = console.file.getvalue()
    assert "\x1b" not in text
    assert re.search(r"^  refine .*32/32", text, re.MULTILINE)
    assert not re.search(r" +$", text, re.MULTILINE)


def test_a_narrow_terminal_gets_arms_as_columns():
    for width in (200, 90):
        console = terminal(width)
        show(page(summarise(run(exact_study()))), console)
        lines = without_style(console.file.getvalue()).splitlines()
        assert max(map(len, lines)) <= width
        headed = [line.split() for line in lines if line.split()[:1] == ["arm"]]
        assert (headed == [["arm", "direct", "draft", "refine"]]) == (width == 90)


def test_markup_in_an_error_is_text():
    cells = [cell("direct", f"p{i}") for i in range(3)] + [failed("draft", "p0", error="[bold red]boom[/] [link=x]")]
    assert "[bold red]boom[/] [link=x]" in plain(page(summarise(run(cells))))
    console = terminal(120)
    show(page(summarise(run(cells))), console)
    assert "[bold red]boom[/] [link=x]" in without_style(console.file.getvalue())
