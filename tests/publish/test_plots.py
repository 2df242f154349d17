import importlib
import math
import sys
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hostile import hostile_items, hostile_run
from runs import GREEDY, Item, cell, exact_study, grid, run, steps

from xpress_bench.analyse.intervals import Unknown
from xpress_bench.errors import UsageError
from xpress_bench.publish import canvas
from xpress_bench.publish.plots import PLOTS, drawn
from xpress_bench.publish.view import report
from xpress_bench.records import Replay


def figure(name, cells, items=(), **changes):
    journal = run(cells, **changes)
    view = report(journal, items, "category" if items else None).views[0]
    return drawn(view)[name]


def axes_of(name, cells, items=(), **changes):
    (axes,) = figure(name, cells, items, **changes).axes
    return axes


def points(axes, marker):
    """x and y of every line drawn with this marker."""
    lines = [line for line in axes.get_lines() if line.get_marker() == marker]
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in lines]


def two_prompts():
    """On one prompt draft is twice as fast, on the other 8 times: the geometric mean is 4."""
    return grid(lambda arm, p: 8.0 if arm == "direct" else (4.0, 1.0)[p], prompts=2, arms=("direct", "draft"))


def test_forest_has_estimate_and_interval_of_every_pair():
    axes = axes_of("speed-ups", two_prompts())
    half = 12.7062 * math.log(4) / 2  # t of one degree of freedom times the standard error of two logs
    ((mark, _),) = points(axes, "s")
    assert mark == pytest.approx([4])
    ends = next(line.get_xdata() for line in axes.get_lines() if len(line.get_xdata()) == 2)
    assert list(ends) == pytest.approx([4 * math.exp(-half), 4 * math.exp(half)], rel=1e-4)
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["draft vs direct"]
    assert "speed-up" in axes.get_xlabel()


def test_forest_has_groups_below_all_pairs():
    items = [Item(f"p{i}", category="ab"[i % 2]) for i in range(32)]
    axes = axes_of("speed-ups", exact_study(), items)
    assert [tick.get_text() for tick in axes.get_yticklabels()] == [
        *("draft vs direct", "refine vs direct", "refine vs draft"),
        *("a: draft", "a: refine", "b: draft", "b: refine"),
    ]
    assert [x[0] for x, _ in points(axes, "s")] == pytest.approx([1.25, 1.25, 1.25])
    assert [x[0] for x, _ in points(axes, "^")] == pytest.approx([2.0, 1.6, 2.0, 2.0])
    assert axes.yaxis_inverted()


def test_a_speed_up_without_an_interval_is_hollow():
    axes = axes_of("speed-ups", [cell("direct"), cell("draft", latency_s=0.5)])
    (mark,) = [line for line in axes.get_lines() if line.get_marker() == "s"]
    assert list(mark.get_xdata()) == [2.0]
    assert mark.get_markerfacecolor() == "none"


def test_prompts_that_got_slower_are_crosses_and_named():
    cells = grid(lambda arm, p: 2.0 if arm == "direct" else (1.0, 4.0, 2.5)[p], prompts=3, arms=("direct", "draft"))
    axes = axes_of("prompts", cells)
    assert points(axes, "s")[0][0] == pytest.approx([2.0])
    assert points(axes, "x")[0][0] == pytest.approx([0.5, 0.8])
    assert [text.get_text() for text in axes.texts] == ["slowest: p1, p2"]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["draft\n2 of 3 prompts slower"]


def test_acceptance_by_position_with_bands():
    cells = [cell("direct", f"p{i}") for i in range(2)]
    cells += [cell("draft", f"p{i}", steps=steps(taken, offered=2)) for i, taken in enumerate([[2, 2], [1, 0]])]
    axes = axes_of("acceptance", cells)
    (line,) = axes.get_lines()
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([1, 2], pytest.approx([3 / 4, 2 / 4]))
    corners = axes.collections[0].get_paths()[0].vertices
    assert corners[:, 1].min() == 0  # two prompts of 1 and 1/2: the t interval of either position reaches 0 and 1
    assert corners[:, 1].max() == 1
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["draft"]


def test_tokens_per_step_is_a_share_of_all_steps():
    cells = [
        *(cell("direct", f"p{i}") for i in range(2)),
        *(cell("draft", f"p{i}", steps=steps([0, 3, 0, 0])) for i in range(2)),
    ]
    bars = axes_of("tokens-per-step", cells).patches
    assert {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in bars} == {1: 3 / 4, 4: 1 / 4}


def test_stage_bars_add_up_to_the_latency_of_a_step():
    taken = replace(steps([1, 1]), draft_s=(0.003, 0.005), refine_s=(0.0, 0.002), verify_s=(0.01, 0.02))
    cells = [cell("direct", latency_s=1.0), cell("draft", latency_s=0.1, prefill_s=0.04, rest_s=0.02, steps=taken)]
    axes = axes_of("stage-times", cells)
    widths = {box.get_label(): [bar.get_width() for bar in box] for box in axes.containers}
    assert widths == {
        "draft": [pytest.approx(4.0)], "refine": [pytest.approx(1.0)], "verify": [pytest.approx(15.0)],
        "rest": [pytest.approx(10.0)], "prefill": [pytest.approx(20.0)],
    }  # fmt: skip
    assert [text.get_text() for text in axes.texts] == [" 50.0 ms"]
    assert "(ms)" in axes.get_xlabel()


def test_latencies_are_steps_up_to_all_prompts():
    lines = {line.get_label(): line for line in axes_of("latencies", exact_study()).get_lines()}
    assert list(lines["refine"].get_xdata())[1:] == pytest.approx([(1 + p) / 2 for p in range(32)])
    assert list(lines["direct"].get_ydata())[1:] == pytest.approx([(1 + p) / 32 for p in range(32)])
    assert len({line.get_linestyle() for line in lines.values()}) == 3


def test_near_ties_stand_at_their_tolerance_and_gap():
    replays = [
        Replay("p0", 0, "draft", GREEDY, 1, 2, 3, 0.0, 0.25, "tie"),
        Replay("p1", 0, "draft", GREEDY, 1, 2, 3, -0.5, 0.125, "near_tie"),
        Replay("p2", 0, "draft", GREEDY, 1, 2, 3, 4.0, 0.5, "real"),
        Replay("p3", 0, "draft", GREEDY, 1, 2, None, None, None, "real"),
    ]
    axes = axes_of("near-ties", exact_study(), replays=replays)
    assert points(axes, "s") == [([0.25], [0.0625])]  # a gap of 0 is drawn below the least value, 0.125
    assert points(axes, "P") == [([0.125], [0.5])]
    assert points(axes, "^") == [([0.5], [4.0])]


@pytest.mark.parametrize("name", PLOTS)
def test_nothing_to_draw_has_a_reason(name):
    found = figure(name, [cell("direct", latency_s=None)])
    assert isinstance(found, Unknown)
    assert found.reason


@pytest.mark.parametrize("name", PLOTS)
def test_every_plot_has_units_or_shares_on_its_axes(name):
    replay = Replay("p0", 0, "draft", GREEDY, 1, 2, 3, 0.5, 0.25, "real")
    timed = [replace(c, steps=replace(c.steps, verify_s=(0.1,) * len(c.steps.committed))) for c in exact_study()]
    axes = axes_of(name, timed, replays=[replay])
    assert any(word in axes.get_xlabel() for word in ("times", "tokens", "(ms)", "(s)", "logits"))


@pytest.mark.parametrize("layout", canvas.FORMATS)
def test_a_figure_gives_the_same_bytes_every_time(layout):
    first, second = (canvas.file_of(figure("tokens-per-step", exact_study()), layout) for _ in range(2))
    assert first == second
    assert b"20" + b"26-" not in first
    assert first[:4] in (b"<?xm", b"%PDF", b"\x89PNG")


def test_text_of_a_vector_file_is_text():
    root = ElementTree.fromstring(canvas.file_of(figure("speed-ups", exact_study()), "svg"))
    told = {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"draft vs direct", "2.00 [2.00, 2.00]"} <= told


def test_hostile_names_are_drawn_as_text_and_in_every_script():
    for name, found in drawn(report(hostile_run(), hostile_items(), "category").views[0]).items():
        if not isinstance(found, Unknown):
            root = ElementTree.fromstring(canvas.file_of(found, "svg"))
            assert not list(root.iter("script")), name
            canvas.file_of(found, "png")


def test_arms_differ_without_colour():
    looks = canvas.LOOKS
    assert len({look.colour for look in looks}) == len({look.marker for look in looks}) == len(looks)
    assert len({look.hatch for look in looks}) == len(looks)


def test_a_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    try:
        with pytest.raises(UsageError, match=r"pip install 'xpress-bench\[plots\]'"):
            importlib.reload(canvas)
    finally:
        monkeypatch.undo()
        importlib.reload(canvas)
