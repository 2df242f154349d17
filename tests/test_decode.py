"""The loops: the same ids as one-token-at-a-time decoding, and rounds counted after stop rules."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
import tiny
import torch
from scipy.stats import chisquare
from torch import Tensor
from transformers import DynamicCache, Gemma3ForCausalLM, Gemma3TextConfig
from transformers.generation.candidate_generator import DFlashTokenCandidateGenerator

from xpress_bench.decode import Output, refine
from xpress_bench.drafters import Context, Draft
from xpress_bench.drafters.assistant import DFlashAssistant
from xpress_bench.drafters.prompt_lookup import PromptLookup
from xpress_bench.drafters.toy import MarginalDrafter, ScriptedDrafter
from xpress_bench.sampling import Sampling
from xpress_bench.targets.hf import HfTarget
from xpress_bench.targets.toy import MarkovTarget, ScriptedTarget, ToyTarget

PROMPT = torch.tensor([[40, 41, 42]])
EOS = 2


def scripted(chain: list[int], block_size: int) -> tuple[ScriptedTarget, tiny.Arm]:
    """A target with a fixed continuation of PROMPT, and a drafter that is always right."""
    return ScriptedTarget(chain, 3), tiny.Arm(ScriptedDrafter(tiny.after(3, chain), block_size))


def counts(output: Output) -> list[tuple[int, int, int]]:
    return [(step.offered, step.accepted, step.committed) for step in output.rounds]


def wrong(token: int) -> int:
    return (token + 1) % tiny.VOCAB


# Stop ids inside a block (C01)


@pytest.mark.parametrize("stop", [(EOS,), (EOS, 3)])
@pytest.mark.parametrize("index", range(5))
def test_a_stop_id_inside_a_block_ends_output_and_counts_there(index: int, stop: tuple[int, ...]) -> None:
    chain = [10, 11, 12, 13, 14, 15, 16]
    chain[1 + index] = stop[-1]
    target, arm = scripted(chain, block_size=6)

    output = arm.run(target, PROMPT, 50, stop)

    assert output.ids == chain[: index + 2] == tiny.plain(target, PROMPT, 50, stop).ids
    assert output.stop_reason == "eos"
    assert counts(output) == [(5, index + 1, index + 1)]
    assert [step.matched for step in output.rounds] == [5]  # the whole block was right, the output ends inside it


def test_a_stop_id_as_the_targets_own_token_comes_after_a_full_block() -> None:
    target, arm = scripted([10, 11, 12, 13, 14, 15, EOS, 16], block_size=6)

    output = arm.run(target, PROMPT, 50, (EOS,))

    assert output.ids == [10, 11, 12, 13, 14, 15, EOS]
    assert (output.stop_reason, counts(output)) == ("eos", [(5, 5, 6)])


def test_a_full_round_before_the_stop_keeps_its_own_count() -> None:
    target, arm = scripted([10, 20, 21, 22, 23, 24, 25, 11, 12, EOS, 13, 14, 15], block_size=6)

    output = arm.run(target, PROMPT, 50, (EOS,))

    committed = [step.committed for step in output.rounds]
    assert committed == [6, 3]
    assert sum(committed) / 2 == 4.5


# Mask ids are ordinary ids (C07)


def test_ids_equal_to_the_mask_stay_in_the_output() -> None:
    target, arm = scripted([21, 0, 22, 0, 23], block_size=4)
    assert arm.run(target, PROMPT, 5).ids == [21, 0, 22, 0, 23]


def test_a_mask_id_among_the_stop_ids_stops_nothing_by_itself() -> None:
    target, arm = scripted(list(range(20, 32)), block_size=4)

    output = arm.run(target, PROMPT, 12, (2, 0))

    assert output.ids == list(range(20, 32))
    assert output.stop_reason == "length"


def test_a_mask_id_that_the_target_emits_as_a_stop_id_stops() -> None:
    target, arm = scripted([20, 21, 22, 23, 24, 25, 0, 26, 27], block_size=4)

    output = arm.run(target, PROMPT, 12, (2, 0))

    assert (len(output.ids), output.ids[-1], output.stop_reason) == (7, 0, "eos")


def test_a_mask_left_in_a_block_is_refused_like_any_wrong_draft() -> None:
    chain = [20, 21, 22, 23, 24, 25]
    drafter = ScriptedDrafter(lambda tokens: [chain[len(tokens) - 3], 0, 0], 4)

    output = tiny.Arm(drafter).run(ScriptedTarget(chain, 3), PROMPT, 5)

    assert output.ids == chain[:5]
    assert counts(output) == [(3, 1, 2), (1, 1, 2)]


# Counting (C11, C31, C32)


def test_matches_behind_a_rejection_count_for_nothing() -> None:
    chain = [10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]
    agrees = iter([(1, 0, 1), (1, 1, 1), (0, 1, 0)])

    def script(tokens: list[int]) -> list[int]:
        right = chain[len(tokens) - 3 :]
        return [token if ok else wrong(token) for token, ok in zip(right, next(agrees), strict=False)]

    output = tiny.Arm(ScriptedDrafter(script, 4)).run(ScriptedTarget(chain, 3), PROMPT, 11, (16 + 1,))

    assert counts(output) == [(3, 1, 2), (3, 3, 4), (3, 0, 1)]
    assert output.ids == chain[:8]


def test_offered_is_what_the_target_saw_not_the_block_size() -> None:
    chain = list(range(50, 90))
    right = iter([8, 4, 8])  # how many of the eight drafts are right

    def script(tokens: list[int]) -> list[int]:
        rest, good = chain[len(tokens) - 3 :][:8], next(right)
        return [*rest[:good], *map(wrong, rest[good:])]

    output = tiny.Arm(ScriptedDrafter(script, 9)).run(ScriptedTarget(chain, 3), PROMPT, 1 + 9 + 5 + 4)

    assert [step.offered for step in output.rounds] == [8, 8, 3]
    assert [step.accepted for step in output.rounds] == [8, 4, 3]


@pytest.mark.parametrize(("chain", "new", "reason"), [([10, 11], 1, "length"), ([EOS, 11], 9, "eos")])
def test_an_output_that_the_prompt_pass_ends_has_no_round(chain: list[int], new: int, reason: str) -> None:
    target, arm = scripted(chain, block_size=4)

    output = arm.run(target, PROMPT, new, (EOS,))

    assert (output.ids, output.stop_reason, output.rounds) == (chain[:1], reason, [])
    assert target.forwards == 1


def test_ten_rejected_rounds_commit_one_token_each() -> None:
    chain = list(range(50, 70))
    drafter = ScriptedDrafter(lambda tokens: [0, 0, 0], 4)

    output = tiny.Arm(drafter).run(ScriptedTarget(chain, 3), PROMPT, 14)

    assert counts(output)[:10] == [(3, 0, 1)] * 10


def test_a_drafter_may_offer_nothing() -> None:
    chain = [10, 11, 12, 13]
    output = tiny.Arm(ScriptedDrafter(lambda tokens: [], 4)).run(ScriptedTarget(chain, 3), PROMPT, 4)
    assert (output.ids, counts(output)) == (chain, [(0, 0, 1)] * 3)


def test_stamps_of_a_round_stand_in_the_order_of_its_stages() -> None:
    target, arm = scripted([10, 11, 12, 13, 14], block_size=3)
    output = arm.run(target, PROMPT, 5)
    stamps: list[Any] = [output.started, output.prefilled, *(stamp for step in output.rounds for stamp in step.stamps)]
    assert stamps == sorted(stamps)


# Limits (C14)


@pytest.mark.parametrize("new", [1, 2, 3, 5, 6])
def test_the_limit_is_met_exactly(new: int) -> None:
    chain = [10, 11, 12, 13, 14, 15, 16, 17]
    target, arm = scripted(chain, block_size=4)

    output = arm.run(target, PROMPT, new)

    assert output.ids == chain[:new] == tiny.plain(target, PROMPT, new).ids
    assert 1 + sum(step.committed for step in output.rounds) == new


@pytest.mark.parametrize("drafter", ["dflash", "prompt_lookup"])
def test_no_position_at_or_beyond_the_context_is_asked_for(drafter: str) -> None:
    target = tiny.qwen3(max_position_embeddings=64)
    arm = tiny.Arm(tiny.dflash(target, 4) if drafter == "dflash" else PromptLookup(4))
    ids = tiny.prompt(60)
    deepest = [0]
    for model in (target.model.model, *([arm.drafter.model] if drafter == "dflash" else [])):
        rotary = model.rotary_emb if hasattr(model, "rotary_emb") else model.rotary
        rotary.register_forward_pre_hook(
            lambda _, args, named: deepest.append(int((*args[1:], *named.values())[0].max())), with_kwargs=True
        )

    output = arm.run(target, ids, 4)

    assert output.ids == tiny.plain(target, ids, 4).ids
    assert 62 <= max(deepest) < 64


def test_a_right_block_at_the_edge_of_the_context_is_cut_to_it() -> None:
    chain = [10, 11, 12, 13, 14, 15, 16]
    target = ScriptedTarget(chain, 60, context=64)
    arm = tiny.Arm(ScriptedDrafter(tiny.after(60, chain), 4))

    assert arm.run(target, tiny.prompt(60), 4).ids == chain[:4]
    assert target.deepest_position < 64


# Rollback (C26)


class Watched(ScriptedDrafter):
    """Compares the target's cache with prompt + output - 1 whenever a block is drafted."""

    def __init__(self, script: Any, block_size: int, target: HfTarget) -> None:
        super().__init__(script, block_size)
        self.target = target
        self.rounds = 0

    def propose(self, context: Context, sampling: Sampling) -> Draft:
        assert self.target.cached == len(context.tokens) - 1
        self.rounds += 1
        return super().propose(context, sampling)


def gemma3() -> HfTarget:
    shape = tiny.SHAPE | {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"] * 2}
    return tiny.as_target(Gemma3ForCausalLM(Gemma3TextConfig(**shape, num_hidden_layers=4, vocab_size=tiny.VOCAB)), 0)


def sliding_qwen3() -> HfTarget:
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    return tiny.qwen3(use_sliding_window=True, sliding_window=8, layer_types=kinds)


@pytest.mark.parametrize("make", [tiny.qwen3, sliding_qwen3, gemma3])
@pytest.mark.parametrize("pattern", [(0,), (0, 4), (4, 0, 2)])
def test_rollback_leaves_exactly_the_committed_tokens(make: Any, pattern: tuple[int, ...]) -> None:
    target, ids, new = make(), tiny.prompt(6), 20
    right = tiny.generated(target, ids, new + 8)

    def script(tokens: list[int]) -> list[int]:
        rest, good = right[len(tokens) - 6 :], pattern[drafter.rounds % len(pattern) - 1]
        return [*rest[:good], *map(wrong, rest[good:])]

    drafter = Watched(script, 5, target)
    output = tiny.Arm(drafter).run(target, ids, new)

    assert output.ids == right[:new] == tiny.plain(target, ids, new).ids
    seen = [step.accepted for step in output.rounds[:-1]]
    assert seen == [pattern[index % len(pattern)] for index in range(len(seen))]


def test_cropping_more_than_a_cache_holds_empties_it() -> None:
    cache = DynamicCache()
    cache.update(torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 3, 4), 0)
    cache.crop(-5)
    assert cache.get_seq_length() == 0


# Vocabularies of different sizes (C27)


def test_a_draft_id_beyond_the_targets_vocabulary_is_refused() -> None:
    target, ids = tiny.qwen3(vocab=96), tiny.prompt(6)
    arm = tiny.Arm(ScriptedDrafter(lambda tokens: [97, 98, 99], 4))
    output = arm.run(target, ids, 8)
    assert output.ids == tiny.generated(target, ids, 8)
    assert {step.accepted for step in output.rounds} == {0}


@pytest.mark.parametrize(("target_vocab", "drafter_vocab"), [(96, 100), (100, 96)])
@pytest.mark.parametrize("verifier", ["coupled", "rejection"])
def test_a_law_over_another_vocabulary_size_is_compared_on_the_common_ids(
    target_vocab: int, drafter_vocab: int, verifier: str
) -> None:
    target, ids = tiny.qwen3(vocab=target_vocab), tiny.prompt(6)
    law = torch.full((drafter_vocab,), 1 / drafter_vocab, dtype=torch.float64)
    output = tiny.Arm(MarginalDrafter(law, 4)).run(target, ids, 12, how=tiny.sampling(1.0, verifier))
    assert len(output.ids) == 12
    assert max(output.ids) < target_vocab
    if verifier == "coupled":
        assert output.ids == tiny.plain(target, ids, 12, how=tiny.sampling(1.0, verifier)).ids


def test_both_arms_keep_padding_rows_as_generate_does() -> None:
    target, ids = tiny.qwen3(vocab=96), tiny.prompt(6)
    with torch.no_grad():
        hidden = target.model.model(ids).last_hidden_state[0, -1]
        target.model.lm_head.weight[93] = 10 * hidden / hidden.norm()
    right = tiny.generated(target, ids, 8)
    assert right[0] == 93
    assert tiny.plain(target, ids, 8).ids == right
    assert tiny.Arm(tiny.dflash(target)).run(target, ids, 8).ids == right


# Nothing is carried from one request to the next (C29)


def test_repeats_and_order_change_nothing() -> None:
    target = tiny.qwen3()
    arm = tiny.Arm(tiny.dflash(target), [tiny.xpress(target, 8, 3)])
    prompts = {"A": tiny.prompt(9, seed=1), "B": tiny.prompt(23, seed=2)}
    rows = [0]
    target.model.register_forward_pre_hook(
        lambda model, args, named: rows.append(named["input_ids"].shape[1]), with_kwargs=True
    )

    def trace(name: str) -> tuple[list[int], list[int], int]:
        rows.clear()
        output = arm.run(target, prompts[name], 24)
        return output.ids, [step.accepted for step in output.rounds], rows[0]

    found = [(name, trace(name)) for name in "ABAABA"]

    for name in "AB":
        first, *others = [seen for key, seen in found if key == name]
        assert all(other == first for other in others)
        assert first[2] == prompts[name].shape[1]


def test_both_arms_process_the_prompt_once_per_request() -> None:
    target, arm = scripted(list(range(50, 60)), block_size=4)
    seen = []
    for run in (tiny.plain, arm.run, arm.run, tiny.plain):
        before = target.prompt_tokens_seen
        run(target, PROMPT, 6)
        seen.append(target.prompt_tokens_seen - before)
    assert seen == [3, 3, 3, 3]


# The same ids as transformers' generate (float64)

TARGETS = {"qwen3": tiny.qwen3, "llama": tiny.llama}


@pytest.mark.parametrize("family", TARGETS)
@pytest.mark.parametrize("length", [1, 2, 7, 40])
def test_direct_equals_generate(family: str, length: int) -> None:
    target, ids = TARGETS[family](seed=length), tiny.prompt(length)
    assert tiny.plain(target, ids, 24).ids == tiny.generated(target, ids, 24)


def an_arm(kind: str, target: HfTarget, block_size: int, seed: int) -> tiny.Arm:
    if kind == "prompt_lookup":
        return tiny.Arm(PromptLookup(block_size))
    drafter = tiny.dflash(target, block_size, seed, taps=(0, 2, 1))
    passes = random.Random(seed).randrange(block_size)
    return tiny.Arm(drafter, [tiny.xpress(target, block_size, passes, seed)] if kind == "xpress" else [])


@pytest.mark.parametrize("kind", ["dflash", "xpress", "prompt_lookup"])
@pytest.mark.parametrize("family", TARGETS)
def test_every_arm_equals_generate_at_every_block_size(family: str, kind: str) -> None:
    accepted = 0
    for block_size in range(2, 17):
        target, ids = TARGETS[family](seed=block_size), tiny.prompt((1, 2, 5, 17)[block_size % 4], block_size)
        output = an_arm(kind, target, block_size, seed=block_size).run(target, ids, 20)
        assert output.ids == tiny.generated(target, ids, 20), block_size
        accepted += sum(step.accepted for step in output.rounds)
    assert accepted > 20  # else only rejection was tried


@pytest.mark.parametrize("passes", range(8))
def test_the_number_of_passes_never_changes_the_ids(passes: int) -> None:
    target, ids = tiny.llama(seed=5), tiny.prompt(6)
    arm = tiny.Arm(tiny.dflash(target, 8), [tiny.xpress(target, 8, passes)])
    assert arm.run(target, ids, 24).ids == tiny.generated(target, ids, 24)


def test_a_stop_id_ends_every_arm_where_generate_ends() -> None:
    target, ids = tiny.qwen3(), tiny.prompt(9)
    stop = tiny.generated(target, ids, 30)[11]
    right = tiny.generated(target, ids, 30, eos_token_id=[stop])
    for kind in ("dflash", "xpress", "prompt_lookup"):
        output = an_arm(kind, target, 8, seed=3).run(target, ids, 30, (stop,))
        assert (output.ids, output.stop_reason) == (right, "eos")


@pytest.mark.parametrize("kind", ["dflash", "xpress", "prompt_lookup"])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_coupled_gives_the_ids_of_direct_sampling(kind: str, temperature: float) -> None:
    target, accepted, outputs = tiny.qwen3(), 0, set()
    for seed in range(6):
        how, ids = tiny.sampling(temperature, "coupled", seed), tiny.prompt(5)
        output = an_arm(kind, target, 6, seed=2).run(target, ids, 20, how=how)
        again = tiny.sampling(temperature, "coupled", seed)
        assert output.ids == tiny.plain(target, ids, 20, how=again).ids
        accepted += sum(step.accepted for step in output.rounds)
        outputs.add(tuple(output.ids))
    assert accepted > 0
    assert len(outputs) == 6


def test_the_direct_output_is_the_same_whether_or_not_a_drafter_sampled_before() -> None:
    target, ids = tiny.qwen3(), tiny.prompt(5)
    alone = tiny.plain(target, ids, 20, how=tiny.sampling(1.0, "rejection", 7)).ids
    how = tiny.sampling(1.0, "rejection", 7)
    tiny.Arm(tiny.dflash(target)).run(target, ids, 20, how=how)
    assert tiny.plain(target, ids, 20, how=how).ids == alone


# The outside referee: the same weights under transformers' own DFlash loop


@pytest.mark.parametrize(("block_size", "length"), [(2, 1), (4, 12), (8, 5), (16, 30)])
@pytest.mark.parametrize("family", TARGETS)
def test_transformers_drafts_and_emits_the_same_with_the_same_weights(
    family: str, block_size: int, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, ids = TARGETS[family](seed=block_size), tiny.prompt(length, block_size)
    drafter = tiny.dflash(target, block_size, seed=length)
    theirs: list[tuple[int, ...]] = []
    propose = DFlashTokenCandidateGenerator.get_candidates

    def recorded(self: Any, input_ids: Tensor, **options: Any) -> Any:
        candidates, logits = propose(self, input_ids, **options)
        if not options["is_first_iteration"]:
            theirs.append(tuple(candidates[0, input_ids.shape[1] :].tolist()))
        return candidates, logits

    monkeypatch.setattr(DFlashTokenCandidateGenerator, "get_candidates", recorded)
    assistant = DFlashAssistant(drafter.model, block_size)

    ours = tiny.Arm(drafter).run(target, ids, 24)
    for _ in range(2):  # the second request finds a used assistant
        theirs.clear()
        referee = tiny.generated(target, ids, 24, assistant_model=assistant, speculation_type="dflash")
        assert ours.ids == referee == tiny.generated(target, ids, 24)
        assert len(ours.rounds) == len(theirs)
        assert all(step.draft == draft[: step.offered] for step, draft in zip(ours.rounds, theirs, strict=True))


# Refiners in the loop


class Reversal:
    """Reverses the block. Slot 0 then depends on later slots, so it is not causal."""

    passes = None

    def __init__(self, causal: bool) -> None:
        self.causal = causal

    def refine(self, draft: Draft, context: Context, sampling: Sampling) -> Draft:
        return replace(draft, tokens=draft.tokens.flip(-1), point_mass=False)


def test_a_refiner_that_is_not_causal_loses_the_law_for_all_that_follow() -> None:
    draft = Draft(torch.tensor([[1, 2]]), torch.zeros(1, 2, 3), point_mass=False)
    context = Context([0, 0], torch.tensor([0]), torch.tensor([0]), 1, 9)
    how = tiny.sampling(1.0, "rejection")
    for causal, lost in ([(True, True), False], [(False, True), True], [(True, False), True]):
        assert refine(draft, [Reversal(flag) for flag in causal], context, how).point_mass is lost


def test_a_round_records_the_block_before_and_after_refinement() -> None:
    chain = [10, 11, 12, 13, 14]
    arm = tiny.Arm(ScriptedDrafter(lambda tokens: [12, 11], 3), [Reversal(causal=False)])
    step = arm.run(ScriptedTarget(chain, 3), PROMPT, 4).rounds[0]
    assert (step.draft, step.refined, step.accepted) == ((12, 11), (11, 12), 2)


# The law of whole outputs under sampling

TRANSITION = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.25, 0.05, 0.7]], dtype=torch.float64)


def p_value_of_first_three(run: Any, requests: int) -> float:
    """Chi-square of the first three tokens after token 0 against the Markov chain's own law."""
    right = torch.einsum("a,ab,bc->abc", TRANSITION[0], TRANSITION, TRANSITION).flatten()
    seen = torch.zeros(27, dtype=torch.float64)
    for seed in range(requests):
        first, second, third = run(seed).ids[:3]
        seen[9 * first + 3 * second + third] += 1
    return float(chisquare(seen.numpy(), (right * requests).numpy()).pvalue)


@pytest.mark.parametrize("verifier", ["direct", "coupled", "rejection"])
def test_three_tokens_follow_the_targets_law(verifier: str) -> None:
    target, ids = MarkovTarget(TRANSITION), torch.tensor([[1, 0]])
    law = torch.tensor([0.2, 0.2, 0.6], dtype=torch.float64)

    def run(seed: int) -> Output:
        if verifier == "direct":
            return tiny.plain(target, ids, 3, how=tiny.sampling(1.0, "coupled", seed))
        return tiny.Arm(MarginalDrafter(law, 3)).run(target, ids, 3, how=tiny.sampling(1.0, verifier, seed))

    assert p_value_of_first_three(run, 2500) > 1e-4


def test_the_toy_target_rolls_back_what_was_not_kept() -> None:
    target: ToyTarget = MarkovTarget(TRANSITION)
    target.prefill(torch.tensor([[0, 1]]), ())
    target.verify(torch.tensor([[2, 0, 1]]), ())
    target.commit(1)
    assert target.cached == 3
