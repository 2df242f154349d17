"""The models that ship with the package: exactness in float64, where there are no ties (design section 8)."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from xpress_bench.config import settings_from
from xpress_bench.decode import Limits, Output, direct, speculative
from xpress_bench.drafters.assistant import DFlashAssistant
from xpress_bench.drafters.block_diffusion import BlockDiffusion
from xpress_bench.measure.clock import HostClock
from xpress_bench.measure.prompts import Prompt, prepare
from xpress_bench.parts import Parts, assemble
from xpress_bench.records import Condition
from xpress_bench.sampling import Sampling
from xpress_bench.suites import load_suite, spread
from xpress_bench.verifiers import VERIFIERS

GREEDY, COUPLED = Condition(0.0, "greedy"), Condition(1.0, "coupled")
CLOCK = HostClock()


@cache
def parts(drafter: str = "dflash", block_size: int = 8) -> Parts:
    """`drafter` names the drafter, or drafter and refiner with a plus between."""
    name, _, refiner = drafter.partition("+")
    flags = {
        "drafter.name": name,
        "refiner.name": refiner or "auto",
        "dtype": "float64",
        "device": "cpu",
        "block_size": str(block_size),
    }
    return assemble(settings_from(flags, []))


@cache
def prompts(limit: int | None, name: str = "all") -> list[Prompt]:
    suite, loaded = load_suite(name), parts()
    settings = settings_from({}, []).target
    kept, _ = prepare(suite, loaded.tokenizer, settings, loaded.target.context, None)
    return list(spread(kept, limit))


def limits(prompt: Prompt) -> Limits:
    return Limits(min(prompt.budget, 48), frozenset(parts().target.stop_ids))


@cache
def direct_ids(prompt: Prompt, condition: Condition, seed: int) -> list[int]:
    target = parts().target
    ids = torch.tensor([prompt.ids])
    return direct(target, ids, limits(prompt), Sampling(condition, seed, target.device), CLOCK).ids


def run(arm: int, prompt: Prompt, condition: Condition, seed: int, drafter: str, block_size: int) -> Output:
    loaded = parts(drafter, block_size)
    planned = loaded.arms[arm]
    assert planned.drafter is not None
    sampling = Sampling(condition, seed, loaded.target.device)
    rule = VERIFIERS.get(condition.verifier)
    ids = torch.tensor([prompt.ids])
    return speculative(loaded.target, planned.drafter, planned.refiners, rule, ids, limits(prompt), sampling, CLOCK)


ARMS = [
    pytest.param("dflash", 1, id="draft"),
    pytest.param("dflash", 2, id="refine"),
    pytest.param("dflash+markov", 2, id="markov"),
    pytest.param("prompt_lookup", 1, id="lookup"),
    pytest.param("draft_model", 1, id="draft_model"),
]


@pytest.mark.parametrize(("drafter", "arm"), ARMS)
@pytest.mark.parametrize("block_size", [2, 8, 16])
def test_greedy_is_direct_generation_token_for_token(drafter: str, arm: int, block_size: int) -> None:
    for prompt in prompts(6):
        assert run(arm, prompt, GREEDY, 0, drafter, block_size).ids == direct_ids(prompt, GREEDY, 0), prompt.item.id


@pytest.mark.slow
@pytest.mark.parametrize(("drafter", "arm"), ARMS)
@pytest.mark.parametrize("block_size", range(2, 17))
def test_greedy_is_direct_generation_over_the_whole_suite(drafter: str, arm: int, block_size: int) -> None:
    differ = [
        prompt.item.id
        for prompt in prompts(None, "qa")
        if run(arm, prompt, GREEDY, 0, drafter, block_size).ids != direct_ids(prompt, GREEDY, 0)
    ]
    assert differ == []


@pytest.mark.parametrize(("drafter", "arm"), ARMS)
def test_coupled_sampling_is_direct_sampling_token_for_token(drafter: str, arm: int) -> None:
    for prompt in prompts(4):
        for seed in (0, 1):
            assert run(arm, prompt, COUPLED, seed, drafter, 8).ids == direct_ids(prompt, COUPLED, seed), prompt.item.id


@pytest.mark.slow
@pytest.mark.parametrize(("drafter", "arm"), ARMS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_coupled_sampling_is_direct_sampling_over_the_whole_suite(drafter: str, arm: int, seed: int) -> None:
    differ = [
        prompt.item.id
        for prompt in prompts(None, "qa")
        if run(arm, prompt, COUPLED, seed, drafter, 8).ids != direct_ids(prompt, COUPLED, seed)
    ]
    assert differ == []


def generate(prompt: Prompt, **options: object) -> list[int]:
    model = parts().target.model  # type: ignore[attr-defined]
    ids = torch.tensor([prompt.ids])
    output = model.generate(ids, do_sample=False, max_new_tokens=limits(prompt).max_new_tokens, **options)
    return output[0, ids.shape[1] :].tolist()  # type: ignore[no-any-return]


def test_direct_is_what_transformers_generates() -> None:
    for prompt in prompts(6):
        assert direct_ids(prompt, GREEDY, 0) == generate(prompt), prompt.item.id


def test_the_outside_referee_gets_the_same_ids_from_the_same_drafter() -> None:
    drafter = parts().arms[1].drafter
    assert isinstance(drafter, BlockDiffusion)
    for prompt in prompts(4):
        theirs = generate(prompt, assistant_model=DFlashAssistant(drafter.model), speculation_type="dflash")
        assert theirs == run(1, prompt, GREEDY, 0, "dflash", 8).ids, prompt.item.id


def test_refinement_accepts_more_of_each_block() -> None:
    def tokens_per_step(arm: int) -> float:
        chosen = prompts(6, "translation")
        rounds = [each for prompt in chosen for each in run(arm, prompt, GREEDY, 0, "dflash", 8).rounds]
        return sum(each.committed for each in rounds) / len(rounds)

    assert tokens_per_step(2) > tokens_per_step(1)
