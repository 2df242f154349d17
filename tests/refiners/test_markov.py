"""The Markov head against values worked out by hand, a plain loop in numpy, and a chain that it can hold exactly."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from torch import Tensor

from xpress_bench.checkpoints.markov import KINDS, MarkovConfig
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


def random_head(vocab: int, seed: int, rank: int = 4, kind: Any = "vanilla") -> MarkovHead:
    head: MarkovHead = tiny.enlivened(MarkovHead(MarkovConfig(vocab, rank, tiny.HIDDEN, kind)), seed)
    return head.requires_grad_(False)


def by_hand() -> MarkovHead:
    """V = 3 and r = 1: the bias after 0 is [1, 0, 2], after 1 [2, 0, 4], after 2 [-1, 0, -2]."""
    return held(torch.tensor([[1.0], [2.0], [-1.0]]), torch.tensor([[1.0], [0.0], [2.0]]))


BASE = torch.tensor([[[0.0, 1.0, 0.0], [0.0, 2.0, 1.0], [1.0, 0.0, -4.0]]], dtype=torch.float64)
STATES = torch.zeros(1, 4, 2, dtype=torch.float64)  # which a vanilla head does not read


def test_the_bias_of_a_head_worked_out_by_hand() -> None:
    previous = torch.tensor([[0, 1], [2, 0]])
    right = [[[1, 0, 2], [2, 0, 4]], [[-1, 0, -2], [1, 0, 2]]]
    assert by_hand().bias(previous).tolist() == right


def test_a_greedy_walk_worked_out_by_hand() -> None:
    """Anchor 1: [0,1,0] + [2,0,4] picks 2; [0,2,1] + [-1,0,-2] picks 1; [1,0,-4] + [2,0,4] picks 0."""
    draft = Draft(BASE.argmax(-1), BASE, STATES)
    found = Markov(by_hand()).refine(draft, context(), tiny.sampling())
    assert found.tokens.tolist() == [[2, 1, 0]]
    assert found.logits is not None
    assert found.logits.tolist() == [[[2, 1, 4], [-1, 2, -1], [3, 0, 0]]]
    assert draft.tokens.tolist() == [[1, 1, 0]]  # the drafter's own, left as they were


def test_a_sampled_walk_worked_out_by_hand() -> None:
    """At T = 0.5 scores are 2 * logits + noise: [9,2,8] picks 0; 2 * ([0,2,1] + [1,0,2]) + noise = [2,4,3] picks 1;
    2 * [3,0,0] + [0,7,0] picks 1."""
    noise = torch.tensor([[[5.0, 0, 0], [0, 0, -3], [0, 7, 0]]], dtype=torch.float64)
    draft = Draft(torch.zeros(1, 3, dtype=torch.long), BASE, STATES, noise, point_mass=False)

    found = Markov(by_hand()).refine(draft, context(), tiny.sampling(0.5, "rejection"))

    assert found.tokens.tolist() == [[0, 1, 1]]
    assert found.logits is not None
    assert found.logits.tolist() == [[[2, 1, 4], [1, 2, 3], [3, 0, 0]]]
    assert found.noise is noise
    assert not found.point_mass


def small(kind: Any, name: str, rows: list[list[float]]) -> MarkovHead:
    """A head with V = 3, r = 1 and H = 1: W1 is [1], [2], [-1] and W2 [1], [0], [2]; projection `name` is `rows`."""
    head = MarkovHead(MarkovConfig(3, 1, 1, kind)).double()
    weights = {
        "markov_w1.weight": torch.tensor([[1.0], [2.0], [-1.0]]),
        "markov_w2.weight": torch.tensor([[1.0], [0.0], [2.0]]),
        f"{name}.weight": torch.tensor(rows),
        f"{name}.bias": torch.zeros(len(rows)),
    }
    head.load_state_dict(weights)
    return head.requires_grad_(False)


def walked(head: MarkovHead, states: list[float], lead: int = 0) -> Tensor:
    """What a head adds to drafts without an opinion of their own, one slot per state but for the first `lead`."""
    base = torch.zeros(1, len(states) - lead, 3, dtype=torch.float64)
    hidden = torch.tensor(states, dtype=torch.float64)[None, :, None]
    found = Markov(head).refine(Draft(base.argmax(-1), base, hidden), context(), tiny.sampling())
    assert found.logits is not None
    return found.logits[0]


def test_a_gated_walk_worked_out_by_hand() -> None:
    """The gate looks at the state alone: sigmoid(ln 3 * 1) = 3/4 of W1[1] = 2 is 1.5, and [1.5, 0, 3] picks 2; then
    sigmoid(0) = 1/2 of W1[2] = -1 is -0.5."""
    found = walked(small("gated", "gate_proj", [[math.log(3), 0]]), [1, 0])
    torch.testing.assert_close(found, torch.tensor([[1.5, 0, 3], [-0.5, 0, -1]], dtype=torch.float64))


# Over [memory; W1[prev]; state]: the gate is always 1/2, the new memory 0.6 for a state of 1, the output 1/2 for a
# memory of 0.3.
RNN = [[0, 0, 0], [0, 0, math.atanh(0.6)], [math.atanh(0.5) / 0.3, 0, 0]]


def test_an_rnn_walk_worked_out_by_hand() -> None:
    """Slot 1 has the memory 0 and says 0; it leaves 0.5 * 0 + 0.5 * 0.6 = 0.3, and slot 2 says 0.5 * [1, 0, 2]."""
    found = walked(small("rnn", "joint_proj", RNN), [1, 0])
    torch.testing.assert_close(found, torch.tensor([[0, 0, 0], [0.5, 0, 1]], dtype=torch.float64))


def test_an_rnn_head_remembers_the_anchors_slot_of_a_fill_in_block() -> None:
    found = walked(small("rnn", "joint_proj", RNN), [1, 0], lead=1)
    torch.testing.assert_close(found, torch.tensor([[0.5, 0, 1]], dtype=torch.float64))


def sigmoid(values: Any) -> Any:
    return 1 / (1 + np.exp(-values))


def plain_loop(head: MarkovHead, draft: Draft, temperature: float) -> tuple[list[int], Any]:
    """Tokens and logits [N, V] of the walk, in numpy, from the table in methods.md 3.1."""
    w = {name: tensor.numpy() for name, tensor in head.state_dict().items()}
    states, base = draft.hidden[0].numpy(), draft.logits[0].numpy()
    lead = len(states) - len(base)
    memory, previous, tokens, rows = np.zeros(head.config.rank), ANCHOR, [], []
    for place, state in enumerate(states):
        code = w["markov_w1.weight"][previous]
        if head.config.kind == "gated":
            code = code * sigmoid(w["gate_proj.weight"] @ np.concatenate([state, code]) + w["gate_proj.bias"])
        if head.config.kind == "rnn":
            joint = w["joint_proj.weight"] @ np.concatenate([memory, code, state]) + w["joint_proj.bias"]
            gate, new, out = joint.reshape(3, -1)
            memory, code = sigmoid(gate) * memory + (1 - sigmoid(gate)) * np.tanh(new), np.tanh(out)
        if place >= lead:
            rows.append(base[place - lead] + w["markov_w2.weight"] @ code)
            noise = None if draft.noise is None else draft.noise[0, place - lead].numpy()
            previous = int((rows[-1] if noise is None else rows[-1] / temperature + noise).argmax())
            tokens.append(previous)
    return tokens, np.array(rows)


def a_draft(slots: int, seed: int, noisy: bool, vocab: int = 12, lead: int = 1) -> Draft:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(1, slots, vocab, generator=generator, dtype=torch.float64)
    noise = 2 * torch.randn(1, slots, vocab, generator=generator, dtype=torch.float64) if noisy else None
    hidden = torch.randn(1, lead + slots, tiny.HIDDEN, generator=generator, dtype=torch.float64)
    picked = logits if noise is None else logits / 0.7 + noise
    return Draft(picked.argmax(-1), logits, hidden, noise, point_mass=noise is None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noisy", [False, True])
def test_the_walk_equals_a_plain_loop_on_100_heads_in_both_layouts(kind: Any, noisy: bool) -> None:
    how, changed = tiny.sampling(0.7, "coupled") if noisy else tiny.sampling(), 0
    for seed in range(100):
        head, draft = random_head(12, seed, kind=kind), a_draft(1 + seed % 15, seed, noisy, lead=seed // 50)
        tokens, logits = plain_loop(head, draft, 0.7)
        found = Markov(head).refine(draft, context(), how)
        assert found.tokens[0].tolist() == tokens
        np.testing.assert_allclose(found.logits[0].numpy(), logits, rtol=0, atol=1e-12)
        changed += tokens != draft.tokens[0].tolist()
    assert changed > 50


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
    states = torch.zeros(2, 5, tiny.HIDDEN, dtype=torch.float64)
    found = Markov(head).refine(Draft(logits.argmax(-1), logits, states), context(anchor), tiny.sampling())
    previous = torch.cat([anchor[:, None], found.tokens[:, :-1]], dim=1)
    torch.testing.assert_close(logits + head.bias(previous), found.logits, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_walk_reads_nothing_on_the_host(kind: Any) -> None:
    """On the meta device there is nothing to read: any host read would raise."""
    with torch.device("meta"):
        head = MarkovHead(MarkovConfig(12, 4, tiny.HIDDEN, kind))
        logits, anchor, states = torch.zeros(1, 7, 12), torch.zeros(1, dtype=torch.long), torch.zeros(1, 8, tiny.HIDDEN)
    for noise, how in ((None, tiny.sampling()), (logits, tiny.sampling(1.0, "coupled"))):
        found = Markov(head).refine(Draft(logits.argmax(-1), logits, states, noise), context(anchor), how)
        assert found.tokens.shape == (1, 7)


@pytest.mark.parametrize("part", ["logits", "hidden"])
def test_a_draft_without_states_or_logits_is_refused(part: str) -> None:
    parts: dict[str, Tensor] = {"logits": torch.zeros(1, 1, 3), "hidden": torch.zeros(1, 2, 2)}
    del parts[part]
    with pytest.raises(MisfitError, match="such as dflash"):
        Markov(by_hand()).refine(Draft(torch.tensor([[1]]), **parts), context(), tiny.sampling())


# In the decode loop, float64


def an_arm(target: HfTarget, block_size: int, seed: int, kind: Any = "vanilla") -> tiny.Arm:
    head = random_head(target.vocab_size, seed, rank=8, kind=kind)
    return tiny.Arm(tiny.dflash(target, block_size, seed), [Markov(head)])


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
