"""Confidence heads as DeepSpec and speculators release them: beside a Markov head, whose W1 they read, or alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from safetensors.torch import save_file

from xpress_bench.checkpoints import deepspec, speculators
from xpress_bench.checkpoints.confidence import ConfidenceConfig, holds_head, read_config
from xpress_bench.drafters.prompt_lookup import PromptLookup
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.refiners.confidence import Confidence, load
from xpress_bench.settings import RefinerSettings

TARGET = tiny.qwen3()
DRAFTER = tiny.dflash(TARGET, 8, layout="shift")
FLAGS = {"markov_rank": 4, "enable_confidence_head": True, "confidence_head_with_markov": True}
CONFIG: dict[str, Any] = deepspec.to_config(DRAFTER.model.config) | FLAGS
SHAPES = {  # methods.md 3.1, H = 32 and r = 4
    "confidence_head.proj.weight": (1, 36),
    "confidence_head.proj.bias": (1,),
    "markov_head.markov_w1.weight": (80, 4),
    "markov_head.markov_w2.weight": (80, 4),
}


def released(shapes: dict[str, tuple[int, ...]] = SHAPES) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def write(folder: Path, config: dict[str, Any] = CONFIG, tensors: dict[str, torch.Tensor] | None = None) -> None:
    (folder / "config.json").write_text(json.dumps(config))
    save_file(released() if tensors is None else tensors, folder / "model.safetensors")


def opened(folder: Path, drafter: Any = DRAFTER, **params: Any) -> Confidence:
    return load(RefinerSettings("confidence", path=str(folder), params={"threshold": 0.5} | params), TARGET, drafter)


def refused(folder: Path, kind: type[UsageError] = MisfitError) -> str:
    return tiny.refused(lambda: opened(folder), folder, kind)


def speculators_body() -> dict[str, Any]:
    body = speculators.to_config(DRAFTER.model.config, "owner/target", ["Qwen3ForCausalLM"])
    return body | FLAGS | {"speculators_model_type": "dspark"}


@pytest.mark.parametrize("config", [CONFIG, speculators_body()], ids=["deepspec", "speculators"])
def test_a_head_as_released_loads(config: dict[str, Any], tmp_path: Path) -> None:
    write(tmp_path, config)
    refiner, tensors = opened(tmp_path, temperatures=[1, 2.5] * 4), released()
    state = refiner.head.state_dict()
    names = {"proj.weight": "confidence_head.", "proj.bias": "confidence_head.", "markov_w1.weight": "markov_head."}
    assert state.keys() == names.keys()
    assert all(torch.equal(state[name], tensors[prefix + name].double()) for name, prefix in names.items())
    assert (refiner.threshold, refiner.temperatures, refiner.folder) == (0.5, (1, 2.5) * 4, tmp_path)
    assert (refiner.causal, refiner.passes) == (True, None)
    assert holds_head(tmp_path)


def test_a_head_that_reads_the_state_alone_needs_no_markov_head(tmp_path: Path) -> None:
    shapes = {"confidence_head.proj.weight": (1, 32), "confidence_head.proj.bias": (1,)}
    write(tmp_path, CONFIG | {"confidence_head_with_markov": False, "markov_rank": 0}, released(shapes))
    assert opened(tmp_path).head.state_dict().keys() == {"proj.weight", "proj.bias"}
    assert read_config(tmp_path) == ConfidenceConfig(32, 80, 0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hidden_size": 64}, ["hidden size of the confidence head is 64, but target 'tiny' has 32"]),
        ({"vocab_size": 100}, ["vocabulary of the confidence head is 100, but target 'tiny' has 80"]),
        ({"markov_rank": 6}, ["confidence_head.proj.weight has shape (1, 36), its config asks for (1, 38)"]),
        ({"confidence_head_with_markov": False}, ["has shape (1, 36), its config asks for (1, 32)"]),
        ({"sample_from_anchor": False}, ["the head is for blocks of layout fill_in, and the drafter's are shift"]),
    ],
)
def test_a_head_that_does_not_align_is_refused_with_both_sides(
    change: dict[str, Any], words: list[str], tmp_path: Path
) -> None:
    write(tmp_path, CONFIG | change)
    assert all(word in refused(tmp_path) for word in words)


@pytest.mark.parametrize(("key", "value"), [("markov_rank", 0), ("confidence_head_with_markov", "yes")])
def test_a_key_that_means_nothing_is_refused_by_name(key: str, value: Any, tmp_path: Path) -> None:
    write(tmp_path, CONFIG | {key: value})
    assert f"{key} is {value!r}" in refused(tmp_path, UsageError)


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"threshold": None}, "refiner.params.threshold is None: give a number from 0 to 1"),
        ({"threshold": 2}, "refiner.params.threshold is 2"),
        ({"temperatures": [1, 0]}, r"refiner.params.temperatures is \[1, 0\]: give a list of numbers above 0"),
        ({"temperatures": 1}, "refiner.params.temperatures is 1: give a list"),
        ({"temperatures": [1.0] * 7}, "refiner.params.temperatures has 7 numbers, and a draft up to 8 tokens"),
        ({"depth": 1}, "confidence knows refiner.params.threshold, refiner.params.temperatures, not depth"),
    ],
)
def test_options_that_mean_nothing_are_refused(params: dict[str, Any], told: str, tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(UsageError, match=told):
        opened(tmp_path, **params)


def test_what_it_needs_is_told(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(UsageError, match="confidence needs a checkpoint with such a head"):
        load(RefinerSettings("confidence", params={"threshold": 0.5}), TARGET, DRAFTER)
    with pytest.raises(UsageError, match="confidence makes none"):
        load(RefinerSettings("confidence", path=str(tmp_path), passes=3), TARGET, DRAFTER)
    with pytest.raises(MisfitError, match="--refiner none"):
        opened(tmp_path, PromptLookup(4))


def test_a_threshold_has_to_be_given(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"confidence needs refiner\.params\.threshold: a number from 0 to 1"):
        load(RefinerSettings("confidence", path=str(tmp_path)), tiny.qwen3(), tiny.dflash(tiny.qwen3()))
