"""Markov heads as released: inside a fill-in DFlash folder, two tables under their own prefix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from safetensors.torch import save_file

from xpress_bench import parts
from xpress_bench.checkpoints import dflash
from xpress_bench.checkpoints.markov import MarkovConfig, holds_head, read_config, to_config
from xpress_bench.drafters import DRAFTERS
from xpress_bench.drafters.prompt_lookup import PromptLookup
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.refiners import REFINERS, markov
from xpress_bench.refiners.markov import Markov, MarkovHead, load
from xpress_bench.settings import DrafterSettings, RefinerSettings, TargetSettings
from xpress_bench.targets.hf import HfTarget

TARGET = tiny.qwen3()
DRAFTER = tiny.dflash(TARGET, 8)
CONFIG: dict[str, Any] = dflash.to_config(DRAFTER.model.config) | {
    "architectures": ["Qwen3DSparkModel"],
    "markov_rank": 4,
    "sample_from_anchor": False,
}
SHAPES = {"markov_w1.weight": (80, 4), "markov_w2.weight": (80, 4)}  # methods.md 3.1


def released(prefix: str = "markov_head.") -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    found = {f"{prefix}{name}": torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
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


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    head = MarkovHead(MarkovConfig(80, 3, 32))
    tensors = {f"markov_head.{name}": tensor for name, tensor in head.state_dict().items()}
    write(tmp_path, to_config(dflash.to_config(DRAFTER.model.config), head.config), tensors)

    refiner = opened(tmp_path)

    assert refiner.head.config == head.config
    assert all(torch.equal(refiner.head.state_dict()[name], tensor) for name, tensor in head.state_dict().items())
    assert dflash.read_config(tmp_path).target_layer_ids == DRAFTER.taps


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
        ({"sample_from_anchor": True}, ["shift", "is true", "this refiner is fill-in", "sample_from_anchor=false"]),
        ({"sample_from_anchor": None}, ["shift", "absent", "Qwen3DSparkModel"]),
    ],
)
def test_a_head_that_does_not_align_is_refused_with_both_sides(
    change: dict[str, Any], words: list[str], tmp_path: Path
) -> None:
    write(tmp_path, CONFIG | change)
    told = refused(tmp_path)
    assert all(word in told for word in words)


def test_the_drafter_of_a_deepspec_config_that_names_no_layout_is_refused_too(tmp_path: Path) -> None:
    write(tmp_path, {key: value for key, value in CONFIG.items() if key != "sample_from_anchor"})
    with pytest.raises(MisfitError, match="shift"):
        dflash.read_config(tmp_path)


@pytest.mark.parametrize("kind", ["gated", "rnn", "other"])
def test_a_head_of_another_type_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    write(tmp_path, CONFIG | {"markov_head_type": kind})
    told = refused(tmp_path, UsageError)
    assert f"markov_head_type is {kind!r}" in told
    assert "--refiner none" in told


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
        ({"params": {"depth": 1}}, "knows no refiner.params, got depth"),
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


# What the command line names -> the parts of a run

OTHER = TargetSettings("owner/target")


def test_one_folder_gives_the_drafter_and_its_head_and_leaves_the_output_alone(tmp_path: Path) -> None:
    named = parts.resolve_drafter(DrafterSettings(write(tmp_path)), OTHER)
    refined = parts.resolve_refiner(RefinerSettings("auto"), named, OTHER)
    assert (named.name, refined.name, refined.path) == ("dflash", "markov", str(tmp_path))
    drafter = DRAFTERS.get(named.name)(named, TARGET, None)
    refiner = REFINERS.get(refined.name)(refined, TARGET, drafter)
    ids = tiny.prompt(9)
    assert tiny.Arm(drafter, [refiner]).run(TARGET, ids, 12).ids == tiny.generated(TARGET, ids, 12)


def test_a_head_is_found_by_name_in_the_drafters_folder_or_in_its_own(tmp_path: Path) -> None:
    folder = write(tmp_path)
    inside, apart = DrafterSettings("dflash", path=folder), DrafterSettings("dflash")
    assert parts.resolve_refiner(RefinerSettings("markov"), inside, OTHER).path == folder
    assert parts.resolve_refiner(RefinerSettings("xpress"), inside, OTHER).path is None
    assert parts.resolve_refiner(RefinerSettings("markov"), apart, OTHER).path is None
    found = parts.resolve_refiner(RefinerSettings(folder), apart, OTHER)
    assert (found.name, found.path) == ("markov", folder)


def test_a_folder_without_a_head_is_refused_with_the_names_that_were_looked_for(tmp_path: Path) -> None:
    folder = write(tmp_path, tensors=released(prefix="other_head."))
    assert parts.resolve_refiner(RefinerSettings("auto"), DrafterSettings("dflash", path=folder), OTHER).name == "none"
    with pytest.raises(UsageError, match=r"xpress_head\.\* or markov_head\.\*"):
        parts.resolve_refiner(RefinerSettings(folder), DrafterSettings("dflash"), OTHER)


def test_auto_stays_xpress_beside_the_embedded_drafter() -> None:
    found = parts.resolve_refiner(RefinerSettings("auto"), DrafterSettings("dflash"), TargetSettings("embedded"))
    assert (found.name, found.path) == ("xpress", None)
