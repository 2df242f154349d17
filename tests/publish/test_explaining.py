from dataclasses import replace

from runs import COUPLED, REJECTION, cell, exact_study, failed, run, steps, study

from xpress_bench.publish.explaining import LEDGER, page
from xpress_bench.publish.markdown import markdown
from xpress_bench.publish.text import plain

STEPS = replace(  # output 10 to 17; the raw draft of the first step breaks at slot 2, which refinement mends
    steps([2, 1, 2], offered=3, committed=[3, 2, 2]),
    drafts=((11, 90, 13), (14, 15, 92), (16, 17, 95)),
    refined=((11, 12, 91), (14, 93, 94), (16, 17, 95)),
)


def recorded(**changes):
    ids = tuple(range(10, 18))
    return [replace(c, ids=ids, steps=STEPS, **changes) if c.arm == "refine" else replace(c, ids=ids, **changes)
            for c in study() if c.arm != "draft"]  # fmt: skip


def texts(section, label):
    return [text for name, text in section.lines if name == label]


def test_a_good_run_is_told_in_one_line():
    (section,) = page(run(exact_study())).sections
    assert section.verdict == "None of the 14 rules fires: they know of nothing to try."
    assert texts(section, "try") == []


def test_a_finding_stands_with_its_evidence_and_its_command():
    cells = study()
    cells[4] = failed("draft", "p1", "CUDA out of memory")
    found = page(run(cells))
    (section,) = found.sections
    assert section.verdict.startswith("1 finding by 14 rules")
    assert section.lines[:3] == (
        ("1 runs", "memory ran out"),
        ("evidence", "draft, 1 requests: CUDA out of memory (p1)"),
        ("try", "xpress-bench block_size=4"),
    )
    assert found.lines == (("run", "runs/r1/"),)


def test_tables_by_hand():
    (section,) = page(run(recorded())).sections
    assert section.table.columns[1:4] == ("at slot 1", "at slot 2", "at slot 3")
    assert section.table.rows == (("refine", "0", "32", "32", "0", "32", "0"),)
    rows = [dict(zip(LEDGER, row, strict=True)) for row in section.breakdown.rows]
    assert [row["repaired"] for row in rows] == ["0", "32", "0"]
    assert [row["broken"] for row in rows] == ["0", "32", "32"]
    assert (rows[2]["right before"], rows[2]["right after"]) == ("50.0 %", "0.00 %")
    assert texts(section, "gain") == ["refine: 0.00 [0.00, 0.00] accepted tokens per step, - per refiner ms"]
    assert [text.split(":")[0] for text in texts(section, "not known")] == [
        "refine, which passes mattered",
        "refine, calibration",
    ]
    assert "whatever stands before it" in texts(section, "judged")[0]


def test_what_the_journal_does_not_hold_has_its_reason():
    (section,) = page(run(study())).sections
    assert section.breakdown is None
    assert section.table.rows == (("draft", "-", "-", "-"), ("refine", "-", "-", "-"))
    assert texts(section, "not known") == ["refine, what refinement did: no verify step was taken"]
    (section,) = page(run(recorded(condition=REJECTION))).sections
    assert "rejection" in texts(section, "not known")[0]


def test_a_section_for_each_condition_and_its_own_findings():
    sampled = [replace(c, condition=COUPLED, ids=(1, 7, 3) if c.arm == "draft" else c.ids) for c in exact_study()]
    greedy, coupled = page(run([*exact_study(), *sampled])).sections
    assert (greedy.heading, coupled.heading) == ("greedy", "temperature 0.7, coupled")
    assert texts(greedy, "2 quality") == []
    assert len(texts(coupled, "2 quality")) == 1


def test_both_layouts_hold_it_and_no_control_character_gets_through():
    cells = recorded()
    cells[1] = failed("refine", "p0", "boom\x1b[2J")
    found = page(run(cells))
    for shown in (plain(found), markdown(found)):
        assert "\x1b" not in shown
        assert "requests failed" in shown
        assert "xpress-bench check" in shown
    assert "direct" in plain(page(run([cell("direct", f"p{i}") for i in range(3)])))
