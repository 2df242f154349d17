"""DFlash drafts in several denoising steps: worked out by hand, and in the whole loop. `test_filling` has the rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tiny
import torch
from torch import Tensor
from transformers import Qwen3Config

from xpress_bench.checkpoints.dflash import BlockConfig
from xpress_bench.decode import refine
from xpress_bench.drafters import Context, Draft
from xpress_bench.drafters.block_diffusion import BlockDiffusion, ContextCache
from xpress_bench.drafters.denoising import Denoising
from xpress_bench.sampling import pick
from xpress_bench.targets.hf import HfTarget
from xpress_bench.verifiers.rules import rejection

MASK, ANCHOR = 9, 4
ROWS = 20_000


class Stub:
    """Network and target in one: ids pass through `embed`, states are logits, and `answer(call, ids)` gives them."""

    config = BlockConfig(Qwen3Config(), 8, MASK, (), None)
    layers = ()
    candidate_selector = None

    def __init__(self, answer: Callable[[int, Tensor], Tensor]) -> None:
        self.answer = answer
        self.seen: list[Tensor] = []  # the ids [b, B] of every forward

    def embed(self, ids: Tensor) -> Tensor:
        return ids[..., None]

    def __call__(self, block: Tensor, cache: ContextCache) -> Tensor:
        self.seen.append(block[..., 0])
        return self.answer(len(self.seen) - 1, block[..., 0])

    def head(self, hidden: Tensor) -> Tensor:
        return hidden


def following(calls: list[list[list[float]]]) -> Stub:
    """A stub that answers call i with the logarithms of the probabilities calls[i] [B, V]."""
    return Stub(lambda call, ids: torch.tensor([calls[call]], dtype=torch.float64).log())


def drafter_of(stub: Any, block_size: int, steps: int) -> BlockDiffusion:
    return BlockDiffusion(stub, stub, block_size, denoising=Denoising(steps))


def at_anchor(batch: int = 1, room: int = 99) -> Context:
    anchor = torch.full((batch,), ANCHOR)
    return Context([1, 2, ANCHOR], anchor, torch.full((batch,), 2), 2, room)


def peak(token: int, probability: float) -> list[float]:
    """A law over 10 ids that gives `token` its probability and the others the rest in equal parts."""
    return [probability if index == token else (1 - probability) / 9 for index in range(10)]


def stepping(target: HfTarget, block_size: int, steps: int, **options: Any) -> BlockDiffusion:
    drafter = tiny.dflash(target, block_size, **options)
    drafter.denoising = Denoising(steps)
    return drafter


# A draft by hand


def test_two_steps_by_hand() -> None:
    first = [peak(8, 0.5), peak(1, 0.4), peak(2, 0.9), peak(3, 0.6), peak(0, 0.5)]
    second = [peak(7, 0.5), peak(5, 0.4), peak(6, 1 / 2), peak(6, 1 / 3), peak(7, 0.3)]
    stub = following([first, second])

    draft = drafter_of(stub, 5, 2).propose(at_anchor(), tiny.sampling())

    assert [ids[0].tolist() for ids in stub.seen] == [[ANCHOR, MASK, MASK, MASK, MASK], [ANCHOR, MASK, 2, 3, MASK]]
    right = torch.tensor([second[0], second[1], first[2], first[3], second[4]], dtype=torch.float64).log()
    assert draft.tokens.tolist() == [[5, 2, 3, 7]]
    assert torch.equal(draft.logits[0], right[1:])
    assert torch.equal(draft.hidden[0], right)
    assert (draft.noise, draft.point_mass) == (None, True)


def test_as_many_steps_as_slots_commit_one_at_a_time_and_never_take_one_back() -> None:
    calls = [
        [peak(0, 0.5), peak(1, 0.4), peak(2, 0.9), peak(3, 0.9)],
        [peak(0, 0.5), peak(5, 0.4), peak(6, 0.99), peak(6, 0.3)],
        [peak(0, 0.5), peak(6, 0.9), peak(7, 0.99), peak(7, 0.2)],
    ]
    stub = following(calls)

    draft = drafter_of(stub, 4, 3).propose(at_anchor(), tiny.sampling())

    assert [ids[0].tolist() for ids in stub.seen] == [
        [ANCHOR, MASK, MASK, MASK],
        [ANCHOR, MASK, 2, MASK],
        [ANCHOR, 5, 2, MASK],
    ]
    assert draft.tokens.tolist() == [[5, 2, 7]]


@pytest.mark.parametrize(("room", "forwards", "drafts"), [(99, 3, 7), (4, 3, 3), (3, 2, 2), (2, 1, 1), (1, 0, 0)])
def test_a_block_cut_short_by_the_context_takes_no_more_steps_than_it_has_slots(
    room: int, forwards: int, drafts: int
) -> None:
    stub = Stub(lambda call, ids: torch.tensor(peak(call, 0.5)).log().expand(*ids.shape, 10))
    draft = drafter_of(stub, 8, 3).propose(at_anchor(room=room), tiny.sampling())
    assert (len(stub.seen), draft.tokens.shape, draft.point_mass) == (forwards, (1, drafts), True)


# One step is what it was


@torch.inference_mode()
@pytest.mark.parametrize(("temperature", "verifier"), [(0.0, "greedy"), (1.0, "coupled"), (1.0, "rejection")])
def test_one_step_is_one_forward_and_an_honest_law(temperature: float, verifier: str) -> None:
    target, context = tiny.qwen3(), at_anchor()
    drafter = tiny.dflash(target, 6)
    drafter.start(target, tiny.prompt(2), torch.ones(1, 2, 64, dtype=torch.float64))
    forwards: list[int] = []
    drafter.model.register_forward_hook(lambda *_: forwards.append(1))

    draft = drafter.propose(context, tiny.sampling(temperature, verifier))

    assert len(forwards) == drafter.denoising_steps == 1
    block = torch.tensor([[ANCHOR] + [drafter.model.config.mask_token_id] * 5])
    hidden = drafter.model(target.embed(block), drafter._cache)
    logits = target.head(hidden[:, 1:])
    noise = tiny.sampling(temperature, verifier).draft.at(3, 5, logits)
    assert torch.equal(draft.hidden, hidden)
    assert torch.equal(draft.logits, logits)
    assert torch.equal(draft.tokens, pick(logits, temperature, noise))
    assert draft.point_mass is (temperature == 0)


# Above temperature 0


@torch.inference_mode()
@pytest.mark.parametrize("verifier", ["coupled", "rejection"])
def test_a_slot_keeps_its_noise_and_its_token_through_all_steps(verifier: str) -> None:
    target = tiny.qwen3()
    drafter = stepping(target, 8, 3)
    drafter.start(target, tiny.prompt(2), torch.ones(1, 2, 64, dtype=torch.float64))
    seen: list[Tensor] = []
    embed = target.embed
    target.embed = lambda ids: seen.append(ids) or embed(ids)  # type: ignore[method-assign, func-returns-value]

    draft = drafter.propose(at_anchor(), tiny.sampling(1.0, verifier))

    assert torch.equal(draft.tokens, pick(draft.logits, 1.0, draft.noise))
    if verifier == "coupled":
        assert torch.equal(draft.noise, tiny.sampling(1.0, verifier).target.at(3, 7, draft.logits))
    shown = [ids[0, 1:] != drafter.model.config.mask_token_id for ids in seen]
    assert [int(mask.sum()) for mask in shown] == [0, 3, 5]
    assert all(torch.equal(ids[0, 1:][mask], draft.tokens[0][mask]) for ids, mask in zip(seen, shown, strict=True))
    refined = refine(draft, [tiny.xpress(target, 8, 3)], at_anchor(), tiny.sampling(1.0, verifier))
    assert draft.point_mass
    assert refined.point_mass


def test_rejection_takes_the_draft_as_certain_and_keeps_the_targets_law() -> None:
    """Slots 1 and 2 are equal; were their recorded laws believed, so would the accepted tokens be more often."""
    how = tiny.sampling(1.0, "rejection", 5)
    draft = drafter_of(Stub(second_slot_first), 3, 2).propose(at_anchor(ROWS), how)
    target = torch.tensor([0.6, 0.4, 0.0], dtype=torch.float64).log().expand(ROWS, 3, 3)

    assert second_after_first(draft, target, how) == pytest.approx([0.6, 0.6], abs=0.025)
    believed = Draft(draft.tokens, draft.logits, point_mass=False)
    assert second_after_first(believed, target, how)[0] > 0.8  # what would go wrong


def second_slot_first(call: int, ids: Tensor) -> Tensor:
    """Slot 2 draws 0 or 1 evenly and is committed first; then slot 1 repeats what it sees there."""
    laws = torch.tensor([[1, 1, 1], [1, 1, 98], [50, 50, 0.01]], dtype=torch.float64)
    logits = laws.log().expand(len(ids), 3, 3).clone()
    if call == 0:
        logits[:, 1] = 0.0  # a third each: less sure than slot 2
    else:
        logits[:, 1] = 50.0 * torch.nn.functional.one_hot(ids[:, 2].clamp_max(2), 3)
    return logits


def second_after_first(draft: Draft, target: Tensor, how: Any) -> list[float]:
    """Share of 0 among second tokens where the first draft, 0 or 1, was accepted."""
    verdict = rejection(draft, target, 0, how)
    second = torch.where(verdict.accepted > 1, draft.tokens[:, 1], verdict.next_token)
    found = [second[(verdict.accepted > 0) & (draft.tokens[:, 0] == first)] for first in (0, 1)]
    return [float((rows == 0).double().mean()) for rows in found]


# The whole loop


def an_arm(target: HfTarget, block_size: int, steps: int, passes: int | None) -> tiny.Arm:
    refiners = [] if passes is None else [tiny.xpress(target, block_size, passes, seed=block_size)]
    return tiny.Arm(stepping(target, block_size, steps, seed=block_size, taps=(0, 2, 1)), refiners)


@pytest.mark.parametrize("passes", [None, 0, 3])
@pytest.mark.parametrize("steps", [2, 3])
def test_greedy_output_is_direct_generation(steps: int, passes: int | None) -> None:
    accepted = 0
    for block_size in (4, 6, 10, 12):
        target, ids = tiny.qwen3(seed=block_size), tiny.prompt((1, 2, 5, 17)[block_size % 4], block_size)
        output = an_arm(target, block_size, steps, passes).run(target, ids, 20)
        assert output.ids == tiny.generated(target, ids, 20)
        accepted += sum(step.accepted for step in output.rounds)
    assert accepted > 10  # else only rejection was tried


@pytest.mark.parametrize("passes", [None, 3])
@pytest.mark.parametrize("steps", [2, 3])
def test_coupled_output_is_direct_sampling(steps: int, passes: int | None) -> None:
    target, ids, accepted = tiny.qwen3(), tiny.prompt(5), 0
    for seed in range(4):
        output = an_arm(target, 6, steps, passes).run(target, ids, 20, how=tiny.sampling(1.0, "coupled", seed))
        assert output.ids == tiny.plain(target, ids, 20, how=tiny.sampling(1.0, "coupled", seed)).ids
        accepted += sum(step.accepted for step in output.rounds)
    assert accepted > 0
