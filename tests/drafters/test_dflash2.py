"""What DFlash 2 adds to the network, against its sums written out term by term."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from scipy.stats import chisquare
from torch import Tensor

from xpress_bench.checkpoints import speculators
from xpress_bench.checkpoints.dflash import DFlash2Config, to_config
from xpress_bench.drafters import Context, Draft
from xpress_bench.drafters.block_diffusion import load
from xpress_bench.drafters.dflash2 import CandidateSelector, DynamicConvolution
from xpress_bench.errors import UsageError
from xpress_bench.settings import DrafterSettings
from xpress_bench.verifiers.rules import rejection
from xpress_bench.weights import random_weights

H, SLOTS, VOCAB = 8, 5, 20
CONFIG = DFlash2Config(kernel_size=3, group_size=4, rank=6, top_k=4)


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def convolved_by_hand(rows: Tensor, base: Tensor, dynamic: Tensor) -> Tensor:
    """rows [B, H], base [taps, H], dynamic [B, taps, groups]; one number at a time."""
    found = torch.zeros_like(rows)
    for slot in range(SLOTS):
        for channel in range(H):
            for tap in range(3):
                if slot >= tap:
                    kernel = base[tap, channel] + dynamic[slot, tap, channel // 4]
                    found[slot, channel] += kernel * rows[slot - tap, channel]
    return found


@torch.inference_mode()
def test_a_sublayer_stands_between_two_causal_convolutions_with_kernels_of_its_input() -> None:
    around: DynamicConvolution = tiny.enlivened(DynamicConvolution(CONFIG, H), 1)
    rows = normal(1, SLOTS, H, seed=2)
    weights = around.state_dict()
    # Rows of the projection: before and after, then taps, then groups.
    dynamic = (rows[0] @ weights["kernel_projection.weight"].T).view(SLOTS, 2, 3, 2)
    before = convolved_by_hand(rows[0], weights["base_kernel"][0], dynamic[:, 0])
    right = convolved_by_hand(before**2, weights["base_kernel"][1], dynamic[:, 1])
    torch.testing.assert_close(around(rows, lambda inner: inner**2)[0], right, rtol=0, atol=1e-12)


@torch.inference_mode()
def test_the_choice_walks_left_to_right_among_the_likeliest() -> None:
    selector: CandidateSelector = tiny.enlivened(CandidateSelector(CONFIG, H, VOCAB), 1)
    hidden, logits = normal(1, SLOTS, H, seed=2), normal(1, SLOTS, VOCAB, seed=3)
    weights = selector.state_dict()
    tokens, picked = selector.walk(hidden, logits, torch.tensor([7]), 0.0, None)
    previous = 7
    for slot in range(SLOTS):
        likeliest = logits[0, slot].sort(descending=True).indices[:4].tolist()
        context = weights["predecessor_codebook"][previous] * (weights["hidden_projection.weight"] @ hidden[0, slot])
        scores = {i: float(logits[0, slot, i] + context @ weights["successor_codebook"][i]) for i in likeliest}
        previous = max(scores, key=lambda token: scores[token])
        assert tokens[0, slot] == previous
        for token in range(VOCAB):
            assert float(picked[0, slot, token]) == pytest.approx(scores.get(token, -torch.inf), abs=1e-12)


@torch.inference_mode()
def test_a_drawn_choice_is_a_sample_of_the_law_it_records_and_that_is_causal() -> None:
    selector: CandidateSelector = tiny.enlivened(CandidateSelector(CONFIG, H, VOCAB), 1)
    hidden, logits = normal(1, SLOTS, H, seed=2), normal(1, SLOTS, VOCAB, seed=3)
    noise = tiny.sampling(0.7, "rejection").draft.at(0, SLOTS, logits)
    assert noise is not None
    tokens, picked = selector.walk(hidden, logits, torch.tensor([7]), 0.7, noise)
    assert tokens.tolist() == (picked / 0.7 + noise).argmax(-1).tolist()  # the Gumbel draw of softmax(picked / 0.7)
    other = noise.clone()
    other[:, 2:] *= -5
    again = selector.walk(hidden, logits, torch.tensor([7]), 0.7, other)
    assert torch.equal(again[1][:, :3], picked[:, :3])  # slot 2's law knows only what was drawn before it
    assert not torch.equal(again[1], picked)


@torch.inference_mode()
@pytest.mark.parametrize("honest", [True, False])
def test_rejection_keeps_the_targets_law_where_q_lives_on_a_few_candidates(honest: bool) -> None:
    """Two slots over 6 tokens, 3 candidates each; with the law from before the choice, the output is another."""
    config, rows = DFlash2Config(kernel_size=1, group_size=4, rank=6, top_k=3), 20_000
    selector: CandidateSelector = tiny.enlivened(CandidateSelector(config, H, 6), 1)
    hidden, logits = normal(1, 2, H, seed=2).expand(rows, -1, -1), normal(1, 2, 6, seed=3).expand(rows, -1, -1)
    target, how = normal(1, 3, 6, seed=4), tiny.sampling(0.7, "rejection", 5)
    noise = how.draft.at(0, 2, logits)
    tokens, picked = selector.walk(hidden, logits, torch.zeros(rows, dtype=torch.long), 0.7, noise)
    draft = Draft(tokens, picked if honest else logits, noise=noise, point_mass=False)

    verdict = rejection(draft, target.expand(rows, -1, -1), 0, how)

    right = torch.softmax(target[0] / 0.7, dim=-1)
    first = torch.where(verdict.accepted > 0, tokens[:, 0], verdict.next_token)
    second = torch.where(verdict.accepted > 1, tokens[:, 1], verdict.next_token)[verdict.accepted > 0]
    values = [
        chisquare(torch.bincount(found, minlength=6), len(found) * law).pvalue
        for found, law in zip((first, second), right, strict=False)
    ]
    assert (min(values) > 1e-3) == honest


@torch.inference_mode()
def test_a_draft_is_no_point_mass_above_temperature_0() -> None:
    target = tiny.qwen3()
    drafter = tiny.dflash(target, 4, dflash2=tiny.DFLASH2)
    drafter.start(target, tiny.prompt(5), torch.randn(1, 5, 64, dtype=torch.float64))
    context = Context([1] * 6, torch.tensor([1]), torch.tensor([1]), 5, 99)
    assert not drafter.propose(context, tiny.sampling(1.0, "rejection")).point_mass
    assert drafter.propose(context, tiny.sampling()).point_mass


@pytest.mark.parametrize(
    ("options", "settings", "words"),
    [
        ({"dflash2": tiny.DFLASH2}, {"denoising_steps": 2}, "steps is 2: a DFlash 2 block is chosen at once"),
        ({}, {}, "holds a drafter of the first kind"),
        ({}, {"path": None}, "dflash2 needs weights"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(
    options: dict[str, Any], settings: dict[str, Any], words: str, tmp_path: Path
) -> None:
    target = tiny.qwen3()
    (tmp_path / "config.json").write_text(json.dumps(to_config(tiny.dflash(target, 4, **options).model.config)))
    with pytest.raises(UsageError, match=words):
        load(DrafterSettings(**{"name": "dflash2", "path": str(tmp_path)} | settings), target, None)


@pytest.mark.parametrize("options", [{"dflash2": tiny.DFLASH2}, {"draft_vocab_size": 30, "format": "speculators"}])
def test_random_weights_need_the_config_alone(options: dict[str, Any], tmp_path: Path) -> None:
    target, ids = tiny.qwen3(), tiny.prompt(9)
    config = tiny.dflash(target, 4, **options).model.config
    reduced = config.draft_vocab_size is not None
    body = speculators.to_config(config, "a/b", ["Qwen3ForCausalLM"]) if reduced else to_config(config)
    (tmp_path / "config.json").write_text(json.dumps(body))
    with random_weights():
        drafter = load(DrafterSettings("dflash", path=str(tmp_path)), target, None)
    assert tiny.Arm(drafter).run(target, ids, 12).ids == tiny.generated(target, ids, 12)
