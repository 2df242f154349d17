"""xPress heads as released: inside a DFlash folder, under their own prefix, with the mixer stored raw."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from safetensors.torch import save_file

from xpress_bench.checkpoints import dflash, speculators
from xpress_bench.checkpoints.xpress import HeadConfig, holds_head, read_config, to_config, to_speculators
from xpress_bench.drafters import Context, Draft, block_diffusion
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.refiners.xpress import XPress, load
from xpress_bench.settings import DrafterSettings, RefinerSettings

TARGET = tiny.qwen3()
DRAFTER = tiny.dflash(TARGET, 8)
CONFIG: dict[str, Any] = dflash.to_config(DRAFTER.model.config) | {
    "architectures": ["Qwen3XPressModel"],
    "xpress_rank": 4,
    "xpress_mlp_hidden": 6,
    "xpress_block_size": 8,
    "xpress_num_passes": 3,
    "sample_from_anchor": False,
}
SHAPES = {  # methods.md 4.3
    "w1.weight": (80, 4),
    "w2.weight": (80, 4),
    "down_h.weight": (4, 32),
    "down_g.weight": (4, 32),
    "in_proj.weight": (4, 12),
    "mix.L": (4, 8, 8),
    "mlp.gate_proj.weight": (6, 4),
    "mlp.up_proj.weight": (6, 4),
    "mlp.down_proj.weight": (4, 6),
}


def released() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    found = {f"xpress_head.{name}": torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
    return found | {name: tensor.float() for name, tensor in DRAFTER.model.state_dict().items()}


def write(folder: Path, config: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "model.safetensors")


def opened(folder: Path, **settings: Any) -> XPress:
    return load(RefinerSettings("xpress", path=str(folder), **settings), TARGET, DRAFTER)


def refused(folder: Path, kind: type[UsageError] = MisfitError) -> str:
    return tiny.refused(lambda: opened(folder), folder, kind)


def test_a_head_as_released_loads_with_its_mixer_raw(tmp_path: Path) -> None:
    tensors = released()
    write(tmp_path, CONFIG, tensors)

    refiner = opened(tmp_path)

    state = refiner.head.state_dict()
    assert state.keys() == SHAPES.keys()
    assert all(torch.equal(state[name], tensors[f"xpress_head.{name}"].double()) for name in SHAPES)
    assert (refiner.passes, refiner.causal) == (3, True)


def test_drafter_and_head_load_from_one_folder_and_leave_the_output_alone(tmp_path: Path) -> None:
    write(tmp_path, CONFIG, released())
    drafter = block_diffusion.load(DrafterSettings("dflash", path=str(tmp_path)), TARGET, None)
    ids = tiny.prompt(9)
    assert tiny.Arm(drafter, [opened(tmp_path)]).run(TARGET, ids, 12).ids == tiny.generated(TARGET, ids, 12)


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    head = tiny.head(80, 8, rank=4)
    drafter = dflash.to_config(DRAFTER.model.config)
    tensors = {f"xpress_head.{name}": tensor for name, tensor in head.state_dict().items()}
    write(tmp_path, to_config(drafter, head.config), tensors)

    refiner = opened(tmp_path)

    assert read_config(tmp_path) == refiner.head.config == head.config
    assert all(torch.equal(refiner.head.state_dict()[name], tensor) for name, tensor in head.state_dict().items())
    assert dflash.read_config(tmp_path).target_layer_ids == DRAFTER.taps


def for_speculators(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The same tensors under the names of methods.md 4.3, which speculators 0.9.0 has in its module."""
    names = {
        "w1": "token_embed", "w2": "readout", "mix.L": "mix_l", "mlp.gate_proj": "mlp_gate", "mlp.up_proj": "mlp_up",
        "mlp.down_proj": "mlp_down",
    }  # fmt: skip
    found = {}
    for name, tensor in tensors.items():
        own, dot, suffix = name.removeprefix("xpress_head.").partition(".weight")
        found[f"refiner_head.{names.get(own, own)}{dot}{suffix}" if "xpress" in name else name] = tensor
    return found


def speculators_config(**changes: Any) -> dict[str, Any]:
    body = speculators.to_config(DRAFTER.model.config, "owner/target", ["Qwen3ForCausalLM"])
    more = {"speculators_model_type": "xpress", "xpress_rank": 4, "xpress_mlp_ratio": 2, "num_jacobi_passes": 5}
    return body | more | changes


WIDE = {"mlp.gate_proj.weight": (8, 4), "mlp.up_proj.weight": (8, 4), "mlp.down_proj.weight": (4, 8)}  # of ratio 2


@pytest.mark.parametrize("layout", ["fill_in", "shift"])
def test_a_head_of_the_speculators_format_is_the_same_head(layout: Any, tmp_path: Path) -> None:
    tensors = released() | {f"xpress_head.{name}": torch.randn(shape) for name, shape in WIDE.items()}
    write(tmp_path, speculators_config(sample_from_anchor=layout == "shift"), for_speculators(tensors))

    drafter = tiny.dflash(TARGET, 8, layout=layout)
    refiner = load(RefinerSettings("xpress", path=str(tmp_path)), TARGET, drafter)

    assert holds_head(tmp_path)
    assert refiner.head.config == HeadConfig(32, 80, 4, 8, 8, 5)
    state = refiner.head.state_dict()
    assert all(torch.equal(state[name], tensors[f"xpress_head.{name}"].double()) for name in SHAPES)


def test_a_head_of_a_reduced_vocabulary_corrects_the_ids_that_it_has(tmp_path: Path) -> None:
    """The readout has one row for each of the ids 3, 10 and 11; the target has 80."""
    tensors = released() | {f"xpress_head.{name}": torch.randn(shape) for name, shape in WIDE.items()}
    write(
        tmp_path,
        speculators_config(draft_vocab_size=3),
        for_speculators(tensors | {"xpress_head.w2.weight": torch.ones(3, 4)}),
    )
    assert "a reduced vocabulary of 3 ids, which the drafter does not share" in refused(tmp_path)
    ids, drafter = torch.tensor([3, 10, 11]), tiny.dflash(TARGET, 8)
    drafter.vocabulary = replace(drafter.vocabulary, head=torch.zeros(3, 32).double(), ids=ids)

    refiner = load(RefinerSettings("xpress", path=str(tmp_path)), TARGET, drafter)
    base = drafter.vocabulary.logits(torch.zeros(1, 7, 32).double())
    draft = Draft(base.argmax(-1), base, torch.randn(1, 8, 32).double())
    context = Context([1, 2], torch.tensor([2]), torch.tensor([1]), 1, 99)
    found = refiner.refine(draft, context, tiny.sampling())

    assert found.logits is not None
    assert torch.equal(found.logits.isfinite().nonzero()[:3, 2], ids)
    assert bool((found.logits[..., ids] != 0).all())


def test_what_is_written_for_speculators_comes_back(tmp_path: Path) -> None:
    config = HeadConfig(32, 80, 4, 8, 8, 5)
    drafter = speculators.to_config(DRAFTER.model.config, "owner/target", ["Qwen3ForCausalLM"])
    body = to_speculators(drafter, config)
    assert body == speculators_config(architectures=["XPressSpeculator"])
    write(tmp_path, body, {})
    assert read_config(tmp_path) == config


@pytest.mark.parametrize(
    ("change", "told"), [({"mlp_hidden": 6}, "multiple of the rank 4, not 6"), ({"block_size": 16}, "mixes 16 slots")]
)
def test_what_the_speculators_format_cannot_say_is_refused(change: dict[str, int], told: str) -> None:
    drafter = speculators.to_config(DRAFTER.model.config, "owner/target", ["Qwen3ForCausalLM"])
    with pytest.raises(MisfitError, match=told):
        to_speculators(drafter, replace(HeadConfig(32, 80, 4, 8, 8, 5), **change))


def test_a_mixer_that_engines_have_folded_is_the_raw_one(tmp_path: Path) -> None:
    """By its name there, `mix_L`: lower triangle plus identity. What the raw one has above the diagonal counts for
    nothing."""
    tensors = released()
    raw = tensors.pop("xpress_head.mix.L")
    tensors["xpress_head.mix_L"] = raw.tril() + torch.eye(8)
    write(tmp_path, CONFIG, tensors)
    mix = opened(tmp_path).head.mix
    torch.testing.assert_close(mix.folded(8), raw.double().tril() + torch.eye(8).double(), rtol=0, atol=1e-6)
    assert torch.equal(mix.L.triu(1), torch.zeros(4, 8, 8).double())


@pytest.mark.parametrize("passes", [0, 7])
def test_passes_that_were_asked_for_replace_the_checkpoints(passes: int, tmp_path: Path) -> None:
    write(tmp_path, CONFIG, released())
    assert opened(tmp_path, passes=passes).passes == passes


def test_a_folder_tells_whether_it_holds_a_head(tmp_path: Path) -> None:
    write(tmp_path, CONFIG, released())
    assert holds_head(tmp_path)
    write(tmp_path, CONFIG, {name: tensor for name, tensor in released().items() if "xpress" not in name})
    assert not holds_head(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hidden_size": 64}, ["hidden size", "64", "32"]),
        ({"vocab_size": 100}, ["vocabulary", "100", "80"]),
        ({"xpress_block_size": 4}, ["at most 4 slots", "block_size is 8"]),
        ({"sample_from_anchor": True}, ["the head is for blocks of layout shift", "the drafter's are fill_in"]),
    ],
)
def test_a_head_that_does_not_align_is_refused_with_both_sides(
    change: dict[str, Any], words: list[str], tmp_path: Path
) -> None:
    write(tmp_path, CONFIG | change, released())
    assert all(word in refused(tmp_path) for word in words)


@pytest.mark.parametrize("key", ["xpress_rank", "xpress_mlp_hidden", "xpress_block_size", "xpress_num_passes"])
@pytest.mark.parametrize("value", [None, 0, "4", True, 2.5])
def test_a_size_that_is_missing_or_no_number_is_refused(key: str, value: Any, tmp_path: Path) -> None:
    write(tmp_path, CONFIG | {key: value}, released())
    assert repr(value) in refused(tmp_path, UsageError)


def test_a_restricted_candidate_set_is_refused_not_ignored(tmp_path: Path) -> None:
    write(tmp_path, CONFIG | {"xpress_candidate_topc": 256}, released())
    assert "xpress_candidate_topc=256" in refused(tmp_path, UsageError)


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("mix.L", None, "missing ['mix.L']"),
        ("mix.tril", (8, 8), "not understood ['mix.tril']"),
        ("mix.L", (4, 16, 16), "xpress_head.mix.L has shape (4, 16, 16), its config asks for (4, 8, 8)"),
        ("in_proj.weight", (4, 8), "has shape (4, 8), its config asks for (4, 12)"),
    ],
)
def test_tensors_must_be_exactly_those_of_the_config(
    name: str, shape: tuple[int, ...] | None, words: str, tmp_path: Path
) -> None:
    tensors = released()
    tensors.pop(f"xpress_head.{name}", None)
    if shape is not None:
        tensors[f"xpress_head.{name}"] = torch.zeros(shape)
    write(tmp_path, CONFIG, tensors)
    assert words in refused(tmp_path)


def test_parameters_of_the_published_size_add_up() -> None:
    """80,543,744 for Qwen3-8B (methods.md 4.3), counted without allocating them."""
    with torch.device("meta"):
        head = type(tiny.head(8, 2))(HeadConfig(4096, 151_936, 256, 512, 16, 6))
    assert sum(weight.numel() for weight in head.parameters()) == 80_543_744


def test_settings_that_xpress_does_not_know_are_refused(tmp_path: Path) -> None:
    write(tmp_path, CONFIG, released())
    with pytest.raises(UsageError, match="depth"):
        opened(tmp_path, params={"depth": 1})
    with pytest.raises(UsageError, match="needs a head trained for"):
        load(RefinerSettings("xpress"), TARGET, DRAFTER)
