import re
from dataclasses import replace

from runs import COUPLED, exact_study, failed, run

from xpress_bench.analyse.summary import summarise
from xpress_bench.publish.markdown import markdown
from xpress_bench.publish.page import page


def table_rows(text):
    return [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("|")]


def test_same_content_as_the_page():
    content = page(summarise(run(exact_study())))
    text = markdown(content)
    (section,) = content.sections
    rows = [tuple(cell.strip() for cell in row) for row in table_rows(text)]
    assert rows == [section.table.columns, ("---",) * 9, *section.table.rows]
    assert f"**{section.verdict}**" in text
    for label, line in (*section.lines, *content.lines):
        assert f"- {label}: {line}".replace("|", "\\|") in text


def test_untrusted_text_stays_text():
    cells = [*exact_study(), failed("draft", "a|b", error="<b>`x`</b> [y](http://z) *w*")]
    text = markdown(page(summarise(run(cells))))
    assert "a\\|b" in text
    assert "\\<b>\\`x\\`\\</b> [y]\\(http://z) \\*w\\*" in text


def test_an_arm_name_cannot_break_the_table():
    arms = [
        replace(one, name=one.name + "|x") if one.name == "draft" else one for one in run(exact_study()).header.arms
    ]
    cells = [replace(c, arm="draft|x") if c.arm == "draft" else c for c in exact_study()]
    assert {len(row) for row in table_rows(markdown(page(summarise(run(cells, arms=arms)))))} == {9}


def test_conditions_are_headings():
    text = markdown(page(summarise(run([*exact_study(), *[replace(c, condition=COUPLED) for c in exact_study()]]))))
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "### greedy",
        "### temperature 0.7, coupled",
    ]
