"""Targets loaded with transformers: plain greedy whatever the folder says, exact weights, caches that roll back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from transformers import AutoModelForCausalLM, GenerationConfig

from xpress_bench.errors import UsageError
from xpress_bench.settings import TargetSettings
from xpress_bench.targets.hf import HfTarget, load

IDS = tiny.prompt(9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder whose own settings ask for sampling, with a penalty that changes its greedy output too (C17)."""
    where = tmp_path_factory.mktemp("model")
    model = tiny.qwen3().model
    model.generation_config = GenerationConfig(
        do_sample=True, temperature=0.7, top_p=0.8, repetition_penalty=1.8, eos_token_id=[70, 71], pad_token_id=0
    )
    model.save_pretrained(where)
    return where


def loaded(folder: Path, dtype: str = "float64") -> HfTarget:
    return load(TargetSettings(str(folder)), "cpu", dtype)


def test_sampling_defaults_of_the_folder_reach_no_arm(folder: Path) -> None:
    target = loaded(folder)
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
    neutral: dict[str, Any] = {"do_sample": False, "max_new_tokens": 24, "attention_mask": torch.ones_like(IDS)}
    right = theirs.generate(IDS, **neutral, temperature=1.0, top_p=1.0, repetition_penalty=1.0)[0, 9:].tolist()
    leaked = theirs.generate(IDS, **neutral, temperature=1.0, top_p=1.0)[0, 9:].tolist()
    assert leaked != right  # the penalty bites

    for _ in range(2):
        assert tiny.plain(target, IDS, 24, target.stop_ids).ids == right
        assert tiny.Arm(tiny.dflash(target)).run(target, IDS, 24, target.stop_ids).ids == right
        assert tiny.generated(target, IDS, 24) == right


def test_stop_ids_are_kept_and_used_by_every_arm(folder: Path) -> None:
    target = loaded(folder)
    assert target.stop_ids == (70, 71)
    assert target.model.generation_config.eos_token_id == [70, 71]
    assert target.model.generation_config.do_sample in (None, False)


@pytest.mark.parametrize(
    ("own", "of_config", "right"), [(None, None, ()), (5, 6, (5,)), (None, 6, (6,)), ([5, 6], 7, (5, 6))]
)
def test_stop_ids_come_from_the_generation_settings_then_from_the_config(own: Any, of_config: Any, right: Any) -> None:
    model = tiny.qwen3(layers=1, eos_token_id=of_config).model
    model.generation_config = GenerationConfig(eos_token_id=own)
    assert HfTarget(model, "tiny").stop_ids == right


def test_the_facts_that_parts_are_matched_by(folder: Path) -> None:
    target = loaded(folder)
    facts = (target.vocab_size, target.hidden_size, target.layers, target.context, target.dtype, target.device.type)
    assert facts == (80, 32, 3, 256, torch.float64, "cpu")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_loading_gives_the_very_model_that_transformers_gives(folder: Path, dtype: str) -> None:
    """Rotary frequencies included: rounding them to 16 bits moves every far token."""
    ours, theirs = (
        loaded(folder, dtype),
        AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).eval(),
    )
    ids = tiny.prompt(200)
    with torch.inference_mode():
        logits, _ = ours.prefill(ids, ())
        assert torch.equal(logits, theirs(ids, logits_to_keep=1).logits)


@torch.inference_mode()
def test_verify_in_one_block_equals_one_token_at_a_time() -> None:
    target = tiny.qwen3()
    block = tiny.prompt(6, seed=4)
    target.prefill(IDS, ())
    at_once = target.verify(block, ())
    target.prefill(IDS, ())
    for index in range(6):
        row = target.verify(block[:, index : index + 1], ())
        target.commit(1)
        torch.testing.assert_close(at_once[:, index : index + 1], row, rtol=0, atol=1e-9)


@torch.inference_mode()
@pytest.mark.parametrize("keep", [1, 3, 6])
def test_rejected_rows_leave_no_trace(keep: int) -> None:
    target, block, after = tiny.qwen3(), tiny.prompt(6, seed=4), tiny.prompt(2, seed=5)
    target.prefill(IDS, ())
    target.verify(block, (0, 2))
    features = target.commit(keep)
    found = target.verify(after, ())
    right, all_features = target.prefill(torch.cat([IDS, block[:, :keep], after], dim=1), (0, 2))
    torch.testing.assert_close(found[:, -1:], right, rtol=0, atol=1e-9)
    torch.testing.assert_close(features, all_features[:, 9 : 9 + keep], rtol=0, atol=1e-9)


@torch.inference_mode()
def test_embed_and_head_are_the_models_own_tables() -> None:
    target = tiny.qwen3()
    weights = target.model.state_dict()
    hidden = torch.randn(1, 2, 32, dtype=torch.float64)
    assert torch.equal(target.embed(torch.tensor([[3, 5]]))[0], weights["model.embed_tokens.weight"][[3, 5]])
    torch.testing.assert_close(target.head(hidden), hidden @ weights["lm_head.weight"].T)


def test_a_folder_without_a_model_is_a_one_line_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"does not load.*config.json and model.safetensors") as caught:
        loaded(tmp_path)
    assert "\n" not in str(caught.value)


def test_pickled_weights_are_not_read(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    torch.save(tiny.qwen3().model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(UsageError, match="does not load"):
        loaded(tmp_path)
