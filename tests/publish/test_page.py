from dataclasses import replace

from runs import COUPLED, GREEDY, Item, cell, exact_study, failed, grid, run

from xpress_bench.analyse.summary import by, summarise
from xpress_bench.publish.page import page
from xpress_bench.records import Memory, Replay, Skipped


def shown(cells, **changes):
    return page(summarise(run(cells, **changes)))


def texts(lines, label):
    return [text for name, text in lines if name == label]


def test_title_names_suite_target_machine_and_profile():
    assert shown(exact_study()).title == (
        "xpress-bench 0.1.0",
        "suite qa: 32 prompts, 3 repeats (sha256 3f9a12)",
        "target embedded 7.1 M float32",
        "cpu, 2 threads",
        "profile quick",
    )


def test_at_temperature_0_seeds_are_called_repeats():
    greedy = grid(lambda arm, p: 1.0, prompts=4, seeds=3, repeats=2)
    assert "4 prompts, 6 repeats" in shown(greedy).title[1]
    sampled = [replace(c, condition=COUPLED) for c in greedy]
    assert "4 prompts, 3 seeds, 2 repeats" in shown(sampled).title[1]


def test_table_has_one_row_for_each_arm():
    memory = [Memory(arm, "process_peak_rss", 432 * 2**20) for arm in ("direct", "draft", "refine")]
    table = shown(exact_study(), memory=memory).sections[0].table
    assert table.columns == (
        *("arm", "median latency", "tokens/s", "tokens/step", "accepted", "speed-up vs direct"),
        *("peak RSS", "identical", "score"),
    )
    direct, draft, _ = table.rows
    assert direct[3:] == ("1", "-", "1", "432 MiB", "-", "-")
    assert draft[3:] == ("2.00 [2.00, 2.00]", "25.0 %", "1.25 [1.25, 1.25]", "432 MiB", "32/32", "-")


def test_two_kinds_of_memory_do_not_share_a_label():
    memory = [Memory("direct", "process_peak_rss", 1), Memory("draft", "nvml_device_peak_minus_idle", 1)]
    assert shown(exact_study(), memory=memory).sections[0].table.columns[6] == "peak memory"
    assert shown(exact_study(), memory=memory[1:]).sections[0].table.columns[6] == "peak GPU memory"


def test_lines_under_the_table():
    lines = shown(exact_study()).sections[0].lines
    assert texts(lines, "accepted by position") == ["draft: .67 .33 .00 .00", "refine: .67 .33 .00 .00"]
    assert texts(lines, "levels")[1] == (
        "refine: 1 runs: yes (288/288)   2 quality: shown   3 latency: faster   4 stable: yes"
    )
    assert texts(lines, "speed-up")[1].startswith(
        "refine vs direct: 2.00 [2.00, 2.00], by total time 2.00 [2.00, 2.00], p "
    )


def test_what_went_wrong_is_shown_with_its_reason():
    cells = exact_study()
    cells[1] = failed("draft", "p0")
    cells[4] = replace(cells[4], stop_reason="short")
    cells[5] = replace(cells[5], ids=(1, 7, 3))
    memory = [Memory("draft", "process_peak_rss", None, reason="the process was killed")]
    near = Replay("p0", 0, "refine", GREEDY, 1, 2, 7, 0.125, 0.25, "near_tie")
    skipped = [Skipped("long-1", "5000 tokens, context 4096")]
    found = shown(cells, memory=memory, replays=[near], skipped=skipped, footer=None)
    lines = found.sections[0].lines
    assert texts(lines, "failed") == ["1 request of draft, not averaged: CUDA out of memory (p0)"]
    assert texts(lines, "short")[0].startswith("1 request of draft, not averaged: ended although")
    assert "peak memory of draft: the process was killed" in texts(lines, "not known")
    assert texts(lines, "differs") == ["refine: p0 at token 1 (direct 2, here 7: near-tie, gap 0.125, tolerance 0.25)"]
    assert texts(lines, "noise floor") == ["direct agrees with its own repeats on 32 of 32 prompts"]
    assert texts(found.lines, "skipped") == ["1 prompt: 5000 tokens, context 4096 (long-1)"]
    assert "no footer" in texts(found.lines, "incomplete")[0]


def test_run_folder_and_next_commands():
    assert texts(shown(exact_study()).lines, "run") == ["runs/r1/"]
    assert texts(shown(exact_study()).lines, "next") == ["xpress-bench report runs/r1 --by category"]


def test_conditions_have_headings_only_if_there_are_several():
    assert shown(exact_study()).sections[0].heading is None
    both = shown([*exact_study(), *[replace(c, condition=COUPLED) for c in exact_study()]])
    assert [one.heading for one in both.sections] == ["greedy", "temperature 0.7, coupled"]


def test_breakdown_has_a_row_for_each_group_and_arm():
    items = [Item(f"p{i}", category="ab"[i % 2]) for i in range(32)]
    journal = run(exact_study())
    table = page(summarise(journal, items), by(journal, items, "category")).sections[0].breakdown
    assert [row[:3] for row in table.rows] == [
        ("a", "draft", "16"), ("a", "refine", "16"), ("b", "draft", "16"), ("b", "refine", "16"),
    ]  # fmt: skip
    assert table.rows[1][3] == "2.00 [2.00, 2.00]"


def test_direct_only_and_one_prompt_and_all_failed():
    assert shown([cell("direct", f"p{i}") for i in range(6)]).sections[0].table.rows[0][5] == "1"
    assert "n < 2" in shown([cell("direct"), cell("draft", latency_s=0.5)]).sections[0].table.rows[1][5]
    assert shown([failed("direct"), failed("draft")]).sections[0].table.rows[1][1:6] == ("-",) * 5


def test_control_characters_never_reach_the_page():
    cells = [failed("direct", error="\x1b[31mred\r\n")]
    assert texts(shown(cells).sections[0].lines, "failed") == ["1 request of direct, not averaged:  [31mred   (p0)"]


def test_c32e_an_arm_without_counters_has_no_tokens_per_step():
    found = shown([cell(arm, f"p{i}") for i in range(3) for arm in ("direct", "draft")]).sections[0]
    assert found.table.rows[1][3:5] == ("-", "-")
    assert "acceptance of draft: no verify step was taken" in texts(found.lines, "not known")
