"""Runs whose arms are servers: fakes on loopback that say what a test wants."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import rig
from fake_server import Fake, delta, end, event, models, serving

from xpress_bench import cli
from xpress_bench.analyse.parity import Parity
from xpress_bench.analyse.summary import summarise
from xpress_bench.errors import MisfitError, RunError, UsageError
from xpress_bench.flags import settings_of
from xpress_bench.journals import read_run
from xpress_bench.measure import runner
from xpress_bench.measure.served import GIVE_UP, refuse_theirs
from xpress_bench.records import Run
from xpress_bench.settings import DrafterSettings, Settings, TargetSettings

PROMPTS = ("ab", "abcdef", "abcd")
USAGE = {"prompt_tokens": 11, "completion_tokens": 6, "prompt_tokens_details": {"cached_tokens": 0}}


def says(drafted: int = 0, accepted: int = 0, text: str = "six", usage: Mapping[str, Any] = USAGE) -> Any:
    timings = {"predicted_n": 6} | ({"draft_n": drafted, "draft_n_accepted": accepted} if drafted else {})
    return lambda body: [delta(text[:1]), delta(text[1:]), end(usage=usage, timings=timings)]


@contextmanager
def servers(**arms: Any) -> Iterator[dict[str, Fake]]:
    with ExitStack() as stack:
        fakes = {arm: Fake(answer, models("m", owned_by="llamacpp")) for arm, answer in arms.items()}
        yield {arm: stack.enter_context(serving(fake)) for arm, fake in fakes.items()}


def settings(folder: Path, fakes: Mapping[str, Fake], **changes: Any) -> Settings:
    suite = rig.suite(folder, *PROMPTS)
    drafter = DrafterSettings(fakes["draft"].name if "draft" in fakes else "none")
    base = {"suite": str(suite), "out": str(folder / "runs"), "target": TargetSettings(fakes["direct"].name)}
    return rig.settings(**base | {"drafter": drafter, "device": "cpu", "dtype": "float32", "threads": None} | changes)


def measured(chosen: Settings) -> Run:
    return read_run(runner.run(chosen, [], lambda done, total, what: None))


def test_two_servers_are_two_arms(tmp_path: Path) -> None:
    with servers(direct=says(), draft=says(drafted=8, accepted=3)) as fakes:
        run = measured(settings(tmp_path, fakes, memory=True))
    assert [arm.name for arm in run.header.arms] == ["direct", "draft"]
    assert run.header.target["name"] == "m"
    assert run.header.target["servers"]["draft"]["url"] == fakes["draft"].url
    assert len(run.cells) == 2 * len(PROMPTS)
    for cell in run.cells:
        assert (cell.error, cell.text, cell.ids, cell.stop_reason, cell.prompt_tokens) == (None, "six", (), "stop", 11)
        assert cell.latency_s is not None
        assert cell.ttft_s is not None
        assert 0 < cell.ttft_s <= cell.latency_s
        assert (cell.tokens, cell.output) == (6, "six")
        drafted = cell.arm == "draft"
        assert (cell.tally.steps, cell.tally.offered, cell.tally.accepted) == ((2, 8, 3) if drafted else (0, 0, 0))
    assert [(memory.peak_bytes, bool(memory.reason)) for memory in run.memory] == [(None, True)] * 2
    assert run.footer is not None
    assert run.footer.complete


def test_a_server_on_this_machine_is_no_disturbance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "disturbance", lambda before, after: "other processes took 90% of the CPU time")
    with servers(direct=says()) as fakes:
        run = measured(settings(tmp_path, fakes, admission="warn"))
    assert [mark.reason for mark in run.launches] == [None, None]


def test_arms_get_the_same_prompts_limits_and_seeds(tmp_path: Path) -> None:
    with servers(direct=says(), draft=says(drafted=8)) as fakes:
        measured(settings(tmp_path, fakes))
    ours, theirs = ([json.dumps(body, sort_keys=True) for body in fakes[arm].asked] for arm in ("direct", "draft"))
    assert sorted(ours) == sorted(theirs)
    assert {body["messages"][0]["content"] for body in fakes["direct"].asked} == set(PROMPTS)
    assert all(body["messages"][0]["role"] == "user" for body in fakes["direct"].asked)
    assert len({body["seed"] for body in fakes["direct"].asked}) == len(PROMPTS)


def test_ids_where_the_server_gives_them(tmp_path: Path) -> None:
    def ids(_: object) -> Iterable[bytes]:
        usage = USAGE | {"completion_tokens": 3}
        return [event(choices=[{"delta": {"content": "a"}, "token_ids": [5, 6]}]),
                event(choices=[{"delta": {"content": ""}, "token_ids": [7]}]), end(usage=usage)]  # fmt: skip

    with servers(direct=ids) as fakes:
        cells = measured(settings(tmp_path, fakes)).cells
    assert {(cell.ids, cell.output, cell.counts and cell.counts.by) for cell in cells} == {
        ((5, 6, 7), (5, 6, 7), "ids")
    }


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lambda _: [delta("half")], "stream: it ended without a reason to finish"),
        (lambda _: [delta("x"), end()], "stream: the server tells neither token ids nor their number"),
        (lambda _: [event(choices=[{"text": "x", "token_ids": [1]}]), end(usage=USAGE)],
         "stream: 1 ids came, and the server counts 6"),
    ],
)  # fmt: skip
def test_a_request_that_fails(answer: Any, error: str, tmp_path: Path) -> None:
    with servers(direct=answer) as fakes:
        cells = measured(settings(tmp_path, fakes)).cells
    assert [(cell.error, cell.prompt_tokens, cell.counts, cell.latency_s) for cell in cells] == [
        (error, None, None, None)
    ] * 3


def test_direct_generation_that_drafts_is_refused(tmp_path: Path) -> None:
    with (
        servers(direct=says(drafted=4)) as fakes,
        pytest.raises(MisfitError, match=r"arm direct: m at .* drafts; start it"),
    ):
        measured(settings(tmp_path, fakes))


def test_another_chat_template_is_refused(tmp_path: Path) -> None:
    other = says(drafted=4, usage=USAGE | {"prompt_tokens": 12})
    with (
        servers(direct=says(), draft=other) as fakes,
        pytest.raises(MisfitError, match=r"reads 1[12] tokens in prompt"),
    ):
        measured(settings(tmp_path, fakes))


def test_a_server_that_goes_away_leaves_a_run_to_go_on_with(tmp_path: Path) -> None:
    with servers(direct=says()) as fakes:
        fake, answered = fakes["direct"], says()
        fake.says = lambda body: answered(body) if len(fake.asked) < 5 else breaks(fake)
        chosen = settings(tmp_path, fakes, repeats=4)
        with pytest.raises(RunError, match=rf"{GIVE_UP} requests in a row found no server.*--resume {tmp_path}"):
            measured(chosen)
        (folder,) = (tmp_path / "runs").iterdir()
        run = read_run(folder)
        assert run.footer is not None
        assert not run.footer.complete
        assert [bool(cell.error) for cell in run.cells] == [False] * 2 + [True] * GIVE_UP  # 2 warmed up
        assert all((cell.error or "connection").startswith("connection") for cell in run.cells)
        fake.says, fake.whole = answered, True
        runner.resume(folder, chosen, [], lambda done, total, what: None, lambda said: None)
    whole = read_run(folder)
    assert whole.footer is not None
    assert whole.footer.complete
    assert [cell.error for cell in whole.cells] == [None] * 12


def breaks(fake: Fake) -> list[bytes]:
    fake.whole = False
    return []


def test_nothing_is_measured_without_a_server(tmp_path: Path) -> None:
    with servers(direct=says()) as fakes:
        chosen = settings(tmp_path, fakes)
    with pytest.raises(UsageError, match="no server answers"):
        measured(chosen)
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"block_size": 8}, "block_size is 8, and the target is served: that is set where the server is started"),
        ({"compile": True}, "compile is True"),
        ({"batch_size": 4}, "batch_size is 4"),
        ({"dtype": "float64"}, "dtype is 'float64'"),
        ({"drafter": DrafterSettings("dflash")}, "drafter 'dflash' beside a served target"),
        ({"drafter": DrafterSettings("openai:http://h", params={"size": 3})}, "drafter.params.size is 3"),
        ({"target": TargetSettings("openai:http://h", revision="main")}, "target.revision is 'main'"),
        ({"temperatures": (0.7,), "verifiers": ("coupled",)}, "say --verifier rejection"),
    ],
)
def test_what_only_a_server_can_set_is_refused(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    chosen = settings(tmp_path, {"direct": Fake(lambda _: [], port=1)}, **changes)
    with pytest.raises(UsageError, match=reason):
        refuse_theirs(chosen)


def test_the_command_line_drafts_nothing_beside_a_server() -> None:
    chosen = settings_of(["--target", "openai:http://h:1", "--model", "m"], "test")
    assert (chosen.drafter.name, chosen.refiner.name, chosen.device, chosen.target.model) == (
        "none",
        "none",
        "cpu",
        "m",
    )
    refuse_theirs(chosen)
    both = settings_of(["--target", "openai:http://h:1", "--drafter", "openai:http://h:2#n"], "test")
    assert both.drafter.name == "openai:http://h:2#n"


def test_the_report_says_how_it_was_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with servers(direct=says(), draft=says(drafted=8, accepted=3)) as fakes:
        words = ["--suite", str(rig.suite(tmp_path, *PROMPTS)), "--out", str(tmp_path / "runs"), "--seeds", "0"]
        assert cli.main([*words, "--target", fakes["direct"].name, "--drafter", fakes["draft"].name]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "identical on 3 of 3 prompts, by text: a server gives no ids" in told
    assert "draft: llama.cpp of unknown version at" in told
    assert "speculation of 3 of 3 requests by what came with each answer" in told
    assert "draft: ?" in told  # acceptance by position
    assert " 2.50 " in told  # 5 tokens in 2 steps


def test_check_plans_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with servers(direct=says(), draft=says(drafted=8, accepted=3)) as fakes:
        words = ["--suite", str(rig.suite(tmp_path, *PROMPTS)), "--target", fakes["direct"].name]
        assert cli.main(["check", *words, "--drafter", fakes["draft"].name]) == 0
    assert "plan: suite own, 3 of 3 prompts, 0 too long for the target, 2 arms" in capsys.readouterr().out


def test_later_turns_go_on_with_what_direct_generation_said(tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    file.write_text(json.dumps({"id": "a", "prompt": "one?", "turns": ["one?", "two?"]}) + "\n")
    with servers(direct=says(), draft=says(drafted=8, text="sax")) as fakes:
        run = measured(settings(tmp_path, fakes, suite=str(file)))
        asked = {arm: [body["messages"] for body in fake.asked] for arm, fake in fakes.items()}
    first = {"role": "user", "content": "one?"}
    later = [first, {"role": "assistant", "content": "six"}, {"role": "user", "content": "two?"}]
    assert {json.dumps(one) for arm in asked for one in asked[arm]} == {json.dumps(one) for one in ([first], later)}
    assert sorted((cell.arm, cell.turn) for cell in run.cells) == [
        ("direct", 1), ("direct", 2), ("draft", 1), ("draft", 2)]  # fmt: skip


def test_a_run_is_not_gone_on_with_where_the_server_has_changed(tmp_path: Path) -> None:
    with servers(direct=says()) as fakes:
        fake = fakes["direct"]
        fake.pages["/props"] = json.dumps({"build_info": "b1"})
        folder = runner.run(chosen := settings(tmp_path, fakes), [], lambda done, total, what: None)
        fake.pages["/props"] = json.dumps({"build_info": "b2"})
        journal = folder / "journal.jsonl"
        kept = [line for line in journal.read_text().splitlines() if '"event":"ended"' not in line]
        journal.write_text("\n".join(kept[:-1]) + "\n")  # as if it had been cut
        with pytest.raises(UsageError, match=r"target.servers.direct.version was 'b1' .* and is 'b2' now"):
            runner.resume(folder, chosen, [], lambda done, total, what: None, lambda said: None)


def test_sampling_is_by_the_rule_of_the_server(tmp_path: Path) -> None:
    sampled = {"temperatures": (0.7,), "verifiers": ("rejection",), "seeds": (0, 1)}
    with servers(direct=says(), draft=says(drafted=8, text="sax")) as fakes:
        run = measured(settings(tmp_path, fakes, **sampled))
    seeds = {(body["messages"][0]["content"], body["seed"]) for body in fakes["draft"].asked}
    assert {body["temperature"] for body in fakes["draft"].asked} == {0.7}
    assert len({seed for _, seed in seeds}) == len(PROMPTS) * 2
    (of,) = summarise(run).conditions
    judged = of.arms[1].parity
    assert isinstance(judged, Parity)
    assert judged.reason.startswith("not shown to be as good: ids say nothing under rejection sampling")
