"""The packed training forward must be the inference forward, block by block."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F
from transformers import Qwen3Config

from xpress_bench.drafters.block_diffusion import BlockDiffusionModel, ContextCache
from xpress_bench.train.blocks import Draw, draft_states, draw_blocks, reveal, slot_loss
from xpress_bench.train.distil import Lessons
from xpress_bench.train.drafter import (
    DrafterRecipe,
    Lesson,
    drafter_losses,
    markov_losses,
    train_blocks,
    xpress_losses,
)
from xpress_bench.train.fresh import Shape, Tables, new_drafter, new_markov, new_xpress, principal, taps_of

DOCUMENT = 60  # tokens, of which the first 20 are the prompt
ANCHORS = 6  # a row
NARROW = Draw(rows=2, length=128, anchors=2 * ANCHORS, wide=0.0, long=0.0, revealed=0.0)
WIDE = replace(NARROW, wide=1.0)
RECIPE = DrafterRecipe(minutes=0.001, draw=NARROW)


@pytest.fixture
def lessons() -> Lessons:
    torch.manual_seed(0)
    index = torch.arange(20 * DOCUMENT)
    return Lessons(
        ids=torch.randint(4, 256, index.shape),
        positions=index % DOCUMENT,
        documents=index // DOCUMENT,
        is_answer=index % DOCUMENT >= 20,
        features=torch.randn(len(index), 5 * 32),
        final=torch.randn(len(index), 32),
        taps=torch.tensor(taps_of(16)),
    )


@pytest.fixture
def drafter() -> BlockDiffusionModel:
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
    return new_drafter(target, Shape(rank=4, mlp_hidden=8), mask_token_id=3)


@pytest.fixture
def tables() -> Tables:
    return Tables(torch.randn(256, 32), torch.randn(256, 32))


@pytest.mark.parametrize("draw", [NARROW, WIDE, replace(NARROW, revealed=1.0), replace(NARROW, long=1.0)])
def test_a_packed_block_equals_the_same_block_drafted_alone(
    lessons: Lessons, drafter: BlockDiffusionModel, tables: Tables, draw: Draw
) -> None:
    blocks = draw_blocks(lessons, draw, torch.Generator().manual_seed(3))
    packed = draft_states(drafter, tables.embed, blocks)
    _, anchors, slots = blocks.tokens.shape
    compared = 0
    for anchor in range(anchors):
        context = blocks.features.shape[1]
        seen = blocks.mask[0, 0, anchor * slots, :context].nonzero()[:, 0]
        if len(seen) == 0 or blocks.context_positions[0, seen[0]] != 0:
            continue  # the row starts inside this document: alone, the drafter would see more
        cache = ContextCache(len(drafter.layers))
        drafter.append(blocks.features[:1, seen], cache)
        ids = torch.where(blocks.shown[0, anchor], blocks.tokens[0, anchor], drafter.config.mask_token_id)
        alone = drafter(F.embedding(ids[None], tables.embed), cache)
        torch.testing.assert_close(packed[anchor], alone[0], atol=1e-5, rtol=1e-5)
        compared += 1
    assert compared >= 2


def test_a_block_never_sees_its_anchor_or_another_document(lessons: Lessons) -> None:
    blocks = draw_blocks(lessons, NARROW, torch.Generator().manual_seed(4))
    positions = blocks.positions.unflatten(1, (ANCHORS, 8))
    for row in range(2):
        for anchor in range(ANCHORS):
            seen = blocks.mask[row, 0, anchor * 8, : NARROW.length]
            assert (blocks.context_positions[row][seen] < positions[row, anchor, 0]).all()
            assert seen.sum() <= positions[row, anchor, 0]


def test_slots_behind_the_end_of_an_answer_weigh_nothing(lessons: Lessons) -> None:
    blocks = draw_blocks(lessons, WIDE, torch.Generator().manual_seed(5))
    positions = blocks.positions.unflatten(1, (ANCHORS, 16))[..., 1:]
    assert (blocks.weights[positions >= DOCUMENT] == 0).all()
    first = blocks.weights[..., 0]
    assert set(first.unique().tolist()) <= {0.0, 1.0}


def test_the_anchor_is_always_shown_and_a_shown_slot_weighs_nothing(lessons: Lessons) -> None:
    blocks = draw_blocks(lessons, replace(NARROW, revealed=1.0), torch.Generator().manual_seed(7))
    assert blocks.shown[..., 0].all()
    assert blocks.shown[..., 1:].any()
    assert not blocks.shown[..., 1:].all()
    assert (blocks.weights[blocks.shown[..., 1:]] == 0).all()


def test_the_share_of_revealed_blocks_and_of_slots_in_them() -> None:
    shown = reveal((1, 40_000, 8), 0.25, torch.Generator().manual_seed(8))[..., 1:]
    # A block shows nothing if it is not chosen, or by chance: the mean of (1 - u)^7 over u is 1 / 8.
    assert shown.any(-1).float().mean().item() == pytest.approx(0.25 * (1 - 1 / 8), abs=0.01)
    assert shown.float().mean().item() == pytest.approx(0.25 / 2, abs=0.01)


def test_a_long_draw_has_the_same_tokens_and_blocks_in_one_row(lessons: Lessons) -> None:
    blocks = draw_blocks(lessons, replace(NARROW, long=1.0), torch.Generator().manual_seed(9))
    assert blocks.tokens.shape == (1, 2 * ANCHORS, 8)
    assert blocks.features.shape[:2] == (1, 256)


def test_slot_loss_is_zero_for_a_certain_and_right_draft() -> None:
    logits = torch.tensor([[50.0, 0.0, 0.0], [0.0, 50.0, 0.0]])
    law = logits.softmax(-1)
    loss = slot_loss(logits, torch.tensor([0, 1]), law, torch.ones(2), ce=1.0, l1=1.0)
    assert loss.item() == pytest.approx(0.0, abs=1e-6)


def test_slot_loss_adds_cross_entropy_and_twice_the_total_variation() -> None:
    logits = torch.zeros(1, 2)  # law (1/2, 1/2) against (1, 0): L1 distance 1, cross-entropy ln 2
    loss = slot_loss(logits, torch.tensor([0]), torch.tensor([[1.0, 0.0]]), torch.ones(1), ce=0.1, l1=0.9)
    assert loss.item() == pytest.approx(0.1 * 0.693147 + 0.9, abs=1e-5)


def test_all_parts_reach_drafter_and_head(lessons: Lessons, drafter: BlockDiffusionModel, tables: Tables) -> None:
    head = new_xpress(drafter, Shape(rank=4, mlp_hidden=8), tables)
    blocks = draw_blocks(lessons, NARROW, torch.Generator().manual_seed(6))
    xpress_losses(head, RECIPE)(Lesson(drafter, tables, blocks, RECIPE), 0.0, slot_loss)["sum"].backward()
    weights = [*drafter.named_parameters(), *head.named_parameters()]
    silent = [name for name, weight in weights if weight.grad is None or not weight.grad.any()]
    assert silent == []


def test_a_head_that_corrects_nothing_has_the_drafters_own_loss(
    lessons: Lessons, drafter: BlockDiffusionModel, tables: Tables
) -> None:
    blocks = draw_blocks(lessons, NARROW, torch.Generator().manual_seed(6))
    lesson = Lesson(drafter, tables, blocks, RECIPE)
    own = drafter_losses(lesson, 0.0)["sum"].item()
    head = new_markov(drafter, Shape(rank=4), tables)
    torch.nn.init.zeros_(head.markov_w2.weight)
    assert markov_losses(head)(lesson, 0.0, slot_loss)["sum"].item() == pytest.approx(own, rel=1e-6)
    xpress = new_xpress(drafter, Shape(rank=4, mlp_hidden=8), tables)
    torch.nn.init.zeros_(xpress.w2.weight)
    parts = xpress_losses(xpress, replace(RECIPE, rounds_weight=0.5, base_weight=(2.0, 4.0)))(lesson, 0.5, slot_loss)
    assert parts["sum"].item() == pytest.approx(own * (1 + 0.5 + 3.0), rel=1e-6)  # forced, rounds, base half-way


def test_previous_tokens_are_the_one_before_the_anchor_the_anchor_and_the_blocks(
    lessons: Lessons, drafter: BlockDiffusionModel, tables: Tables
) -> None:
    blocks = draw_blocks(lessons, NARROW, torch.Generator().manual_seed(6))
    lesson = Lesson(drafter, tables, blocks, RECIPE)
    current = torch.arange(7).expand(2 * ANCHORS, 7)
    found = lesson.previous(current)
    assert found[:, 2:].tolist() == [list(range(6))] * (2 * ANCHORS)
    assert torch.equal(found[:, 1], blocks.tokens[..., 0].flatten())
    assert torch.equal(found[:, 0], blocks.previous.flatten())


def test_a_frozen_drafter_does_not_move_while_its_markov_head_learns(
    lessons: Lessons, drafter: BlockDiffusionModel, tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    drafter.requires_grad_(False)
    head = new_markov(drafter, Shape(rank=4), tables)
    before = [weight.detach().to(torch.bfloat16).clone() for weight in drafter.parameters()]
    table = head.markov_w2.weight.detach().clone()
    train_blocks(drafter, head, markov_losses(head), tables, lessons, RECIPE, tmp_path)
    for old, new in zip(before, drafter.parameters(), strict=True):
        assert torch.equal(old, new.to(torch.bfloat16))
    assert not torch.equal(table, head.markov_w2.weight.float())


@pytest.mark.parametrize(
    ("layers", "taps"),
    [(16, (1, 4, 7, 10, 13)), (8, (1, 3, 5)), (36, (1, 9, 17, 25, 33)), (4, (1,)), (2, (1,)), (1, (0,))],
)
def test_taps_are_spread_as_in_public_checkpoints(layers: int, taps: tuple[int, ...]) -> None:
    assert taps_of(layers) == taps


def test_a_head_begins_with_the_targets_tables() -> None:
    """All directions kept: inner products of tokens are the table's. Some kept: those of the largest variance."""
    table = torch.randn(50, 6, generator=torch.Generator().manual_seed(1)) * torch.tensor([9.0, 5, 4, 3, 2, 1])
    drawn = torch.randn(50, 8, generator=torch.Generator().manual_seed(2))
    wide = principal(table, drawn)
    centred = table - table.mean(0)
    torch.testing.assert_close(wide[:, :6] @ wide[:, :6].t(), centred @ centred.t(), atol=1e-3, rtol=1e-4)
    assert torch.equal(wide[:, 6:], drawn[:, 6:])
    variances = torch.linalg.eigvalsh(torch.cov(table.t())).flip(0)  # an independent way to the same
    torch.testing.assert_close(principal(table, drawn[:, :2]).var(0), variances[:2], atol=1e-3, rtol=1e-4)
