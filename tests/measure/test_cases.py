"""C40: a seed is a seed and not a generator's state; order, repeats and a drafter's own draws change no output."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import rig
import torch

from xpress_bench.drafters.toy import MarginalDrafter
from xpress_bench.measure.requests import Requests
from xpress_bench.measure.schedule import Slot
from xpress_bench.records import Condition
from xpress_bench.targets.toy import MarkovTarget

VOCAB = 16
LAW = torch.full((VOCAB,), 1 / VOCAB, dtype=torch.float64)
PROMPTS = [rig.prompt("A", 3), rig.prompt("B", 5)]


def made() -> Requests:
    """Requests on a target that says anything, with a drafter that draws from a law of its own."""
    return rig.requests(PROMPTS, target=MarkovTarget(LAW.expand(VOCAB, VOCAB)), drafter=MarginalDrafter(LAW, 4))


def outputs(requests: Requests, verifier: str, cells: Sequence[tuple[str, str, int, int]]) -> list[tuple[int, ...]]:
    """Ids of (arm, prompt, seed, repeat) at temperature 0.8, run in that order by one process."""
    condition = Condition(0.8, verifier)
    found = [requests.run(Slot(condition, prompt, seed, repeat, arm, 0), 0) for arm, prompt, seed, repeat in cells]
    assert [cell.error for cell in found] == [None] * len(cells)
    return [cell.ids for cell in found]


@pytest.mark.parametrize("verifier", ["coupled", "rejection"])
@pytest.mark.parametrize("arm", ["direct", "draft"])
def test_c40b_three_seeds_are_three_samples_and_the_same_ones_again(arm: str, verifier: str) -> None:
    cells = [(arm, "A", seed, 0) for seed in (0, 1, 2)]
    requests = made()
    first = outputs(requests, verifier, cells)
    assert len(set(first)) == 3
    assert outputs(requests, verifier, cells) == outputs(made(), verifier, cells) == first


@pytest.mark.parametrize("verifier", ["coupled", "rejection"])
def test_c40c_the_order_of_prompts_changes_nothing(verifier: str) -> None:
    cells = [(arm, prompt, 7, 0) for prompt in "AB" for arm in ("direct", "draft")]
    forth, back = outputs(made(), verifier, cells), outputs(made(), verifier, cells[::-1])
    assert forth == back[::-1]


@pytest.mark.parametrize("verifier", ["coupled", "rejection"])
def test_c40d_a_drafter_s_draws_never_advance_the_target_s(verifier: str) -> None:
    alone = outputs(made(), verifier, [("direct", "A", 7, 0)])
    assert outputs(made(), verifier, [("draft", "A", 7, 0), ("direct", "A", 7, 0)])[1:] == alone


def test_c40_the_same_seed_gives_another_sample_for_another_prompt() -> None:
    a, b = outputs(made(), "coupled", [("direct", "A", 7, 0), ("direct", "B", 7, 0)])
    assert a != b
