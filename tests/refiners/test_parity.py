"""Every refiner in the decode loop, float64: the ids of direct generation, in both block layouts."""

from __future__ import annotations

import pytest
import tiny
from methods import REFINERS

SIZES = (2, 4, 8, 16)


@pytest.mark.parametrize("layout", ["fill_in", "shift"])
@pytest.mark.parametrize("name", REFINERS)
def test_greedy_output_is_that_of_generate(name: str, layout: str) -> None:
    accepted = changed = 0
    for block_size in SIZES:
        target, ids = (tiny.qwen3, tiny.llama)[block_size % 8 == 0](seed=block_size), tiny.prompt(5, block_size)
        drafter = tiny.dflash(target, block_size, seed=block_size, layout=layout)
        output = tiny.Arm(drafter, REFINERS[name](drafter)).run(target, ids, 16)
        assert output.ids == tiny.generated(target, ids, 16), block_size
        accepted += sum(step.accepted for step in output.rounds)
        changed += sum(step.draft != step.refined for step in output.rounds)
    assert changed > 3  # else the refiner did nothing
    assert accepted > 0  # else only refusing was tried


@pytest.mark.parametrize("name", REFINERS)
def test_coupled_output_is_that_of_direct_sampling(name: str) -> None:
    target, ids = tiny.qwen3(), tiny.prompt(5)
    for seed, layout in enumerate(["fill_in", "shift"]):
        drafter = tiny.dflash(target, 6, layout=layout)
        how = [tiny.sampling(1.0, "coupled", seed) for _ in range(2)]
        output = tiny.Arm(drafter, REFINERS[name](drafter)).run(target, ids, 12, how=how[0])
        assert output.ids == tiny.plain(target, ids, 12, how=how[1]).ids
