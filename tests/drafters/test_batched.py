"""Drafters over rows of several requests: each row's block is the one that it gets alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import methods
import pytest
import tiny
import torch

from xpress_bench.checkpoints.dflash import Sight
from xpress_bench.drafters import Context, Draft, Drafter
from xpress_bench.drafters.attention import mask_of
from xpress_bench.drafters.batched import NoDrafts, RowsContext, Together, batched_drafter
from xpress_bench.drafters.denoising import Denoising
from xpress_bench.drafters.prompt_lookup import PromptLookup
from xpress_bench.drafters.suffix import Suffix
from xpress_bench.errors import MisfitError
from xpress_bench.sampling import Sampling
from xpress_bench.targets.toy import MarkovTarget

TARGET = tiny.qwen3()
ATOL = 1e-10
SIGHTS = [
    Sight(window, causal, from_anchor)
    for window in (None, 1, 3, 100)
    for causal in (False, True)
    for from_anchor in (False, True)
]


@pytest.mark.parametrize("sight", SIGHTS)
def test_a_row_of_a_block_sees_what_it_sees_alone(sight: Sight) -> None:
    """Columns [context, block, garbage]: the mask of one request, which may leave out the first, and no garbage."""
    cache, lengths, slots = RowsContext(1, 3, tiny.CPU), [2, 0, 9], 4
    cache.rows.lengths = list(lengths)
    cache.aim(range(3))
    found = cache.mask(sight, slots, tiny.CPU)
    assert found.shape == (3, 1, slots, 9 + slots)
    for row, length in enumerate(lengths):
        alone = mask_of(sight, length, slots, tiny.CPU)
        alone = torch.ones(slots, length + slots).bool() if alone is None else alone
        right = torch.zeros(slots, 9 + slots).bool()
        right[:, length + slots - alone.shape[1] : length + slots] = alone
        assert torch.equal(found[row, 0], right)


def denoised(**how: Any) -> Drafter:
    made = tiny.dflash(TARGET)
    made.denoising = Denoising(4, **how)
    return made


KINDS: dict[str, Callable[[], Drafter]] = {
    "plain": lambda: tiny.dflash(TARGET),
    "shift": lambda: tiny.dflash(TARGET, layout="shift"),
    "sliding": lambda: tiny.dflash(TARGET, shape=tiny.SLIDING),
    "not causal": lambda: tiny.dflash(TARGET, shape=tiny.SLIDING, is_causal=False),
    "causal": lambda: tiny.dflash(TARGET, is_causal=True),
    "speculators": lambda: tiny.dflash(TARGET, shape=tiny.SLIDING, format="speculators", is_causal=True),
    "dflash2": lambda: tiny.dflash(TARGET, dflash2=tiny.DFLASH2),
    "steps": denoised,
    "threshold": lambda: denoised(threshold=0.02),
    "editing": lambda: denoised(threshold=0.02, editing_threshold=0.03),
    "prompt_lookup": lambda: PromptLookup(8),
    "suffix": lambda: Suffix(8),
}


def sampling(seed: int, verifier: str) -> Sampling:
    return tiny.sampling(0.0 if verifier == "greedy" else 1.0, verifier, seed)


def context(tokens: list[int]) -> Context:
    return Context(tokens, torch.tensor(tokens[-1:]), torch.tensor(tokens[-2:-1]), len(tokens) - 1, 200)


def same(found: Draft, row: int, count: int, alone: Draft) -> None:
    assert found.tokens[row, :count].tolist() == alone.tokens[0].tolist()
    assert found.point_mass == alone.point_mass
    for part, right in ((found.logits, alone.logits), (found.hidden, alone.hidden), (found.noise, alone.noise)):
        assert (part is None) == (right is None)
        if part is not None and right is not None:
            torch.testing.assert_close(part[row, : right.shape[1]], right[0], rtol=0, atol=ATOL)


@torch.inference_mode()
@pytest.mark.parametrize("verifier", ["greedy", "coupled", "rejection"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_row_drafts_what_it_drafts_alone(kind: str, verifier: str) -> None:
    """Rows join in the middle and leave, and take in more or less at a time, short and long prompts among them."""
    rows, seeds, text = batched_drafter(KINDS[kind](), TARGET, 4), list[int](), dict[int, list[int]]()
    alone, unseen, rolls = dict[int, Drafter](), dict[int, Any](), dict[int, tuple[Sampling, Sampling]]()

    def join(seed: int, length: int) -> None:
        prompt = tiny.prompt(length, seed, vocab=6)
        seeds.append(seed)
        rows.join(prompt)
        alone[seed], text[seed] = KINDS[kind](), [*prompt[0].tolist(), 1]
        unseen[seed] = features(length, seed)
        rolls[seed] = sampling(seed, verifier), sampling(seed, verifier)
        alone[seed].start(TARGET, prompt, unseen[seed])

    def step() -> None:
        rows.observe([unseen[seed] for seed in seeds])
        together = Together([context(text[seed]) for seed in seeds], [rolls[seed][0] for seed in seeds])
        found, counts = rows.propose(together)
        for row, (seed, count) in enumerate(zip(seeds, counts, strict=True)):
            same(found, row, count, alone[seed].propose(context(text[seed]), rolls[seed][1]))
            took = 1 + (3 * seed + len(text[seed])) % 8
            text[seed] += tiny.prompt(took, seed, vocab=6)[0].tolist()
            unseen[seed] = features(took, len(text[seed]))
            alone[seed].observe(unseen[seed])

    for seed, length in enumerate([3, 30, 9]):
        join(seed, length)
    step()
    join(3, 20)
    step()
    step()
    rows.drop(1)
    seeds[1] = seeds.pop()
    join(4, 12)
    step()
    step()


def features(count: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(1, count, 2 * tiny.HIDDEN, dtype=torch.float64, generator=generator)


def test_without_a_drafter_every_block_is_empty() -> None:
    rows = batched_drafter(None, TARGET, 2)
    assert isinstance(rows, NoDrafts)
    draft, counts = rows.propose(Together([context([1, 2]), context([3, 4])], [tiny.sampling(), tiny.sampling()]))
    assert draft.tokens.shape == (2, 0)
    assert counts == [0, 0]


class Echo:
    """Drafts the first id of its prompt."""

    taps = ()
    block_size, denoising_steps = 2, 1
    batchable = True

    def start(self, target: Any, prompt: torch.Tensor, features: Any) -> None:
        self.prompt = prompt

    def propose(self, context: Context, sampling: Sampling) -> Draft:
        return Draft(self.prompt[:, :1])


def test_a_row_that_leaves_before_it_has_begun_takes_its_prompt_along() -> None:
    rows = batched_drafter(Echo(), TARGET, 3)  # type: ignore[arg-type]
    for first in (1, 2, 3):
        rows.join(torch.tensor([[first, 0]]))
    rows.drop(0)
    rows.observe([None, None])
    draft, counts = rows.propose(Together([context([1, 2])] * 2, [tiny.sampling()] * 2))
    assert draft.tokens.tolist() == [[3], [2]]
    assert counts == [1, 1]


class Own:
    """A plug-in that says nothing of rows."""

    taps = ()
    block_size, denoising_steps = 4, 1


OTHERS = [
    *(lambda name=name: methods.DRAFTERS[name](TARGET, 8) for name in ("draft_model", "eagle3", "masked_lm")),
    Own,
    lambda: Suffix(8, memory=100),
]


@pytest.mark.parametrize("make", OTHERS)
def test_a_drafter_for_one_request_is_refused_in_one_line(make: Callable[[], Any]) -> None:
    drafter = make()
    why = rf"drafter {type(drafter).__name__} drafts for one request at a time; in batches .* batch_size=1"
    with pytest.raises(MisfitError, match=why) as caught:
        batched_drafter(drafter, TARGET, 2)
    assert "\n" not in str(caught.value)


def test_a_target_without_features_is_refused_as_for_one_request() -> None:
    rows = batched_drafter(tiny.dflash(TARGET), MarkovTarget(torch.eye(2)), 2)
    rows.join(tiny.prompt(3))
    with pytest.raises(MisfitError, match="this target gave none"):
        rows.observe([None])
