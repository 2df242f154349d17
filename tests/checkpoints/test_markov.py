"""Markov heads as UIUC, DeepSpec and speculators release them: inside a DFlash folder, under their own prefix."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from safetensors.torch import save_file

from xpress_bench.checkpoints import deepspec, dflash, speculators
from xpress_bench.checkpoints.markov import MarkovConfig, holds_head, read_config, to_config
from xpress_bench.drafters import Context, Draft
from xpress_bench.drafters.block_diffusion import BlockDiffusion
from xpress_bench.drafters.prompt_lookup import PromptLookup
from xpress_bench.drafters.vocabulary import Vocabulary
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.refiners import markov
from xpress_bench.refiners.markov import Markov, MarkovHead, load
from xpress_bench.settings import RefinerSettings
from xpress_bench.targets.hf import HfTarget

TARGET = tiny.qwen3()
DRAFTER = tiny.dflash(TARGET, 8)
CONFIG: dict[str, Any] = dflash.to_config(DRAFTER.model.config) | {
    "architectures": ["Qwen3DSparkModel"],
    "markov_rank": 4,
    "sample_from_anchor": False,
}
SHAPES = {"markov_w1.weight": (80, 4), "markov_w2.weight": (80, 4)}  # methods.md 3.1, r = 4 and H = 32
MORE = {
    "vanilla": {},
    "gated": {"gate_proj.weight": (4, 32 + 4), "gate_proj.bias": (4,)},
    "rnn": {"joint_proj.weight": (12, 2 * 4 + 32), "joint_proj.bias": (12,)},
}


def released(prefix: str = "markov_head.", kind: str = "vanilla") -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = SHAPES | MORE[kind]
    found = {f"{prefix}{name}": torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    return found | {name: tensor.float() for name, tensor in DRAFTER.model.state_dict().items()}


def write(folder: Path, config: dict[str, Any] = CONFIG, tensors: dict[str, torch.Tensor] | None = None) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(released() if tensors is None else tensors, folder / "model.safetensors")
    return str(folder)


def opened(folder: Path, **settings: Any) -> Markov:
    return load(RefinerSettings("markov", path=str(folder), **settings), TARGET, DRAFTER)


def refused(folder: Path, kind: type[UsageError] = MisfitError) -> str:
    return tiny.refused(lambda: opened(folder), folder, kind)


def test_a_head_as_released_loads(tmp_path: Path) -> None:
    write(tmp_path)
    refiner, tensors = opened(tmp_path), released()
    state = refiner.head.state_dict()
    assert state.keys() == SHAPES.keys()
    assert all(torch.equal(state[name], tensors[f"markov_head.{name}"].double()) for name in SHAPES)
    assert (refiner.passes, refiner.causal, refiner.folder) == (None, True, tmp_path)
    assert read_config(tmp_path) == MarkovConfig(vocab_size=80, rank=4, hidden_size=32)


@pytest.mark.parametrize("kind", MORE)
def test_what_is_written_comes_back(kind: Any, tmp_path: Path) -> None:
    head = MarkovHead(MarkovConfig(80, 3, 32, kind))
    tensors = {f"markov_head.{name}": tensor for name, tensor in head.state_dict().items()}
    write(tmp_path, to_config(dflash.to_config(DRAFTER.model.config), head.config), tensors)

    refiner = opened(tmp_path)

    assert refiner.head.config == head.config
    assert all(torch.equal(refiner.head.state_dict()[name], tensor) for name, tensor in head.state_dict().items())
    assert dflash.read_config(tmp_path).target_layer_ids == DRAFTER.taps


SHIFTED = tiny.dflash(TARGET, 8, layout="shift")


@pytest.mark.parametrize("kind", MORE)
def test_deepspecs_heads_load_beside_a_drafter_of_the_shift_layout(kind: str, tmp_path: Path) -> None:
    """DeepSpec names no layout, keeps its keys at the top level and always has a confidence head."""
    body = deepspec.to_config(SHIFTED.model.config)
    tensors = released(kind=kind) | {"confidence_head.proj.weight": torch.zeros(1, 36)}
    write(tmp_path, body | {"markov_rank": 4, "markov_head_type": kind}, tensors)

    refiner = load(RefinerSettings("markov", path=str(tmp_path)), TARGET, SHIFTED)

    state = refiner.head.state_dict()
    assert state.keys() == SHAPES.keys() | MORE[kind].keys()
    assert all(torch.equal(state[name], tensors[f"markov_head.{name}"].double()) for name in state)
    assert "shift" in refused(tmp_path)  # beside the fill-in drafter


@pytest.mark.parametrize("layout", ["fill_in", "shift"])
def test_speculators_heads_load_from_its_nested_config(layout: Any, tmp_path: Path) -> None:
    drafter = tiny.dflash(TARGET, 8, layout=layout)
    body = speculators.to_config(drafter.model.config, "owner/target", ["Qwen3ForCausalLM"])
    body |= {"speculators_model_type": "dspark", "markov_rank": 4, "markov_head_type": "gated"}
    write(tmp_path, body, released(kind="gated"))
    refiner = load(RefinerSettings("markov", path=str(tmp_path)), TARGET, drafter)
    assert refiner.head.config == MarkovConfig(80, 4, 32, "gated")


def test_a_head_of_a_reduced_vocabulary_corrects_the_ids_that_it_has(tmp_path: Path) -> None:
    """W2 has one row for each of the ids 3, 10 and 11; the target has 80."""
    ids = torch.tensor([3, 10, 11])
    config = replace(DRAFTER.model.config, format="speculators", draft_vocab_size=3)
    drafter = BlockDiffusion(DRAFTER.model, TARGET, 8)
    drafter.vocabulary = Vocabulary(TARGET, config, head=torch.zeros(3, 32).double(), ids=ids)
    body = speculators.to_config(config, "owner/target", ["Qwen3ForCausalLM"])
    body |= {"speculators_model_type": "dspark", "sample_from_anchor": False, "markov_rank": 1}
    w1, w2 = torch.ones(80, 1), torch.tensor([[1.0], [5.0], [3.0]])
    write(tmp_path, body, {"markov_head.markov_w1.weight": w1, "markov_head.markov_w2.weight": w2})

    refiner = load(RefinerSettings("markov", path=str(tmp_path)), TARGET, drafter)
    context = Context([1, 2], torch.tensor([2]), torch.tensor([1]), 1, 99)
    logits = drafter.vocabulary.logits(torch.zeros(1, 2, 32).double())
    draft = Draft(torch.tensor([[3, 3]]), logits, torch.zeros(1, 3, 32).double())
    found = refiner.refine(draft, context, tiny.sampling())

    assert found.tokens.tolist() == [[10, 10]]
    assert found.logits is not None
    assert found.logits[0, 0, ids].tolist() == [1, 5, 3]
    assert int(found.logits[0, 0].isfinite().sum()) == 3
    assert "a reduced vocabulary of 3 ids, which the drafter does not share" in refused(tmp_path)


def test_a_confidence_head_is_left_alone(tmp_path: Path) -> None:
    extra = {"confidence_head.proj.weight": torch.zeros(1, 36), "confidence_head.proj.bias": torch.zeros(1)}
    write(tmp_path, CONFIG | {"enable_confidence_head": True, "markov_head_type": "vanilla"}, released() | extra)
    assert opened(tmp_path).head.state_dict().keys() == SHAPES.keys()


def test_a_folder_tells_whether_it_holds_a_head(tmp_path: Path) -> None:
    write(tmp_path)
    assert holds_head(tmp_path)
    write(tmp_path, tensors=released(prefix="xpress_head."))
    assert not holds_head(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hidden_size": 64}, ["hidden size", "64", "32"]),
        ({"vocab_size": 100}, ["vocabulary", "100", "80"]),
        ({"markov_rank": 6}, ["markov_head.markov_w1.weight has shape (80, 4), its config asks for (80, 6)"]),
        ({"sample_from_anchor": True}, ["the head is for blocks of layout shift", "the drafter's are fill_in"]),
        ({"sample_from_anchor": None}, ["the head is for blocks of layout shift", "the drafter's are fill_in"]),
    ],
)
def test_a_head_that_does_not_align_is_refused_with_both_sides(
    change: dict[str, Any], words: list[str], tmp_path: Path
) -> None:
    write(tmp_path, CONFIG | change)
    told = refused(tmp_path)
    assert all(word in told for word in words)


def test_a_head_of_another_type_is_refused_by_name(tmp_path: Path) -> None:
    write(tmp_path, CONFIG | {"markov_head_type": "other"})
    assert "markov_head_type is 'other', none of vanilla, gated, rnn; use" in refused(tmp_path, UsageError)


@pytest.mark.parametrize("key", ["markov_rank", "vocab_size", "hidden_size"])
@pytest.mark.parametrize("value", [None, 0, "4", True, 2.5])
def test_a_size_that_is_missing_or_no_number_is_refused(key: str, value: Any, tmp_path: Path) -> None:
    write(tmp_path, CONFIG | {key: value})
    assert f"{key} is {value!r}" in refused(tmp_path, UsageError)


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("markov_w2.weight", None, "missing ['markov_w2.weight']"),
        ("gate_proj.weight", (4, 36), "not understood ['gate_proj.weight']"),
        ("markov_w2.weight", (64, 4), "markov_head.markov_w2.weight has shape (64, 4), its config asks for (80, 4)"),
    ],
)
def test_tensors_must_be_exactly_those_of_the_config(
    name: str, shape: tuple[int, ...] | None, words: str, tmp_path: Path
) -> None:
    tensors = released()
    tensors.pop(f"markov_head.{name}", None)
    if shape is not None:
        tensors[f"markov_head.{name}"] = torch.zeros(shape)
    write(tmp_path, tensors=tensors)
    assert words in refused(tmp_path)


def test_parameters_of_the_published_size_add_up() -> None:
    """77.8 million for Qwen3-8B at rank 256 (methods.md 3.1), counted without allocating them."""
    with torch.device("meta"):
        head = MarkovHead(MarkovConfig(151_936, 256, 4096))
    assert sum(weight.numel() for weight in head.parameters()) == 2 * 151_936 * 256 == 77_791_232


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"params": {"depth": 1}}, "knows no refiner.params, not depth"),
        ({"passes": 0}, "refiner.passes is 0"),
        ({"passes": 4}, "refiner.passes is 4: markov walks the block once"),
    ],
)
def test_settings_that_markov_does_not_know_are_refused(settings: dict[str, Any], told: str, tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(UsageError, match=told):
        opened(tmp_path, **settings)


def test_a_target_without_a_head_is_told_where_to_get_one() -> None:
    with pytest.raises(UsageError, match="needs a head trained for target 'tiny'"):
        load(RefinerSettings("markov"), TARGET, DRAFTER)


def test_a_drafter_that_reads_no_target_features_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(MisfitError, match="--refiner none"):
        load(RefinerSettings("markov", path=str(tmp_path)), TARGET, PromptLookup(4))


def test_the_embedded_head_is_used_if_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, folder = HfTarget(TARGET.model, "embedded"), tmp_path / "markov"
    monkeypatch.setattr(markov, "EMBEDDED", folder)
    with pytest.raises(UsageError, match="no Markov head for the embedded target") as caught:
        load(RefinerSettings("markov"), target, DRAFTER)
    assert "\n" not in str(caught.value)
    write(folder)
    assert load(RefinerSettings("markov"), target, DRAFTER).folder == folder
