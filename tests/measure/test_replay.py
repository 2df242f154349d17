"""Ties and real differences, on a target whose block-shaped pass rounds differently (C25)."""

from __future__ import annotations

import pytest
import rig
import torch
from torch import Tensor

from xpress_bench.measure.replay import replay
from xpress_bench.records import Cell, Replay
from xpress_bench.sampling import Sampling
from xpress_bench.targets.toy import ToyTarget

OWN, OTHER = 5, 6


class Rounding(ToyTarget):
    """Scores OWN 3 and OTHER `gap` less; in a pass over several rows OTHER gets `shift` more."""

    def __init__(self, gap: float, shift: float) -> None:
        super().__init__(8)
        self.gap, self.shift = gap, shift

    def row(self, prefix: list[int]) -> Tensor:
        logits = torch.zeros(8, dtype=self.dtype)
        logits[OWN], logits[OTHER] = 3.0, 3.0 - self.gap + (self.shift if self._rows > 1 else 0.0)
        return logits


def cell(arm: str, *ids: int) -> Cell:
    return Cell(0, "p", 0, arm, 0, 0, rig.GREEDY, 3, "", ids)


def judged(target: ToyTarget, direct: tuple[int, ...], other: tuple[int, ...]) -> Replay:
    sampling = Sampling(rig.GREEDY, 0, torch.device("cpu"))
    return replay(target, (1, 2, 3), cell("direct", *direct), cell("draft", *other), sampling)


@pytest.mark.parametrize(
    ("gap", "shift", "verdict"),
    [
        (1e-6, 2e-6, "tie"),  # the passes differ by more than the gap: either token may win
        (2.0, 2e-6, "real"),
        (1e-5, 2e-6, "real"),
        (8e-16, 0.0, "near_tie"),  # 8 rounding units of 3 are 5.3e-15
        (0.0, 0.0, "tie"),
    ],
)
def test_c25_a_swap_is_judged_by_what_the_passes_differ(gap: float, shift: float, verdict: str) -> None:
    found = judged(Rounding(gap, shift), (4, OWN, 1), (4, OTHER, 1))
    assert (found.position, found.direct_token, found.arm_token, found.verdict) == (1, OWN, OTHER, verdict)
    assert found.gap == pytest.approx(gap, rel=1e-3, abs=1e-15)


@pytest.mark.parametrize(
    ("direct", "other", "position", "tokens"),
    [((4, OWN), (4,), 1, (OWN, None)), ((4,), (4, OTHER), 1, (-1, OTHER))],
)
def test_a_missing_or_an_extra_token_is_real(
    direct: tuple[int, ...], other: tuple[int, ...], position: int, tokens: tuple[int, int | None]
) -> None:
    found = judged(Rounding(0.0, 0.0), direct, other)
    assert (found.position, (found.direct_token, found.arm_token), found.verdict) == (position, tokens, "real")
    assert found.gap is None
    assert found.tolerance is None
