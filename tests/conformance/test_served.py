"""Real servers on loopback: `transformers serve` with the embedded target, and llama.cpp's with a small model.

`pip install "transformers[serving]"` for the first. For the second XPRESS_LLAMA_SERVER is the path of `llama-server`
and XPRESS_SMOLLM2_GGUF that of SmolLM2-135M-Instruct in GGUF. What is not there is skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import rig

from xpress_bench.analyse.acceptance import acceptance
from xpress_bench.analyse.served import served
from xpress_bench.analyse.summary import summarise
from xpress_bench.errors import RunError
from xpress_bench.journals import read_run
from xpress_bench.measure import runner
from xpress_bench.records import Run
from xpress_bench.served.counters import samples
from xpress_bench.settings import DrafterSettings, RefinerSettings, Settings, TargetSettings
from xpress_bench.targets.hf import EMBEDDED

pytestmark = pytest.mark.slow
PROMPTS = (
    "Count from one to twelve, and do it again: one two three four five six seven eight nine ten eleven twelve one two",
    "Repeat this line three times: the quick brown fox jumps over the lazy dog, the quick brown fox jumps over",
    "What is the capital of France?",
)
TOKENS = 40
STARTS_WITHIN_S = 120.0
LLAMA, GGUF = os.environ.get("XPRESS_LLAMA_SERVER"), os.environ.get("XPRESS_SMOLLM2_GGUF")
llama = pytest.mark.skipif(not (LLAMA and GGUF), reason="XPRESS_LLAMA_SERVER and XPRESS_SMOLLM2_GGUF are not set")
serve = pytest.mark.skipif(not (find_spec("fastapi") and find_spec("uvicorn")), reason="no transformers[serving] here")


@contextmanager
def started(*command: object) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A server that answers: the name of its arm, and its process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [*map(str, command), "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until_s = time.monotonic() + STARTS_WITHIN_S
        while not _healthy(port):
            assert process.poll() is None, f"{command[0]} ended with status {process.returncode}"
            assert time.monotonic() < until_s, f"{command[0]} does not answer"
            time.sleep(0.2)
        yield f"openai:http://127.0.0.1:{port}", process
    finally:
        process.kill()
        process.wait()


def _healthy(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as page:
            return bool(page.status == 200)
    except (URLError, OSError):
        return False


def llama_server(*options: object) -> Any:
    return started(LLAMA, "-m", GGUF, "--alias", "smollm2", "-c", 2048, "-np", 1, "-t", 1, "--metrics", *options)


def settings(folder: Path, direct: str, draft: str = "none", refine: str = "none", **changes: Any) -> Settings:
    made = rig.settings(
        suite=str(rig.suite(folder, *PROMPTS)),
        out=str(folder / "runs"),
        target=TargetSettings(direct),
        drafter=DrafterSettings(draft),
        refiner=RefinerSettings(refine),
        dtype="float32",
        max_new_tokens=TOKENS,
        deadline_s=300,
    )
    return replace(made, threads=None, **changes)


def measured(chosen: Settings) -> Run:
    run = read_run(runner.run(chosen, [], lambda done, total, what: None))
    assert [cell.error for cell in run.cells] == [None] * len(run.cells)
    return run


def counter(name: str, arm: str) -> float:
    with urlopen(f"{arm.removeprefix('openai:')}/metrics", timeout=5) as page:
        found = {sample: value for sample, _, value in samples(page.read().decode())}
    return found[f"llamacpp:{name}"]


@llama
def test_llamacpp_with_and_without_ngrams(tmp_path: Path) -> None:
    speculates = ("--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", 3, "--spec-ngram-simple-size-m", 8)
    with llama_server() as (plain, _), llama_server(*speculates) as (ngrams, _):
        run = measured(settings(tmp_path, plain, ngrams, repeats=2))
        decodes, tokens = counter("n_decode_total", ngrams), counter("tokens_predicted_total", ngrams)
        accepted = counter("spec_decode_num_accepted_tokens_total", ngrams)
    draft = [cell for cell in run.cells if cell.arm == "draft"]
    counts = [cell.counts for cell in draft if cell.counts]
    assert {one.source for one in counts} == {"both"}  # each answer's numbers are what the counters rose by
    assert sum(one.accepted or 0 for one in counts) > 0
    for one in counts:
        assert sum(one.reached) == one.accepted
        assert one.tally.steps >= (one.drafts or 0)
        assert one.cached == 0
    assert tokens - accepted == pytest.approx(decodes, abs=len(run.cells))  # warm-up included: a forward, a token
    (greedy,) = summarise(run).conditions
    parity = greedy.arms[1].parity
    assert parity.outcome == "shown"  # type: ignore[union-attr]


@llama
def test_llamacpp_accepts_as_often_as_it_is_told(tmp_path: Path) -> None:
    # Every draft is accepted at position 1 and none at position 2, whatever it says: each adds one token.
    rates = ("--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", 2, "--spec-ngram-simple-size-m", 4)
    with llama_server() as (plain, _), llama_server(*rates, "--spec-synth-rates", "1,0,0,0") as (told, _):
        run = measured(settings(tmp_path, plain, told))
    counts = [cell.counts for cell in run.cells if cell.counts and cell.arm == "draft"]
    assert sum(one.drafts or 0 for one in counts) > 0
    for one in counts:
        assert one.reached in ((), (one.drafts,))
        assert one.accepted == one.drafts
        assert one.tally.steps == one.tokens - 1 - (one.accepted or 0)
    assert acceptance([cell for cell in run.cells if cell.arm == "draft"]).steps == sum(
        one.tally.steps for one in counts
    )


@llama
def test_a_server_that_is_killed_leaves_a_run_to_go_on_with(tmp_path: Path) -> None:
    with llama_server() as (plain, process):
        chosen = settings(tmp_path, plain, repeats=4)

        def kill(done: int, total: int, what: str) -> None:
            if total and done == 3:
                process.kill()

        with pytest.raises(RunError, match=r"found no server.*go on with --resume"):
            runner.run(chosen, [], kill)
    (folder,) = (tmp_path / "runs").iterdir()
    run = read_run(folder)
    assert [bool(cell.error) for cell in run.cells] == [False] * 3 + [True] * 5
    assert run.footer is not None
    assert not run.footer.complete


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The embedded target, and the same with prompt lookup, which a generation config can ask transformers for."""
    plain, lookup = (tmp_path_factory.mktemp(name) / "target" for name in ("plain", "lookup"))
    for folder in (plain, lookup):
        shutil.copytree(EMBEDDED, folder)
    config = lookup / "generation_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"prompt_lookup_num_tokens": 5}))
    return plain, lookup


def transformers_serve(folder: Path, *options: str) -> Any:
    return started(
        Path(sys.executable).with_name("transformers"),
        "serve",
        folder,
        "--device",
        "cpu",
        "--dtype",
        "float32",
        *options,
    )


@serve
def test_transformers_serve_says_what_we_say_in_process(tmp_path: Path, folders: tuple[Path, Path]) -> None:
    plain, lookup = folders
    with (
        transformers_serve(plain) as (direct, _),
        transformers_serve(lookup) as (draft, _),
        transformers_serve(plain, "--continuous-batching") as (batching, _),
    ):
        run = measured(settings(tmp_path, direct, draft, batching))
    ours = rig.settings(suite=str(tmp_path / "own.jsonl"), out=str(tmp_path / "ours"), dtype="float32")
    here = read_run(
        runner.run(
            replace(ours, target=TargetSettings("embedded"), max_new_tokens=TOKENS, drafter=DrafterSettings("none")),
            [],
            lambda done, total, what: None,
        )
    )
    texts = {cell.prompt: (cell.text, len(cell.ids), cell.prompt_tokens) for cell in here.cells}
    for cell in run.cells:
        text, tokens, prompt_tokens = texts[cell.prompt]
        assert (cell.text, cell.prompt_tokens) == (text, prompt_tokens)
        if cell.arm != "draft":  # with prompt lookup its usage counts chunks
            assert cell.tokens == tokens
    told = served(run)
    assert any("draft: speculation of 3 of 3 requests is not known" in line for line in told)
