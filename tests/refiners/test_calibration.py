"""Temperatures that are found again in simulated drafts, and drafts whose fate is known."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file

from xpress_bench.checkpoints.confidence import ConfidenceConfig
from xpress_bench.refiners.calibration import Judged, Recorder, fit
from xpress_bench.refiners.confidence import Confidence, ConfidenceHead
from xpress_bench.refiners.markov import EMBEDDED

TRUE = (2.0, 0.5, 1.0)


def simulated(count: int) -> list[Judged]:
    """Heads that are too sure of the first slot, not sure enough of the second and right about the third."""
    rng = np.random.default_rng(0)
    logits = rng.normal(1.0, 1.5, (count, len(TRUE)))
    right = rng.random(logits.shape) < 1 / (1 + np.exp(-logits / TRUE))
    return [Judged(row.tolist(), int(ok.cumprod().sum())) for row, ok in zip(logits, right, strict=True)]


def test_temperatures_are_found_again() -> None:
    np.testing.assert_allclose(fit(simulated(40_000)), TRUE, rtol=0.15)


def test_shorter_drafts_say_nothing_of_later_slots() -> None:
    judged = simulated(4000)
    short = [Judged(one.logits[:1], min(one.accepted, 1)) for one in judged]
    assert fit(short) == fit(judged)[:1]
    assert fit(judged + short)[:1] == fit(judged * 2)[:1]
    assert fit([]) == ()


def test_a_slot_that_never_errs_keeps_the_temperature_1() -> None:
    """Any temperature gives a chance of about 1, and 1 is nearest to no change."""
    assert fit([Judged([1e6], 1)] * 10) == (1.0,)


def test_the_recorder_keeps_what_became_of_every_draft_but_the_last() -> None:
    target = tiny.qwen3(seed=4)
    head = tiny.enlivened(ConfidenceHead(ConfidenceConfig(tiny.HIDDEN, tiny.VOCAB, 0)), 4)
    recorder = Recorder(Confidence(head))
    arm = tiny.Arm(tiny.dflash(target, 4, seed=4), [recorder])
    runs = [arm.run(target, tiny.prompt(5, seed), 24) for seed in range(3)]
    accepted = [step.accepted for run in runs for step in run.rounds[:-1]]
    assert [one.accepted for one in recorder.judged] == accepted
    assert max(accepted) > 0
    assert {len(one.logits) for one in recorder.judged} == {3}


def test_the_recorder_changes_nothing() -> None:
    target, ids = tiny.qwen3(), tiny.prompt(5)
    head = tiny.enlivened(ConfidenceHead(ConfidenceConfig(tiny.HIDDEN, tiny.VOCAB, 0)), 4)
    bare, watched = (tiny.Arm(tiny.dflash(target, 4), refiners) for refiners in ((), [Recorder(Confidence(head))]))
    found, right = watched.run(target, ids, 12), bare.run(target, ids, 12)
    assert [(step.draft, step.accepted) for step in found.rounds] == [
        (step.draft, step.accepted) for step in right.rounds
    ]


def a_checkpoint(folder: Path) -> str:
    """The embedded drafter with its Markov head, and a confidence head that knows nothing."""
    body = json.loads((EMBEDDED / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(body | {"confidence_head_with_markov": True}))
    width = body["hidden_size"] + body["markov_rank"]
    head = {"confidence_head.proj.weight": torch.zeros(1, width), "confidence_head.proj.bias": torch.ones(1)}
    save_file(load_file(EMBEDDED / "model.safetensors") | head, folder / "model.safetensors")
    return str(folder)


def test_the_script_prints_what_to_run_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "fit_confidence.py"))["main"]
    words = ["--suite", "short", "--drafter", a_checkpoint(tmp_path), "limit=2", "max_new_tokens=12", "threads=1"]

    assert main([*words, "refiner.params.threshold=0"]) == 0
    name, _, numbers = capsys.readouterr().out.strip().partition("=")
    assert name == "refiner.params.temperatures"
    assert len(json.loads(numbers)) == 7  # of blocks of eight slots

    assert main([*words, "refiner.params.threshold=0.5"]) == 2
    assert "refiner.params.threshold=0, which ends no draft" in capsys.readouterr().err
