import shutil
import subprocess

import pytest
from hostile import SCRIPT, hostile_items, hostile_run
from runs import Item, exact_study, run

from xpress_bench.publish.latex import escaped, latex
from xpress_bench.publish.view import report

DOCUMENT = r"\documentclass{article}\usepackage{booktabs,graphicx}\begin{document}\input{page}\end{document}"


def lines(text):
    return [line.strip() for line in text.splitlines()]


def test_a_table_of_booktabs_with_the_verdict_as_caption():
    page = report(run(exact_study())).page
    found = lines(latex(page))
    verdict = page.sections[0].verdict
    assert f"\\caption{{{verdict}}}" in found
    assert r"\begin{tabular}{lrrrrrrrr}" in found
    rows = [line for line in found if line.endswith(r"\\")]
    assert [row.split(" & ")[0] for row in rows] == [r"\toprule {}arm", "{}direct", "{}draft", "{}refine"]
    assert rows[2].split(" & ")[3:6] == ["2.00 [2.00, 2.00]", r"25.0 \%", "1.25 [1.25, 1.25]"]
    assert rows[1].split(" & ")[4] == "--"


def test_groups_are_a_table_of_their_own_and_lines_are_comments():
    items = [Item(f"p{i}", category="ab"[i % 2]) for i in range(32)]
    found = lines(latex(report(run(exact_study()), items, "category").page))
    assert found.count(r"\begin{table}") == found.count(r"\end{table}") == 2
    assert r"\caption{By group.}" in found
    assert "% accepted by position: draft: .67 .33 .00 .00" in found


def test_every_special_character_is_escaped():
    told = escaped("&%$#_{}\\~^<>|")
    assert told == (
        r"\&\%\$\#\_\{\}\textbackslash{}\textasciitilde{}\textasciicircum{}\textless{}\textgreater{}\textbar{}"
    )
    assert escaped("é漢\u202e") == "é[U+6F22][U+202E]"


def test_hostile_names_stay_text():
    text = latex(report(hostile_run(), hostile_items(), "category").page)
    set_lines = [line for line in text.splitlines() if not line.startswith("%")]
    assert not [line for line in set_lines if "\\input" in line or "\\frac" in line or SCRIPT in line]
    assert "\x1b" not in text
    assert sum("{}*[9em]" in line for line in set_lines) == 2  # two arms of that group, guarded from the line break


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here")
@pytest.mark.parametrize("journal", ["plain", "hostile"])
def test_it_compiles(tmp_path, journal):
    told = report(run(exact_study())) if journal == "plain" else report(hostile_run(), hostile_items(), "category")
    (tmp_path / "page.tex").write_text(latex(told.page), encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", DOCUMENT]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
