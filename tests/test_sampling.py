"""Noise: a function of seed and position where arms share it, separate streams where they must not."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
import tiny
import torch
from scipy.stats import chisquare, pearsonr

from xpress_bench.sampling import FreshNoise, KeyedNoise, law, pick, stable_seed
from xpress_bench.settings import SAMPLED

LIKE = torch.zeros(1, 1, 5, dtype=torch.float64)


def test_keyed_noise_is_the_same_in_any_order_of_calls() -> None:
    forwards, backwards = KeyedNoise(7), KeyedNoise(7)
    block = forwards.at(10, 4, LIKE)
    rows = [backwards.at(position, 1, LIKE) for position in (13, 11, 10, 12)]
    assert torch.equal(block, torch.cat([rows[2], rows[1], rows[3], rows[0]], dim=1))


def test_keyed_noise_differs_between_positions_and_between_seeds() -> None:
    noise = KeyedNoise(7)
    assert not torch.equal(noise.at(3, 1, LIKE), noise.at(4, 1, LIKE))
    assert not torch.equal(noise.at(3, 1, LIKE), KeyedNoise(8).at(3, 1, LIKE))


def test_keyed_noise_of_neighbouring_positions_is_uncorrelated() -> None:
    rows = KeyedNoise(1).at(0, 2, torch.zeros(1, 1, 20_000))[0]
    assert pearsonr(rows[0].numpy(), rows[1].numpy()).pvalue > 1e-4


@pytest.mark.parametrize("other", [torch.zeros(1, 1, 9, dtype=torch.float64), LIKE.float()])
def test_a_drafter_of_another_width_or_dtype_does_not_change_the_targets_noise(other: torch.Tensor) -> None:
    disturbed = KeyedNoise(7)
    disturbed.at(3, 2, other)
    assert torch.equal(disturbed.at(3, 2, LIKE), KeyedNoise(7).at(3, 2, LIKE))


def test_fresh_noise_never_repeats_and_stages_have_their_own_streams() -> None:
    draft, verify = (FreshNoise(7, stage, tiny.CPU) for stage in ("draft", "verify"))
    rows = [draft.at(0, 1, LIKE), draft.at(0, 1, LIKE), verify.at(0, 1, LIKE), verify.at(0, 1, LIKE)]
    assert len({tuple(row.flatten().tolist()) for row in rows}) == 4


def test_drafting_does_not_advance_what_the_target_reads() -> None:
    quiet, busy = (tiny.sampling(1.0, "rejection", 7) for _ in range(2))
    busy.draft.at(4, 8, LIKE)
    assert torch.equal(quiet.verify.at(4, 1, LIKE), busy.verify.at(4, 1, LIKE))
    assert torch.equal(quiet.target.at(4, 1, LIKE), busy.target.at(4, 1, LIKE))


def test_coupled_drafts_and_verifies_with_one_noise_and_rejection_with_two() -> None:
    coupled, rejection = (tiny.sampling(1.0, verifier) for verifier in ("coupled", "rejection"))
    assert torch.equal(coupled.draft.at(4, 2, LIKE), coupled.target.at(4, 2, LIKE))
    assert not torch.equal(rejection.draft.at(4, 2, LIKE), rejection.target.at(4, 2, LIKE))


def test_greedy_decoding_has_no_noise() -> None:
    assert tiny.sampling().target.at(3, 1, LIKE) is None
    assert tiny.sampling().draft.at(3, 1, LIKE) is None


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_picks_follow_the_softmax_of_scaled_logits(temperature: float) -> None:
    logits = torch.tensor([1.0, 0.0, -1.0, 2.0], dtype=torch.float64)
    weights = [2.718281828459045 ** (value / temperature) for value in logits.tolist()]
    right = [weight / sum(weights) for weight in weights]
    rows = logits.expand(1, 20_000, 4)

    picked = pick(rows, temperature, FreshNoise(0, "draft", tiny.CPU).at(0, 20_000, rows))

    assert chisquare(picked[0].bincount(minlength=4).numpy(), [20_000 * share for share in right]).pvalue > 1e-4
    assert law(logits, temperature).tolist() == pytest.approx(right)


def test_sixteen_bit_logits_are_scaled_in_float32_as_their_law_is() -> None:
    logits = torch.tensor([[[2.46875, 2.484375]]], dtype=torch.bfloat16)
    noise = torch.zeros(1, 1, 2)
    assert (logits / 0.6).unique().numel() == 1  # rounded first, they would tie
    assert pick(logits, 0.6, noise).item() == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", SAMPLED)
def test_the_extreme_temperatures_have_a_law_and_follow_it(temperature: float, dtype: torch.dtype) -> None:
    """At the lowest only the largest logit is left, at the highest all that are possible are alike."""
    logits = torch.tensor([[[-300.0, 2.0, 300.0, -torch.inf]]], dtype=dtype)
    weights = [math.exp((value - 300) / temperature) for value in (-300, 2, 300)]
    right = [weight / sum(weights) for weight in weights]
    assert law(logits, temperature)[0, 0].tolist() == pytest.approx([*right, 0.0], abs=1e-6)
    rows = logits.expand(1, 3000, 4)
    picked = pick(rows, temperature, FreshNoise(0, "draft", tiny.CPU).at(0, 3000, rows))[0].bincount(minlength=4)
    assert picked[3] == 0
    if temperature < 1:
        assert picked.tolist() == [0, 0, 3000, 0]
    else:
        assert chisquare(picked[:3].numpy(), [3000 * share for share in right]).pvalue > 1e-4


def test_seeds_are_the_same_in_every_process() -> None:
    code = "from xpress_bench.sampling import stable_seed; print(stable_seed(3, 'draft'))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(other.stdout) == stable_seed(3, "draft")
    assert 0 <= stable_seed(3, "draft") < 2**63
