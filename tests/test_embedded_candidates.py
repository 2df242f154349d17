"""Candidates on the models that ship with the package: exact in float64, and worth having."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest
import torch
from test_embedded import CLOCK, COUPLED, GREEDY, direct_ids, limits, parts, prompts

from xpress_bench.decode import Output, speculative
from xpress_bench.measure.prompts import Prompt
from xpress_bench.records import Condition
from xpress_bench.sampling import Sampling
from xpress_bench.settings import CandidateSettings
from xpress_bench.verifiers import VERIFIERS

M = CandidateSettings
SETTINGS = [M(4), M(nodes=16), M(4, "any", nodes=32), M(4, "any", merge="best")]


@cache
def run(arm: int, prompt: Prompt, candidates: M, condition: Condition = GREEDY, block_size: int = 8) -> Output:
    loaded = parts(block_size=block_size)
    planned, sampling = loaded.arms[arm], Sampling(condition, 0, loaded.target.device)
    assert planned.drafter is not None
    rule, ids = VERIFIERS.get(condition.verifier), torch.tensor([prompt.ids])
    of = loaded.target, planned.drafter, planned.refiners, rule, ids, limits(prompt), sampling, CLOCK
    return speculative(*of, candidates)


@pytest.mark.parametrize("candidates", [M(4), M(4, "any", nodes=32)], ids=str)
def test_greedy_and_coupled_are_direct_generation_token_for_token(candidates: M) -> None:
    for prompt, condition in product(prompts(1), (GREEDY, COUPLED)):
        assert run(2, prompt, candidates, condition).ids == direct_ids(prompt, condition, 0), prompt.item.id


@pytest.mark.slow
@pytest.mark.parametrize("arm", [1, 2], ids=["draft", "refine"])
@pytest.mark.parametrize("candidates", SETTINGS, ids=str)
@pytest.mark.parametrize("block_size", [2, 4, 8, 16])
def test_greedy_is_direct_generation_over_the_whole_suite(block_size: int, candidates: M, arm: int) -> None:
    differ = [
        prompt.item.id
        for prompt in prompts(None, "qa")
        if run.__wrapped__(arm, prompt, candidates, GREEDY, block_size).ids != direct_ids(prompt, GREEDY, 0)
    ]
    assert differ == []


def test_more_candidates_and_larger_trees_take_fewer_steps() -> None:
    def steps(candidates: M) -> int:
        return sum(len(run(2, prompt, candidates).rounds) for prompt in prompts(3, "short"))

    assert steps(M(4, "any")) < steps(M())
    assert steps(M(nodes=32)) < steps(M(nodes=8))
