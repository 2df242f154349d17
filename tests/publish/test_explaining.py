from dataclasses import replace

from runs import COUPLED, GREEDY, REJECTION, cell, exact_study, failed, run, steps, study

from xpress_bench.publish.explaining import LEDGER, page
from xpress_bench.publish.markdown import markdown
from xpress_bench.publish.text import plain
from xpress_bench.records import Trace

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
    assert section.verdict == "None of the 16 rules fires: they know of nothing to try."
    assert texts(section, "try") == []


def test_a_finding_stands_with_its_evidence_and_its_command():
    cells = study()
    cells[4] = failed("draft", "p1", "CUDA out of memory")
    found = page(run(cells))
    (section,) = found.sections
    assert section.verdict.startswith("1 finding by 16 rules")
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
    assert texts(section, "not known") == [
        "calibration (refine), which passes mattered (refine): no request was traced: measure again with trace=16"
    ]
    assert "whatever stands before it" in texts(section, "judged")[0]


def test_what_the_journal_does_not_hold_has_its_reason():
    (section,) = page(run(study())).sections
    assert section.breakdown is None
    assert section.table.rows == (("draft", "-", "-", "-"), ("refine", "-", "-", "-"))
    assert "what refinement did (refine): no verify step was taken" in texts(section, "not known")
    (section,) = page(run(recorded(condition=REJECTION))).sections
    assert any(text.startswith("what refinement did (refine): ids are not") for text in texts(section, "not known"))
    assert "draft law (refine): no request was traced" in texts(section, "not known")


def test_what_the_trace_saw():
    # The output is 10 to 17. One step on each prompt; the first pass mends slot 2, the others change nothing.
    blocks = ((11, 90, 13), *((11, 12, 13),) * 4)
    traces = tuple(
        Trace(f"p{p}", 0, "refine", GREEDY, tuple(range(10, 15)), (4,), (blocks,), ((0.95, 0.25, 0.5),), ((),))
        for p in range(32)
    )
    (section,) = page(replace(run(recorded()), traces=traces)).sections
    assert texts(section, "passes")[:2] == [
        "refine, after pass 0: 1.00 [1.00, 1.00] accepted per step",
        "refine, after pass 1: 3.00 [3.00, 3.00] accepted per step; gain 2.00 [2.00, 2.00]; "
        "32 tokens repaired, 0 broken",
    ]
    assert len(texts(section, "passes")) == 5
    assert texts(section, "calibration") == [
        "refine: expected calibration error 0.150, confidence less share right 0.100 [0.100, 0.100]; of raw drafts up "
        "to the first wrong token of a block",
        "refine, confidence 0.2 to 0.3, mean 0.25: 0.00 [0.00, 0.00] % of 32 tokens right",
        "refine, confidence 0.9 to 1.0, mean 0.95: 100 [100, 100] % of 32 tokens right",
    ]
    assert texts(section, "not known") == []


def test_the_law_of_drafts_is_told_under_rejection():
    rows = tuple((at / 32,) for at in range(32))
    lies = Trace("p0", 0, "refine", REJECTION, (1,), (1,) * 32, places=tuple((1.0,) for _ in rows))
    told = "32 tokens stand at 0.484"  # the mean of 0 to 31 over 32
    for trace, outcome in ((replace(lies, places=rows), f"; {told}"), (lies, "refuted, p below 0.001; 32")):
        (section,) = page(replace(run(recorded(condition=REJECTION)), traces=(trace,))).sections
        (text,) = texts(section, "draft law")
        assert outcome in text
        assert text.startswith("refine: refuted" if trace is lies else "refine: not refuted")


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
