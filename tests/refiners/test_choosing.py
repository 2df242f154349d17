"""What `refiner.name` and `refiner.params` stand for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import rig
import tiny
import torch
from safetensors.torch import save_file

from xpress_bench.checkpoints import dflash
from xpress_bench.drafters import DRAFTERS
from xpress_bench.errors import UsageError
from xpress_bench.parts import assemble, resolve_drafter
from xpress_bench.refiners import REFINERS
from xpress_bench.refiners.choosing import choose
from xpress_bench.settings import DrafterSettings, RefinerSettings, TargetSettings

TARGET = tiny.qwen3()
DRAFTER = tiny.dflash(TARGET, 8)
OTHER = TargetSettings("owner/target")
CONFIG: dict[str, Any] = dflash.to_config(DRAFTER.model.config) | {
    "architectures": ["Qwen3DSparkModel"],
    "markov_rank": 4,
    "sample_from_anchor": False,
}
HEADS = {
    "markov_head.markov_w1.weight": (80, 4),
    "markov_head.markov_w2.weight": (80, 4),
    "confidence_head.proj.weight": (1, 36),
    "confidence_head.proj.bias": (1,),
}


def write(folder: Path, *heads: str) -> str:
    generator = torch.Generator().manual_seed(0)
    tensors = {name: tensor.float() for name, tensor in DRAFTER.model.state_dict().items()}
    tensors |= {
        name: torch.randn(shape, generator=generator)
        for name, shape in HEADS.items()
        if name.startswith(tuple(f"{head}_head" for head in heads))
    }
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    save_file(tensors, folder / "model.safetensors")
    return str(folder)


def chosen(name: str, path: str | None = None, **settings: Any) -> list[tuple[str, str | None]]:
    found = choose(RefinerSettings(name, **settings), DrafterSettings("dflash", path=path), OTHER)
    return [(one.name, one.path) for one in found]


def test_one_folder_gives_the_drafter_and_its_heads_and_leaves_the_output_alone(tmp_path: Path) -> None:
    named = resolve_drafter(DrafterSettings(write(tmp_path, "markov", "confidence")), OTHER)
    refined = choose(RefinerSettings("auto", params={"threshold": 0.5}), named, OTHER)
    assert [(one.name, one.path) for one in refined] == [("markov", str(tmp_path)), ("confidence", str(tmp_path))]
    drafter = DRAFTERS.get(named.name)(named, TARGET, None)
    refiners = [REFINERS.get(one.name)(one, TARGET, drafter) for one in refined]
    ids = tiny.prompt(9)
    assert tiny.Arm(drafter, refiners).run(TARGET, ids, 12).ids == tiny.generated(TARGET, ids, 12)


def test_the_confidence_head_works_only_if_it_is_asked_for(tmp_path: Path) -> None:
    both, one = write(tmp_path / "both", "markov", "confidence"), write(tmp_path / "one", "markov")
    assert chosen("auto", both) == [("markov", both)]
    assert chosen("markov", both) == [("markov", both)]
    for name in ("auto", "markov", both):
        assert chosen(name, both, params={"threshold": 0.5}) == [("markov", both), ("confidence", both)]
    assert chosen("markov+confidence", both) == [("markov", both), ("confidence", both)]
    with pytest.raises(
        UsageError, match=r"params.threshold is for a confidence head, and beside the markov head is none"
    ):
        chosen("auto", one, params={"threshold": 0.5})


def test_a_head_is_found_by_name_in_the_drafters_folder_or_in_its_own(tmp_path: Path) -> None:
    folder = write(tmp_path, "markov")
    assert chosen("markov", folder) == [("markov", folder)]
    assert chosen("xpress", folder) == [("xpress", None)]
    assert chosen("markov") == [("markov", None)]
    assert chosen(folder) == [("markov", folder)]
    assert chosen(f"remask+{folder}") == [("remask", None), ("markov", folder)]


def test_a_folder_without_a_head_is_refused_with_the_names_that_were_looked_for(tmp_path: Path) -> None:
    folder = write(tmp_path)
    assert chosen("auto", folder) == []
    with pytest.raises(UsageError, match=r"xpress_head\.\* or markov_head\.\*"):
        chosen(folder)


def test_auto_is_xpress_beside_the_embedded_drafter() -> None:
    embedded = TargetSettings("embedded")
    (found,) = choose(RefinerSettings("auto"), DrafterSettings("dflash"), embedded)
    assert (found.name, found.path) == ("xpress", None)
    assert choose(RefinerSettings("auto"), DrafterSettings("prompt_lookup"), embedded) == ()
    assert choose(RefinerSettings("none", params={"a": 1}), DrafterSettings("dflash"), embedded) == ()


def test_each_of_several_refiners_has_its_own_options_and_passes_are_the_heads() -> None:
    settings = RefinerSettings("remask+xpress", passes=4, params={"remask": {"rounds": 2}})
    remask, xpress = choose(settings, DrafterSettings("dflash"), OTHER)
    assert (remask.params, remask.passes) == ({"rounds": 2}, None)
    assert (xpress.params, xpress.passes) == ({}, 4)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"name": "remask+xpress", "params": {"rounds": 2}},
            "refiner.params.rounds: of the refiners remask and xpress",
        ),
        ({"name": "remask+xpress", "params": {"remask": 2}}, "refiner.params.remask: of the refiners"),
        ({"name": "remask+remask"}, "remask and remask are not all different"),
        ({"name": "remask+xpres"}, "no refiner called 'xpres'; did you mean xpress"),
        ({"name": "remask+"}, "no refiner called ''"),
    ],
)
def test_a_list_that_means_nothing_is_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        choose(RefinerSettings(**settings), DrafterSettings("dflash"), OTHER)


def test_an_arm_with_several_refiners_says_so() -> None:
    refiner = RefinerSettings("remask+xpress", passes=3, params={"remask": {"rounds": 2}})
    settings = rig.settings(target=TargetSettings("embedded"), drafter=DrafterSettings("dflash"), refiner=refiner)
    refined = assemble(settings, only="refine").arms[0]
    assert (refined.arm.refiner, refined.arm.passes) == ("remask+xpress", 5)
    assert refined.arm.checkpoints.keys() == {"drafter", "xpress"}
    assert [type(one).__name__ for one in refined.refiners] == ["Remask", "XPress"]
