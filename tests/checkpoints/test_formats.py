"""The public formats of the DFlash family: what a folder is taken for, and that what is written comes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from safetensors.torch import save_file
from torch import Tensor

from xpress_bench.checkpoints import deepspec, dflash, speculators
from xpress_bench.checkpoints.dflash import BlockConfig, read_config
from xpress_bench.checkpoints.formats import Checkpoint, recognise
from xpress_bench.drafters.block_diffusion import BlockDiffusion, load
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.parts import resolve_drafter
from xpress_bench.settings import DrafterSettings, TargetSettings

TARGET = tiny.qwen3()
KEPT = torch.arange(3, 80, 2)  # ids of a reduced vocabulary
VERIFIER = ("Qwen/Qwen3-8B", ["Qwen3ForCausalLM"])
# As speculators 0.9.0 writes it (methods.md 2.2), for a drafter of two layers of the tiny target; what has the default
# of its class is left out.
SPECULATORS: dict[str, Any] = {
    "architectures": ["DFlashSpeculator"],
    "aux_hidden_state_layer_ids": [1, 2],
    "block_size": 6,
    "draft_vocab_size": 80,
    "mask_token_id": 79,
    "sample_from_anchor": False,
    "sliding_window_non_causal": False,
    "speculators_config": {
        "algorithm": "dflash",
        "default_proposal_method": "greedy",
        "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 5}],
        "verifier": {"architectures": ["Qwen3ForCausalLM"], "name_or_path": "Qwen/Qwen3-8B"},
    },
    "speculators_model_type": "dflash",
    "target_hidden_size": None,
    "transformer_layer_config": {
        "head_dim": 8,
        "hidden_size": 32,
        "intermediate_size": 48,
        "model_type": "qwen3",
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "num_key_value_heads": 2,
        "rope_parameters": {"rope_theta": 100.0, "rope_type": "default"},
        "vocab_size": 80,
    },
}


def write(folder: Path, config: dict[str, Any], tensors: dict[str, Tensor] | None = None) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    if tensors is not None:
        save_file(tensors, folder / "model.safetensors")
    return folder


def drafter(**options: Any) -> BlockDiffusion:
    return tiny.dflash(TARGET, 6, **options)


def opened(folder: Path) -> BlockDiffusion:
    return load(DrafterSettings("dflash", path=str(folder)), TARGET, None)


def refused(folder: Path, kind: type[UsageError] = MisfitError) -> str:
    return tiny.refused(lambda: opened(folder), folder, kind)


# recognising


@pytest.mark.parametrize(
    ("body", "right"),
    [
        ({"architectures": ["DFlashDraftModel"]}, ("dflash", "DFlashDraftModel", "z-lab", "fill_in")),
        ({"architectures": ["DFlash2DraftModel"]}, ("dflash2", "DFlash2DraftModel", "z-lab", "fill_in")),
        ({"architectures": ["Qwen3XPressModel"]}, ("dflash", "Qwen3XPressModel", "uiuc", "fill_in")),
        ({"architectures": ["Qwen3XPressForCausalLM"]}, ("dflash", "Qwen3XPressForCausalLM", "uiuc", "fill_in")),
        ({"architectures": ["Qwen3DSparkModel"]}, ("dflash", "Qwen3DSparkModel", "deepspec", "shift")),
        (
            {"architectures": ["Qwen3DSparkModel"], "sample_from_anchor": False},
            ("dflash", "Qwen3DSparkModel", "uiuc", "fill_in"),
        ),
        ({"architectures": ["Qwen3ForCausalLM"]}, ("draft_model", "Qwen3ForCausalLM", "transformers", None)),
        ({"speculators_model_type": "dflash"}, ("dflash", "dflash", "speculators", "fill_in")),
        (
            {"speculators_model_type": "dflash", "sample_from_anchor": True},
            ("dflash", "dflash", "speculators", "shift"),
        ),
        ({"speculators_model_type": "dspark"}, ("dflash", "dspark", "speculators", "shift")),
        (
            {"speculators_model_type": "dspark", "sample_from_anchor": False},
            ("dflash", "dspark", "speculators", "fill_in"),
        ),
        ({"speculators_model_type": "xpress"}, ("dflash", "xpress", "speculators", "fill_in")),
        ({"speculators_model_type": "dflash2"}, ("dflash2", "dflash2", "speculators", "fill_in")),
    ],
)
def test_a_config_says_what_a_folder_holds(body: dict[str, Any], right: tuple[Any, ...], tmp_path: Path) -> None:
    if "speculators_model_type" in body:
        body = {key: value for key, value in SPECULATORS.items() if key != "sample_from_anchor"} | body
    write(tmp_path, body)  # no weights
    assert recognise(tmp_path) == Checkpoint(*right)
    assert resolve_drafter(DrafterSettings(str(tmp_path)), TargetSettings("embedded")).name == right[0]


@pytest.mark.parametrize(
    ("names", "kind", "layout"),
    [
        (["fc.weight", "hidden_norm.weight", "xpress_head.w1.weight"], "Qwen3XPressModel", "fill_in"),
        (["fc.weight", "hidden_norm.weight", "markov_head.markov_w1.weight"], "Qwen3DSparkModel", "shift"),
        (["fc.weight", "hidden_norm.weight", "confidence_head.proj.weight"], "Qwen3DSparkModel", "shift"),
        (["hidden_norm.weight", "candidate_selector.successor_codebook"], "DFlash2DraftModel", "fill_in"),
        (["fc.weight", "hidden_norm.weight"], "DFlashDraftModel", "fill_in"),
    ],
)
def test_without_an_architecture_the_names_of_the_tensors_decide(
    names: list[str], kind: str, layout: str, tmp_path: Path
) -> None:
    write(tmp_path, {}, {name: torch.zeros(1) for name in names})
    found = recognise(tmp_path)
    assert (found.kind, found.layout) == (kind, layout)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"architectures": ["MuseGlimmerAssistantModel"]}, "architecture 'MuseGlimmerAssistantModel' is no drafter"),
        ({}, "architecture 'none named' is no drafter this version reads; known: DFlashDraftModel,"),
        ({"speculators_model_type": "peagle"}, "'peagle', and dflash, dspark, xpress, dflash2 are read"),
        ({"speculators_model_type": ["dflash"]}, "speculators_model_type is ['dflash']"),
        (SPECULATORS | {"aux_hidden_state_layer_ids": None}, "aux_hidden_state_layer_ids is None"),
        (SPECULATORS | {"aux_hidden_state_layer_ids": [-1]}, "aux_hidden_state_layer_ids is [-1]"),
        (SPECULATORS | {"transformer_layer_config": []}, "transformer_layer_config is []"),
        (SPECULATORS | {"transformer_layer_config": {"model_type": "no"}}, "model_type is 'no', no model"),
        (SPECULATORS | {"transformer_layer_config": {"model_type": []}}, "model_type is []"),
        (SPECULATORS | {"sliding_window_non_causal": 1}, "sliding_window_non_causal is 1"),
        (SPECULATORS | {"sample_from_anchor": "no"}, "sample_from_anchor is 'no'"),
        (SPECULATORS | {"target_hidden_size": 64}, "target_hidden_size"),
    ],
)
def test_what_is_not_read_is_refused_in_one_line(body: dict[str, Any], words: str, tmp_path: Path) -> None:
    write(tmp_path, body, {"model.norm.weight": torch.zeros(1)})
    assert words in tiny.refused(lambda: recognise(tmp_path), tmp_path, UsageError)


# speculators


def test_the_taps_of_speculators_count_the_embeddings(tmp_path: Path) -> None:
    write(tmp_path, SPECULATORS | {"aux_hidden_state_layer_ids": [0, 1, 2]})
    config = read_config(tmp_path)
    assert config.target_layer_ids == (-1, 0, 1)
    assert (config.block_size, config.mask_token_id, config.layout, config.draft_vocab_size) == (6, 79, "fill_in", None)
    assert config.qwen3.rope_parameters["rope_theta"] == 100.0


def test_what_a_speculators_config_leaves_out_is_the_default_of_its_class(tmp_path: Path) -> None:
    left_out = ("block_size", "draft_vocab_size", "sample_from_anchor", "sliding_window_non_causal")
    body = {key: value for key, value in SPECULATORS.items() if key not in left_out}
    write(tmp_path, body | {"transformer_layer_config": {"num_hidden_layers": 1}})
    config = read_config(tmp_path)
    assert (config.block_size, config.draft_vocab_size, config.layout) == (8, 32000, "fill_in")
    shape = config.qwen3
    assert (shape.hidden_size, shape.head_dim, shape.vocab_size, shape.num_hidden_layers) == (4096, 128, 151936, 1)
    assert shape.layer_types == ["full_attention"]
    assert shape.rope_parameters["rope_theta"] == 10000.0


@pytest.mark.parametrize("last", [2, 3])
def test_only_zlab_reads_the_last_layer_behind_the_final_norm(last: int, tmp_path: Path) -> None:
    """The tiny target has layers 0..2; transformers gives the output of layer 2 behind the norm only."""
    write(tmp_path, SPECULATORS | {"aux_hidden_state_layer_ids": [1, last]}, drafter().model.state_dict())
    if last == 2:
        assert opened(tmp_path).taps == (0, 1)
    else:
        assert "taps layer 2, but of target 'tiny' a speculators drafter can read layers 0..1" in refused(tmp_path)


# writing and reading


CONFIGS: dict[str, dict[str, Any]] = {
    "z-lab": {},
    "z-lab, sliding": {"shape": tiny.SLIDING},
    "z-lab, causal": {"is_causal": True},
    "z-lab, not causal": {"is_causal": False, "shape": tiny.SLIDING},
    "z-lab, options": {"input_embedding_scale": 1.5, "output_multiplier": 0.7, "final_logit_softcapping": 2.0},
    "z-lab, dflash2": {"dflash2": tiny.DFLASH2},
    "deepspec": {"layout": "shift", "format": "deepspec"},
    "speculators": {"is_causal": False},
    "speculators, shift": {"is_causal": True, "layout": "shift"},
    "speculators, sliding": {"is_causal": True, "shape": tiny.SLIDING},
    "speculators, reduced": {"is_causal": False, "draft_vocab_size": len(KEPT)},
    "speculators, dflash2": {"is_causal": False, "dflash2": tiny.DFLASH2},
}


def body_of(config: BlockConfig, kind: str) -> dict[str, Any]:
    if kind.startswith("speculators"):
        return speculators.to_config(config, *VERIFIER)
    return deepspec.to_config(config) if kind == "deepspec" else dflash.to_config(config)


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_config_that_is_written_comes_back(kind: str, tmp_path: Path) -> None:
    options = dict(CONFIGS[kind])
    if kind.startswith("speculators"):
        options["format"] = "speculators"
    config = tiny.block_config(TARGET, 6, **options)
    back = read_config(write(tmp_path, body_of(config, kind)))
    for name in set(BlockConfig.__slots__) - {"qwen3", "num_target_layers"}:
        assert getattr(back, name) == getattr(config, name), name
    assert [back.sight(layer) for layer in (0, 1)] == [config.sight(layer) for layer in (0, 1)]
    ours, theirs = config.qwen3.to_dict(), back.qwen3.to_dict()
    assert {key for key in ours if ours[key] != theirs.get(key)} <= {"pad_token_id"}


@pytest.mark.parametrize("is_causal", [True, False])
def test_what_speculators_says_of_sliding_layers_means_nothing_without_any(is_causal: bool, tmp_path: Path) -> None:
    config = tiny.block_config(TARGET, format="speculators", is_causal=is_causal)
    back = read_config(write(tmp_path, dflash.to_config(config)))
    assert back.sight(0) == dflash.Sight(None, causal=False, from_anchor=False)


def test_a_whole_vocabulary_may_be_named_as_the_drafters(tmp_path: Path) -> None:
    body = dflash.to_config(tiny.block_config(TARGET)) | {"draft_vocab_size": 80}
    assert read_config(write(tmp_path, body)).draft_vocab_size is None


@pytest.mark.parametrize(
    ("writer", "options", "words"),
    [
        ("z-lab", {"layout": "shift"}, "z-lab format knows neither the shift layout"),
        ("z-lab", {"draft_vocab_size": 10}, "nor a reduced vocabulary"),
        ("z-lab", {"format": "speculators", "shape": tiny.SLIDING}, "sliding window"),
        ("deepspec", {}, "only the shift layout"),
        ("deepspec", {"layout": "shift", "is_causal": True}, "no options"),
        ("deepspec", {"layout": "shift", "shape": tiny.SLIDING}, "full attention"),
        ("speculators", {"output_multiplier": 2.0}, "no scale"),
        ("speculators", {"final_logit_softcapping": 2.0}, "final_logit_softcapping"),
        ("speculators", {"shape": tiny.SLIDING}, "sliding window"),
        ("speculators", {"is_causal": True}, "sliding window"),
    ],
)
def test_what_a_format_cannot_say_is_not_written(writer: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(MisfitError, match=words):
        body_of(tiny.block_config(TARGET, **options), writer)


# tables of the drafter's own


def tables(**changes: Tensor) -> dict[str, Tensor]:
    """The target's tables under the names that DeepSpec and speculators store copies by."""
    weights = TARGET.model.state_dict()
    own = {"embed_tokens.weight": weights["model.embed_tokens.weight"], "lm_head.weight": weights["lm_head.weight"]}
    return {name: tensor.clone() for name, tensor in (own | changes).items()}


def deepspec_folder(folder: Path, more: dict[str, Tensor]) -> BlockDiffusion:
    model = drafter(layout="shift", format="deepspec").model
    return opened(write(folder, deepspec.to_config(model.config), model.state_dict() | more))


def test_copies_of_the_targets_tables_are_dropped(tmp_path: Path) -> None:
    found = deepspec_folder(tmp_path, tables()).vocabulary
    assert (found.table, found.head) == (None, None)


@torch.inference_mode()
def test_tables_that_differ_are_used(tmp_path: Path) -> None:
    changed = tables()
    changed["embed_tokens.weight"][79, 3] += 1e-9
    changed["lm_head.weight"] *= 2
    own = deepspec_folder(tmp_path, changed)
    assert torch.equal(own.vocabulary.table, changed["embed_tokens.weight"])
    borrowing = drafter(layout="shift")
    for each in (own, borrowing):
        each.start(TARGET, tiny.prompt(5), torch.ones(1, 5, 64, dtype=torch.float64))
    anchor, tokens = torch.tensor([1]), torch.tensor([[2, 3]])  # no mask: rows that are the same in both tables
    torch.testing.assert_close(own.predict(anchor, tokens)[1], 2 * borrowing.predict(anchor, tokens)[1])
    ids = tiny.prompt(9)
    assert tiny.Arm(own).run(TARGET, ids, 20).ids == tiny.generated(TARGET, ids, 20)


@pytest.mark.parametrize(
    ("name", "tensor", "words"),
    [
        ("embed_tokens.weight", torch.zeros(80, 16), "embed_tokens.weight has shape (80, 16)"),
        ("lm_head.weight", torch.full((80, 32), torch.nan), "lm_head.weight is not finite"),
    ],
)
def test_tables_that_cannot_be_meant_are_refused(name: str, tensor: Tensor, words: str, tmp_path: Path) -> None:
    model = drafter(layout="shift", format="deepspec").model
    write(tmp_path, deepspec.to_config(model.config), model.state_dict() | tables(**{name: tensor}))
    assert words in refused(tmp_path)


def reduced_folder(folder: Path, **changes: Tensor | None) -> Path:
    model = drafter(format="speculators", is_causal=False, draft_vocab_size=len(KEPT)).model
    present = torch.zeros(80, dtype=torch.bool)
    present[KEPT] = True
    head = TARGET.model.state_dict()["lm_head.weight"][KEPT]
    own = {"lm_head.weight": head, "d2t": KEPT - torch.arange(len(KEPT)), "t2d": present} | changes
    tensors = model.state_dict() | {name: tensor for name, tensor in own.items() if tensor is not None}
    return write(folder, speculators.to_config(model.config, *VERIFIER), tensors)


@torch.inference_mode()
def test_logits_of_a_reduced_vocabulary_stand_at_the_targets_ids(tmp_path: Path) -> None:
    reduced, whole = opened(reduced_folder(tmp_path)), drafter()
    for each in (reduced, whole):
        each.start(TARGET, tiny.prompt(5), torch.ones(1, 5, 64, dtype=torch.float64))
    found, all_of_them = (each.predict(torch.tensor([1]), torch.tensor([[79, 79]]))[1] for each in (reduced, whole))
    torch.testing.assert_close(found[..., KEPT], all_of_them[..., KEPT])
    rest = [token for token in range(80) if token not in KEPT.tolist()]
    assert (found[..., rest] == -torch.inf).all()


@pytest.mark.parametrize("block_size", [2, 8])
def test_a_reduced_vocabulary_changes_no_output(block_size: int, tmp_path: Path) -> None:
    """Greedy and coupled; under `rejection` ids outside it come from the residual alone, and every id is seen."""
    reduced = load(DrafterSettings("dflash", path=str(reduced_folder(tmp_path))), TARGET, block_size)
    ids = tiny.prompt(9)
    assert tiny.Arm(reduced).run(TARGET, ids, 30).ids == tiny.generated(TARGET, ids, 30)
    how = [tiny.sampling(1.0, "coupled", 3) for _ in range(2)]
    assert tiny.Arm(reduced).run(TARGET, ids, 30, how=how[0]).ids == tiny.plain(TARGET, ids, 30, how=how[1]).ids
    drawn = tiny.Arm(reduced).run(TARGET, ids, 60, how=tiny.sampling(2.0, "rejection", 3)).ids
    assert set(drawn) - set(KEPT.tolist())
    assert set(drawn) & set(KEPT.tolist())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"d2t": None}, "needs d2t for each of the 39 rows"),
        ({"d2t": torch.zeros(38, dtype=torch.long)}, "needs d2t for each of the 39 rows"),
        ({"d2t": KEPT}, "do not give each row an id of its own below 80"),  # ids, where offsets belong
        ({"d2t": -torch.arange(39)}, "do not give each row an id of its own"),  # all to id 0
        ({"t2d": torch.ones(80, dtype=torch.bool)}, "do not give each row"),
        ({"lm_head.weight": None}, "no lm_head.weight for it"),
    ],
)
def test_maps_of_a_reduced_vocabulary_that_do_not_agree_are_refused(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    reduced_folder(tmp_path, **changes)
    assert words in refused(tmp_path)
