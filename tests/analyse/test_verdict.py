from dataclasses import replace

from runs import GREEDY, REJECTION, cell, failed, run, study

from xpress_bench.analyse.summary import summarise
from xpress_bench.analyse.verdict import verdict
from xpress_bench.records import Replay


def said(cells, **changes):
    summary = summarise(run(cells, **changes))
    return verdict(summary, summary.conditions[0])


def slowed(factor, arm="refine"):
    return [replace(c, latency_s=c.latency_s * factor) if c.arm == arm else c for c in study()]


def other_ids(arm="refine"):
    return [replace(c, ids=(1, 9, 3)) if c.arm == arm and c.prompt == "p3" else c for c in study()]


def test_good_run_in_one_sentence():
    sentence = said(study())
    assert sentence.startswith("refine (dflash B=8 + xpress K=4) is 1.99")
    assert "x faster than direct [" in sentence
    assert "x faster than draft [" in sentence
    assert sentence.endswith("; output identical on 32 of 32 prompts; stable: 0 of 32 prompts got slower.")


def test_slower_is_called_slower():
    assert "is slower than direct, 0.49" in said(slowed(4))
    assert "stable" not in said(slowed(4))


def test_no_practical_difference():
    cells = [replace(c, latency_s=1.0 + 0.0001 * int(c.prompt[1:])) for c in study()]
    assert "is no practical difference from direct" in said(cells)


def test_not_shown_to_be_faster():
    # refine takes 0.6 s and 1.8 s in turn, direct 1 s: a geometric mean of 0.96, far inside its own spread
    cells = [replace(c, latency_s=0.6 + 1.2 * (int(c.prompt[1:]) % 2) if c.arm == "refine" else 1.0) for c in study()]
    assert "is not shown to be faster than direct" in said(cells)


def test_fast_but_wrong_is_wrong_first():
    real = [Replay("p3", 0, "refine", GREEDY, 1, 2, 9, 2.0, 0.001, "real")]
    sentence = said(other_ids(), replays=real)
    assert sentence.startswith(
        "output of refine (dflash B=8 + xpress K=4) differs on 1 of 32 prompts beyond rounding; it is"
    )
    assert said(other_ids()).startswith("output of refine (dflash B=8 + xpress K=4) differs on 1 of 32 prompts, and no")


def test_ties_are_named_as_such():
    tie = [Replay("p3", 0, "refine", GREEDY, 1, 2, 9, 0.0, 0.001, "tie")]
    sentence = said(other_ids(), replays=tie)
    assert sentence.startswith("refine")
    assert "output differs on 1 of 32 prompts, only at ties" in sentence


def test_another_arm_that_is_wrong_is_not_passed_over():
    assert "output of draft differs on 1 of 32 prompts" in said(other_ids("draft"))


def test_part_of_a_suite_is_said_to_be_part():
    assert said(study(), suite={"items": 160}).startswith("On 32 of 160 prompts of qa: refine")


def test_unfinished_and_failed_runs_say_so_first():
    assert said(study(), footer=None).startswith("The run did not finish, 96 of 96 requests are here: ")
    broken = [failed("draft", "p0"), *[c for c in study() if (c.arm, c.prompt) != ("draft", "p0")]]
    assert said(broken).startswith("Only 95 of 96 requests succeeded: ")


def test_nothing_succeeded():
    assert said([failed("direct"), failed("refine")]) == (
        "Only 0 of 2 requests succeeded: no request succeeded, so nothing can be said."
    )


def test_direct_only():
    sentence = said([cell("direct", f"p{i}", 0.5) for i in range(8)])
    assert sentence == "only direct was measured, median latency 500 ms [500, 500]; nothing to compare with."


def test_one_prompt():
    sentence = said([cell("direct"), cell("refine", latency_s=0.5)])
    assert "not shown to be faster than direct (n < 2)" in sentence


def test_rejection_without_scores_does_not_claim_quality():
    sentence = said([replace(c, condition=REJECTION) for c in study()])
    assert sentence.startswith("output of refine (dflash B=8 + xpress K=4) not shown to be as good")


def test_refine_alone_or_first_without_direct():
    only = [c for c in study() if c.arm == "refine"]
    assert said(only).startswith("only refine was measured")
    arms = tuple(reversed(run(study()).header.arms))[:2]  # refine, draft
    assert said([c for c in study() if c.arm != "direct"], arms=arms).startswith(
        "draft (dflash B=8) is slower than refine"
    )
