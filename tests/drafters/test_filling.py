"""Filling a masked block through diffusers' scheduler: worked out by hand, step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import tiny
import torch
from torch import Tensor

from xpress_bench.drafters import Draft
from xpress_bench.drafters.denoising import Denoising
from xpress_bench.errors import UsageError
from xpress_bench.sampling import Sampling
from xpress_bench.verifiers.rules import rejection

MASK, V = 9, 10
ROWS = 20_000


def peak(token: int, probability: float) -> list[float]:
    """A law over 10 ids that gives `token` its probability and the others the rest in equal parts."""
    return [probability if index == token else (1 - probability) / 9 for index in range(V)]


class Model:
    """Answers call i with the logarithms of the laws calls[i] [N, V]; its states count the calls. Notes what it saw."""

    def __init__(self, calls: Sequence[list[list[float]]]) -> None:
        self.calls = calls
        self.seen: list[list[int]] = []

    def __call__(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        call = len(self.seen)
        self.seen.append(tokens[0].tolist())
        hidden = torch.full((1, tokens.shape[1] + 1, 1), float(call))
        return hidden, torch.tensor([self.calls[call]], dtype=torch.float64).log()


def filled(model: Callable[[Tensor], Any], slots: int, how: Sampling | None = None, **options: Any) -> Draft:
    masks = torch.full((1, slots), MASK)
    return Denoising(**options).fill(model, masks, MASK, 2, how or tiny.sampling())


FIRST = [peak(1, 0.4), peak(2, 0.9), peak(3, 0.6), peak(0, 0.5)]
SECOND = [peak(5, 0.4), peak(6, 1 / 2), peak(6, 1 / 3), peak(7, 0.3)]


def test_two_steps_by_hand() -> None:
    """This is also what goes wrong without the scheduler's shares: then no mask is ever filled."""
    model = Model([FIRST, SECOND])
    draft = filled(model, 4, steps=2)
    assert model.seen == [[MASK] * 4, [MASK, 2, 3, MASK]]
    assert draft.tokens.tolist() == [[5, 2, 3, 7]]
    right = torch.tensor([SECOND[0], FIRST[1], FIRST[2], SECOND[3]], dtype=torch.float64).log()
    assert torch.equal(draft.logits[0], right)
    assert draft.hidden[0, :, 0].tolist() == [1, 1, 0, 0, 1]  # the anchor's row is the last step's
    assert (draft.noise, draft.point_mass) == (None, True)


@pytest.mark.parametrize(
    ("slots", "steps", "shares"),
    [(7, 2, [4, 3]), (7, 3, [3, 2, 2]), (8, 4, [2, 2, 2, 2]), (7, 7, [1] * 7), (2, 5, [1, 1]), (1, 3, [1])],
)
def test_shares_are_even_and_the_rest_goes_to_the_first_steps(slots: int, steps: int, shares: list[int]) -> None:
    model = Model([[peak(slot, 0.9 - slot / 100) for slot in range(slots)]] * steps)
    draft = filled(model, slots, steps=steps)
    masks = [tokens.count(MASK) for tokens in model.seen]
    assert masks == [sum(shares[step:]) for step in range(len(shares))]
    assert draft.tokens.tolist() == [list(range(slots))]


def test_a_committed_slot_keeps_its_token_without_editing() -> None:
    calls = [
        [peak(1, 0.4), peak(2, 0.9), peak(3, 0.9)],
        [peak(5, 0.4), peak(6, 0.99), peak(6, 0.3)],
        [peak(6, 0.9), peak(7, 0.99), peak(7, 0.2)],
    ]
    model = Model(calls)
    assert filled(model, 3, steps=3).tokens.tolist() == [[5, 2, 7]]
    assert model.seen == [[MASK] * 3, [MASK, 2, MASK], [5, 2, MASK]]


def test_all_slots_above_the_threshold_are_committed_and_filling_ends_early() -> None:
    model = Model([FIRST, SECOND])
    assert filled(model, 4, steps=4, threshold=0.45).tokens.tolist() == [[5, 2, 3, 0]]
    assert model.seen == [[MASK] * 4, [MASK, 2, 3, 0]]  # three above 0.45; the last one is the second step's share
    assert filled(Model([FIRST]), 4, steps=4, threshold=0.3).tokens.tolist() == [[1, 2, 3, 0]]  # in one


def test_at_a_threshold_of_one_only_the_shares_count() -> None:
    model = Model([[peak(slot, 1.0) for slot in range(3)]] * 3)
    assert filled(model, 3, steps=3).tokens.tolist() == [[0, 1, 2]]
    assert [tokens.count(MASK) for tokens in model.seen] == [3, 2, 1]


def test_a_later_step_edits_what_it_is_surer_of() -> None:
    calls = [
        [peak(1, 0.4), peak(2, 0.9), peak(3, 0.6)],
        [peak(5, 0.8), peak(6, 0.95), peak(3, 0.6)],  # the middle slot changes
        [peak(5, 0.5), peak(8, 0.85), peak(7, 0.9)],  # 0.85 is not enough
    ]
    model = Model(calls)
    draft = filled(model, 3, steps=3, editing_threshold=0.895)
    assert model.seen == [[MASK] * 3, [MASK, 2, MASK], [5, 6, MASK]]
    assert draft.tokens.tolist() == [[5, 6, 7]]
    right = torch.tensor([calls[1][0], calls[1][1], calls[2][2]], dtype=torch.float64).log()
    assert torch.equal(draft.logits[0], right)


def test_editing_goes_on_until_a_step_changes_nothing() -> None:
    sure = [peak(1, 0.9), peak(2, 0.9)]
    edited = [peak(1, 0.9), peak(4, 0.95)]
    model = Model([sure, edited, edited, edited])
    draft = filled(model, 2, steps=2, threshold=0.5, editing_threshold=0.9)
    assert (len(model.seen), draft.tokens.tolist()) == (2, [[1, 4]])  # no more than the steps
    model = Model([[peak(slot, 0.9) for slot in range(4)], *[[peak(slot, 0.95) for slot in range(4)]] * 3])
    assert filled(model, 4, steps=4, threshold=0.5, editing_threshold=0.9).tokens.tolist() == [[0, 1, 2, 3]]
    assert len(model.seen) == 2  # the second changes nothing


def test_mask_is_never_drafted_in_steps() -> None:
    """The scheduler would take one that was predicted for a slot still open."""
    unsure = [0.3 if token == 7 else 0.6 if token == MASK else 0.0125 for token in range(V)]
    model = Model([[unsure, peak(3, 0.4)], [unsure, peak(6, 0.4)]])
    assert filled(model, 2, steps=2).tokens.tolist() == [[7, 6]]
    assert model.seen[1] == [7, MASK]  # 0.3 of the 0.4 that are left is more than 0.4


@pytest.mark.parametrize("verifier", ["coupled", "rejection"])
def test_a_slot_keeps_its_noise_through_all_steps(verifier: str) -> None:
    how, again = tiny.sampling(0.7, verifier), tiny.sampling(0.7, verifier)
    model = Model([FIRST, SECOND, FIRST])
    draft = filled(model, 4, how, steps=3)
    noise = again.draft.at(3, 4, draft.logits)
    assert torch.equal(draft.noise, noise)
    perturbed = draft.logits / 0.7 + noise
    perturbed[..., MASK] = -torch.inf
    assert draft.tokens.tolist() == perturbed.argmax(-1).tolist()
    first = torch.tensor(FIRST, dtype=torch.float64).log() / 0.7 + noise[0]
    first[:, MASK] = -torch.inf
    sure = first.softmax(-1).amax(-1).topk(2).indices.sort().values.tolist()  # 4 slots in 3 steps: 2, 1, 1
    assert [slot for slot, token in enumerate(model.seen[1]) if token != MASK] == sure
    assert draft.point_mass


@pytest.mark.parametrize(("temperature", "verifier"), [(0.0, "greedy"), (1.0, "coupled"), (1.0, "rejection")])
def test_one_step_is_one_forward_and_an_honest_law(temperature: float, verifier: str) -> None:
    model, how = Model([FIRST]), tiny.sampling(temperature, verifier)
    draft = filled(model, 4, how)
    right = torch.tensor([FIRST], dtype=torch.float64).log()
    noise = tiny.sampling(temperature, verifier).draft.at(3, 4, right)
    assert len(model.seen) == 1
    assert torch.equal(draft.logits, right)
    assert draft.tokens.tolist() == (right / (temperature or 1) + (0 if noise is None else noise)).argmax(-1).tolist()
    assert draft.point_mass is (temperature == 0)


def test_rejection_takes_steps_as_certain_and_keeps_the_targets_law() -> None:
    """Slots 1 and 2 are equal; were their recorded laws believed, so would the accepted tokens be more often."""
    calls: list[Tensor] = []

    def repeating(tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Slot 2 draws 0 or 1 evenly and is committed first; then slot 1 repeats what it sees there."""
        calls.append(tokens)
        logits = torch.tensor([[0.0, 0, 0, 0], [20, 20, 0, 0]], dtype=torch.float64).expand(len(tokens), 2, 4).clone()
        if len(calls) > 1:
            logits[:, 0] = 50.0 * torch.nn.functional.one_hot(tokens[:, 1], 4)
        return torch.zeros(len(tokens), 3, 1), logits

    how = tiny.sampling(1.0, "rejection", 5)
    draft = Denoising(steps=2).fill(repeating, torch.full((ROWS, 2), 3), 3, 0, how)
    target = torch.tensor([0.6, 0.4, 0.0, 0.0], dtype=torch.float64).log().expand(ROWS, 3, 4)
    assert second_after_first(draft, target, how) == pytest.approx([0.6, 0.6], abs=0.025)
    believed = Draft(draft.tokens, draft.logits, point_mass=False)
    assert second_after_first(believed, target, how)[0] > 0.8  # what would go wrong


def second_after_first(draft: Draft, target: Tensor, how: Sampling) -> list[float]:
    """Share of 0 among second tokens where the first draft, 0 or 1, was accepted."""
    verdict = rejection(draft, target, 0, how)
    second = torch.where(verdict.accepted > 1, draft.tokens[:, 1], verdict.next_token)
    found = [second[(verdict.accepted > 0) & (draft.tokens[:, 0] == first)] for first in (0, 1)]
    return [float((rows == 0).double().mean()) for rows in found]


def test_more_steps_than_slots_are_refused() -> None:
    Denoising(3).check(3)
    with pytest.raises(UsageError, match=r"denoising_steps is 4: a block has 3 to fill; choose 1\.\.3"):
        Denoising(4).check(3)
    with pytest.raises(UsageError, match=r"choose 1$"):
        Denoising(2).check(1)
