"""Training by the clock: the rate follows the budget, and a session goes on where it stopped."""

from pathlib import Path

import pytest
import torch
from torch import nn

from xpress_bench.train.progressive import MasterWeights, Rates, Session, is_hidden_matrix


def test_the_rate_warms_up_stays_and_falls() -> None:
    rates = Rates(warmup_steps=10, decay_from=0.5, final=0.1)
    assert rates.scale(0.0, 0) == pytest.approx(0.1)
    assert rates.scale(0.3, 100) == 1.0
    assert rates.scale(0.75, 100) == pytest.approx(0.55)
    assert rates.scale(1.0, 100) == pytest.approx(0.1)


def test_token_tables_are_no_hidden_matrices() -> None:
    matrix = torch.zeros(2, 2)
    assert is_hidden_matrix("model.layers.0.mlp.up_proj.weight", matrix)
    assert not is_hidden_matrix("model.embed_tokens.weight", matrix)
    assert not is_hidden_matrix("head.w1.weight", matrix)
    assert not is_hidden_matrix("head.mix.L", torch.zeros(2, 2, 2))


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1)).to(torch.bfloat16)


def test_bfloat16_steps_do_not_vanish_in_the_master_weights() -> None:
    found = nn.Linear(2, 2).to(torch.bfloat16)
    nn.init.ones_(found.bias)
    weights = MasterWeights(found, Rates(adam_lr=1e-4))
    for _ in range(100):  # AdamW moves by its rate a step, far below the 1/256 that bfloat16 can tell from 1
        found.weight.grad, found.bias.grad = torch.ones_like(found.weight), torch.ones_like(found.bias)
        weights.step(1.0)
    assert weights.master["bias"].tolist() == pytest.approx([0.99, 0.99], abs=1e-4)


def test_a_session_goes_on_where_it_stopped(tmp_path: Path) -> None:
    def losses(found: nn.Module, after: int):
        def backward(_: float) -> dict[str, float]:
            found(torch.ones(1, 4, dtype=torch.bfloat16)).sum().backward()
            if session.step + 1 >= after:
                session.budget_s = 1e-9  # the next look at the clock ends the session
            return {"loss": 1.0}

        return backward

    first = model()
    session = Session(tmp_path, MasterWeights(first, Rates()), minutes=60)
    session.run(1.0, losses(first, after=3))
    with (tmp_path / "losses.jsonl").open("a") as log:
        log.write('{"step": 4}\n{"step": 5')  # what came after the checkpoint, the last line cut short
    second = model()
    session = Session(tmp_path, MasterWeights(second, Rates()), minutes=60)
    assert session.step == 3
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)
    assert len((tmp_path / "losses.jsonl").read_text().splitlines()) == 3
