"""Each planted defect is named by its rule and by no other."""

import math
import shlex
from dataclasses import asdict, replace

import numpy as np
import pytest
from runs import COUPLED, GREEDY, REJECTION, Item, cell, exact_study, failed, grid, run, steps, study
from scipy import stats

from xpress_bench import cli
from xpress_bench.analyse.evidence import again
from xpress_bench.analyse.explain import RULES, explain
from xpress_bench.analyse.slow import NO_MODEL
from xpress_bench.records import Replay, Trace
from xpress_bench.suites import GROUPED_BY

ARGV = ("--suite", "qa", "--refiner", "xpress", "refiner.passes=4", "limit=28")


def planted(cells, argv=ARGV, settings=None, **changes):
    made = run(cells, **changes)
    return replace(made, header=replace(made.header, argv=argv, settings={**made.header.settings, **(settings or {})}))


def only(cells, rule, **changes):
    """The findings, all of one rule."""
    found = explain(planted(cells, **changes))
    assert {one.rule for one in found} == {rule}
    return found


def refined(before, after, accepted, committed, **times):
    """Refine cells with the ids 10..18; a direct cell of each prompt says the same and takes twice as long."""
    made = replace(steps(accepted, offered=[len(one) for one in before], committed=committed),
                   drafts=before, refined=after, **times)  # fmt: skip
    ids = tuple(range(10, 11 + sum(committed)))
    cells = grid(lambda arm, p: {"direct": 2.0, "refine": 1.0}[arm], prompts=8, arms=("direct", "refine"), ids=ids)
    return [replace(one, steps=made, rest_s=0.0, prefill_s=0.0) if one.arm == "refine" else one for one in cells]


def test_a_good_run_has_no_finding():
    assert explain(planted(exact_study())) == []
    assert explain(planted(study())) == []
    assert explain(planted(grid(lambda arm, p: 1.0, arms=("direct",)))) == []


def test_a_run_that_did_not_finish():
    (found,) = only(study()[:-1], "unfinished", footer=None)
    assert (found.level, found.evidence) == (1, ("95 of 96 requests are here",))
    assert found.command == "xpress-bench --suite qa --refiner xpress refiner.passes=4 limit=28"


def test_failed_requests_are_grouped_and_lead_to_the_check():
    cells = study()
    cells[3:5] = failed("direct", "p1", "RuntimeError: boom"), failed("draft", "p1", "RuntimeError: boom")
    cells[5] = replace(cells[5], stop_reason="short")
    (found,) = only(cells, "failed")
    assert found.evidence == (
        "direct, 1 requests: RuntimeError: boom (p1)",
        "draft, 1 requests: RuntimeError: boom (p1)",
        "refine, 1 requests: ended although nothing asked for it (p1)",
    )
    assert found.command.startswith("xpress-bench check --suite qa")


def test_out_of_memory_halves_the_block_and_for_direct_the_output():
    cells = study()
    cells[4] = failed("draft", "p1", "OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB")
    (found,) = only(cells, "out_of_memory")
    assert found.command.endswith("limit=28 block_size=4")
    cells[3] = failed("direct", "p1")
    (found,) = only(cells, "out_of_memory", settings={"max_new_tokens": 64})
    assert found.command.endswith("limit=28 max_new_tokens=32")


def test_only_refinement_changes_the_output():
    cells = exact_study()
    real = [Replay("p0", 0, "refine", GREEDY, 1, 2, 7, 3.0, 0.1, "real")]
    changed = [replace(c, ids=(1, 7, 3)) if (c.arm, c.prompt) == ("refine", "p0") else c for c in cells]
    (found,) = only(changed, "differs", replays=real)
    assert found.level == 2
    assert found.what.startswith("output of refine is not direct's, that of draft is: refinement")
    assert found.evidence[:2] == ("output differs on 1 of 32 prompts beyond rounding", "at p0 token 1")
    assert "refiner.passes=0" in found.command
    assert "refiner.passes=4" not in found.command


def test_a_difference_that_is_a_tie_is_none():
    tie = [Replay("p0", 0, "refine", GREEDY, 1, 2, 7, 0.0, 0.1, "tie")]
    changed = [replace(c, ids=(1, 7, 3)) if (c.arm, c.prompt) == ("refine", "p0") else c for c in exact_study()]
    assert explain(planted(changed, replays=tie)) == []


def test_every_arm_differs_so_float64_decides():
    changed = [replace(c, ids=(1, 7, 3)) if c.arm != "direct" and c.prompt == "p0" else c for c in exact_study()]
    found = only(changed, "differs")
    assert [one.what.split()[2] for one in found] == ["draft", "refine"]
    assert all(one.command.endswith(" dtype=float64") for one in found)
    assert all(" check " in one.command for one in only(changed, "differs", settings={"dtype": "float64"}))


def test_an_arm_that_stops_elsewhere():
    changed = [replace(c, ids=(1, 2)) if c.arm == "refine" and c.prompt in ("p0", "p1") else c for c in exact_study()]
    (found,) = only(changed, "differs")
    assert "stop ids, generation defaults or limits" in found.what
    assert found.command.endswith(" max_new_tokens=2")  # what is compared then ends before the place


def test_an_arm_that_differs_when_sampling_only():
    sampled = [replace(c, condition=COUPLED, ids=(1, 7, 3) if c.arm == "draft" else c.ids) for c in exact_study()]
    (found,) = only([*exact_study(), *sampled], "differs")
    assert (found.condition, "sampling settings" in found.what) == (COUPLED, True)
    assert found.command.endswith(" 'temperatures=[0.7]' dtype=float64")


def test_an_arm_that_differs_where_only_sampling_was_run():
    sampled = [replace(c, condition=COUPLED, ids=(1, 7, 3) if c.arm == "refine" else c.ids) for c in exact_study()]
    (found,) = only(sampled, "differs")
    assert found.what.endswith("refinement, perhaps too many passes, changes it, if not other sampling settings")


@pytest.mark.parametrize(("says", "what"), [("no", "may not have the law"), ("yes", "ids prove nothing")])
def test_under_rejection_the_score_speaks_and_coupled_is_tried(says, what):
    cells = [replace(c, condition=REJECTION, text=says if c.arm == "draft" else "yes")
             for c in study() if c.arm != "refine"]  # fmt: skip
    items = [Item(f"p{i}", ("yes",)) for i in range(32)]
    (found,) = explain(planted(cells), items)
    assert (found.rule, what in found.what) == ("not_compared", True)
    assert found.command.endswith(" 'verifiers=[coupled]'")


def test_a_refiner_that_breaks_right_tokens_at_slot_2():
    # Both steps: 3 drafts right, refined to a wrong second one; then one step that takes what is left.
    before = ((11, 12, 13), (13, 14, 15), (15, 16, 17))
    after = ((11, 99, 13), (13, 99, 15), (15, 16, 17))
    (found,) = only(refined(before, after, (1, 1, 3), (2, 2, 4)), "breaks_right")
    assert found.level == 3
    assert "right tokens at slot 2," in found.what
    assert found.evidence == ("slot 2 cuts 16 prefixes, extends 0: -0.667 [-0.667, -0.667] per step",)
    assert found.command == "xpress-bench --suite qa --refiner xpress limit=28 refiner.passes=2"


TIMES = {"draft_s": (0.1, 0.1), "verify_s": (0.2, 0.2)}
MENDED = (((11, 99), (14, 15)), ((11, 12), (14, 15)), (2, 2), (3, 3))  # gains 1 token in 2 steps, raw 2.5 a step


def test_a_refiner_that_costs_more_than_it_gains():
    # 0.5 tokens per step pay for 0.5 / 2.5 of the other 0.3 s of a step: 0.06 s.
    dear = refined(*MENDED, **TIMES, refine_s=(0.2, 0.2))
    (found,) = only(dear, "refine_costs")
    assert found.evidence == ("gain 0.500 [0.500, 0.500] tokens per step; 1.7 pay for 200 ms more than 300 ms a step",)
    assert "refiner.passes=2" in found.command
    within = refined(*MENDED, **TIMES, refine_s=(0.059, 0.059))
    assert explain(planted([replace(c, latency_s=0.718) if c.arm == "refine" else c for c in within])) == []


# 3 drafts a step, of which passes 1 and 2 mend one each and passes 3 and 4 none: accepted 1, 2, 3, 3, 3.
MENDING = ((11, 9, 9), (11, 12, 9), (11, 12, 13), (11, 12, 13), (11, 12, 13))


def watched(cells, blocks=MENDING, **changes):
    """The findings of cells of a refine arm of 4 passes and of a trace of one step on each prompt."""
    traces = [Trace(f"p{p}", 0, "refine", GREEDY, tuple(range(10, 15)), (4,), (blocks,), ((),), ((),), **changes)
              for p in range(8)]  # fmt: skip
    return explain(replace(planted(cells), traces=tuple(traces)))


def test_passes_that_gain_less_than_they_cost():
    times = {"draft_s": (0.1,), "verify_s": (0.2,), "refine_s": (0.1,)}
    cells = refined(MENDING[:1], MENDING[-1:], (3,), (4,), **times)
    (found,) = watched(cells)
    assert (found.level, found.rule) == (3, "idle_passes")
    assert found.what == "refine: passes 3 and 4 gain less than they cost"
    # After pass 2 a step gives 4 tokens in 0.35 s; 0.05 s more is worth 4 x 0.05 / 0.35 of a token.
    assert found.evidence == ("together they gain 0.00 [0.00, 0.00] tokens per step; 0.57 pay for 50.0 ms a step",)
    assert found.command == "xpress-bench --suite qa --refiner xpress limit=28 refiner.passes=2"


def test_every_pass_pays_where_it_is_cheap():
    growing = ((9, 9, 9, 9), (11, 9, 9, 9), (11, 12, 9, 9), (11, 12, 13, 9), (11, 12, 13, 14))
    times = {"draft_s": (0.1,), "verify_s": (0.2,), "refine_s": (0.1,)}
    cells = refined(growing[:1], growing[-1:], (4,), (5,), **times)
    traces = [Trace(f"p{p}", 0, "refine", GREEDY, tuple(range(10, 16)), (5,), (growing,), ((),), ((),))
              for p in range(8)]  # fmt: skip
    assert explain(replace(planted(cells), traces=tuple(traces))) == []


def test_what_refinement_costs_is_cut_to_the_fastest_number_of_passes():
    # Passes of 0.3 s each beside 0.3 s: 2, 3 and 4 tokens in 0.3, 0.6 and 0.9 s; none is fastest.
    times = {"draft_s": (0.1,), "verify_s": (0.2,), "refine_s": (1.2,)}
    (found,) = watched(refined(MENDING[:1], MENDING[-1:], (3,), (4,), **times))
    assert found.rule == "refine_costs"
    assert found.command.endswith(" refiner.name=none")


def test_drafts_that_are_not_drawn_from_their_law():
    cells = [replace(c, condition=REJECTION, text="yes") for c in study() if c.arm != "refine"]
    rng = np.random.default_rng(2)

    def found(place):
        traces = [Trace(f"p{p}", 0, "draft", REJECTION, (1,), (1,) * 9, places=tuple((place(),) for _ in range(9)))
                  for p in range(32)]  # fmt: skip
        return explain(replace(planted(cells, suite={"parity_margin": 0.2}), traces=tuple(traces)),
                       [Item(f"p{i}", ("yes",)) for i in range(32)])  # fmt: skip

    assert found(lambda: float(rng.uniform())) == []
    (one,) = found(lambda: float(rng.uniform(0.3, 1)))
    assert (one.level, one.rule) == (2, "draft_law")
    assert one.what.startswith("draft: draft law refuted")
    assert one.evidence[0].startswith("288 traced tokens stand at 0.6")
    assert one.command.endswith(" 'verifiers=[coupled]'")


def timed(arms, accepted=(2, 1), offered=4, **times):
    """32 prompts with the latencies given by `arms`; every step of the draft arm takes the times given, in seconds."""
    made = replace(steps(accepted, offered=offered), **{name: (value,) * len(accepted) for name, value in times.items()
                                                         if name not in ("rest_s", "prefill_s")})  # fmt: skip
    whole = {name: times.get(name, 0.0) for name in ("rest_s", "prefill_s")}
    ids = tuple(range(1 + sum(a + 1 for a in accepted)))
    cells = grid(lambda arm, p: arms[arm], arms=tuple(arms), ids=ids)
    return [replace(c, steps=made, **whole) if c.arm == "draft" else replace(c, prefill_s=0.0) for c in cells]


def test_a_rest_dominated_arm():
    cells = timed({"direct": 2.0, "draft": 1.0}, draft_s=0.1, refine_s=0.0, verify_s=0.25, rest_s=0.3)
    (found,) = only(cells, "stage_dominates")
    assert "between stages" in found.what
    assert found.evidence == ("rest is 30.0 [30.0, 30.0] % of the latency",)
    assert found.command == "xpress-bench --suite qa limit=28 drafter.name=prompt_lookup refiner.name=none"


def test_outputs_too_short_for_speculation():
    cells = timed({"direct": 2.0, "draft": 1.0}, draft_s=0.05, refine_s=0.0, verify_s=0.15, prefill_s=0.6)
    (found,) = only(cells, "stage_dominates")
    assert "too short" in found.what
    assert found.command == "xpress-bench report runs/r1 --by category"
    assert "category" in GROUPED_BY


def test_the_last_slots_of_a_block_do_not_pay():
    # Direct takes 0.2 s a token, verifying 5 tokens 0.4 s: 0.05 s a slot, of which the third and fourth take nothing.
    cells = timed({"direct": 1.0, "draft": 0.9}, draft_s=0.05, refine_s=0.0, verify_s=0.4)
    (found,) = only(cells, "block_too_long")
    # Speeds of 0 to 4 drafts: 1/0.25, 2/0.3, 2.5/0.35, 2.5/0.4, 2.5/0.45; the best is 2 of 4, so that 8 becomes 6.
    assert found.evidence[1] == "by the times of the stages a block of 6 is 1.29x as fast"
    assert found.command.endswith(" block_size=6")


def test_an_arm_that_is_5_percent_slower():
    noise = np.random.default_rng(3).normal(0, 0.01, 32)
    cells = grid(lambda arm, p: 1.05 * math.exp(noise[p]) if arm == "draft" else 1.0, arms=("direct", "draft"))
    (found,) = only(cells, "not_faster")
    assert (found.level, found.what) == (3, "draft: slower than direct")
    assert found.evidence[0].startswith("0.95")
    assert found.evidence[1].startswith(f"worst: p{int(noise.argmax())} ")


def test_what_is_tried_for_a_slow_arm_follows_the_largest_stage():
    slow = timed({"direct": 0.5, "draft": 1.0}, draft_s=0.02, refine_s=0.0, verify_s=0.48)
    long, found = explain(planted(slow))  # direct is so fast that long blocks do not pay either
    assert (long.rule, found.rule) == ("block_too_long", "not_faster")
    assert found.command.endswith(" block_size=4")
    slow = timed({"direct": 0.5, "draft": 1.0}, draft_s=0.48, refine_s=0.0, verify_s=0.02)
    assert only(slow, "not_faster")[0].command.endswith(" drafter.name=prompt_lookup refiner.name=none")


def test_too_few_prompts():
    speeds = (0.8, 1.3, 1.1, 0.95)
    cells = grid(lambda arm, p: 1 / speeds[p] if arm == "draft" else 1.0, prompts=4, arms=("direct", "draft"))
    (found,) = only(cells, "few_prompts", suite={"items": 2000})
    sd, effect = np.log(speeds).std(ddof=1), np.log(speeds).mean()
    assert found.level == 4
    # The normal formula and one or two prompts more for the t test; 4 prompts see what the noncentral t says.
    size = math.ceil(((1.959964 + 0.841621) * sd / effect) ** 2)
    enough = int(found.evidence[2].split()[-2])
    assert size <= enough <= size + 2
    assert found.evidence[2] == f"one of {math.expm1(effect):.1%} takes {enough} prompts"
    assert found.command.endswith(f" limit={enough}")
    seen = math.log1p(float(found.evidence[1].split()[6].strip("%")) / 100)
    bar, shift = 3.182446, seen / sd * 2  # t of three degrees of freedom
    assert stats.nct.sf(bar, 3, shift) == pytest.approx(0.8, abs=1e-3)
    (found,) = only(cells, "few_prompts", suite={"items": 10})
    assert found.command.endswith(" limit=10")  # the suite has no more
    assert only(cells, "few_prompts")[0].command.endswith(" launches=3")


def test_one_prompt_says_nothing_of_the_spread():
    (found,) = only(grid(lambda arm, p: 1.0, prompts=1, arms=("direct", "draft")), "few_prompts", suite={"items": 9})
    assert len(found.evidence) == 1
    assert found.command.endswith(" limit=9")


def test_an_unsteady_machine():
    cells = [replace(c, latency_s=c.latency_s * (1.0, 1.4, 1.8)[c.repeat]) for c in exact_study()]
    (found,) = only(cells, "unsteady")
    assert any("more than 25 %" in line for line in found.evidence)
    assert found.command.endswith(" launches=3")
    cold = [replace(c, latency_s=c.latency_s * (1.1 if c.repeat == 0 else 1.0)) for c in exact_study()]
    assert only(cold, "unsteady", settings={"warmup": 1})[0].command.endswith(" warmup=2")


def test_prompts_on_which_it_loses_are_named_worst_first():
    lost = {1: 0.5, 2: 0.8}
    cells = grid(lambda arm, p: 1 / lost.get(p, 2.0) if arm == "draft" else 1.0, arms=("direct", "draft"))
    (found,) = only(cells, "loses")
    assert found.evidence == ("2 of 32 prompts are slower, worst: p1 0.50x, p2 0.80x, p0 2.00x",)


def test_a_speed_up_that_depends_on_the_seed():
    noise = np.random.default_rng(5).normal(0, 0.01, (32, 3))
    cells = [
        cell(arm, f"p{p}", 1.0 if arm == "direct" else (0.5 + 0.1 * (s == 2)) * math.exp(noise[p, s]), seed=s,
             condition=COUPLED)
        for p in range(32) for s in range(3) for arm in ("direct", "draft")
    ]  # fmt: skip
    (found,) = only(cells, "seeds_vary")
    assert [line.split(":")[0] for line in found.evidence] == ["seed 0", "seed 1", "seed 2"]
    assert found.command.endswith(" 'seeds=[0,1,2,3,4,5]'")
    assert explain(planted([replace(c, condition=GREEDY, repeat=c.seed, seed=0) for c in cells if c.seed < 2])) == []


def test_words_of_the_command_that_are_replaced_go():
    header = replace(
        run(study()).header, argv=("--refiner=xpress", "--verifier", "coupled", "+refiner.passes=4", "a=1")
    )
    assert (
        again(header, {"refiner.passes": 2}) == "xpress-bench --refiner=xpress --verifier coupled a=1 refiner.passes=2"
    )
    assert again(header, {"refiner.name": "none"}) == "xpress-bench --verifier coupled a=1 refiner.name=none"
    assert again(header, {"verifiers": "[rejection]"}).endswith(" a=1 'verifiers=[rejection]'")
    assert again(replace(header, argv=("--out", "my runs; rm x")), {}) == "xpress-bench --out 'my runs; rm x'"


@pytest.mark.parametrize(
    "changes",
    [
        {"refiner.passes": 2},
        {"refiner.name": "none"},
        NO_MODEL,
        {"drafter.denoising_steps": 2},
        {"block_size": 6},
        {"max_new_tokens": 64},
        {"dtype": "float64"},
        {"temperatures": [0.7], "dtype": "float64"},
        {"verifiers": "[coupled]"},
        {"limit": 40},
        {"launches": 3},
        {"warmup": 2},
        {"seeds": [0, 1, 2, 3]},
    ],
)
def test_the_command_line_takes_every_command_that_is_proposed(changes):
    header = planted(study(), ("--device", "cpu", "--suite", "qa", "--verifier", "rejection", "limit=28")).header
    settings = asdict(cli.settings_of(shlex.split(again(header, changes))[1:], "xpress-bench"))
    for key, value in changes.items():
        part, _, name = key.partition(".")
        chosen = settings[part][name] if name else settings[part]
        assert chosen == (("coupled",) if key == "verifiers" else tuple(value) if isinstance(value, list) else value)
    assert settings["limit"] == changes.get("limit", 28)


def test_rules_stand_in_the_order_of_the_levels():
    assert list(RULES) == [1, 2, 3, 4]
    cells = [c if c.arm == "direct" else replace(c, latency_s=c.latency_s * 3, ids=(1, 7, 3)) for c in exact_study()]
    found = explain(planted(cells, footer=None))
    assert [one.level for one in found] == sorted(one.level for one in found)
    assert [one.rule for one in found] == ["unfinished", "differs", "differs", "not_faster", "not_faster"]
