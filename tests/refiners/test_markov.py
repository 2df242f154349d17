"""The Markov head against values worked out by hand, a plain loop in numpy, and a chain that it can hold exactly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from scipy.stats import chisquare
from torch import Tensor

from xpress_bench.checkpoints.markov import MarkovConfig
from xpress_bench.decode import Output
from xpress_bench.drafters import Context, Draft
from xpress_bench.drafters.toy import MarginalDrafter
from xpress_bench.errors import MisfitError
from xpress_bench.refiners.markov import Markov, MarkovHead
from xpress_bench.targets.hf import HfTarget
from xpress_bench.targets.toy import MarkovTarget

ANCHOR = 1


def context(anchor: Tensor | None = None) -> Context:
    anchor = torch.tensor([ANCHOR]) if anchor is None else anchor
    return Context([0, ANCHOR], anchor, torch.zeros_like(anchor), 3, 99)


def held(w1: Tensor, w2: Tensor) -> MarkovHead:
    """A head with the tables W1 [V, r] and W2 [V, r]."""
    head = MarkovHead(MarkovConfig(*w1.shape, hidden_size=2)).double()
    head.load_state_dict({"markov_w1.weight": w1, "markov_w2.weight": w2})
    return head.requires_grad_(False)


def random_head(vocab: int, seed: int, rank: int = 4) -> MarkovHead:
    head: MarkovHead = tiny.enlivened(MarkovHead(MarkovConfig(vocab, rank, tiny.HIDDEN)), seed)
    return head.requires_grad_(False)


def by_hand() -> MarkovHead:
    """V = 3 and r = 1: the bias after 0 is [1, 0, 2], after 1 [2, 0, 4], after 2 [-1, 0, -2]."""
    return held(torch.tensor([[1.0], [2.0], [-1.0]]), torch.tensor([[1.0], [0.0], [2.0]]))


BASE = torch.tensor([[[0.0, 1.0, 0.0], [0.0, 2.0, 1.0], [1.0, 0.0, -4.0]]], dtype=torch.float64)


def test_the_bias_of_a_head_worked_out_by_hand() -> None:
    previous = torch.tensor([[0, 1], [2, 0]])
    right = [[[1, 0, 2], [2, 0, 4]], [[-1, 0, -2], [1, 0, 2]]]
    assert by_hand().bias(previous).tolist() == right


def test_a_greedy_walk_worked_out_by_hand() -> None:
    """Anchor 1: [0,1,0] + [2,0,4] picks 2; [0,2,1] + [-1,0,-2] picks 1; [1,0,-4] + [2,0,4] picks 0."""
    draft = Draft(BASE.argmax(-1), BASE)
    found = Markov(by_hand()).refine(draft, context(), tiny.sampling())
    assert found.tokens.tolist() == [[2, 1, 0]]
    assert found.logits is not None
    assert found.logits.tolist() == [[[2, 1, 4], [-1, 2, -1], [3, 0, 0]]]
    assert draft.tokens.tolist() == [[1, 1, 0]]  # the drafter's own, left as they were


def test_a_sampled_walk_worked_out_by_hand() -> None:
    """At T = 0.5 scores are 2 * logits + noise: [9,2,8] picks 0; 2 * ([0,2,1] + [1,0,2]) + noise = [2,4,3] picks 1;
    2 * [3,0,0] + [0,7,0] picks 1."""
    noise = torch.tensor([[[5.0, 0, 0], [0, 0, -3], [0, 7, 0]]], dtype=torch.float64)
    draft = Draft(torch.zeros(1, 3, dtype=torch.long), BASE, noise=noise, point_mass=False)

    found = Markov(by_hand()).refine(draft, context(), tiny.sampling(0.5, "rejection"))

    assert found.tokens.tolist() == [[0, 1, 1]]
    assert found.logits is not None
    assert found.logits.tolist() == [[[2, 1, 4], [1, 2, 3], [3, 0, 0]]]
    assert found.noise is noise
    assert not found.point_mass


def plain_loop(head: MarkovHead, draft: Draft, temperature: float) -> tuple[list[int], Any]:
    """Tokens and logits [N, V] of the walk, in numpy."""
    w1, w2 = head.markov_w1.weight.numpy(), head.markov_w2.weight.numpy()
    previous, tokens, rows = ANCHOR, [], []
    for slot, base in enumerate(draft.logits[0].numpy()):
        rows.append(base + w2 @ w1[previous])
        scores = rows[-1] if draft.noise is None else rows[-1] / temperature + draft.noise[0, slot].numpy()
        previous = int(scores.argmax())
        tokens.append(previous)
    return tokens, np.array(rows)


def a_draft(slots: int, seed: int, noisy: bool, vocab: int = 12) -> Draft:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(1, slots, vocab, generator=generator, dtype=torch.float64)
    noise = 2 * torch.randn(1, slots, vocab, generator=generator, dtype=torch.float64) if noisy else None
    picked = logits if noise is None else logits / 0.7 + noise
    return Draft(picked.argmax(-1), logits, noise=noise, point_mass=noise is None)


@pytest.mark.parametrize("noisy", [False, True])
def test_the_walk_equals_a_plain_loop_on_100_heads(noisy: bool) -> None:
    how, changed = tiny.sampling(0.7, "coupled") if noisy else tiny.sampling(), 0
    for seed in range(100):
        head, draft = random_head(12, seed), a_draft(1 + seed % 15, seed, noisy)
        tokens, logits = plain_loop(head, draft, 0.7)
        found = Markov(head).refine(draft, context(), how)
        assert found.tokens[0].tolist() == tokens
        np.testing.assert_allclose(found.logits[0].numpy(), logits, rtol=0, atol=1e-12)
        changed += tokens != draft.tokens[0].tolist()
    assert changed > 70


def test_a_slot_depends_on_the_anchor_and_on_nothing_behind_it() -> None:
    head, draft = random_head(12, 0), a_draft(6, 0, noisy=False)
    right = Markov(head).refine(draft, context(), tiny.sampling())
    other = replace(draft, tokens=draft.tokens.flip(-1), logits=draft.logits.clone())
    other.logits[:, 4:] = 0
    found = Markov(head).refine(other, context(), tiny.sampling())
    assert torch.equal(found.logits[:, :4], right.logits[:, :4])
    moved = Markov(head).refine(draft, context(torch.tensor([2])), tiny.sampling())
    assert not torch.equal(moved.logits[:, 0], right.logits[:, 0])


def test_teacher_forced_bias_is_the_walks() -> None:
    """What training computes for all slots at once is what the walk adds slot by slot, in every row of a batch."""
    head, anchor = random_head(12, 3), torch.tensor([4, 9])
    logits = torch.cat([a_draft(5, seed, noisy=False).logits for seed in (0, 1)])
    found = Markov(head).refine(Draft(logits.argmax(-1), logits), context(anchor), tiny.sampling())
    previous = torch.cat([anchor[:, None], found.tokens[:, :-1]], dim=1)
    torch.testing.assert_close(logits + head.bias(previous), found.logits, rtol=0, atol=1e-12)


def test_the_walk_reads_nothing_on_the_host() -> None:
    """On the meta device there is nothing to read: any host read would raise."""
    with torch.device("meta"):
        head = MarkovHead(MarkovConfig(12, 4, tiny.HIDDEN))
        logits, anchor = torch.zeros(1, 7, 12), torch.zeros(1, dtype=torch.long)
    for noise, how in ((None, tiny.sampling()), (logits, tiny.sampling(1.0, "coupled"))):
        found = Markov(head).refine(Draft(logits.argmax(-1), logits, noise=noise), context(anchor), how)
        assert found.tokens.shape == (1, 7)


def test_a_draft_without_logits_is_refused() -> None:
    with pytest.raises(MisfitError, match="such as dflash"):
        Markov(by_hand()).refine(Draft(torch.tensor([[1]])), context(), tiny.sampling())


# In the decode loop, float64


def an_arm(target: HfTarget, block_size: int, seed: int) -> tiny.Arm:
    return tiny.Arm(tiny.dflash(target, block_size, seed), [Markov(random_head(target.vocab_size, seed, rank=8))])


@pytest.mark.parametrize("make", [tiny.qwen3, tiny.llama])
def test_greedy_equals_generate_at_every_block_size(make: Any) -> None:
    accepted = changed = 0
    for block_size in range(2, 17):
        target, ids = make(seed=block_size), tiny.prompt((1, 2, 5, 17)[block_size % 4], block_size)
        output = an_arm(target, block_size, seed=block_size).run(target, ids, 20)
        assert output.ids == tiny.plain(target, ids, 20).ids == tiny.generated(target, ids, 20), block_size
        accepted += sum(step.accepted for step in output.rounds)
        changed += any(step.draft != step.refined for step in output.rounds)
    assert accepted > 10  # else only rejection was tried
    assert changed > 10  # else the head did nothing


@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_coupled_gives_the_ids_of_direct_sampling(temperature: float) -> None:
    target, ids, accepted = tiny.qwen3(), tiny.prompt(5), 0
    for seed in range(4):
        output = an_arm(target, 6, seed=2).run(target, ids, 20, how=tiny.sampling(temperature, "coupled", seed))
        assert output.ids == tiny.plain(target, ids, 20, how=tiny.sampling(temperature, "coupled", seed)).ids
        accepted += sum(step.accepted for step in output.rounds)
    assert accepted > 0


# On a Markov chain

TRANSITION = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.25, 0.05, 0.7]], dtype=torch.float64)
LAW = torch.tensor([0.2, 0.2, 0.6], dtype=torch.float64)


@pytest.mark.parametrize("verifier", ["coupled", "rejection"])
def test_a_head_that_holds_the_chain_has_every_token_accepted(verifier: str) -> None:
    """W1 = 1 and W2 = (log P - log law) transposed turn the drafter's law into the target's own: q = p."""
    exact = held(torch.eye(3), (TRANSITION.log() - LAW.log()).T)
    bare, refined = (tiny.Arm(MarginalDrafter(LAW, 5), refiners) for refiners in ((), [Markov(exact)]))
    target, ids, lost = MarkovTarget(TRANSITION), torch.tensor([[1, 0]]), 0
    for seed in range(20):
        rounds = refined.run(target, ids, 12, how=tiny.sampling(1.0, verifier, seed)).rounds
        assert [step.accepted for step in rounds] == [step.offered for step in rounds]
        rounds = bare.run(target, ids, 12, how=tiny.sampling(1.0, verifier, seed)).rounds
        lost += sum(step.offered - step.accepted for step in rounds)
    assert lost > 20  # without the head


def test_rejection_keeps_the_targets_law_whatever_the_head() -> None:
    """Chi-square of the first three tokens after token 0, with a head that is wrong about the chain."""
    target, ids, requests = MarkovTarget(TRANSITION), torch.tensor([[1, 0]]), 2500
    arm = tiny.Arm(MarginalDrafter(LAW, 3), [Markov(by_hand())])

    def run(seed: int) -> Output:
        return arm.run(target, ids, 3, how=tiny.sampling(1.0, "rejection", seed))

    seen = torch.zeros(27, dtype=torch.float64)
    for seed in range(requests):
        first, second, third = run(seed).ids
        seen[9 * first + 3 * second + third] += 1
    right = torch.einsum("a,ab,bc->abc", TRANSITION[0], TRANSITION, TRANSITION).flatten()
    assert chisquare(seen.numpy(), (right * requests).numpy()).pvalue > 1e-4
