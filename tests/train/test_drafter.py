"""The packed training forward must be the inference forward, block by block."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F
from transformers import Qwen3Config

from xpress_bench.drafters.block_diffusion import ContextCache
from xpress_bench.train.distil import Lessons
from xpress_bench.train.drafter import DrafterRecipe, Drafts, draft_states, draw_blocks, losses, slot_loss
from xpress_bench.train.recipe import new_drafter

DOCUMENT = 60  # tokens, of which the first 20 are the prompt
RECIPE = DrafterRecipe(rows=2, length=128, anchors=6)


@pytest.fixture
def lessons() -> Lessons:
    torch.manual_seed(0)
    index = torch.arange(20 * DOCUMENT)
    return Lessons(
        ids=torch.randint(4, 256, index.shape),
        positions=index % DOCUMENT,
        documents=index // DOCUMENT,
        is_answer=index % DOCUMENT >= 20,
        features=torch.randn(len(index), 3 * 32),
        final=torch.randn(len(index), 32),
    )


@pytest.fixture
def drafts() -> Drafts:
    torch.manual_seed(1)
    target = Qwen3Config(
        vocab_size=256,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=16,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
    )
    return Drafts(*new_drafter(target))


def test_a_packed_block_equals_the_same_block_drafted_alone(lessons: Lessons, drafts: Drafts) -> None:
    blocks = draw_blocks(lessons, RECIPE, 8, torch.Generator().manual_seed(3))
    table = torch.randn(256, 32)
    packed = draft_states(drafts.drafter, table, blocks)
    compared = 0
    for anchor in range(RECIPE.anchors):
        seen = blocks.mask[0, 0, anchor * 8, : RECIPE.length].nonzero()[:, 0]
        if len(seen) == 0 or blocks.context_positions[0, seen[0]] != 0:
            continue  # the row starts inside this document: alone, the drafter would see more
        cache = ContextCache(len(drafts.drafter.layers))
        drafts.drafter.append(blocks.features[:1, seen], cache)
        ids = torch.full((1, 8), drafts.drafter.config.mask_token_id)
        ids[0, 0] = blocks.tokens[0, anchor, 0]
        alone = drafts.drafter(F.embedding(ids, table), cache)
        torch.testing.assert_close(packed[anchor], alone[0], atol=1e-5, rtol=1e-5)
        compared += 1
    assert compared >= 2


def test_a_block_never_sees_its_anchor_or_another_document(lessons: Lessons) -> None:
    blocks = draw_blocks(lessons, RECIPE, 8, torch.Generator().manual_seed(4))
    positions = blocks.positions.unflatten(1, (RECIPE.anchors, 8))
    for row in range(RECIPE.rows):
        for anchor in range(RECIPE.anchors):
            seen = blocks.mask[row, 0, anchor * 8, : RECIPE.length]
            assert (blocks.context_positions[row][seen] < positions[row, anchor, 0]).all()
            assert seen.sum() <= positions[row, anchor, 0]


def test_slots_behind_the_end_of_an_answer_weigh_nothing(lessons: Lessons) -> None:
    blocks = draw_blocks(lessons, RECIPE, 16, torch.Generator().manual_seed(5))
    positions = blocks.positions.unflatten(1, (RECIPE.anchors, 16))[..., 1:]
    assert (blocks.weights[positions >= DOCUMENT] == 0).all()
    first = blocks.weights[..., 0]
    assert set(first.unique().tolist()) <= {0.0, 1.0}


def test_slot_loss_is_zero_for_a_certain_and_right_draft() -> None:
    logits = torch.tensor([[50.0, 0.0, 0.0], [0.0, 50.0, 0.0]])
    law = logits.softmax(-1)
    loss = slot_loss(logits, torch.tensor([0, 1]), law, torch.ones(2), ce=1.0, l1=1.0)
    assert loss.item() == pytest.approx(0.0, abs=1e-6)


def test_slot_loss_adds_cross_entropy_and_twice_the_total_variation() -> None:
    logits = torch.zeros(1, 2)  # law (1/2, 1/2) against (1, 0): L1 distance 1, cross-entropy ln 2
    loss = slot_loss(logits, torch.tensor([0]), torch.tensor([[1.0, 0.0]]), torch.ones(1), ce=0.1, l1=0.9)
    assert loss.item() == pytest.approx(0.1 * 0.693147 + 0.9, abs=1e-5)


def test_all_parts_reach_drafter_and_head(lessons: Lessons, drafts: Drafts) -> None:
    blocks = draw_blocks(lessons, replace(RECIPE, rounds=1), 8, torch.Generator().manual_seed(6))
    losses(drafts, torch.randn(256, 32), blocks, RECIPE, progress=0.0)["sum"].backward()
    silent = [name for name, weight in drafts.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert silent == []
