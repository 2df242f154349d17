from dataclasses import replace

import pytest
from runs import ARMS, cell, failed, run, steps

from xpress_bench.publish.markdown import markdown
from xpress_bench.publish.page import Page
from xpress_bench.publish.text import plain
from xpress_bench.publish.view import report
from xpress_bench.records import Memory

MIB = 2**20


def timed(arm, count, draft_s, refine_s, latency_s):
    """Eight tokens after the first in so many steps, 0.125 s of target each."""
    times = {"draft_s": (draft_s,) * count, "refine_s": (refine_s,) * count, "verify_s": (0.125,) * count}
    own = replace(steps([8 // count - 1] * count), **times) if count else steps([])
    return cell(arm, latency_s=latency_s, ids=tuple(range(9)), prefill_s=0.2, steps=own)


CELLS = [
    replace(one, prompt=f"p{p}", prompt_sha256=f"p{p}")
    for p in range(3)
    for one in (
        timed("direct", 0, 0, 0, 1.2),
        timed("draft", 8, 0.0625, 0.0, 1.7),
        timed("refine", 8, 0.0625, 0.0625, 2.2),
    )
]


def shown(cells=CELLS, **changes) -> Page:
    journal = run(cells, arms=ARMS, **changes)
    header = replace(journal.header, settings=journal.header.settings | {"weights": "random"})
    return report(replace(journal, header=header)).page


def test_steps_and_break_even_by_hand():
    (section,) = shown().sections
    rows = {row[0]: dict(zip(section.table.columns, row, strict=True)) for row in section.table.rows}
    assert [rows[arm]["a step"] for arm in rows] == [f"{ms} ms [{ms}, {ms}]" for ms in (125, 188, 250)]
    assert [rows[arm]["breaks even at tokens/step"] for arm in rows] == ["-", "1.50 [1.50, 1.50]", "2.00 [2.00, 2.00]"]
    assert [rows["refine"][f"{part} ms"] for part in ("draft", "refine", "verify")] == ["62.5", "62.5", "125"]


def test_the_speed_up_at_other_tokens_per_step():
    (section,) = shown().sections
    table = section.breakdown
    assert table.columns[1:] == ("1", "1.5", "2", "3", "4", "6", "8")  # blocks are of 8 slots
    draft, refine = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    assert (draft["3"], draft["6"]) == ("2.00 [2.00, 2.00]", "4.00 [4.00, 4.00]")
    assert (refine["3"], refine["8"]) == ("1.50 [1.50, 1.50]", "4.00 [4.00, 4.00]")
    ((label, text),) = section.lines
    assert (label, text.split(";")[0]) == ("cost", "refine vs draft: a step takes 1.33 [1.33, 1.33] times as long")


def test_it_says_what_it_is_and_claims_nothing_else():
    page = shown()
    assert page.title[2].endswith("float32, random weights")
    for text in (plain(page), markdown(page)):
        assert "Random weights: what steps cost is measured." in text
        for claim in ("faster", "identical", "levels", "accepted", "score"):
            assert claim not in text


def test_memory_and_failures_stand_below():
    memory = [
        Memory("refine", "process_peak_rss", 9 * MIB, parts_bytes={"target": 5 * MIB, "refiner": MIB, "graphs": None})
    ]
    cells = [failed("draft", "p1", "oom: \x1b[2J") if (c.arm, c.prompt) == ("draft", "p1") else c for c in CELLS]
    (section,) = shown(cells, memory=memory).sections
    assert section.table.rows[2][-1] == "9 MiB"
    assert ("memory", "refine: target 5 MiB, refiner 1 MiB") in section.lines
    assert ("failed", "1 request of draft, not averaged: oom:  [2J (p1)") in section.lines
    assert section.table.rows[1][1:] == ("-",) * 7  # an arm of which a request failed is in no average


@pytest.mark.parametrize("peaks", [{}, {"draft": 7 * MIB, "verify": None}])
def test_the_report_of_trained_weights_has_the_memory_line_too(peaks):
    held = Memory("draft", "process_peak_rss", 9 * MIB, parts_bytes={"target": 5 * MIB}, stage_peak_bytes=peaks)
    (section,) = report(run(CELLS, arms=ARMS, memory=[held])).page.sections
    (told,) = [text for label, text in section.lines if label == "memory"]
    assert told == "draft: target 5 MiB" + ("; allocated at most in draft 7 MiB" if peaks else "")
