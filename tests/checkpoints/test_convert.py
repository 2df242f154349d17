"""Checkpoints from format to format and back: the same bytes under the right names, or a refusal that says why."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from xpress_bench.checkpoints import deepspec, dflash, markov, xpress
from xpress_bench.checkpoints.markov import MarkovConfig
from xpress_bench.drafters.block_diffusion import load
from xpress_bench.errors import UsageError
from xpress_bench.inspecting import convert
from xpress_bench.refiners.markov import MarkovHead
from xpress_bench.settings import DrafterSettings, TargetSettings
from xpress_bench.targets import hf

B = 6
HEAD_NAMES = {  # methods.md 4.3
    "w1.weight": "token_embed.weight",
    "w2.weight": "readout.weight",
    "down_h.weight": "down_h.weight",
    "down_g.weight": "down_g.weight",
    "in_proj.weight": "in_proj.weight",
    "mix.L": "mix_l",
    "mlp.gate_proj.weight": "mlp_gate.weight",
    "mlp.up_proj.weight": "mlp_up.weight",
    "mlp.down_proj.weight": "mlp_down.weight",
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("target")
    tiny.qwen3().model.save_pretrained(folder)
    return folder


def stored(module: torch.nn.Module, prefix: str = "") -> dict[str, Tensor]:
    return {f"{prefix}{name}": tensor.detach().contiguous() for name, tensor in module.state_dict().items()}


def write(folder: Path, config: dict[str, Any], tensors: dict[str, Tensor]) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def z_lab(folder: Path, **options: Any) -> Path:
    model = tiny.dflash(tiny.qwen3(), B, **options).model
    return write(folder, dflash.to_config(model.config), stored(model))


def uiuc_xpress(folder: Path, block_size: int = B) -> Path:
    model, head = tiny.dflash(tiny.qwen3(), B).model, tiny.head(tiny.VOCAB, block_size)
    config = xpress.to_config(dflash.to_config(model.config), head.config)
    return write(folder, config, stored(model) | stored(head, "xpress_head."))


def uiuc_markov(folder: Path) -> Path:
    model = tiny.dflash(tiny.qwen3(), B).model
    head = tiny.enlivened(MarkovHead(MarkovConfig(tiny.VOCAB, 8, tiny.HIDDEN)), 3)
    config = markov.to_config(dflash.to_config(model.config), head.config)
    return write(folder, config, stored(model) | stored(head, "markov_head."))


def deep_spec(folder: Path) -> Path:
    """Shift layout, a gated Markov head, a confidence head and the target's tables."""
    whole = tiny.qwen3()
    model = tiny.dflash(whole, B, layout="shift", format="deepspec").model
    head = tiny.enlivened(MarkovHead(MarkovConfig(tiny.VOCAB, 8, tiny.HIDDEN, "gated")), 3)
    keys = {"markov_rank": 8, "markov_head_type": "gated", "enable_confidence_head": True}
    proj = {"proj.weight": torch.randn(1, tiny.HIDDEN + 8).double(), "proj.bias": torch.zeros(1).double()}
    tables = {"embed_tokens.weight": whole.embed(torch.arange(tiny.VOCAB)), "lm_head.weight": whole.head(eye()).T}
    tensors = (
        stored(model) | stored(head, "markov_head.") | {f"confidence_head.{name}": one for name, one in proj.items()}
    )
    own = {name: one.detach().clone().contiguous() for name, one in tables.items()}
    return write(folder, deepspec.to_config(model.config) | keys, tensors | own)


def eye() -> Tensor:
    return torch.eye(tiny.HIDDEN, dtype=torch.float64)


def converted(folder: Path, out: Path, to: str, target: Path) -> Path:
    assert convert([str(folder), str(out), "--to", to, "--target", str(target)]) == 0
    return out


def tensors(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def config(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return found


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """The same names, and for each the same bytes."""
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and torch.equal(one[name].view(torch.uint8), other[name].view(torch.uint8))
        for name in one
    )


ROUTES: dict[str, tuple[Callable[[Path], Path], str, str]] = {
    "dflash": (z_lab, "speculators", "z-lab"),
    "xpress": (uiuc_xpress, "speculators", "z-lab"),
    "markov": (uiuc_markov, "speculators", "z-lab"),
    "dspark": (deep_spec, "speculators", "deepspec"),
}


@pytest.mark.parametrize("route", ROUTES)
def test_there_and_back_is_the_same_network_and_the_same_bytes(tmp_path: Path, target: Path, route: str) -> None:
    make, to, back = ROUTES[route]
    first = make(tmp_path / "first")
    there = converted(first, tmp_path / "there", to, target)
    again = converted(there, tmp_path / "again", back, target)
    assert same(tensors(again), tensors(first))
    read = [dflash.read_config(folder) for folder in (first, again)]
    assert replace(read[0], qwen3=None) == replace(read[1], qwen3=None)  # type: ignore[arg-type]
    assert read[0].qwen3.to_dict() == read[1].qwen3.to_dict()
    said = {key: value for key, value in config(first).items() if "markov" in key or "xpress" in key or "confid" in key}
    assert said.items() <= config(again).items()
    assert same(tensors(converted(again, tmp_path / "third", to, target)), tensors(there))


@pytest.mark.parametrize("route", ["dflash", "dspark"])
def test_the_converted_drafter_drafts_the_same_tokens(tmp_path: Path, target: Path, route: str) -> None:
    make, to, _ = ROUTES[route]
    first = make(tmp_path / "first")
    there = converted(first, tmp_path / "there", to, target)
    whole = hf.load(TargetSettings(str(target)), "cpu", "float64")
    rounds = []
    for folder in (first, there):
        drafter = load(DrafterSettings("dflash", str(folder)), whole, None)
        output = tiny.Arm(drafter).run(whole, tiny.prompt(9), 24)
        rounds.append([step.draft for step in output.rounds])
    assert rounds[0] == rounds[1]
    assert len(rounds[0]) > 3


def test_names_and_keys_of_the_speculators_format(tmp_path: Path, target: Path) -> None:
    first = uiuc_xpress(tmp_path / "first")
    there = converted(first, tmp_path / "there", "speculators", target)
    old, new = tensors(first), tensors(there)
    for ours, theirs in HEAD_NAMES.items():
        assert torch.equal(new.pop(f"refiner_head.{theirs}"), old.pop(f"xpress_head.{ours}"))
    assert same(new, old)
    body = config(there)
    assert body["speculators_model_type"] == body["speculators_config"]["algorithm"] == "xpress"
    assert body["aux_hidden_state_layer_ids"] == [1, 2]  # theirs count the embeddings, so 0 and 1 become 1 and 2
    assert (body["xpress_rank"], body["xpress_mlp_ratio"], body["num_jacobi_passes"]) == (8, 2, 6)
    assert (body["block_size"], body["mask_token_id"], body["sample_from_anchor"]) == (B, tiny.VOCAB - 1, False)
    assert body["speculators_config"]["verifier"] == {
        "name_or_path": str(target),
        "architectures": ["Qwen3ForCausalLM"],
    }
    assert body["speculators_config"]["proposal_methods"][0]["speculative_tokens"] == B - 1


def test_a_head_that_is_not_there_is_said_not_to_be(tmp_path: Path, target: Path) -> None:
    """Speculators' default is a confidence head of rank 256."""
    body = config(converted(uiuc_markov(tmp_path / "first"), tmp_path / "there", "speculators", target))
    assert (body["speculators_model_type"], body["enable_confidence_head"], body["markov_rank"]) == ("dspark", False, 8)


# Refusals


def refusal(folder: Path, out: Path, to: str, target: Path) -> str:
    with pytest.raises(UsageError) as caught:
        convert([str(folder), str(out), "--to", to, "--target", str(target)])
    assert "\n" not in str(caught.value)
    assert not out.exists()
    assert [one.name for one in out.parent.iterdir() if one.name.startswith("tmp")] == []
    return str(caught.value)


@pytest.mark.parametrize(
    ("make", "to", "why"),
    [
        (z_lab, "deepspec", "only the shift layout"),
        (deep_spec, "z-lab", "neither the shift layout"),
        (lambda folder: uiuc_xpress(folder, B + 2), "speculators", "one block size"),
        (lambda folder: z_lab(folder, final_logit_softcapping=30.0), "speculators", "final_logit_softcapping"),
        (lambda folder: z_lab(folder, output_multiplier=2.0), "speculators", "no scale of embeddings or logits"),
        (lambda folder: z_lab(folder, is_causal=True), "speculators", "window"),
        (lambda folder: z_lab(folder, shape=tiny.SLIDING), "speculators", "window"),
        (lambda folder: z_lab(folder, taps=(0, 2)), "speculators", "layer 2"),  # the last: theirs is before the norm
        (z_lab, "z-lab", "in the z-lab format already"),
        (uiuc_xpress, "z-lab", "in the z-lab format already"),
    ],
)
def test_what_a_format_cannot_say_is_refused_by_name(
    tmp_path: Path, target: Path, make: Callable[[Path], Path], to: str, why: str
) -> None:
    assert why in refusal(make(tmp_path / "first"), tmp_path / "there", to, target)


def test_a_drafter_of_another_target_is_refused(tmp_path: Path, target: Path) -> None:
    other = tmp_path / "other"
    tiny.qwen3(vocab=96).model.save_pretrained(other)
    assert "vocabulary is 80, but" in refusal(z_lab(tmp_path / "first"), tmp_path / "there", "speculators", other)


def test_tables_of_its_own_are_not_dropped(tmp_path: Path, target: Path) -> None:
    there = converted(z_lab(tmp_path / "first"), tmp_path / "there", "speculators", target)
    own = tensors(there) | {"embed_tokens.weight": torch.randn(tiny.VOCAB, tiny.HIDDEN).double()}
    save_file(own, there / "model.safetensors")
    assert "embed_tokens.weight is not that of target" in refusal(there, tmp_path / "back", "z-lab", target)
    copy = {"embed_tokens.weight": tensors(target)["model.embed_tokens.weight"]}
    save_file(own | copy, there / "model.safetensors")
    back = converted(there, tmp_path / "back", "z-lab", target)
    assert same(tensors(back), tensors(tmp_path / "first"))


def test_a_folded_mixer_is_refused(tmp_path: Path, target: Path) -> None:
    first = uiuc_xpress(tmp_path / "first")
    own = tensors(first)
    own["xpress_head.mix_L"] = own.pop("xpress_head.mix.L")
    save_file(own, first / "model.safetensors")
    assert "folded" in refusal(first, tmp_path / "there", "speculators", target)


def test_a_whole_model_and_a_folder_that_is_there_are_refused(tmp_path: Path, target: Path) -> None:
    assert "no block drafter" in refusal(target, tmp_path / "there", "speculators", target)
    (tmp_path / "full").mkdir()
    with pytest.raises(UsageError, match="is there already"):
        convert([str(z_lab(tmp_path / "a")), str(tmp_path / "full"), "--to", "speculators", "--target", str(target)])
