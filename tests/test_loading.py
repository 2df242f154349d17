"""The command line of `load`: what it plans, what it refuses, and a whole run on the toy target."""

from __future__ import annotations

from pathlib import Path

import pytest
import rig

from xpress_bench.errors import UsageError
from xpress_bench.load_records import Degrade, Load, Plan, Stage, read_load
from xpress_bench.loading import _parser, _plan, _settings, load

SHORT = "--target toy --drafter none --refiner none --device cpu max_new_tokens=4 limit=2 threads=1"


def planned(words: str) -> Plan:
    options = _parser().parse_intermixed_args(f"{SHORT} {words}".split())
    return _plan(options, _settings(options))


def refused(words: str) -> str:
    with pytest.raises(UsageError) as caught:
        planned(words)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_without_flags_one_then_a_client_then_several() -> None:
    of = planned("")
    assert [(stage.name, stage.clients, stage.seconds, stage.requests) for stage in of.stages] == [
        ("single", 1, None, 3),
        ("1 client", 1, 60.0, None),
        ("4 clients", 4, 60.0, None),
        ("16 clients", 16, 60.0, None),
    ]
    assert (of.policy.deadline_s, of.policy.retries, of.policy.rows, of.policy.degrade) == (30, 1, 16, None)
    assert (of.repeats, of.objective) == (1, {})


def test_flags_change_the_plan() -> None:
    of = planned("--clients 2,8 --rate 0.5 --arrivals fixed --seconds 5 --deadline 9 --retries 0 --batch 3 repeats=4")
    assert of.stages == (
        Stage("2 clients", clients=2, seconds=5.0),
        Stage("8 clients", clients=8, seconds=5.0),
        Stage("0.5/s fixed", rate=0.5, arrivals="fixed", seconds=5.0),
    )
    assert (of.policy.deadline_s, of.policy.retries, of.policy.rows, of.repeats) == (9, 0, 3, 4)
    assert planned("--objective ttft=1,latency=2.5").objective == {"ttft": 1.0, "latency": 2.5}
    assert planned("--degrade-after 2 --degrade-to 16").policy.degrade == Degrade(2.0, max_new_tokens=16)
    assert planned("--deadline 9 deadline_s=7").policy.deadline_s == 7  # a setting by its key wins, as everywhere


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--clients 0", "--clients '0': give a number above 0"),
        ("--clients 1.5", "give whole numbers"),
        ("--clients 4,4", "hold a value twice"),
        ("--rate fast", "--rate 'fast': give a number above 0"),
        ("--seconds 0", "--seconds 0.0: give a number above 0"),
        ("--seconds nan", "give a number above 0"),
        ("--objective speed=1", "--objective speed=1: give ttft=SECONDS, latency=SECONDS, token=SECONDS"),
        ("--objective ttft", "--objective ttft '': give a number above 0"),
        ("--degrade-after 2", "go together"),
        ("--degrade-after 2 --degrade-to direct", "in process a batch holds one arm"),
        ("--degrade-after 2 --degrade-to 1.5", "give whole numbers"),
        ("--retries -1", "--retries -1"),
        ("--batch 0", "--batch"),
        ("--deadline 0", "deadline_s is 0"),
        ("--temperature 0,1 --verifier coupled", "one condition"),
        ("batch_size=4", "load is told by --batch"),
        ("launches=3", "load is told by repeats=N"),
        ("--compile", "one request at a time"),
        ("--memory-limit 4GiB", "that of --find-limit"),
        ("--arrivals fixed", "give --rate R too"),
    ],
)
def test_what_cannot_be_planned_is_one_line(words: str, said: str) -> None:
    assert said in refused(words)


def folder_of(out: Path) -> Load:
    (folder,) = out.iterdir()
    return read_load(folder)


def test_a_run_from_the_command_line_is_gone_on_with_by_the_same_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs"
    words = [*SHORT.split(), "--suite", str(rig.suite(tmp_path, "one", "two")), "--out", str(out)]
    words += ["--clients", "2", "--seconds", "0.2"]
    assert load(words) == 0
    shown = capsys.readouterr()
    assert "2 clients for 0.2 s" in shown.out
    assert " 0 lost" in shown.out
    of = folder_of(out)
    assert of.complete
    marks = (of.folder / "load.jsonl").read_text().splitlines()
    (of.folder / "load.jsonl").write_text("\n".join(marks[:-1]) + "\n")  # as if killed before the stage had ended
    assert load(words) == 0
    assert f"going on with {of.folder}" in capsys.readouterr().err
    assert folder_of(out).complete  # and no second folder
    assert load(["--resume", str(of.folder), "--format", "csv"]) == 0
    assert capsys.readouterr().out.startswith("run,stage,arm")
    for more in (["--suite", "qa"], ["--clients", "8"], ["block_size=4"]):
        with pytest.raises(UsageError, match="goes on as the load run began"):
            load(["--resume", str(of.folder), *more])


def test_the_limit_of_a_cpu_must_be_said() -> None:
    with pytest.raises(UsageError, match="--memory-limit 4GiB"):
        load([*SHORT.split(), "--find-limit"])
    with pytest.raises(UsageError, match="KiB, MiB or GiB"):
        load([*SHORT.split(), "--find-limit", "--memory-limit", "lots"])


@pytest.mark.slow
def test_no_request_is_lost_and_every_output_is_that_of_one_request_alone(tmp_path: Path) -> None:
    """1, 4 and 16 clients of the embedded models in float64, all arms."""
    words = "--suite qa --dtype float64 --device cpu limit=9 max_new_tokens=24 threads=1 --seconds 6".split()
    assert load([*words, "--deadline", "300", "--out", str(tmp_path / "runs")]) == 0
    of = folder_of(tmp_path / "runs")
    assert {stage.name for stage in of.plan.stages} == {"single", "1 client", "4 clients", "16 clients"}
    assert of.arms == ("direct", "draft", "refine")
    requests = [one for unit in of.requests.values() for one in unit]
    assert sum(mark.asked for mark in of.marks.values()) == len(requests)
    assert {one.status for one in requests} == {"ok"}
    outputs = {(one.prompt, one.output) for one in requests}
    assert len(outputs) == len({prompt for prompt, _ in outputs}) == 9
