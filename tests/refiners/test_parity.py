"""Every refiner in the decode loop, float64: the ids of direct generation, in both block layouts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import tiny

from xpress_bench.checkpoints.confidence import ConfidenceConfig
from xpress_bench.checkpoints.markov import MarkovConfig
from xpress_bench.drafters.block_diffusion import BlockDiffusion
from xpress_bench.refiners import Refiner
from xpress_bench.refiners.confidence import Confidence, ConfidenceHead
from xpress_bench.refiners.markov import Markov, MarkovHead
from xpress_bench.refiners.remask import Remask

SIZES = (2, 4, 8, 16)


def markov(kind: Any) -> Markov:
    return Markov(tiny.enlivened(MarkovHead(MarkovConfig(tiny.VOCAB, 8, tiny.HIDDEN, kind)), 3))


def confidence() -> Confidence:
    return Confidence(tiny.enlivened(ConfidenceHead(ConfidenceConfig(tiny.HIDDEN, tiny.VOCAB, 8)), 4), 0.5)


Make = Callable[[BlockDiffusion], Sequence[Refiner]]
REFINERS: dict[str, Make] = {
    "vanilla": lambda drafter: [markov("vanilla")],
    "gated": lambda drafter: [markov("gated")],
    "rnn": lambda drafter: [markov("rnn")],
    "xpress": lambda drafter: [tiny.xpress(drafter.vocabulary.target, drafter.block_size, 3)],
    "remask": lambda drafter: [Remask(drafter, passes=2)],
    "markov+confidence": lambda drafter: [markov("vanilla"), confidence()],
    "remask+xpress": lambda drafter: [
        Remask(drafter, fraction=None, threshold=0.3),
        tiny.xpress(drafter.vocabulary.target, drafter.block_size, 3),
    ],
}


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
