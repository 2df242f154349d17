"""Charts of a submission's page: places by hand, and pages with as many shapes as there are figures."""

import itertools
import math
import re
from dataclasses import replace

import pytest
from runs import COUPLED, GREEDY
from submitted import header, records, submission, use_suite

from xpress_bench.publish.charts import POSITIONS, Axis, Charts, charts_of
from xpress_bench.publish.site import Shown, render
from xpress_bench.publish.standings import entry_of
from xpress_bench.records import Cell


@pytest.fixture(autouse=True)
def suite(monkeypatch):
    use_suite(monkeypatch)


def entry(*conditions):
    """A submission whose draft takes 3 steps that accept 2, 2 and 1 drafts, in 3 ms of drafting and 6 of verifying."""
    timed = {"draft_s": (1e-3,) * 3, "refine_s": (0.0,) * 3, "verify_s": (2e-3,) * 3}
    lines = [
        replace(one, steps=replace(one.steps, **timed), rest_s=0.0, prefill_s=0.0)
        if isinstance(one, Cell) and one.arm != "direct"
        else one
        for one in records(header(conditions=conditions or (GREEDY,)))
    ]
    return entry_of(submission(lines), "0" * 64)


def test_an_axis_is_logarithmic_and_holds_one():
    axis = Axis(0.5, 2.0)
    assert [axis.at(ratio) for ratio in (0.5, 1, 2)] == [0, 100, 200]
    assert axis.ticks == [(0, "0.5"), (49, "0.7"), (100, "1"), (158, "1.5"), (200, "2")]  # 0.7: 200 ln 1.4 / ln 4
    assert Axis.of([]).at(1) == 100
    assert Axis.of([3.0]).low < 1 < 3 < Axis.of([3.0]).high


def test_wild_intervals_are_drawn_inside_the_box():
    axis = Axis.of([2.0, 0.0, math.inf])
    assert 0 <= axis.at(0.0) < axis.at(1.0) < axis.at(2.0) < axis.at(math.inf) <= 200
    places = [place for place, _ in axis.ticks]
    assert min(right - left for left, right in itertools.pairwise(places)) >= 20


def test_rows_hold_what_is_drawn():
    (of,) = charts_of(entry())
    assert [row.arm.split()[0] for row in of.rows] == ["draft", "refine"]
    draft = of.rows[0]
    assert [share for share, *_ in draft.accepted] == pytest.approx([1, 2 / 3, 0])  # of 3 steps, 2 accepted two
    assert draft.stages_ms == pytest.approx({"draft": 1, "refine": 0, "verify": 2, "rest": 0, "prefill": 0})
    assert of.longest_ms == pytest.approx(3)
    assert len(of.ratios(draft)) == 32
    assert min(of.ratios(draft)) > 1


def test_conditions_have_charts_of_their_own():
    assert [of.condition for of in charts_of(entry(GREEDY, COUPLED))] == ["greedy", "temperature 0.7, coupled"]


def test_a_draft_of_thousands_does_not_fill_the_page():
    row = replace(entry().rows[0], accepted=((0.5, 0.4, 0.6),) * 5000)
    assert Charts("greedy", (row,)).positions == POSITIONS


def page(folder, one):
    packed = folder / "packed"
    packed.write_bytes(b"")
    render([Shown(packed, one)], folder / "site")
    return (folder / "site" / "submissions" / one.name / "index.html").read_text(encoding="utf-8")


def test_a_page_has_a_dot_for_each_prompt_and_position_and_a_bar_for_each_stage(tmp_path):
    text = page(tmp_path, entry())
    assert text.count('r="2.5"') == 2 * 32
    assert text.count('r="3.5"') == 2 * 3
    assert len(re.findall('<rect class="s[0-4]" x=', text)) == 2 * 5
    assert 'aria-label="draft (dflash B=8): 100 %, 67 %, 0 %; refine' in text
    assert "draft (dflash B=8): 3.00 ms, draft 1.00, verify 2.00" in text
    assert '<rect class="s2" x="33.33%" width="66.67%"' in text


def test_what_is_unknown_is_not_drawn(tmp_path):
    rows = tuple(replace(row, accepted=(), stages_ms={}, logs={}, span=None) for row in entry().rows)
    text = page(tmp_path, replace(entry(), rows=rows))
    assert "Accepted drafts" not in text
    assert "Time of a verify step" not in text
    assert "<circle" not in text
