"""The xPress head against a slow left-to-right resolution that shares no code with it."""

from __future__ import annotations

import random

import numpy as np
import pytest
import tiny
import torch
from torch import Tensor

from xpress_bench.drafters import Context, Draft
from xpress_bench.errors import MisfitError
from xpress_bench.refiners.xpress import Mix, XPress, XPressHead

ANCHOR, PREVIOUS = 5, 7
VOCAB = 12


def context(position: int = 3) -> Context:
    return Context([PREVIOUS, ANCHOR], torch.tensor([ANCHOR]), torch.tensor([PREVIOUS]), position, 99)


def a_draft(slots: int, hidden: int, seed: int, noisy: bool = False, lead: int = 1) -> Draft:
    """Of a block whose first `lead` slots pick no token: the anchor's in the fill-in layout, none in the shift one."""
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(1, slots, hidden, generator=generator, dtype=torch.float64)
    logits = torch.randn(1, slots - lead, VOCAB, generator=generator, dtype=torch.float64)
    noise = 2 * torch.randn(1, slots - lead, VOCAB, generator=generator, dtype=torch.float64) if noisy else None
    picked = logits if noise is None else logits / 0.7 + noise
    return Draft(picked.argmax(-1), logits, states, noise, point_mass=noise is None)


def bias_by_hand(head: XPressHead, states: np.ndarray, previous: list[int], slot: int) -> np.ndarray:
    """Logit correction [V] of one slot, from the published description, in numpy."""
    w = {name: tensor.numpy() for name, tensor in head.state_dict().items()}
    summary = states.mean(axis=0)
    rows = []
    for place in range(slot + 1):  # nothing behind the slot is even computed
        token = w["w1.weight"][previous[place]]
        inputs = np.concatenate([w["down_h.weight"] @ states[place], w["down_g.weight"] @ summary, token])
        rows.append(w["in_proj.weight"] @ inputs)
    mixed = rows[slot].copy()
    for channel in range(len(mixed)):
        mixed[channel] += sum(w["mix.L"][channel, slot, place] * rows[place][channel] for place in range(slot + 1))
    gate = w["mlp.gate_proj.weight"] @ mixed
    mixed = mixed + w["mlp.down_proj.weight"] @ (gate / (1 + np.exp(-gate)) * (w["mlp.up_proj.weight"] @ mixed))
    found: np.ndarray = w["w2.weight"] @ mixed
    return found


def left_to_right(head: XPressHead, draft: Draft) -> tuple[list[int], np.ndarray]:
    """Tokens and logits when each slot is settled before the next is looked at."""
    states, base = draft.hidden[0].numpy(), draft.logits[0].numpy()
    lead = len(states) - len(base)
    previous, rows = [PREVIOUS, ANCHOR][1 - lead :], []
    for slot in range(lead, len(states)):
        logits = base[slot - lead] + bias_by_hand(head, states, previous, slot)
        rows.append(logits)
        scores = logits if draft.noise is None else logits / 0.7 + draft.noise[0, slot - lead].numpy()
        previous.append(int(scores.argmax()))
    return previous[1 + lead :], np.array(rows)


def refined(head: XPressHead, draft: Draft, passes: int) -> Draft:
    how = tiny.sampling() if draft.noise is None else tiny.sampling(0.7, "coupled")
    return XPress(head, passes).refine(draft, context(), how)


def cases(count: int) -> list[tuple[XPressHead, Draft]]:
    rng = random.Random(0)
    found = []
    for seed in range(count):
        slots = rng.randint(2, 8)
        head = tiny.head(VOCAB, 8, seed, rank=4, hidden=6)
        found.append((head, a_draft(slots, 6, seed, noisy=seed % 2 == 1, lead=int(seed % 4 < 2))))
    return found


@torch.no_grad()
def test_as_many_passes_as_tokens_equal_left_to_right_resolution_on_1000_heads_of_both_layouts() -> None:
    changed = 0
    for head, draft in cases(1000):
        tokens, logits = left_to_right(head, draft)
        found = refined(head, draft, draft.tokens.shape[1])
        assert found.tokens[0].tolist() == tokens
        np.testing.assert_allclose(found.logits[0].numpy(), logits, rtol=0, atol=1e-10)
        changed += tokens != draft.tokens[0].tolist()
    assert changed > 800


@torch.no_grad()
def test_after_m_passes_the_first_m_slots_are_settled() -> None:
    early = 0
    for head, draft in cases(40):
        right = left_to_right(head, draft)[0]
        for passes in range(len(right)):
            tokens = refined(head, draft, passes).tokens[0].tolist()
            assert tokens[:passes] == right[:passes]
            early += tokens != right
    assert early > 0  # else the passes were never needed


@torch.no_grad()
def test_no_pass_is_the_bare_drafter() -> None:
    head, draft = cases(1)[0]
    found = refined(head, draft, 0)
    assert torch.equal(found.tokens, draft.tokens)
    assert torch.equal(found.logits, draft.logits)


@torch.no_grad()
def test_stopping_early_changes_neither_tokens_nor_logits() -> None:
    for head, draft in cases(20):
        enough, many = refined(head, draft, draft.tokens.shape[1]), refined(head, draft, 50)
        assert torch.equal(enough.tokens, many.tokens)
        torch.testing.assert_close(enough.logits, many.logits, rtol=0, atol=1e-12)


@torch.no_grad()
def test_the_raw_mixer_equals_one_product_with_the_folded_one() -> None:
    mix = Mix(4, 8).double()
    mix.L.normal_(generator=torch.Generator().manual_seed(0))  # the upper triangle is noise, as a checkpoint's may be
    rows = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    folded = mix.L.numpy() * np.tril(np.ones((8, 8))) + np.eye(8)
    right = np.stack([(folded[c, :6, :6] @ rows[:, :, c].numpy().T).T for c in range(4)], axis=-1)
    np.testing.assert_allclose(mix(rows).numpy(), right, rtol=0, atol=1e-12)


@torch.no_grad()
def test_a_token_moves_no_logits_at_its_own_slot_or_before() -> None:
    head = tiny.head(VOCAB, 8, seed=3, rank=4, hidden=6)
    shared = head.block_part(torch.randn(1, 8, 6, dtype=torch.float64))
    previous = torch.arange(8)[None]
    before = head.bias(shared, previous)
    for slot in range(7):
        moved = previous.clone()
        moved[0, slot + 1] = 11  # the token of `slot` is what the next slot reads
        after = head.bias(shared, moved)
        assert torch.equal(before[:, : slot + 1], after[:, : slot + 1])
        assert not torch.equal(before[:, slot + 1], after[:, slot + 1])


@torch.no_grad()
def test_the_block_summary_includes_the_anchor_slot() -> None:
    head = tiny.head(VOCAB, 4, seed=3, rank=4, hidden=6)
    states = torch.randn(1, 4, 6, dtype=torch.float64)
    moved = states.clone()
    moved[:, 0] += 1
    assert not torch.allclose(head.block_part(states)[:, 1:], head.block_part(moved)[:, 1:])


@pytest.mark.parametrize("part", ["logits", "hidden"])
def test_a_draft_without_states_or_logits_is_refused(part: str) -> None:
    parts: dict[str, Tensor] = {"logits": torch.zeros(1, 1, VOCAB), "hidden": torch.zeros(1, 2, 6)}
    del parts[part]
    with pytest.raises(MisfitError, match="such as dflash"):
        XPress(tiny.head(VOCAB, 4, hidden=6), 1).refine(Draft(torch.tensor([[1]]), **parts), context(), tiny.sampling())
