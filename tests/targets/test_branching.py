"""Trees in real models: every row as if its path alone had been verified, and a cache that holds one path only."""

from __future__ import annotations

from typing import Any

import pytest
import tiny
import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, MistralConfig, MistralForCausalLM

from xpress_bench.errors import MisfitError
from xpress_bench.targets import verifying_trees
from xpress_bench.targets.hf import HfTarget
from xpress_bench.targets.toy import MarkovTarget, ScriptedTarget
from xpress_bench.trees import Tree

WINDOW = 8
PARENTS = [0, 0, 1, 1, 2, 5, 3, 6]
TREE = Tree(torch.tensor(PARENTS), levels=4)
PATHS = [torch.nonzero(row)[:, 0] for row in TREE.reach]


def gemma3() -> HfTarget:
    kinds = ["sliding_attention", "full_attention"] * 2
    shape = tiny.SHAPE | {"sliding_window": WINDOW, "layer_types": kinds}
    return tiny.as_target(Gemma3ForCausalLM(Gemma3TextConfig(**shape, num_hidden_layers=4, vocab_size=tiny.VOCAB)), 0)


def mistral() -> HfTarget:
    """Every layer has the window."""
    shape = tiny.SHAPE | {"sliding_window": WINDOW, "num_hidden_layers": 2, "vocab_size": tiny.VOCAB}
    return tiny.as_target(MistralForCausalLM(MistralConfig(**shape)), 0)


def eager() -> HfTarget:
    target = tiny.qwen3()
    target.model.set_attn_implementation("eager")
    return target


MODELS = [(tiny.qwen3, 1e-10), (tiny.llama, 1e-10), (gemma3, 1e-10), (mistral, 1e-10)]
MODELS += [(eager, 1e-5)]  # its softmax is in float32 whatever the model is in


def rows() -> torch.Tensor:
    return tiny.prompt(1 + len(PARENTS), seed=4)


@torch.inference_mode()
@pytest.mark.parametrize(("make", "atol"), MODELS)
@pytest.mark.parametrize("length", [1, 4, WINDOW - 1, WINDOW, 23])  # below, at and beyond the window
def test_every_row_of_a_tree_has_the_logits_of_its_path_alone(make: Any, atol: float, length: int) -> None:
    target, ids = make(), tiny.prompt(length)
    target.prefill(ids, ())
    found = target.verify_tree(rows(), TREE, ())
    for row, path in enumerate(PATHS):
        target.prefill(ids, ())
        alone = target.verify(rows()[:, path], ())
        torch.testing.assert_close(found[:, row], alone[:, -1], rtol=0, atol=atol)


@torch.inference_mode()
@pytest.mark.parametrize(("make", "atol"), MODELS)
@pytest.mark.parametrize("length", [1, 4, WINDOW - 1, 23])
@pytest.mark.parametrize("path", [[0], [0, 1, 3], [0, 2, 5, 6]])
def test_what_is_kept_is_the_path_as_if_it_alone_had_been_verified(
    make: Any, atol: float, length: int, path: list[int]
) -> None:
    """Two trees in a row, so that the second stands on what the first left."""
    target, ids, after = make(), tiny.prompt(length), tiny.prompt(2, seed=5)
    target.prefill(ids, ())
    for _ in range(2):
        target.verify_tree(rows(), TREE, (0, 1))
        features = target.commit_path(torch.tensor(path))
    found = target.verify(after, ())
    kept = rows()[:, path]
    whole = torch.cat([ids, kept, kept, after], dim=1)
    right, all_features = target.prefill(whole, (0, 1))
    torch.testing.assert_close(found[:, -1:], right, rtol=0, atol=atol)
    end = length + 2 * len(path)
    torch.testing.assert_close(features, all_features[:, end - len(path) : end], rtol=0, atol=atol)


@torch.inference_mode()
def test_a_kernel_without_free_masks_is_refused_in_one_line() -> None:
    target = tiny.qwen3()
    target.prefill(tiny.prompt(4), ())
    target.model.config._attn_implementation = "flash_attention_2"
    with pytest.raises(MisfitError, match=r"'flash_attention_2' takes no mask of a tree; use target\.attn") as caught:
        target.verify_tree(rows(), TREE, ())
    assert "\n" not in str(caught.value)


def test_a_target_that_verifies_chains_only_is_refused_in_one_line() -> None:
    class Chains:
        name = "own"

    with pytest.raises(MisfitError, match=r"target 'own' verifies chains, no trees; use candidates.merge=best"):
        verifying_trees(Chains())  # type: ignore[arg-type]


def test_the_toy_target_answers_every_row_by_its_own_path_and_keeps_one() -> None:
    target = MarkovTarget(torch.eye(9, dtype=torch.float64) + 0.1)
    target.prefill(torch.tensor([[0]]), ())
    ids = torch.tensor([[1, 2, 3, 4, 5, 6, 7, 8, 0]])
    assert target.verify_tree(ids, TREE, ())[0].argmax(-1).tolist() == ids[0].tolist()
    target.commit_path(torch.tensor([0, 1, 3]))
    assert target.cached == 4
    scripted = ScriptedTarget([5, 6, 7, 8], prompt_length=1)
    scripted.prefill(torch.tensor([[0]]), ())
    # The anchor is the first of the script, so the answer is by depth alone.
    answers = scripted.verify_tree(ids, TREE, ())[0].argmax(-1)
    assert answers.tolist() == [[6, 7, 8, 0, 0][depth] for depth in TREE.depths]
