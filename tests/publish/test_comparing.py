from dataclasses import replace

from runs import ARMS, COUPLED, REJECTION, Item, cell, exact_study, failed, grid, run, steps

from xpress_bench.analyse.between import arms, between
from xpress_bench.publish.comparing import page
from xpress_bench.publish.markdown import markdown
from xpress_bench.publish.text import plain
from xpress_bench.records import Memory

MEMORY = [Memory(arm, "process_peak_rss", peak * 2**20) for arm, peak in (("direct", 400), ("draft", 500))]


def two(ours, theirs, items=(), names=(), **changes):
    return page(between(run(ours, **changes), run(theirs, **changes), items, names))


def texts(lines, label):
    return [text for name, text in lines if name == label]


def faster(cells, factor):
    return [replace(one, latency_s=one.latency_s / factor) for one in cells]


def rows(section):
    return {name: row for name, *row in section.table.rows}


def test_two_runs_have_a_section_for_each_arm():
    found = two(exact_study(), faster(exact_study(), 1.25), memory=MEMORY)
    assert found.title == ("A r1", "B r1", "suite qa (sha256 3f9a12)", "target embedded float32")
    assert [one.heading for one in found.sections] == ["direct", "draft", "refine"]
    draft = found.sections[1]
    assert draft.verdict == (
        "draft of B has 1.25x [1.25, 1.25] the speed of A; 2.00 tokens per step against 2.00, "
        "difference 0.00 [0.00, 0.00]; output identical on 32 of 32 prompts."
    )
    assert draft.table.columns == ("", "A", "B", "B vs A")
    assert rows(draft)["median latency"][2] == "speed-up 1.25 [1.25, 1.25]"
    assert rows(draft)["speed-up vs direct"] == ["1.25 [1.25, 1.25]", "1.25 [1.25, 1.25]", "ratio 1.00 [1.00, 1.00]"]
    assert rows(draft)["accepted, %"][0] == "25.0 [25.0, 25.0]"
    assert rows(draft)["identical output"][2] == "32 of 32 prompts, at least 91.1 %"  # 0.05 ** (1 / 32)
    assert rows(draft)["process peak rss"] == ["500 MiB", "500 MiB", "ratio 1.00"]
    assert "tokens/step" not in rows(found.sections[0])


def test_two_runs_are_said_to_be_two_sessions_and_unchanged_arms_show_their_drift():
    changed = (*ARMS[:2], replace(ARMS[2], passes=2))
    other = run(faster(exact_study(), 1.25), arms=changed)
    lines = page(between(run(exact_study()), other, names=["refine"])).lines
    assert texts(lines, "what differs") == ["refine: passes: 4 | 2"]
    assert "no evidence" in texts(lines, "sessions")[0]
    assert texts(lines, "drift") == [
        "speed-up of the arms with the same parts in both runs: "
        "direct (greedy) 1.25 [1.25, 1.25], draft (greedy) 1.25 [1.25, 1.25]"
    ]
    assert texts(lines, "run") == ["runs/r1/", "runs/r1/"]


def test_two_arms_of_a_run():
    found = page(arms(run(exact_study(), memory=MEMORY), "direct", "draft"))
    (section,) = found.sections
    assert found.title[0] == "run r1"
    assert section.heading is None
    assert section.verdict == (
        "draft (dflash B=8) is faster than direct, 1.25x [1.25, 1.25] its speed; output identical on 32 of 32 prompts."
    )
    assert section.table.columns == ("", "direct", "draft", "draft vs direct")
    assert rows(section)["process peak rss"] == ["400 MiB", "500 MiB", "ratio 1.25"]
    assert texts(section.lines, "test") == ["p < 0.0001, of this pair"]
    assert texts(found.lines, "sessions") == texts(found.lines, "drift") == []


def test_output_that_differs_opens_the_verdict():
    ours = grid(lambda arm, p: 1.0, prompts=4, arms=("draft",))
    theirs = [replace(ours[0], ids=(1, 9, 3)), *ours[1:]]
    (section,) = two(ours, theirs).sections
    assert section.verdict.startswith("output identical on 3 of 4 prompts; draft of B has 1.00x")
    assert texts(section.lines, "first differs") == ["at token 1.00 (n < 2), median over the prompts that differ"]
    assert texts(section.lines, "similarity")[0].startswith("chrF 1.00 [1.00, 1.00]; not judged: the base ran once")


def test_another_machine_has_no_ratio_of_latency_or_memory():
    ours, theirs = (
        replace(one, header=replace(one.header, machine={"hard": {"cpu_model": model}}))
        for one, model in ((run(exact_study(), memory=MEMORY), "X"), (run(exact_study(), memory=MEMORY), "Y"))
    )
    found = page(between(ours, theirs, names=["draft"]))
    (section,) = found.sections
    assert section.verdict.startswith("draft of B not compared in speed with A (not the same cpu_model); 2.00 tokens")
    assert rows(section)["process peak rss"] == ["500 MiB", "500 MiB", "-"]
    assert rows(section)["median latency"][2] == "speed-up -"
    assert "speed-up: not the same cpu_model" in texts(section.lines, "not known")
    assert texts(section.lines, "detectable") == []
    assert texts(found.lines, "drift") == []
    assert texts(found.lines, "warning") == ["cpu_model: X | Y"]


def test_detectable_change_of_speed():
    # log ratios of 0.01 and -0.01, 16 each: sd 0.0101600; noncentrality for 31 degrees of freedom and power 80 %, 90 %
    # is 2.8922 and 3.3469 (scipy.stats.nct), so exp(0.01016 * 2.8922 / sqrt(32)) = 1.0052 and 1.0060
    ours = [cell("draft", f"p{p}", 1.0) for p in range(32)]
    theirs = [cell("draft", f"p{p}", 2.718281828 ** (0.01 * (-1) ** p)) for p in range(32)]
    (section,) = two(ours, theirs).sections
    assert texts(section.lines, "detectable") == [
        "a speed-up of 0.52 % with power 80 %, 0.60 % with 90 %, drift between the runs left out"
    ]


def scored(wrong, arm="draft", prompts=40):
    made = [cell(arm, f"p{p}", ids=(p < wrong, 1), text="no" if p < wrong else "yes") for p in range(prompts)]
    return made, [Item(f"p{p}", ("yes",)) for p in range(prompts)]


def test_score_is_held_against_the_margin():
    ours, items = scored(0)
    for wrong, text in (
        (2, "40 prompts cannot exclude a score lower by the margin 0.02; "),
        (30, "lower by more than"),
    ):
        (section,) = two(ours, scored(wrong)[0], items).sections
        assert texts(section.lines, "score")[0].startswith(text)
    # sd of 2 ones among 40: sqrt(2 * 38 / (40 * 39)) = 0.22072; ((1.959964 + 1.281552) * 0.22072 / 0.02)^2 = 1279.7
    assert "; 1280 would, with power 90 %" in texts(two(ours, scored(2)[0], items).sections[0].lines, "score")[0]
    (same,) = two(ours, ours, items).sections
    assert texts(same.lines, "score") == []  # the same ids score the same


def test_what_does_not_pair_or_is_not_known_is_said():
    ours = [cell("draft", f"p{p}", condition=REJECTION) for p in range(3)]
    theirs = [*ours[:2], failed("draft", "p2", condition=REJECTION), cell("draft", "p3", condition=REJECTION)]
    (section,) = two(ours, theirs).sections
    assert texts(section.lines, "not paired") == ["1 prompt not in A: p3", "1 prompt failed in B: p2"]
    assert texts(section.lines, "not known") == [
        "identical output: ids are not comparable under rejection sampling",
        "score: the suite's items are not at hand",
        "peak memory of A: peak memory was not measured",
        "peak memory of B: peak memory was not measured",
        "tokens per step: no verify step was taken",
    ]
    assert "identical output" not in rows(section)


def test_a_condition_without_a_pair_says_so():
    cells = grid(lambda arm, p: 1.0, prompts=3, arms=("draft",))
    both = [*cells, *[replace(one, condition=COUPLED) for one in cells]]
    lacking = [*cells, failed("draft", "p0", condition=COUPLED)]
    found = two(both, lacking)
    assert [one.heading for one in found.sections] == ["draft, greedy", "draft, temperature 0.7, coupled"]
    assert found.sections[1].verdict == "B against A: no request is in both, so nothing can be said."


def test_it_lays_out_in_the_terminal_and_in_markdown_without_control_characters():
    ours = [cell("draft", f"p{p}\x1b[31m", steps=steps([1, 2])) for p in range(3)]
    found = two(ours, ours[:2], suite={"name": "q\x1ba"})
    for text in (plain(found), markdown(found)):
        assert "\x1b" not in text
        assert "B vs A" in text
        assert "p2" in text
