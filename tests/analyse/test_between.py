import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from runs import ARMS, COUPLED, GREEDY, REJECTION, Item, cell, exact_study, failed, grid, run, steps, study
from scipy import stats

from xpress_bench.analyse.between import arms, between, compare
from xpress_bench.analyse.compare import speed_ups
from xpress_bench.analyse.intervals import Unknown
from xpress_bench.analyse.reduce import select
from xpress_bench.errors import UsageError
from xpress_bench.records import Condition, Memory


def journal(cells, name="r1", target=None, settings=None, machine=None, versions=None, git=None, **changes):
    plain = run(cells, **changes)
    header = replace(
        plain.header,
        run=name,
        target=plain.header.target | (target or {}),
        settings=plain.header.settings | (settings or {}),
        machine=machine or {"hard": {"cpu_model": "X"}},
        versions=plain.header.versions | (versions or {}),
        git=git or {},
    )
    return replace(plain, header=header)


def timed(latencies_s, arm="draft", **changes):
    return [cell(arm, f"p{p}", latency_s, **changes) for p, latency_s in enumerate(latencies_s)]


def only(found):
    (one,) = found.comparisons
    return one


def pair(ours, theirs, **changes):
    return only(between(journal(ours, "a", **changes), journal(theirs, "b", **changes)))


# Latency


def test_c23_uniform_gain_whatever_the_order():
    ours, theirs = timed((0.1, 0.2, 0.3, 0.4, 0.5)), timed((0.09, 0.18, 0.27, 0.36, 0.45))
    for cells in (theirs, theirs[::-1]):
        ratio = pair(ours, cells).latency_s.change
        assert (ratio.estimate, ratio.low, ratio.high) == pytest.approx([1 / 0.9] * 3)


def test_c23_a_missing_prompt_is_named_and_a_double_one_refused():
    ours, theirs = timed((0.1, 0.2, 0.3, 0.4, 0.5)), timed((0.09, 0.18, 0.27, 0.36, 0.45))
    found = pair(ours, theirs[1:])
    assert found.prompts == found.latency_s.change.n == 4
    assert found.unpaired == {"not in B": ("p0",)}
    with pytest.raises(UsageError, match="twice"):
        pair(ours, [*theirs, theirs[0]])


def test_each_run_is_reduced_to_a_value_per_prompt_before_prompts_pair():
    # A: two launches, repeats 1, 1, 7 s and 4, 4, 4 s: medians 1 and 4, geometric mean 2. B: one launch of 1 s.
    ours = [
        cell("draft", f"p{p}", (1 + p) * latency_s, launch=launch, repeat=repeat)
        for p in range(3)
        for launch, times in enumerate(((1, 1, 7), (4, 4, 4)))
        for repeat, latency_s in enumerate(times)
    ]
    found = pair(ours, timed((1.0, 2.0, 3.0)))
    assert found.latency_s.change.estimate == pytest.approx(2.0)
    assert found.latency_s.change.n == 3
    assert found.total_time.estimate == pytest.approx(2.5)  # mean of 1 and 4 over 1, on every prompt


def test_a_turn_that_one_run_lacks_moves_nothing():
    ours = [cell("draft", f"p{p}", latency_s, turn=turn) for p in range(3) for turn, latency_s in ((1, 1.0), (2, 9.0))]
    theirs = [one for one in ours if (one.prompt, one.turn) != ("p1", 2)]
    found = pair(ours, theirs)
    assert found.latency_s.change.estimate == pytest.approx(1.0)
    assert found.unpaired == {"not in B": ("p1",)}


def test_total_time_weighs_prompts_by_their_seconds():
    found = pair(timed((1.0, 10.0)), timed((0.5, 10.0)))  # metrics.md, C15
    assert found.total_time.estimate == pytest.approx(11 / 10.5)
    assert found.latency_s.change.estimate == pytest.approx(math.sqrt(2))


def test_two_sessions_have_no_p_value_and_two_arms_that_of_the_report():
    cells = study()
    assert pair(timed((1.0, 2.0)), timed((1.0, 2.1))).within is None
    found = only(arms(run(cells), "draft", "refine"))
    (expected,) = speed_ups(select(run(cells), GREEDY), ("draft", "refine"))
    assert found.within == expected
    assert found.within.latency == "faster"
    change, wanted = found.latency_s.change, expected.gmean_paired  # from other logarithms: not to the last bit
    assert replace(change, low=wanted.low, high=wanted.high) == wanted
    assert (change.low, change.high) == pytest.approx((wanted.low, wanted.high), rel=1e-14)
    assert found.total_time.estimate == pytest.approx(expected.total_time.estimate)


def test_arms_pair_inside_a_launch():
    # launch 1 is ten times slower for both: the ratio is 2 in each, and 3 launches of one arm alone change nothing
    cells = [
        cell(arm, f"p{p}", speed * slow, launch=launch)
        for p, (launch, slow), (arm, speed) in itertools.product(
            range(4), enumerate((1.0, 10.0)), (("draft", 2.0), ("refine", 1.0))
        )
    ] + [cell("draft", "p0", 50.0, launch=2)]
    found = only(arms(run(cells), "draft", "refine"))
    assert found.latency_s.change.estimate == pytest.approx(2.0)
    assert found.unpaired == {"not in refine": ("p0",)}


def test_speed_up_over_direct_is_free_of_a_session_that_is_slow_as_a_whole():
    ours = grid(lambda arm, p: (1 + p) / {"direct": 1.0, "draft": 2.0}[arm], prompts=5, arms=("direct", "draft"))
    slow = [replace(one, latency_s=1.3 * one.latency_s) for one in ours]
    direct, draft = between(journal(ours), journal(slow)).comparisons
    assert draft.latency_s.change.estimate == pytest.approx(1 / 1.3)
    assert draft.over_direct.base.estimate == draft.over_direct.arm.estimate == pytest.approx(2.0)
    assert draft.over_direct.change.estimate == pytest.approx(1.0)
    assert direct.over_direct is None


def test_log_ratio_sd_is_that_of_the_prompts():
    found = pair(timed((1.0, 1.0)), timed((math.exp(-0.1), math.exp(-0.3))))
    assert found.log_ratio_sd == pytest.approx(0.2 / math.sqrt(2))


# Counts


def stepped(counts, arm="draft", **changes):
    """One cell per prompt; counts: (accepted per step, committed per step)."""
    return [
        cell(arm, f"p{p}", steps=steps(accepted, 4, committed), **changes)
        for p, (accepted, committed) in enumerate(counts)
    ]


OURS = [([1, 1], [2, 2]), ([0], [1]), ([2, 2, 2], [3, 3, 3])]  # 14 tokens in 6 steps
THEIRS = [([3], [4]), ([0], [1]), ([3, 3, 0], [4, 4, 1])]  # 14 tokens in 5 steps


def test_tokens_per_step_pair_on_pseudo_values():
    found = pair(stepped(OURS), stepped(THEIRS))
    k, n = np.array([[4, 1, 9], [4, 1, 9]]), np.array([[2, 1, 3], [1, 1, 3]])
    r = np.array([14 / 6, 14 / 5])[:, None]
    y = r + (k - r * n) / n.mean(axis=1, keepdims=True)
    change = found.tokens_per_step.change
    assert change.estimate == pytest.approx(14 / 5 - 14 / 6)
    low, high = stats.ttest_rel(y[1], y[0]).confidence_interval(0.95)
    assert (change.low, change.high) == pytest.approx((low, high))
    assert found.tokens_per_step_ratio.estimate == pytest.approx(6 / 5)
    assert found.draft_accept_rate.change.estimate == pytest.approx(9 / 20 - 8 / 24)


def test_equal_counts_differ_by_exactly_nothing_even_with_more_repeats():
    thrice = [replace(one, repeat=repeat) for repeat in range(3) for one in stepped(OURS)]
    change = pair(stepped(OURS), thrice).tokens_per_step.change
    assert (change.estimate, change.low, change.high) == (0.0, 0.0, 0.0)


def test_no_step_is_unknown():
    found = pair(timed((1.0, 1.0)), timed((1.0, 1.0)))
    assert found.tokens_per_step.change == found.tokens_per_step_ratio == Unknown("no verify step was taken")
    nothing = pair(stepped([([0], [1])] * 2), stepped([([0], [1])] * 2))
    assert nothing.draft_accept_rate.change.estimate == 0.0
    assert nothing.tokens_per_step_ratio.estimate == pytest.approx(1.0)


# Output


def test_identical_counts_prompts_on_which_everything_agrees():
    ours = [cell("draft", f"p{p}", repeat=repeat) for p in range(4) for repeat in range(2)]
    theirs = [replace(one, ids=(1, 9, 3)) if (one.prompt, one.repeat) == ("p2", 1) else one for one in ours]
    found = pair(ours, theirs)
    assert (found.identical.estimate, found.identical.n) == (3 / 4, 4)
    assert found.first_divergence == Unknown("n < 2", 1.0)


def test_ids_say_nothing_under_rejection():
    found = pair(timed((1.0, 1.0), condition=REJECTION), timed((1.0, 1.0), condition=REJECTION))
    assert found.identical == Unknown("ids are not comparable under rejection sampling")


def test_score_difference_is_paired_by_prompt():
    items = [Item(f"p{p}", ("yes",)) for p in range(4)]
    ours = [replace(one, text=text) for one, text in zip(timed([1.0] * 4), ("yes", "yes", "no", "no"), strict=True)]
    theirs = [replace(one, text=text) for one, text in zip(timed([1.0] * 4), ("yes", "no", "no", "no"), strict=True)]
    found = only(between(journal(ours), journal(theirs), items))
    assert (found.score.base.estimate, found.score.arm.estimate) == (0.5, 0.25)
    assert found.score.change.estimate == -0.25
    assert found.score_sd == pytest.approx(0.5)
    assert pair(ours, theirs).score.change == Unknown("the suite's items are not at hand")


def test_equal_texts_are_alike_and_a_base_that_ran_once_has_no_floor():
    likeness = pair(timed((1.0, 1.0)), timed((1.0, 1.0))).likeness
    assert likeness.chrf.estimate == 1.0
    assert isinstance(likeness.floor, Unknown)
    assert likeness.outcome == "not shown"


def test_without_sacrebleu_only_equal_texts_have_a_likeness(monkeypatch):
    monkeypatch.setattr("xpress_bench.analyse.score.find_spec", lambda name: None)
    assert pair(timed((1.0, 1.0)), timed((1.0, 1.0))).likeness.chrf.estimate == 1.0
    likeness = pair(timed((1.0, 1.0)), timed((1.0, 1.0), text="y")).likeness
    assert isinstance(likeness.chrf, Unknown)
    assert "sacrebleu" in likeness.difference.reason


def sampled(texts_by_seed, prompts=150):  # 149 unchanged prompts exclude a change of 2 %
    return [
        cell("draft", f"p{p}", seed=seed, text=text, condition=REJECTION)
        for p in range(prompts)
        for seed, text in enumerate(texts_by_seed)
    ]


@pytest.mark.parametrize(
    ("arm", "outcome"), [(("cat", "dog"), "shown"), (("cat", "cat"), "refuted"), (("dog", "dog"), "refuted")]
)
def test_an_arm_is_held_against_the_base_between_its_own_seeds(arm, outcome):
    # "cat" and "dog" share no character n-gram: chrF 0. The base is 0 alike between seeds; `arm` against (dog, cat).
    pytest.importorskip("sacrebleu")
    base = {"shown": ("dog", "cat"), "refuted": ("bird", "bird")}[outcome]
    likeness = pair(sampled(base), sampled(arm)).likeness
    assert likeness.floor.estimate == (0.0 if outcome == "shown" else 1.0)
    assert likeness.outcome == outcome


# What may be compared


def cells():
    return timed((1.0, 1.1, 1.2))


@pytest.mark.parametrize(
    ("what", "changes"),
    [
        ("suite name 'qa' and 'long'", {"suite": {"name": "long"}}),
        ("suite version None and '2'", {"suite": {"version": "2"}}),
        ("suite sha256 '3f9a12000000...' and 'x'", {"suite": {"sha256": "x"}}),
        ("target weights 'embedded' and 'w'", {"target": {"weights_sha256": "w"}}),
        ("target weights 'embedded' and 'other'", {"target": {"name": "other"}}),
        ("tokenizer None and 't'", {"target": {"tokenizer_sha256": "t"}}),
        ("dtype 'float32' and 'bfloat16'", {"target": {"dtype": "bfloat16"}}),
        ("max_new_tokens None and 64", {"settings": {"max_new_tokens": 64}}),
        ("target.thinking None and True", {"settings": {"target": {"thinking": True}}}),  # C16
        ("target.chat_template None and False", {"settings": {"target": {"chat_template": False}}}),
    ],
)
def test_other_work_is_refused(what, changes):
    with pytest.raises(UsageError) as refused:
        between(journal(cells(), "a"), journal(cells(), "b", **changes))
    assert str(refused.value).startswith(f"runs 'a' and 'b' cannot be compared, they differ in {what}; measure both")


def test_a_refusal_names_every_difference_in_one_line():
    other = journal(
        cells(), "b\n\x1b[31m", suite={"name": "x\ny"}, target={"dtype": "float16"}, settings={"batch_size": 2}
    )
    with pytest.raises(UsageError) as refused:
        between(journal(cells()), other)
    text = str(refused.value)
    assert all(what in text for what in ("suite name", "dtype", "batch_size"))
    assert text.isprintable()


def test_conditions_without_a_common_one_are_refused():
    with pytest.raises(UsageError, match=r"conditions 'greedy' and 'temperature 0\.7, coupled'"):
        pair(cells(), timed((1.0, 1.1), condition=COUPLED))


def test_only_common_conditions_are_compared_and_the_others_listed():
    warm = Condition(1.0, "coupled")
    found = between(journal(cells()), journal([*cells(), *timed((1.0, 1.1), condition=warm)]))
    assert [one.condition for one in found.comparisons] == [GREEDY]
    assert differences(found)["conditions"] == ("greedy", "greedy, temperature 1, coupled")


def test_runs_without_a_common_request_are_refused():
    with pytest.raises(UsageError, match="share no request"):
        pair([cell("draft", "p0")], [cell("draft", "p1")])
    with pytest.raises(UsageError, match="share no request"):
        pair([cell("draft", "p0")], [failed("draft", "p0")])


def test_what_does_not_pair_is_named_with_its_reason():
    ours = [*cells(), cell("draft", "p3"), cell("draft", "p4"), failed("draft", "p5"), cell("draft", "p6")]
    theirs = [
        *cells(),
        cell("draft", "p3", prompt_sha256="other"),
        cell("draft", "p4", stop_reason="short"),
        cell("draft", "p5"),
        cell("draft", "p7"),
    ]
    found = pair(ours, theirs)
    assert found.prompts == 3
    assert found.unpaired == {
        "given other tokens": ("p3",),
        "short in B": ("p4",),
        "failed in A": ("p5",),
        "not in B": ("p6",),
        "not in A": ("p7",),
    }


def test_above_temperature_0_requests_pair_by_seed_and_below_seeds_are_repeats():
    def two_seeds(condition):
        return [cell("draft", f"p{p}", 1.0 + seed, seed=seed, condition=condition) for p in range(3) for seed in (0, 1)]

    for condition, speed in ((COUPLED, 1.0), (GREEDY, 1.5)):
        first = [one for one in two_seeds(condition) if one.seed == 0]
        found = between(journal(two_seeds(condition)), journal(first))
        assert only(found).latency_s.change.estimate == pytest.approx(speed)
        assert only(found).unpaired == {}
        assert differences(found)["seeds"] == ([0, 1], [0])


def differences(found, field="differs"):
    return {one.what: (one.base, one.arm) for one in getattr(found, field)}


def test_what_the_comparison_is_about_is_listed():
    other = replace(ARMS[1], block_size=4, checkpoints={"drafter": "c1"})
    found = between(
        journal(cells(), settings={"repeats": 1, "out": "x", "block_size": None}, git={"commit": "c", "dirty": False}),
        journal(
            cells(),
            arms=(other,),
            settings={"repeats": 3, "out": "y", "block_size": 4},
            git={"commit": "d", "dirty": False},
            versions={"xpress-bench": "0.2.0"},
        ),
    )
    assert differences(found) == {
        "draft: block_size": (8, 4),
        "draft: checkpoints.drafter": (None, "c1"),
        "repeats": (1, 3),
        "xpress-bench": ("0.1.0", "0.2.0"),
        "git commit": ("c", "d"),
    }
    assert (found.warned, found.weakened, found.controls) == ((), (), ())


def test_c44_another_machine_compares_counts_and_outputs_alone():
    memory = [Memory("draft", "process_peak_rss", 2**20)]
    ours = journal(stepped(OURS), machine={"hard": {"gpu_name": "X", "gpu_mig": False}}, memory=memory)
    theirs = journal(stepped(THEIRS), machine={"hard": {"gpu_name": "Y", "gpu_mig": False}}, memory=memory)
    found = between(ours, theirs)
    reason = Unknown("not the same gpu_name")
    one = only(found)
    assert one.latency_s.change == one.total_time == one.log_ratio_sd == reason
    assert one.latency_s.base.estimate == 1.0
    assert one.tokens_per_step.change.estimate == pytest.approx(14 / 5 - 14 / 6)
    assert one.identical.estimate == 1.0
    assert not found.same_machine
    assert differences(found, "warned") == {"gpu_name": ("X", "Y")}


def test_c44_versions_and_the_host_warn_and_readings_of_the_clock_do_not():
    def machine(host, mhz):
        return {"hard": {"cpu_model": "X"}, "soft": {"host": host}, "before": {"cpu_mhz": mhz}}

    found = between(
        journal(cells(), machine=machine("h1", 2600.0), versions={"torch": "2.12"}),
        journal(cells(), machine=machine("h2", 2602.6), versions={"torch": "2.13"}),
    )
    assert only(found).latency_s.change.estimate == pytest.approx(1.0)
    assert differences(found, "warned") == {"host": ("h1", "h2"), "torch": ("2.12", "2.13")}


def test_c44_an_unknown_machine_warns_but_other_threads_or_devices_are_not_compared():
    known, unknown = journal(cells()), journal(cells(), machine={"hard": {}})
    found = between(known, unknown)
    assert only(found).latency_s.change.estimate == pytest.approx(1.0)
    assert found.weakened == ("the machine of B is not known, it may be another one",)
    threads = between(known, journal(cells(), machine={"hard": {}}, settings={"threads": 8}))
    assert only(threads).latency_s.change == Unknown("not the same torch_threads")
    device = between(known, journal(cells(), target={"device": "cuda:0"}))
    assert only(device).latency_s.change == Unknown("not the same device")


def test_an_unfinished_run_and_uncommitted_changes_are_said():
    found = between(journal(cells(), footer=None), journal(cells(), git={"dirty": True}))
    assert found.weakened == (
        "A did not end by itself: its journal is not complete",
        "B ran with changes that are in no commit",
    )


# Which arms


def test_arms_that_only_one_run_has_are_listed_and_the_rest_compared():
    both = grid(lambda arm, p: 1.0, prompts=3)
    found = between(journal(both), journal([one for one in both if one.arm != "refine"]))
    assert [one.name for one in found.comparisons] == ["direct", "draft"]
    assert differences(found)["arms"] == ("direct, draft, refine", "direct, draft")


def test_a_named_arm_is_compared_alone_with_the_unchanged_ones_as_controls():
    both = grid(lambda arm, p: 1.0, prompts=3)
    changed = (*ARMS[:2], replace(ARMS[2], passes=2))
    found = between(journal(both), journal(both, arms=changed), names=["refine"])
    assert [one.name for one in found.comparisons] == ["refine"]
    assert [one.name for one in found.controls] == ["direct", "draft"]


def test_arms_of_one_run_differ_in_their_parts():
    found = arms(run(exact_study()), "draft", "refine")
    assert differences(found) == {"refiner": (None, "xpress"), "passes": (None, 4)}
    assert only(found).over_direct is None
    assert only(found).identical.n == 32


@pytest.mark.parametrize(
    ("runs", "names", "message"),
    [
        (2, ["refin"], "run A, 'r1', has no arm 'refin', it has direct, draft, refine; did you mean 'refine'?"),
        (1, ["draft", "nothing"], "run 'r1' has no arm 'nothing', it has direct, draft, refine; choose one of them"),
        (1, ["draft", "draft"], "arm 'draft' against itself"),
        (1, [], "one run and 0 arms: give two runs, or name two arms of direct, draft, refine"),
        (1, ["draft"], "one run and 1 arms"),
        (3, [], "3 runs: compare takes two"),
    ],
)
def test_a_wrong_question_is_told_what_to_ask(runs, names, message):
    with pytest.raises(UsageError) as told:
        compare([journal(exact_study())] * runs, names)
    assert message in str(told.value)


def test_compare_takes_two_runs_or_two_arms():
    one = journal(exact_study())
    assert len(compare([one, one], ["draft"]).runs) == 2
    assert [each.base for each in compare([one], ["draft", "refine"]).comparisons] == ["draft"]


def test_arms_that_never_both_succeeded_are_refused():
    with pytest.raises(UsageError, match="share no request that succeeded in both"):
        arms(run([cell("draft", "p0"), failed("refine", "p0")]), "draft", "refine")
