"""Greedy output equals direct generation, token for token: every target, drafter, refiner, block size and number of
candidates, in float64."""

from __future__ import annotations

from itertools import product

import pytest
import tiny
from methods import DRAFTERS, REFINERS, TARGETS

from xpress_bench.errors import MisfitError
from xpress_bench.settings import CandidateSettings

NEW = 16
SIZES, COUNTS = (2, 4, 8, 16), (1, 4)
LAWLESS = ("prompt_lookup", "suffix")  # they have no laws to make candidates of, and say so
ALL = [(name, None) for name in DRAFTERS] + [("dflash", name) for name in REFINERS]


def differing(target_name: str, drafter_name: str, refiner_name: str | None, settings: list[tuple[int, int]]) -> list:
    """Block sizes and numbers of candidates whose output is not direct's; direct's own is that of `generate`."""
    target, ids = TARGETS[target_name](), tiny.prompt(11, seed=len(drafter_name))
    right = tiny.generated(target, ids, NEW)
    assert tiny.plain(target, ids, NEW).ids == right
    found = []
    for size, count in settings:
        if count > 1 and drafter_name in LAWLESS:
            continue
        drafter = DRAFTERS[drafter_name](target, size)
        refiners = REFINERS[refiner_name](drafter) if refiner_name else []
        arm = tiny.Arm(drafter, refiners, CandidateSettings(count, source="any"))
        if arm.run(target, ids, NEW).ids != right:
            found.append((size, count))
    return found


@pytest.mark.parametrize(("drafter", "refiner"), ALL)
def test_the_ids_are_those_of_direct_generation(drafter, refiner):
    assert differing("gemma3", drafter, refiner, [(2, 1), (8, 1), (8, 4)]) == []


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("drafter", "refiner"), ALL)
def test_the_ids_are_those_of_direct_generation_everywhere(target, drafter, refiner):
    assert differing(target, drafter, refiner, list(product(SIZES, COUNTS))) == []


@pytest.mark.parametrize("drafter", LAWLESS)
def test_drafters_without_laws_refuse_candidates(drafter):
    target = TARGETS["qwen3"]()
    arm = tiny.Arm(DRAFTERS[drafter](target, 8), [], CandidateSettings(4, source="any"))
    with pytest.raises(MisfitError, match=r"this draft has none; use candidates\.count=1"):
        arm.run(target, tiny.prompt(3).repeat(1, 4), NEW)
