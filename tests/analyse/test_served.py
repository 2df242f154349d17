"""Runs that servers answered: sums in place of steps, texts in place of ids."""

from dataclasses import replace

import pytest
from runs import ARMS, cell, figures, run

from xpress_bench.analyse.acceptance import acceptance
from xpress_bench.analyse.between import compare
from xpress_bench.analyse.intervals import Unknown
from xpress_bench.analyse.parity import noise_floor, parity
from xpress_bench.analyse.reduce import select
from xpress_bench.analyse.served import served
from xpress_bench.analyse.streaming import read_reduced
from xpress_bench.analyse.summary import summarise
from xpress_bench.errors import UsageError
from xpress_bench.journals import from_line, read_run, to_line
from xpress_bench.publish.report_as import report_as
from xpress_bench.records import Counts, Steps


def answered(arm="draft", prompt="p0", text="x", tokens=11, ids=(), latency_s=1.0, repeat=0, **told):
    by = "ids" if ids else "usage"
    counts = Counts(tokens, by, **told)
    return cell(
        arm, prompt, latency_s, ids=ids, text=text, stop_reason="stop", steps=Steps(), counts=counts, repeat=repeat
    )


def served_run(cells):
    plain = run(cells, arms=ARMS[:2])
    says = {"engine": "vllm", "version": None, "url": "http://h:1", "model": "m"}
    target = plain.header.target | {"servers": {"direct": says, "draft": says}}
    return replace(plain, header=replace(plain.header, target=target))


def test_acceptance_of_sums_by_hand():
    # p0: 10 tokens after the first, 6 of them accepted of 12: 4 steps. p1: 20, 5 of 15: 15 steps, 5 of them drafted.
    cells = [
        answered(drafts=4, offered=12, accepted=6, reached=(3, 2, 1)),
        answered(prompt="p1", tokens=21, drafts=5, offered=15, accepted=5, reached=(4, 1)),
    ]
    found = acceptance(cells)
    assert found.steps == 19
    assert found.tokens_per_step_committed_step.estimate == pytest.approx(30 / 19)
    assert found.tokens_per_step_nominal_step.estimate == pytest.approx(1 + 11 / 19)
    assert found.tokens_per_step_committed_prompt.estimate == pytest.approx((10 / 4 + 20 / 15) / 2)
    assert found.draft_accept_rate_step.estimate == pytest.approx(11 / 27)
    assert [one.estimate for one in found.accept_marginal_step] == pytest.approx([7 / 19, 3 / 19, 1 / 19])


def test_what_a_server_does_not_tell_is_unknown_with_the_reason():
    silent = acceptance([answered(reason="no page"), answered(prompt="p1", reason="no page")])
    assert silent.tokens_per_step_committed_step == Unknown("no page")
    assert silent.draft_accept_rate_prompt == Unknown("no page")
    calls = acceptance([answered(drafts=4), answered(prompt="p1", drafts=5)])
    assert calls.tokens_per_step_committed_step.estimate == pytest.approx(20 / 9)
    assert calls.draft_accept_rate_step == Unknown("the server does not tell how many tokens it drafted")
    sums = acceptance(
        [answered(offered=9, accepted=6), answered(prompt="p1", drafts=4, offered=9, accepted=6, reached=(6,))]
    )
    assert sums.accept_marginal_step == (Unknown("the server does not tell acceptance by position"),)
    direct = acceptance([answered("direct"), answered("direct", "p1")])
    assert direct.tokens_per_step_committed_step == Unknown("no verify step was taken")


def test_requests_of_which_nothing_is_known_do_not_dilute_the_others():
    known = answered(drafts=4, offered=12, accepted=6, reached=(3, 2, 1))
    assert acceptance([known, answered(repeat=1, reason="another request")]).steps == 4


def judged(*cells):
    return parity(select(run(cells), cells[0].condition), "draft", "direct", [], {}, 0.02)


def test_parity_by_text_where_a_side_has_no_ids():
    same = judged(answered("direct", text="ab"), answered(text="ab"))
    assert (same.outcome, same.identical.estimate) == ("shown", 1.0)
    assert same.reason == "identical on 1 of 1 prompts, by text: a server gives no ids"
    mixed = judged(answered("direct", text="abc", ids=(1, 2)), answered(text="abd"))
    assert mixed.outcome == "not shown"
    (place,) = mixed.divergences
    assert (place.position, place.direct_token, place.arm_token) == (2, "c", "d")
    ids = judged(answered("direct", text="abc", ids=(1, 2), tokens=2), answered(text="abc", ids=(1, 3), tokens=2))
    assert ids.divergences[0].position == 1
    assert "by text" not in ids.reason


def test_an_empty_text_is_an_output_and_differs_from_another():
    nothing = answered("direct", text="", tokens=1)
    assert judged(nothing, answered(text="", tokens=1)).outcome == "shown"
    assert judged(nothing, answered(text="x")).divergences[0].direct_token is None
    assert judged(nothing, answered(text="", tokens=0)).failed == ("p0",)


def test_the_noise_floor_is_of_texts():
    assert noise_floor([answered("direct"), answered("direct", repeat=1)]).estimate == 1.0
    assert noise_floor([answered("direct"), answered("direct", text="y", repeat=1)]).estimate == 0.0


def test_two_runs_are_compared_by_text():
    def pair(text, name):
        found = served_run([answered(arm, f"p{p}", text=text) for p in range(3) for arm in ("direct", "draft")])
        return replace(found, header=replace(found.header, run=name))

    (same, other) = (compare([pair("x", "a"), pair(text, "b")], []).comparisons[0] for text in "xy")
    assert (same.identical.estimate, other.identical.estimate) == (1.0, 0.0)


def test_what_the_report_says_of_the_counting():
    told = {"drafts": 2, "offered": 10, "accepted": 5, "source": "both"}
    cells = [
        answered("direct"),
        answered(**told),
        answered("direct", "p1"),
        answered(prompt="p1", tokens=9, cached=4, **told),
    ]
    said = served(served_run(cells))
    assert "direct: vllm of unknown version at http://h:1, model m" in said
    assert "draft: something was drafted in 4 of 8 verify steps" in said  # 10 - 5 and 8 - 5
    assert any(
        line.startswith("draft: of 2 outputs with the text of direct 1 have another number of tokens") for line in said
    )
    assert "draft: the prompt of 1 of 2 requests was at least partly in the server's cache" in said
    assert served(run([cell("direct")])) == ()


def test_journals_hold_counts_and_those_without_are_as_ever(tmp_path):
    of = answered(drafts=4, offered=12, accepted=6, reached=(3, 2, 1), source="request")
    assert from_line(to_line(of)) == of
    assert "counts" not in to_line(cell("direct"))
    with pytest.raises(ValueError, match="a counts has no field 'more'"):
        from_line(to_line(of).replace('"reached":', '"more":'))
    with pytest.raises(ValueError, match="`int` >= 0"):
        from_line(to_line(of).replace('"accepted":6', '"accepted":-6'))
    whole = served_run([answered("direct"), of])
    (tmp_path / "journal.jsonl").write_text(
        "".join(to_line(one) + "\n" for one in (whole.header, *whole.cells, whole.footer))
    )
    full, reduced = read_run(tmp_path), read_reduced(tmp_path)
    assert [one.tally for one in reduced.cells] == [one.tally for one in full.cells]
    assert figures(summarise(reduced)) == figures(summarise(full))


def test_what_needs_single_steps_is_refused():
    with pytest.raises(
        UsageError, match="--report-as needs the verify steps of run 'r1', and servers do not tell them"
    ):
        report_as(served_run([answered("direct"), answered(drafts=2)]), "vllm")
