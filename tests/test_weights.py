"""`--weights random`: everything from configs alone, costs reported, and nothing else claimed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch

from xpress_bench.checkpoints.files import locate
from xpress_bench.cli import main
from xpress_bench.config import settings_from
from xpress_bench.errors import UsageError
from xpress_bench.journals import read_run
from xpress_bench.parts import Parts, assemble
from xpress_bench.settings import Settings
from xpress_bench.weights import RandomIds, are_random, random_weights

TARGET: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 300,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
    "eos_token_id": 5,
}
DRAFTER = TARGET | {
    "architectures": ["Qwen3XPressModel"],
    "num_hidden_layers": 2,
    "num_target_layers": 3,
    "block_size": 6,
    "dflash_config": {"mask_token_id": 299, "target_layer_ids": [0, 2]},
    "xpress_rank": 8,
    "xpress_mlp_hidden": 16,
    "xpress_block_size": 6,
    "xpress_num_passes": 3,
    "sample_from_anchor": False,
}


def folder(where: Path, config: dict[str, Any]) -> Path:
    """A checkpoint of which only the config is there."""
    where.mkdir()
    (where / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return where


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    where = tmp_path_factory.mktemp("pair")
    names = {"target.name": folder(where / "target", TARGET), "drafter.name": folder(where / "drafter", DRAFTER)}
    return {key: str(path) for key, path in names.items()}


def settings(pair: dict[str, str], **more: str) -> Settings:
    return settings_from(pair | {"weights": "random", "device": "cpu", "dtype": "float64", "threads": "1"} | more, [])


def weights(parts: Parts) -> dict[str, torch.Tensor]:
    arm: Any = parts.arms[-1]
    modules = {"target": parts.target.model, "drafter": arm.drafter.model, "refiner": arm.refiners[0].head}  # type: ignore[attr-defined]
    return {f"{of}.{name}": weight for of, module in modules.items() for name, weight in module.state_dict().items()}


def test_a_config_alone_makes_all_parts_of_its_sizes_in_the_asked_dtype(pair: dict[str, str]) -> None:
    parts = assemble(settings(pair, dtype="bfloat16"))
    assert [planned.arm.name for planned in parts.arms] == ["direct", "draft", "refine"]
    assert (parts.target.vocab_size, parts.target.layers, parts.arms[2].arm.passes) == (300, 3, 3)
    assert parts.arms[2].arm.checkpoints == {"drafter": None, "refiner": None}
    for name, weight in weights(parts).items():
        assert weight.dtype == torch.bfloat16, name
        assert bool(weight.isfinite().all()), name


def test_values_are_random_of_a_sane_scale_and_the_same_in_every_process(pair: dict[str, str]) -> None:
    state = torch.random.get_rng_state()
    first, second = (assemble(settings(pair)) for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), state)  # nobody else's draws change
    for (name, one), other in zip(weights(first).items(), weights(second).values(), strict=True):
        assert torch.equal(one, other), name
        if one.ndim == 2:
            assert 1e-3 < float(one.std()) < 2, name
    with torch.inference_mode():
        logits, _ = first.target.prefill(torch.arange(40)[None], ())
    assert bool(logits.isfinite().all())
    assert float(logits.std()) > 1e-3


def test_no_stop_id_ends_a_request_by_chance(pair: dict[str, str]) -> None:
    assert assemble(settings(pair)).target.stop_ids == ()


def test_weights_that_are_there_are_not_read(tmp_path: Path, pair: dict[str, str]) -> None:
    held = folder(tmp_path / "held", TARGET)
    (held / "model.safetensors").write_bytes(b"no tensors")
    assert assemble(settings(pair | {"target.name": str(held)})).target.layers == 3


def test_trained_weights_are_still_asked_for(pair: dict[str, str]) -> None:
    assert not are_random()
    with pytest.raises(UsageError, match=r"model\.safetensors"):
        assemble(settings(pair, weights="trained"))


def test_of_a_hub_id_no_weights_are_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []

    def snapshot(where: str, revision: str | None, allow_patterns: list[str]) -> str:
        asked.append("*.safetensors" in allow_patterns)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    with random_weights():
        locate("owner/name", None)
    locate("owner/name", None)
    assert asked == [False, True]


def test_without_a_tokenizer_text_becomes_as_many_random_ids() -> None:
    tokenizer = RandomIds(50)
    ids = tokenizer("a" * 403)["input_ids"]
    assert len(ids) == 100
    assert ids == tokenizer("a" * 403)["input_ids"] != tokenizer("b" * 403)["input_ids"]
    assert len(set(ids)) > 20
    assert all(0 <= one < 50 for one in ids)
    assert len(tokenizer("")["input_ids"]) == 1
    assert len(tokenizer(tokenizer.decode(ids))["input_ids"]) == 100


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"target.name": "toy"}, "no config to make random weights from"),
        ({"target.gguf_file": "x.gguf"}, "names trained weights"),
        ({"weights": "none"}, "choose one of trained, random"),
    ],
)
def test_what_it_cannot_do_is_one_line(pair: dict[str, str], more: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        assemble(settings(pair, **more))


def test_a_run_reports_costs_and_every_other_reader_refuses_it(
    pair: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--suite", "short", "--limit", "2", "--weights", "random", "--device", "cpu", "--out", str(tmp_path)]
    words += ["--target", pair["target.name"], "--drafter", pair["drafter.name"]]
    assert main([*words, "max_new_tokens=6", "seeds=[0]", "memory=false", "threads=1"]) == 0
    said = capsys.readouterr().out
    assert "random weights" in said.splitlines()[0]
    assert "breaks even at tokens/step" in said
    assert "faster" not in said
    assert "identical" not in said
    (made,) = tmp_path.iterdir()
    run = read_run(made)
    assert not run.traces
    assert not run.replays
    assert {len(cell.ids) for cell in run.cells} == {6}
    assert all(cell.steps.offered[0] == 4 for cell in run.cells if cell.arm != "direct")  # 5 more to come
    for command in (
        ["explain", str(made)],
        ["compare", str(made), str(made)],
        ["report", str(made), "--together"],
        ["report", str(made), "--format", "csv"],
        ["report", str(made), "--report-as", "vllm"],
        ["gate", "--against", str(made)],
        ["gate", "--stored", "--weights", "random"],
    ):
        assert main(command) == 2, command
        assert "random" in capsys.readouterr().err
