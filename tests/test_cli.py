"""The command line: every mistake is one line and exit code 2; flags become the right settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from xpress_bench import cli, parts
from xpress_bench.cli import main, settings_of
from xpress_bench.drafters.block_diffusion import EMBEDDED
from xpress_bench.errors import UsageError
from xpress_bench.measure import runner

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)


def mistake(capsys: Capture, *words: str) -> str:
    """The one line on stderr, besides what is going on."""
    assert main(words) == 2
    out, err = capsys.readouterr()
    told = [line for line in err.splitlines() if line != "xpress-bench: loading models"]
    assert len(told) == 1, err
    assert out == ""
    assert told[0].startswith("xpress-bench: ")
    assert not list(Path.cwd().glob("runs/*"))
    return told[0]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--suite", "qaa"], "no suite called 'qaa'; did you mean qa?"),
        (["--suite", "gone.jsonl"], "gone.jsonl: no such file"),
        (["--target", "embeded"], "no target called 'embeded'; did you mean embedded?"),
        (["--drafter", "dflsh"], "no drafter called 'dflsh'; did you mean dflash"),
        (["--drafter", "./gone"], "checkpoint './gone': no such folder"),
        (["--refiner", "xpres"], "no refiner called 'xpres'; did you mean xpress"),
        (["--drafter", "none", "--refiner", "xpress"], "has nothing to refine"),
        (["--verifier", "typical"], "'typical' is none of greedy, coupled, rejection"),
        (["drafter.path=a=b c"], "does not parse; quote a value"),
        (["seeds=1,2"], "asks for several runs"),
        (["blok_size=8"], "did you mean block_size"),
        (["--seeds", ""], "seeds is empty"),
        (["--seeds", "7,7,8"], "holds a value twice"),
        (["--seeds", "a"], "'a' is not a whole number"),
        (["--limit", "0"], "limit is 0"),
        (["--limit", "-1"], "'-1'"),
        (["--limit", "1,2"], "'1,2'"),
        (["--temperature", "hot"], "'hot' is not a number"),
        (["--temperature", "1", "--verifier", "greedy"], "temperature 1 needs a sampling verifier"),
        (["--dtype", "float8"], "choose one of float64"),
        (["--profile", "fast"], "choose one of quick, standard, paper"),
        (["--device", "cuda"], "device 'cuda': 0 visible CUDA devices here"),
        (["--device", "cuda:1"], "0 visible CUDA devices here"),
        (["--device", "tpu"], "choose auto, cpu, cuda or cuda:N"),
        (["--suit", "qa"], "unrecognized arguments: --suit"),
        (["check", "--suite", "qaa"], "did you mean qa?"),
        (["list", "target"], "invalid choice: 'target' (choose from"),
        (["report", "gone"], "no journal at gone"),
        (["report"], "the following arguments are required: RUN"),
    ],
    ids=" ".join,
)
def test_a_mistake_is_one_line(capsys: Capture, words: list[str], told: str) -> None:
    assert told in mistake(capsys, *words)


def test_c42_a_bad_line_of_a_suite_is_told_before_anything_is_loaded(capsys: Capture) -> None:
    Path("own.jsonl").write_text('{"prompt": "a"}\n{"prompt": "b"}\n{\n')
    assert main(["--suite", "own.jsonl"]) == 2
    assert capsys.readouterr().err.startswith("xpress-bench: own.jsonl, line 3: not JSON")


def test_a_run_that_could_not_be_submitted_says_so_first(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise UsageError("it would begin here")

    monkeypatch.setattr(runner, "run", stop)
    assert main(["--profile", "standard", "--seeds", "0", "--temperature", "0"]) == 2
    told, ended = capsys.readouterr().err.splitlines()
    assert "repeats=2" in told
    assert "launches=5" in told
    assert ended == "xpress-bench: it would begin here"
    for words in ([], ["--profile", "paper"]):  # for looking, or as the leaderboard wants it
        assert main(words) == 2
        assert "leaderboard" not in capsys.readouterr().err


def test_an_output_folder_below_a_file(capsys: Capture) -> None:
    Path("file").touch()
    assert "output folder file/runs: Not a directory" in mistake(capsys, "--out", "file/runs")


def test_a_journal_that_is_none(capsys: Capture) -> None:
    Path("journal.jsonl").write_bytes(b"\xff\xfe\n")
    assert "journal.jsonl, line 1: not a journal record" in mistake(capsys, "report", ".")


@pytest.fixture(scope="module")
def embedded_target() -> Any:
    return parts.load_target(settings_of(["--device", "cpu"], "test"))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda config: {"hidden_size": config["hidden_size"] + 64}, "hidden size is"),
        (lambda config: {"vocab_size": config["vocab_size"] + 1}, "vocabulary is"),
        (lambda config: {"num_target_layers": config["num_target_layers"] + 1}, "number of target layers is"),
        (lambda config: {"dflash_config": config["dflash_config"] | {"target_layer_ids": [999]}}, "taps layer 999"),
        (lambda config: {"architectures": ["LlamaModel"]}, "is no drafter this version reads"),
    ],
    ids=["hidden", "vocabulary", "layers", "taps", "architecture"],
)
def test_a_drafter_made_for_another_target(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, embedded_target: Any, change: Any, told: str
) -> None:
    monkeypatch.setattr(parts, "load_target", lambda settings: embedded_target)
    config = json.loads((EMBEDDED / "config.json").read_text())
    Path("drafter").mkdir()
    Path("drafter/config.json").write_text(json.dumps(config | change(config)))
    save_file({"fc.weight": torch.zeros(1)}, "drafter/model.safetensors")
    assert told in mistake(capsys, "--drafter", "./drafter", "--device", "cpu")


def test_the_memory_pass_loads_direct_generation_alone(monkeypatch: pytest.MonkeyPatch, embedded_target: Any) -> None:
    monkeypatch.setattr(parts, "load_target", lambda settings: embedded_target)
    settings = settings_of(["--refiner", "xpress", "--device", "cpu"], "test")
    assert [planned.arm.name for planned in parts.assemble(settings, only="direct").arms] == ["direct"]


def test_flags_become_settings() -> None:
    words = "--suite a=b.jsonl --target o/t --drafter ./d,1 --refiner none --verifier coupled,rejection --seeds 4,2"
    more = "--limit 9 --temperature 0,0.7 --device cpu --dtype float64 --out my#runs block_size=8 refiner.passes=4"
    settings = settings_of([*words.split(), *more.split()], "test")
    assert (settings.suite, settings.target.name, settings.drafter.name) == ("a=b.jsonl", "o/t", "./d,1")
    assert (settings.refiner.name, settings.refiner.passes, settings.block_size) == ("none", 4, 8)
    assert (settings.verifiers, settings.seeds, settings.limit) == (("coupled", "rejection"), (4, 2), 9)
    assert (settings.temperatures, settings.device, settings.dtype) == ((0.0, 0.7), "cpu", "float64")
    assert settings.out == "my#runs"


def test_the_profile_follows_the_device_unless_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    def profile(*words: str) -> tuple[str, str]:
        settings = settings_of(list(words), "test")
        return settings.device, settings.profile

    assert profile() == ("cpu", "quick")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert profile() == ("cuda", "standard")
    assert profile("--device", "cuda:1") == ("cuda:1", "standard")
    assert profile("--device", "cpu") == ("cpu", "quick")
    assert profile("--profile", "quick") == ("cuda", "quick")
    assert profile("profile=paper") == ("cuda", "paper")


def test_list_shows_every_kind_or_one(capsys: Capture) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [
        "targets",
        "drafters",
        "refiners",
        "verifiers",
        "suites",
    ]
    assert main(["list", "verifiers"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["verifiers", "greedy", "coupled", "rejection"]


def test_an_interruption_is_told(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(words: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setitem(cli.COMMANDS, "list", interrupted)
    assert main(["list"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_compare_and_report_as_are_there(capsys: Capture) -> None:
    assert "no journal at gone" in mistake(capsys, "compare", "gone", "gone")
    assert "no journal at gone" in mistake(capsys, "report", "gone", "--report-as", "vllm")
