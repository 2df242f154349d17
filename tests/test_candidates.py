"""Several drafts per step: which there are, what is verified of them, and that the output does not change."""

from __future__ import annotations

import heapq
import json
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import tiny
import torch
from scipy.stats import chisquare
from torch import Tensor
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode

from xpress_bench import decode
from xpress_bench.candidates import followed, merged, widened
from xpress_bench.config import settings_from
from xpress_bench.decode import Limits, Output, refine, speculative
from xpress_bench.drafters import Context, Draft
from xpress_bench.drafters.prompt_lookup import PromptLookup
from xpress_bench.drafters.toy import MarginalDrafter, ScriptedDrafter
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.records import Arm, Steps
from xpress_bench.sampling import Sampling, law, pick
from xpress_bench.settings import CandidateSettings, Settings
from xpress_bench.targets.toy import MarkovTarget, ScriptedTarget, ToyTarget
from xpress_bench.trees import Tree
from xpress_bench.verifiers import VERIFIERS
from xpress_bench.verifiers.rules import match

AT = 5  # position of the anchor
M = CandidateSettings
CHAIN = M()


def context() -> Context:
    return Context([0] * (AT + 1), torch.tensor([0]), torch.tensor([0]), AT, 99)


def random_draft(slots: int, vocab: int, how: Sampling, seed: int = 0) -> Draft:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(1, slots, vocab, generator=generator, dtype=torch.float64)
    noise = how.draft.at(AT + 1, slots, logits)
    hidden = torch.randn(1, slots + 1, 4, generator=generator, dtype=torch.float64)
    return Draft(pick(logits, how.temperature, noise), logits, hidden, noise, point_mass=noise is None)


def rows(tokens: list[list[int]], **more: Any) -> Draft:
    return Draft(torch.tensor(tokens), **more)


def paths(offered: Draft) -> list[tuple[int, ...]]:
    """The tokens along the path to every node."""
    assert offered.tree is not None
    seen = torch.cat([torch.tensor([-1]), offered.tokens[0]])
    return [tuple(seen[row].tolist()[1:]) for row in offered.tree.reach][1:]


def run(
    arm: tiny.Arm, target: Any, ids: Tensor, new: int, candidates: M, how: Sampling, stop: tuple[int, ...] = ()
) -> Output:
    verifier, limits = VERIFIERS.get(how.condition.verifier), Limits(new, frozenset(stop))
    return speculative(target, arm.drafter, arm.refiners, verifier, ids, limits, how, tiny.Ticks(), candidates)


# Which drafts there are


@pytest.mark.parametrize("settings", [CHAIN, M(nodes=4)])
def test_one_draft_stays_as_it_is(settings: M) -> None:
    how = tiny.sampling(1.0, "rejection")
    draft = random_draft(3, 5, how)
    assert widened(draft, settings, context(), how) is draft
    assert merged(draft, CHAIN, context(), how) is draft


def test_other_first_tokens_are_the_next_likeliest() -> None:
    logits = torch.tensor([[[1.0, 4.0, 3.0, 2.0], [0.0, 1.0, 2.0, 3.0]]])
    draft = Draft(torch.tensor([[1, 3]]), logits)
    found = widened(draft, M(3, "first"), context(), tiny.sampling())
    assert found.tokens.tolist() == [[1, 3], [2, 3], [3, 3]]


def test_there_are_no_more_first_tokens_than_ids() -> None:
    draft = Draft(torch.tensor([[1]]), torch.tensor([[[1.0, 4.0, 3.0]]]))
    found = widened(draft, M(9, "first"), context(), tiny.sampling())
    assert sorted(set(found.tokens.flatten().tolist())) == [0, 1, 2]


@pytest.mark.parametrize("how", [("greedy", 0.0), ("rejection", 0.7)], ids=str)
def test_any_other_token_is_set_where_the_draft_likeliest_ends(how: tuple[str, float]) -> None:
    for seed in range(20):
        draft = random_draft(4, 5, tiny.sampling(how[1], how[0], seed), seed)
        found = widened(draft, M(5, "any"), context(), tiny.sampling(how[1], how[0], seed))
        own, p = draft.tokens[0].tolist(), law(draft.logits, how[1] or 1.0)[0]
        chance = {}
        for slot, token in product(range(4), range(5)):
            if token != own[slot]:
                before = torch.stack([p[k, own[k]] for k in range(slot)]).prod() if slot else 1.0
                chance[(*own[:slot], token, *own[slot + 1 :])] = float(before * p[slot, token])
        likeliest = sorted(chance, key=chance.__getitem__, reverse=True)[:4]
        assert [tuple(row) for row in found.tokens.tolist()] == [tuple(own), *likeliest]


def test_under_shared_noise_the_next_likeliest_is_what_that_noise_leaves() -> None:
    """The k best of logits plus noise, which the target will pick with too."""
    how = tiny.sampling(1.0, "coupled", 3)
    draft = random_draft(3, 9, how)
    found = widened(draft, M(4, "first"), context(), how)
    shared = tiny.sampling(1.0, "coupled", 3).target.at(AT + 1, 3, draft.logits)
    assert found.tokens[:, 0].tolist() == (draft.logits + shared)[0, 0].topk(4).indices.tolist()


@pytest.mark.parametrize("passes", [1, 2, 5])
@pytest.mark.parametrize("how", [("greedy", 0.0), ("coupled", 1.0)], ids=str)
def test_refinement_leaves_a_token_that_was_set_and_corrects_what_follows(passes: int, how: tuple[str, float]) -> None:
    refiner = tiny.XPress(tiny.head(9, 6, hidden=4), passes)
    changed = 0
    for seed in range(10):
        sampling = tiny.sampling(how[1], how[0], seed)
        draft = random_draft(5, 9, sampling, seed)
        drafts = widened(draft, M(6, "any"), context(), sampling)
        slots = [int((row != draft.tokens[0]).nonzero()[0]) for row in drafts.tokens[1:]]
        refined = refine(drafts, [refiner], context(), sampling).tokens
        assert torch.equal(refined[:1], refine(draft, [refiner], context(), sampling).tokens)
        for row, slot in enumerate(slots, start=1):
            assert refined[row, slot] == drafts.tokens[row, slot]
            assert torch.equal(refined[row, :slot], refined[0, :slot])  # the head is causal
            changed += not torch.equal(refined[row, slot + 1 :], refined[0, slot + 1 :])
    assert changed > 10


def test_drafts_of_other_noise_are_samples_of_the_same_laws() -> None:
    how = tiny.sampling(0.8, "rejection", 1)
    draft = random_draft(2, 4, how)
    drafts = widened(draft, M(4001), context(), how)
    assert torch.equal(drafts.tokens[:1], draft.tokens)
    right = law(draft.logits, 0.8)[0] * 4000
    for slot in range(2):
        seen = drafts.tokens[1:, slot].bincount(minlength=4)
        assert chisquare(seen.numpy(), right[slot].numpy()).pvalue > 1e-4
    alone = tiny.sampling(0.8, "rejection", 1)
    random_draft(2, 4, alone)
    for stream in ("draft", "verify"):  # none of which was touched
        ours, theirs = (getattr(one, stream).at(0, 1, draft.logits) for one in (how, alone))
        assert torch.equal(ours, theirs)


def test_a_draft_without_laws_is_refused_in_one_line() -> None:
    for settings in (M(4), M(nodes=8)):
        with pytest.raises(MisfitError, match=r"this draft has none; use candidates\.count=1") as caught:
            run(tiny.Arm(PromptLookup(4)), tiny.qwen3(), torch.tensor([[1, 2, 1, 2, 1]]), 8, settings, tiny.sampling())
        assert "\n" not in str(caught.value)


# What is verified of them


def test_candidates_that_begin_alike_share_their_beginning() -> None:
    offered = merged(rows([[1, 2, 3], [1, 2, 4], [5, 2, 3], [1, 2, 3]]), M(4), context(), tiny.sampling())
    assert paths(offered) == [(1,), (1, 2), (1, 2, 3), (1, 2, 4), (5,), (5, 2), (5, 2, 3)]
    assert (offered.longest, offered.point_mass) == (3, True)
    assert offered.sources.tolist() == [0, 0, 0, 1, 2, 2, 2]


def test_the_prefix_tree_of_random_candidates_holds_every_beginning_once() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        tokens = torch.randint(0, 3, (5, 4), generator=generator)
        offered = merged(Draft(tokens), M(5), context(), tiny.sampling())
        found = paths(offered)
        assert len(found) == len(set(found))
        assert set(found) == {tuple(row[:end]) for row in tokens.tolist() for end in range(1, 5)}
        for path, source in zip(found, offered.sources.tolist(), strict=True):
            assert tuple(tokens[source, : len(path)].tolist()) == path


def best_first(logp: Tensor, nodes: int) -> list[tuple[int, ...]]:
    """DDTree as it is told: take the best path, then offer its first child and its next brother. logp [N, V]."""
    order = logp.sort(-1, descending=True)
    ranks, found = [(-float(order.values[0, 0]), (0,))], []
    while ranks and len(found) < nodes:
        score, path = heapq.heappop(ranks)
        found.append(path)
        slot, rank = len(path) - 1, path[-1]
        if rank + 1 < logp.shape[1]:
            step = float(order.values[slot, rank] - order.values[slot, rank + 1])
            heapq.heappush(ranks, (score + step, (*path[:-1], rank + 1)))
        if slot + 1 < logp.shape[0]:
            heapq.heappush(ranks, (score - float(order.values[slot + 1, 0]), (*path, 0)))
    return [tuple(int(order.indices[slot, rank]) for slot, rank in enumerate(path)) for path in found]


@pytest.mark.parametrize("how", [("greedy", 0.0), ("rejection", 1.3)], ids=str)
@pytest.mark.parametrize("nodes", [1, 2, 5, 16, 200])
def test_a_grown_tree_is_the_best_first_one(nodes: int, how: tuple[str, float]) -> None:
    for seed in range(20):
        sampling = tiny.sampling(how[1], how[0], seed)
        draft = random_draft(4, 6, sampling, seed)
        offered = merged(draft, M(nodes=nodes), context(), sampling)
        logp = law(draft.logits, how[1] or 1.0)[0].log()
        assert set(paths(offered)) == set(best_first(logp, nodes))
        assert len(paths(offered)) == offered.tokens.shape[1] == nodes
        assert (offered.longest, offered.point_mass) == (4, True)


def test_a_tree_has_no_more_nodes_than_there_are_paths() -> None:
    draft = random_draft(2, 3, tiny.sampling())
    assert len(paths(merged(draft, M(nodes=99), context(), tiny.sampling()))) == 3 + 9


def test_a_tree_around_several_candidates_goes_on_by_the_one_it_agrees_with_longest() -> None:
    tokens = torch.tensor([[0, 0, 0], [1, 2, 0], [1, 1, 1]])
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        logits = torch.randn(3, 3, 3, generator=generator, dtype=torch.float64)
        offered = merged(Draft(tokens, logits), M(3, nodes=7), context(), tiny.sampling())
        logp = logits.log_softmax(-1)
        score = {(): 0.0}
        for slots in range(3):
            for path in product(range(3), repeat=slots):
                agreed = [next((k for k, t in enumerate(path) if row[k] != t), slots) for row in tokens.tolist()]
                for token in range(3):
                    score[(*path, token)] = score[path] + float(logp[agreed.index(max(agreed)), slots, token])
        del score[()]
        assert set(paths(offered)) == set(sorted(score, key=score.__getitem__, reverse=True)[:7])
        for path, source in zip(paths(offered), offered.sources.tolist(), strict=True):
            like = [row for row in range(3) if tuple(tokens[row, : len(path)].tolist()) == path]
            assert source == (like[0] if like else -1)


def laws(*probabilities: list[list[float]]) -> Tensor:
    return torch.tensor(probabilities, dtype=torch.float64).log()


def test_best_is_the_candidate_of_highest_probability_and_slots_mixes_them() -> None:
    sure = laws([[0.6, 0.4], [0.2, 0.8]], [[0.1, 0.9], [0.5, 0.5]], [[0.7, 0.3], [0.4, 0.6]])
    drafts = rows([[0, 1], [1, 0], [0, 0]], logits=sure, point_mass=False)  # 0.48, 0.45, 0.28
    best = merged(drafts, M(3, merge="best"), context(), tiny.sampling())
    slots = merged(drafts, M(3, merge="slots"), context(), tiny.sampling())
    assert (best.tokens.tolist(), best.sources.tolist()) == ([[0, 1]], [0, 0])
    assert (slots.tokens.tolist(), slots.sources.tolist()) == ([[1, 1]], [1, 0])  # 0.9 and 0.8
    assert best.tree is slots.tree is None
    assert best.point_mass
    assert slots.point_mass


def test_what_was_followed_is_told_before_and_after_refinement() -> None:
    drafts = rows([[1, 2, 3], [1, 7, 8]])
    tree = Tree(torch.tensor([0, 1, 1, 0]), 3)
    offered = rows([[1, 4, 9, 5]], sources=torch.tensor([0, 1, -1, 0]), tree=tree)
    before, after = followed(drafts, offered, torch.tensor([0, 1, 2, -1]))
    assert (before.tolist(), after.tolist()) == ([[1, 7, -1]], [[1, 4, -1]])
    before, after = followed(drafts, offered, torch.tensor([0, 1, 3, -1]))
    assert (before.tolist(), after.tolist()) == ([[1, 9, -1]], [[1, 9, -1]])  # the tree's own token
    chain = rows([[6, 6]], sources=torch.tensor([1, 0]))
    before, after = followed(drafts, chain, None)
    assert (before.tolist(), after.tolist()) == ([[1, 2]], [[6, 6]])


# The output does not change (float64)

EVERY = [
    M(4),
    M(4, "any"),
    M(nodes=3),
    M(nodes=16),
    M(4, "any", nodes=16),
    M(4, "any", merge="best"),
    M(4, merge="slots"),
]
SOME = [M(4), M(nodes=16), M(4, "any", nodes=16)]
FAMILIES = {"qwen3": tiny.qwen3, "llama": tiny.llama}


def an_arm(target: Any, block_size: int, refined: bool) -> tiny.Arm:
    drafter = tiny.dflash(target, block_size, seed=2)
    return tiny.Arm(drafter, [tiny.xpress(target, block_size, 3)] if refined else [])


@pytest.mark.parametrize("refined", [False, True], ids=["draft", "refine"])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("block_size", [2, 4, 8, 16])
def test_greedy_is_direct_generation_token_for_token(family: str, block_size: int, refined: bool) -> None:
    target, ids = FAMILIES[family](seed=block_size), tiny.prompt(7, block_size)
    arm, right = an_arm(target, block_size, refined), tiny.plain(target, ids, 16).ids
    for candidates in EVERY:
        output = run(arm, target, ids, 16, candidates, tiny.sampling())
        assert output.ids == right, candidates
        told(output, candidates, refined)


def told(output: Output, candidates: M, refined: bool) -> None:
    """The rounds of a greedy or coupled request hold what came out."""
    at = 1
    for step in output.rounds:
        after = step.refined if refined else step.draft
        said = output.ids[at : at + len(after)]
        agree = [*(a == b for a, b in zip(after, said, strict=False)), False]
        assert step.accepted == agree.index(False)
        assert step.accepted <= step.matched <= len(after) <= step.offered
        assert len(step.draft) == len(after)
        assert step.nodes <= (candidates.nodes or candidates.count * step.offered)
        assert bool(step.nodes) == (candidates.merge == "tree" and step.offered > 0)
        at += step.committed
    assert at == len(output.ids)


@pytest.mark.parametrize("refined", [False, True], ids=["draft", "refine"])
@pytest.mark.parametrize("candidates", EVERY, ids=str)
def test_coupled_is_direct_sampling_token_for_token(candidates: M, refined: bool) -> None:
    target, ids, accepted = tiny.qwen3(), tiny.prompt(5), 0
    for seed in range(2):
        output = run(an_arm(target, 6, refined), target, ids, 16, candidates, tiny.sampling(1.0, "coupled", seed))
        assert output.ids == tiny.plain(target, ids, 16, how=tiny.sampling(1.0, "coupled", seed)).ids
        told(output, candidates, refined)
        accepted += sum(step.accepted for step in output.rounds)
    assert accepted > 0


TRANSITION = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.25, 0.05, 0.7]], dtype=torch.float64)
MARGINAL = torch.tensor([0.2, 0.2, 0.6], dtype=torch.float64)


def p_value(candidates: M, refined: bool = False, requests: int = 600) -> float:
    """Chi-square of the first three tokens after token 0 against the Markov chain's own law."""
    target, ids = MarkovTarget(TRANSITION), torch.tensor([[1, 0]])
    arm = tiny.Arm(MarginalDrafter(MARGINAL, 3), [tiny.XPress(tiny.head(3, 3, hidden=1), 2)] if refined else [])
    right = torch.einsum("a,ab,bc->abc", TRANSITION[0], TRANSITION, TRANSITION).flatten()
    seen = torch.zeros(27, dtype=torch.float64)
    for seed in range(requests):
        first, second, third = run(arm, target, ids, 3, candidates, tiny.sampling(1.0, "rejection", seed)).ids
        seen[9 * first + 3 * second + third] += 1
    return float(chisquare(seen.numpy(), (right * requests).numpy()).pvalue)


LAW = [(M(4), False), (M(3, "any"), True), (M(nodes=5), True), (M(4, merge="best"), False), (M(4, merge="slots"), True)]


@pytest.mark.parametrize(("candidates", "refined"), LAW, ids=str)
def test_rejection_keeps_the_targets_law(candidates: M, refined: bool) -> None:
    assert p_value(candidates, refined) > 1e-4


def test_a_choice_that_kept_the_law_of_its_draft_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def honest(drafts: Draft, *rest: Any) -> Draft:
        chosen = merged(drafts, *rest)
        if chosen.sources is None:
            return chosen
        own = drafts.logits[chosen.sources, torch.arange(chosen.longest)][None]
        return replace(chosen, logits=own, point_mass=False)

    monkeypatch.setattr(decode, "merged", honest)
    assert p_value(M(6, merge="best")) < 1e-6


@pytest.mark.parametrize("refined", [False, True], ids=["draft", "refine"])
@pytest.mark.parametrize(("temperature", "verifier"), [(0.0, "greedy"), (1.0, "coupled")])
@pytest.mark.parametrize("source", ["noise", "any"])
def test_more_candidates_accept_no_fewer_tokens(temperature: float, verifier: str, refined: bool, source: str) -> None:
    target, steps = tiny.qwen3(), {1: 0, 4: 0}
    arm = an_arm(target, 6, refined)
    for seed, count in product(range(3), steps):
        how = tiny.sampling(temperature, verifier, seed)
        steps[count] += len(run(arm, target, tiny.prompt(6, seed), 20, M(count, source), how).rounds)
    assert steps[4] <= steps[1]
    if source == "any":
        assert steps[4] < steps[1]


# Stop ids and limits inside trees (C01, C14)

PROMPT = torch.tensor([[40, 41, 42]])
STOP = 2


class Certain(ScriptedDrafter):
    """A drafter that is right about the whole chain, and has laws that say so."""

    def propose(self, context: Context, sampling: Sampling) -> Draft:
        draft = super().propose(context, sampling)
        logits = torch.nn.functional.one_hot(draft.tokens, 128).double() * 5
        return replace(draft, logits=logits)


def scripted(chain: list[int], block_size: int) -> tuple[ToyTarget, tiny.Arm]:
    return ScriptedTarget(chain, 3), tiny.Arm(Certain(tiny.after(3, chain), block_size))


@pytest.mark.parametrize("candidates", SOME, ids=str)
@pytest.mark.parametrize("index", range(5))
def test_c01_a_stop_id_on_a_path_ends_output_and_counts_there(index: int, candidates: M) -> None:
    chain = [10, 11, 12, 13, 14, 15, 16]
    chain[1 + index] = STOP
    target, arm = scripted(chain, 6)
    output = run(arm, target, PROMPT, 50, candidates, tiny.sampling(), (STOP,))
    assert output.ids == chain[: index + 2]
    assert output.stop_reason == "eos"
    step = output.rounds[0]
    assert (step.offered, step.accepted, step.committed, step.matched) == (5, index + 1, index + 1, 5)


@pytest.mark.parametrize("candidates", SOME, ids=str)
@pytest.mark.parametrize("new", range(1, 8))
def test_c14_no_path_goes_beyond_the_limit(new: int, candidates: M) -> None:
    chain = [10, 11, 12, 13, 14, 15, 16, 17, 18]
    target, arm = scripted(chain, 4)
    output = run(arm, target, PROMPT, new, candidates, tiny.sampling())
    assert output.ids == chain[:new]
    assert 1 + sum(step.committed for step in output.rounds) == new
    left = new - 1
    for step in output.rounds:
        assert step.offered == min(3, left - 1)
        left -= step.committed
    assert target.deepest_position < 3 + new


def test_no_position_at_or_beyond_the_context_is_asked_for() -> None:
    target = tiny.qwen3(max_position_embeddings=64)
    ids, deepest = tiny.prompt(60), [0]
    target.model.model.rotary_emb.register_forward_pre_hook(
        lambda _, args, named: deepest.append(int((*args[1:], *named.values())[0].max())), with_kwargs=True
    )
    for candidates in SOME:
        output = run(an_arm(target, 4, refined=False), target, ids, 4, candidates, tiny.sampling())
        assert output.ids == tiny.plain(target, ids, 4).ids
    assert max(deepest) < 64


# Settings and records


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"count": 0}, "candidates.count is 0"),
        ({"count": 2.5}, "candidates.count is 2.5"),
        ({"nodes": 0}, "candidates.nodes is 0"),
        ({"source": "luck"}, "candidates.source 'luck': choose one of noise, first, any"),
        ({"merge": "all"}, "candidates.merge 'all': choose one of tree, best, slots"),
        ({"nodes": 4, "merge": "best"}, "only a tree has nodes"),
    ],
)
def test_a_wrong_setting_is_named(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        M(**wrong)
    assert told in str(caught.value)


def test_overrides_set_the_group_and_change_the_hash_of_a_run() -> None:
    plain = settings_from({}, [])
    four = settings_from({}, ["candidates.count=4", "candidates.source=any", "candidates.nodes=16"])
    assert (plain.candidates, four.candidates) == (CHAIN, M(4, "any", nodes=16))
    assert Settings.from_json(four.to_json()) == four
    assert four.sha256() != plain.sha256()


def test_settings_and_records_from_before_candidates_are_those_of_one_draft() -> None:
    plain = settings_from({}, [])
    body = json.loads(plain.to_json())
    del body["candidates"]
    assert Settings.from_json(json.dumps(body)) == plain
    assert Steps((2,), (1,), (2,)).nodes == ()
    arm = Arm("draft", "dflash", None, 8, 1, None)
    assert arm.candidates is arm.nodes is None


@pytest.mark.parametrize(
    "candidates", [CHAIN, M(4, "any", nodes=16), M(4, "first", merge="best"), M(4, "any", merge="slots")], ids=str
)
def test_nothing_between_draft_and_verdict_is_read_on_the_host(candidates: M) -> None:
    """Tensors without values stand for those of a device: whoever reads one fails, as a prefix tree does."""
    with FakeTensorMode():
        how = tiny.sampling()
        draft = Draft(torch.zeros(1, 5, dtype=torch.long), torch.zeros(1, 5, 30), torch.zeros(1, 6, 4))
        offered = merged(widened(draft, candidates, context(), how), candidates, context(), how)
        verdict = match(offered, torch.zeros(1, 1 + offered.tokens.shape[1], 30), AT, how)
        before, after = followed(draft, offered, verdict.path)
        assert before.shape == after.shape
        with pytest.raises(DynamicOutputShapeException):
            merged(widened(draft, M(4), context(), how), M(4), context(), how)
