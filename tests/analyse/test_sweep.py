import math
from dataclasses import replace

import pytest
from runs import failed, run
from sweeps import begin, counted, job, one_run, plan, timed

from xpress_bench.analyse.contest import simultaneous
from xpress_bench.analyse.intervals import Unknown
from xpress_bench.analyse.sweep import PENDING, log_speed_ratios, log_token_ratios, measured, read_sweep
from xpress_bench.errors import UsageError

SIZES = {"block_size": ("4", "8", "16")}
NAMES = ("1-1-block_size-4", "1-2-block_size-8", "1-3-block_size-16")


def swept(folder, runs, factors=SIZES, base=None, **changes):
    begin(folder, plan(factors, base or {"block_size": "4"}, **changes))
    for name, one in runs.items():
        job(folder, name, one)
    return read_sweep(folder)


def speeds(*found, **changes):
    return {name: timed(speed, seed, **changes) for seed, (name, speed) in enumerate(zip(NAMES, found, strict=True))}


def test_the_knee_and_the_recommendation_by_speed(tmp_path):
    (factor,) = swept(tmp_path / "s", speeds(1.5, 2.0, 2.0)).factors
    assert factor.by_speed.knee == NAMES[1]
    assert factor.by_speed.undecided == NAMES[1:]
    assert factor.recommended.job.values == {"block_size": "8"}
    assert factor.by_speed.ratios[NAMES[1], NAMES[0]].estimate == pytest.approx(2 / 1.5, rel=0.01)
    assert factor.by_tokens.recommended(NAMES[0]) == NAMES[0]  # all took the same steps


def test_a_machine_that_was_slower_for_a_job_makes_no_value_worse(tmp_path):
    runs = speeds(1.5, 1.5, 1.5) | {NAMES[1]: timed(1.5, 7, slowness=2.0)}
    (factor,) = swept(tmp_path / "s", runs).factors
    assert not factor.by_speed.separates
    assert factor.recommended is factor.base


def test_a_machine_that_was_slower_for_one_arm_of_a_job_makes_no_value_better(tmp_path):
    # The journals of each round alone say 8 is a tenth faster than 4, and then that it is a tenth slower.
    begin(tmp_path / "s", plan(SIZES, {"block_size": "4"}))
    for nth, speeds_ in enumerate([(1.5, 1.65, 1.5), (1.5, 1.35, 1.5)]):
        for seed, (name, speed) in enumerate(zip(NAMES, speeds_, strict=True)):
            one_run(tmp_path / "s", name if nth == 0 else f"{name}-round-2", timed(speed, seed + 10 * nth))
    (factor,) = read_sweep(tmp_path / "s").factors
    assert not factor.by_speed.separates
    assert factor.measured[NAMES[1]].rounds == pytest.approx([math.log(1.65), math.log(1.35)], abs=0.01)


def test_rounds_are_run_in_turn_and_back(tmp_path):
    made = plan({"block_size": ("4", "8")}, {"block_size": "4"})
    names = [job.name for job in made.runs(0, made.base)]
    assert names == [*NAMES[:2], f"{NAMES[1]}-round-2", f"{NAMES[0]}-round-2"]


def test_a_round_that_is_left_leaves_the_value_open_and_one_that_failed_fails_it(tmp_path):
    begin(tmp_path / "s", plan({"block_size": ("4", "8")}, {"block_size": "4"}))
    job(tmp_path / "s", NAMES[0], timed(1.5, 0))
    one_run(tmp_path / "s", NAMES[1], timed(1.5, 1))
    assert [point.found is PENDING for point in read_sweep(tmp_path / "s").factors[0].points] == [False, True]
    one_run(tmp_path / "s", f"{NAMES[1]}-round-2", None, "it was ended by signal 9")
    sweep = read_sweep(tmp_path / "s")
    assert [reason for _, reason in sweep.faults] == ["it was ended by signal 9"]
    assert sweep.unfinished


def test_the_next_factor_goes_on_with_what_was_recommended(tmp_path):
    factors = SIZES | {"refiner.passes": ("0", "2")}
    base = {"block_size": "4", "refiner.passes": "2"}
    last = {"2-1-passes-0": timed(1.2, 8), "2-2-passes-2": timed(2.0, 9)}
    sweep = swept(tmp_path / "s", speeds(1.5, 2.0, 2.0) | last, factors, base)
    values = [point.job.values for point in sweep.factors[1].points]
    assert values == [{"block_size": "8", "refiner.passes": passes} for passes in "02"]
    assert sweep.factors[1].base.job.name == "2-2-passes-2"
    assert sweep.complete
    ((before, after, drift),) = sweep.drift()  # 2.0 twice
    assert (before, after) == (NAMES[1], "2-2-passes-2")
    assert drift.low < 1 < drift.high


def test_a_grid_has_all_combinations_and_takes_the_best(tmp_path):
    factors = {"block_size": ("4", "8"), "candidates.count": ("1", "2")}
    made = plan(factors, {"block_size": "4", "candidates.count": "1"}, grid=True)
    jobs = made.jobs(0, made.base)
    assert [tuple(one.values.values()) for one in jobs] == [("4", "1"), ("4", "2"), ("8", "1"), ("8", "2")]
    runs = {one.name: timed(speed, seed) for seed, (one, speed) in enumerate(zip(jobs, (1, 1.5, 1.2, 2), strict=True))}
    (factor,) = swept(tmp_path / "s", runs, factors, made.base, grid=True).factors
    assert factor.recommended.job.values == {"block_size": "8", "candidates.count": "2"}


def test_c37_a_failed_job_is_named_and_enters_nothing(tmp_path):
    begin(tmp_path / "s", plan(SIZES, {"block_size": "4"}))
    first, second, third = speeds(1.5, 3.0, 2.0).values()
    broken = [replace(one, latency_s=None, ids=(), error="oom: out of memory") for one in second.cells[:8]]
    job(tmp_path / "s", NAMES[0], first)
    job(tmp_path / "s", NAMES[1], replace(second, cells=(*broken, *second.cells[8:])))
    job(tmp_path / "s", NAMES[2], third)
    sweep = read_sweep(tmp_path / "s")
    ((fault, reason),) = sweep.faults
    assert fault.name == NAMES[1]
    assert reason == "8 of 64 requests failed, the first: oom: out of memory"
    assert set(sweep.factors[0].measured) == {NAMES[0], NAMES[2]}
    assert sweep.factors[0].by_speed.best == NAMES[2]
    assert sweep.factors[0].recommended.job.name == NAMES[2]
    assert sweep.complete
    assert not sweep.unfinished  # it ended by itself: the same again would fail again


def test_c37_all_jobs_may_fail(tmp_path):
    begin(tmp_path / "s", plan(SIZES, {"block_size": "4"}))
    for name in NAMES:
        job(tmp_path / "s", name, ended="it was ended by signal 9")
    sweep = read_sweep(tmp_path / "s")
    assert [reason for _, reason in sweep.faults] == ["it was ended by signal 9"] * 3
    assert sweep.factors[0].recommended is sweep.factors[0].base
    assert sweep.unfinished


def test_a_job_that_was_not_run_stops_the_reading(tmp_path):
    factors = SIZES | {"refiner.passes": ("0", "2")}
    begin(tmp_path / "s", plan(factors, {"block_size": "4", "refiner.passes": "2"}))
    job(tmp_path / "s", NAMES[0], timed(1.5, 0))
    job(tmp_path / "s", NAMES[1], timed(1.5, 1), ended=None)  # its process was killed while it wrote
    sweep = read_sweep(tmp_path / "s")
    assert len(sweep.factors) == 1
    assert [point.found is PENDING for point in sweep.factors[0].points] == [False, True, True]
    assert sweep.factors[0].recommended is sweep.factors[0].base
    assert not sweep.complete
    assert sweep.unfinished


def test_a_journal_that_is_not_whole_counts_for_nothing(tmp_path):
    runs = speeds(1.5, 2.0, 2.0)
    runs[NAMES[1]] = replace(runs[NAMES[1]], footer=None)
    runs[NAMES[2]] = run([failed("direct"), failed("refine")])
    sweep = swept(tmp_path / "s", runs)
    assert [reason for _, reason in sweep.faults] == [
        "its journal is not complete",
        "2 of 2 requests failed, the first: CUDA out of memory",
    ]


def test_tokens_per_step_are_compared_over_all_steps(tmp_path):
    # p0: 1 step of 4 tokens against 2 of 2; p1: 2 steps of 3 against 3 of 2. Pooled: 10/3 against 10/5.
    many, few = measured(counted({"p0": [3], "p1": [2, 2]})), measured(counted({"p0": [1, 1], "p1": [1, 1, 1]}))
    found = simultaneous(log_token_ratios(many, few), 1)
    assert found.estimate == pytest.approx((10 / 3) / (10 / 5))
    assert many.tokens_per_step.estimate == pytest.approx(10 / 3)
    # pseudo-values log r + sum of x / mean - 1: the columns are (4, 6), (1, 2) above (4, 6), (2, 3)
    own = {"p0": 4 / 5 + 2 / 2.5 - 4 / 5 - 1 / 1.5, "p1": 6 / 5 + 3 / 2.5 - 6 / 5 - 2 / 1.5}
    logs = log_token_ratios(many, few)
    assert logs[0] - logs[1] == pytest.approx(own["p0"] - own["p1"])


def test_counts_alone_go_by_tokens_per_step(tmp_path):
    prompts = [f"p{p}" for p in range(8)]
    runs = {
        name: counted({prompt: [accepted + p % 2] * 4 for p, prompt in enumerate(prompts)})
        for name, accepted in zip(NAMES, (1, 3, 3), strict=True)
    }
    sweep = swept(tmp_path / "s", runs, counts=True)
    (factor,) = sweep.factors
    assert factor.contest.knee == NAMES[1]
    assert factor.recommended.job.name == NAMES[1]
    assert sweep.drift() == []


def test_a_timed_sweep_does_not_take_a_run_without_times(tmp_path):
    sweep = swept(tmp_path / "s", speeds(1.5, 2.0, 2.0) | {NAMES[2]: counted({f"p{p}": [1] for p in range(32)})})
    assert [reason for _, reason in sweep.faults] == ["nothing was timed"]


def test_speed_on_another_machine_is_not_compared_and_other_prompts_are_refused(tmp_path):
    ours = measured(timed(1.5, 0))
    moved = {**ours.header.target, "device": "cuda"}
    theirs = replace(ours, header=replace(ours.header, target=moved))
    assert log_speed_ratios(ours, theirs) == Unknown("not the same device")
    other = timed(2.0, 1)
    other = replace(other, header=replace(other.header, suite=other.header.suite | {"sha256": "1" * 64}))
    with pytest.raises(UsageError, match="suite sha256"):
        swept(tmp_path / "s", speeds(1.5, 2.0, 2.0) | {NAMES[1]: other})


def test_a_folder_without_a_plan_is_no_sweep(tmp_path):
    with pytest.raises(UsageError, match="no sweep"):
        read_sweep(tmp_path)
    (tmp_path / "sweep.json").write_text('{"words": 3}')
    with pytest.raises(UsageError, match="not the plan"):
        read_sweep(tmp_path)
    with pytest.raises(UsageError, match="not among its values"):
        read_sweep(begin(tmp_path / "s", plan(SIZES, {"block_size": "3"})))


@pytest.mark.parametrize("value", ["'a/b c'", "x" * 300, "你好", "..", "a=b"])
def test_c46_a_job_has_one_flat_portable_name(value):
    made = plan({"drafter.path": ("null", value)}, {"drafter.path": "null"})
    names = [one.name for one in made.jobs(0, made.base)]
    assert len(set(names)) == 2
    for name in names:
        assert len(name) <= 60
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
        assert name.strip("-.") == name
