"""DFlash folders in the z-lab format: what is written comes back, and what does not fit is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from safetensors.torch import save_file

from xpress_bench.checkpoints.dflash import read_config, to_config
from xpress_bench.checkpoints.files import locate, weights_sha256
from xpress_bench.drafters.block_diffusion import BlockDiffusion, load
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.settings import DrafterSettings

TARGET = tiny.qwen3()
# As z-lab writes it (methods.md 2.2), for two draft layers on the tiny target.
CONFIG: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    "attention_bias": False,
    "auto_map": {"AutoModel": "dflash.DFlashDraftModel"},
    "block_size": 8,
    "dflash_config": {"mask_token_id": 79, "target_layer_ids": [0, 1]},
    "head_dim": 8,
    "hidden_act": "silu",
    "hidden_size": 32,
    "intermediate_size": 48,
    "layer_types": ["full_attention", "full_attention"],
    "max_position_embeddings": 256,
    "model_type": "qwen3",
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "num_target_layers": 3,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 100.0,
    "vocab_size": 80,
}
SHAPES = {"fc": (32, 64), "hidden_norm": (32,), "norm": (32,)} | {
    f"layers.{layer}.{name}": shape
    for layer in range(2)
    for name, shape in {
        "input_layernorm": (32,),
        "post_attention_layernorm": (32,),
        "self_attn.q_proj": (32, 32),
        "self_attn.k_proj": (16, 32),
        "self_attn.v_proj": (16, 32),
        "self_attn.o_proj": (32, 32),
        "self_attn.q_norm": (8,),
        "self_attn.k_norm": (8,),
        "mlp.gate_proj": (48, 32),
        "mlp.up_proj": (48, 32),
        "mlp.down_proj": (32, 48),
    }.items()
}


def write(folder: Path, config: dict[str, Any], tensors: dict[str, torch.Tensor] | None = None) -> None:
    (folder / "config.json").write_text(json.dumps(config))
    if tensors is not None:
        save_file(tensors, folder / "model.safetensors")


def released() -> dict[str, torch.Tensor]:
    """Random tensors under the names and shapes that the format fixes."""
    generator = torch.Generator().manual_seed(0)
    return {f"{name}.weight": torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}


def opened(folder: Path, block_size: int | None = None) -> BlockDiffusion:
    return load(DrafterSettings("dflash", path=str(folder)), TARGET, block_size)


def refused(folder: Path, kind: type[UsageError] = MisfitError) -> str:
    return tiny.refused(lambda: opened(folder), folder, kind)


def test_a_folder_as_released_loads_with_every_tensor_in_its_place(tmp_path: Path) -> None:
    tensors = released()
    write(tmp_path, CONFIG, tensors)

    drafter = opened(tmp_path)

    state = drafter.model.state_dict()
    assert state.keys() == tensors.keys()
    assert all(torch.equal(state[name], tensor.double()) for name, tensor in tensors.items())
    assert (drafter.block_size, drafter.taps, drafter.model.config.mask_token_id) == (8, (0, 1), 79)
    assert drafter.model.config.qwen3.rope_parameters["rope_theta"] == 100.0


def test_a_loaded_drafter_leaves_the_output_alone(tmp_path: Path) -> None:
    write(tmp_path, CONFIG, released())
    ids = tiny.prompt(9)
    assert tiny.Arm(opened(tmp_path)).run(TARGET, ids, 12).ids == tiny.generated(TARGET, ids, 12)


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    model = tiny.dflash(TARGET, 6).model
    write(tmp_path, to_config(model.config), model.state_dict())

    drafter = opened(tmp_path)

    for name in ("block_size", "mask_token_id", "target_layer_ids", "num_target_layers"):
        assert getattr(drafter.model.config, name) == getattr(model.config, name)
    assert all(torch.equal(drafter.model.state_dict()[name], tensor) for name, tensor in model.state_dict().items())
    written = json.loads((tmp_path / "config.json").read_text())
    assert (written["architectures"], written["model_type"]) == (["DFlashDraftModel"], "qwen3")


def test_the_block_size_may_stand_inside_dflash_config_and_wins_there(tmp_path: Path) -> None:
    inner = CONFIG["dflash_config"] | {"block_size": 5}
    write(tmp_path, CONFIG | {"dflash_config": inner})
    assert read_config(tmp_path).block_size == 5
    write(tmp_path, {key: value for key, value in CONFIG.items() if key != "block_size"} | {"dflash_config": inner})
    assert read_config(tmp_path).block_size == 5


def test_a_block_size_that_was_asked_for_replaces_the_checkpoints(tmp_path: Path) -> None:
    write(tmp_path, CONFIG, released())
    assert opened(tmp_path, block_size=4).block_size == 4


def test_weights_may_be_sharded_and_hold_another_head(tmp_path: Path) -> None:
    tensors = released()
    write(tmp_path, CONFIG)
    names = sorted(tensors)
    save_file({name: tensors[name] for name in names[:5]}, tmp_path / "model-00001-of-00002.safetensors")
    rest = {name: tensors[name] for name in names[5:]} | {"xpress_head.w1.weight": torch.zeros(80, 4)}
    save_file(rest, tmp_path / "model-00002-of-00002.safetensors")
    assert torch.equal(opened(tmp_path).model.fc.weight, tensors["fc.weight"].double())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hidden_size": 64}, "hidden size is 64.*has 32"),
        ({"vocab_size": 100}, "vocabulary is 100.*has 80"),
        ({"num_target_layers": 36}, "number of target layers is 36.*has 3"),
        ({"dflash_config": {"mask_token_id": 79, "target_layer_ids": [0, 3]}}, r"taps layer 3.*layers 0\.\.2"),
        ({"dflash_config": {"mask_token_id": 80, "target_layer_ids": [0, 1]}}, "mask token id 80.*80 rows"),
    ],
)
def test_a_drafter_for_another_target_is_refused_with_both_numbers(
    change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    write(tmp_path, CONFIG | change, released())
    with pytest.raises(MisfitError, match=words):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("layers.1.mlp.up_proj.weight", None, "missing ['layers.1.mlp.up_proj.weight']"),
        ("layers.0.self_attn.q_proj.bias", (32,), "not understood ['layers.0.self_attn.q_proj.bias']"),
        ("candidate_selector.successor_codebook", (80, 4), "not understood ['candidate_selector.successor_codebook']"),
        ("lm_head.weight", (81, 32), "lm_head.weight has shape (81, 32), its config asks for (80, 32)"),
        ("fc.weight", (32, 32), "fc.weight has shape (32, 32), its config asks for (32, 64)"),
    ],
)
def test_tensors_must_be_exactly_those_of_the_config(
    name: str, shape: tuple[int, ...] | None, words: str, tmp_path: Path
) -> None:
    tensors = released()
    tensors.pop(name, None)
    if shape is not None:
        tensors[name] = torch.zeros(shape)
    write(tmp_path, CONFIG, tensors)
    assert words in refused(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"block_size": None}, "has no 'block_size'"),
        ({"block_size": 1}, "block_size is 1, not a whole number from 2"),
        ({"block_size": True}, "block_size is True"),
        ({"dflash_config": {"mask_token_id": 79}}, "has no 'target_layer_ids'"),
        ({"dflash_config": [79]}, "dflash_config is a list"),
        ({"dflash_config": {"mask_token_id": 79, "target_layer_ids": 1}}, "target_layer_ids is 1"),
        ({"dflash_config": {"mask_token_id": 79, "target_layer_ids": []}}, "target_layer_ids is []"),
        ({"dflash_config": {"mask_token_id": 79, "target_layer_ids": [-2]}}, "target_layer_ids is -2"),
        ({"num_target_layers": "3"}, "num_target_layers is '3'"),
        ({"hidden_size": "32"}, "hidden_size is '32'"),
        ({"num_hidden_layers": 10**7, "layer_types": None}, "num_hidden_layers is 10000000"),
        ({"rms_norm_eps": "x"}, "not a Qwen3 config"),
        ({"hidden_act": "tanhshrinkage"}, "not a Qwen3 config"),
        ({"rope_scaling": {"rope_type": "none"}}, "not a Qwen3 config"),
        ({"architectures": 5}, "architectures is 5"),
        ({"architectures": ["DFlashDraftModel", None]}, "architectures is ["),
        ({"layer_types": ["chunked_attention", "full_attention"]}, "has chunked_attention layers"),
        ({"use_sliding_window": True, "sliding_window": 0}, "sliding_window is 0"),
        ({"sample_from_anchor": 1}, "sample_from_anchor is 1"),
        ({"final_logit_softcapping": -1}, "final_logit_softcapping is -1"),
        ({"output_multiplier": True}, "output_multiplier is True"),
        ({"is_causal": "no"}, "is_causal is 'no'"),
        ({"draft_vocab_size": 81}, "draft_vocab_size is 81"),
        ({"architectures": ["DFlash2DraftModel"]}, "conv_kernel_size is None"),
        ({"architectures": ["DFlash3DraftModel"]}, "architecture 'DFlash3DraftModel' is no drafter"),
        ({"architectures": ["Qwen3ForCausalLM"]}, "architecture 'Qwen3ForCausalLM' is no block drafter"),
        ({"speculators_model_type": "peagle"}, "speculators_model_type is 'peagle', and dflash,"),
    ],
)
def test_a_config_that_cannot_be_meant_is_refused_naming_the_key(
    change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    write(tmp_path, CONFIG | change, released())
    assert words in refused(tmp_path, UsageError)


@pytest.mark.parametrize(
    ("text", "words"), [("{", "not JSON"), ("[1]", "holds a list"), ("\udcff", "not JSON"), ("[" * 100_000, "not JSON")]
)
def test_a_config_that_is_no_json_object_is_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text, errors="surrogateescape")
    assert words in refused(tmp_path, UsageError)


def test_a_folder_without_a_config_is_refused(tmp_path: Path) -> None:
    assert "config.json: not found" in refused(tmp_path, UsageError)


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    write(tmp_path, CONFIG)
    (tmp_path / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    assert "pytorch_model.bin, a pickle" in refused(tmp_path, UsageError)


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    write(tmp_path, CONFIG)
    assert "needs model.safetensors (none there)" in refused(tmp_path, UsageError)


@pytest.mark.parametrize("cut", [0, 4, 500, -1])
def test_torn_safetensors_are_refused(cut: int, tmp_path: Path) -> None:
    write(tmp_path, CONFIG, released())
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:cut])
    assert "not a safetensors file" in refused(tmp_path, UsageError)


@pytest.mark.parametrize("where", ["./nowhere", "/nowhere/at/all", "nowhere", "a/b/c"])
def test_a_path_that_leads_nowhere_is_refused_without_asking_the_hub(where: str) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        locate(where, None)


def test_the_hash_follows_the_weights(tmp_path: Path) -> None:
    tensors = released()
    write(tmp_path, CONFIG, tensors)
    first = weights_sha256(tmp_path)
    assert weights_sha256(tmp_path) == first
    tensors["norm.weight"][0] += 1
    write(tmp_path, CONFIG, tensors)
    assert weights_sha256(tmp_path) != first


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"denoising_steps": 8}, "denoising_steps is 8: a block has 7 to fill; choose 1..7"),
        ({"params": {"depth": 1}}, "depth"),
        ({"path": None}, "needs weights"),
    ],
)
def test_settings_that_dflash_does_not_know_are_refused(settings: dict[str, Any], words: str, tmp_path: Path) -> None:
    write(tmp_path, CONFIG, released())
    with pytest.raises(UsageError, match=words):
        load(DrafterSettings(**{"name": "dflash", "path": str(tmp_path)} | settings), TARGET, None)


def test_denoising_steps_are_counted_against_the_block_size_in_use(tmp_path: Path) -> None:
    write(tmp_path, CONFIG, released())
    settings = DrafterSettings("dflash", path=str(tmp_path), denoising_steps=2)
    assert load(settings, TARGET, 3).denoising_steps == 2
    with pytest.raises(UsageError, match=r"steps is 2: a block has 1 to fill; choose 1$"):
        load(settings, TARGET, 2)
