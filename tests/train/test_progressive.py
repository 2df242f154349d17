"""Training by the clock: the rate follows the budget, and a session goes on where it stopped."""

from pathlib import Path

import pytest
import torch
from torch import nn

from xpress_bench.errors import MisfitError, RunError
from xpress_bench.train.progressive import MasterWeights, Rates, Session, is_hidden_matrix


def test_the_rate_warms_up_stays_and_falls() -> None:
    rates = Rates(warmup_steps=10, decay_from=0.5, final=0.1)
    assert rates.scale(0.0, 0) == pytest.approx(0.1)
    assert rates.scale(0.3, 100) == 1.0
    assert rates.scale(0.75, 100) == pytest.approx(0.55)
    assert rates.scale(1.0, 100) == pytest.approx(0.1)
    assert Rates(decay_from=1.0).scale(1.0, 100) == 1.0


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


def test_no_minutes_are_no_steps(tmp_path: Path) -> None:
    found = model()
    before = [parameter.clone() for parameter in found.parameters()]
    Session(tmp_path, MasterWeights(found, Rates()), minutes=0).run(1.0, lambda _: pytest.fail("a step"))
    assert all(map(torch.equal, before, found.parameters()))
    assert (tmp_path / "checkpoint.pt").exists()


def test_a_log_without_its_checkpoint_begins_again(tmp_path: Path) -> None:
    (tmp_path / "losses.jsonl").write_text('{"step": 1}\n')
    Session(tmp_path, MasterWeights(model(), Rates()), minutes=1)
    assert (tmp_path / "losses.jsonl").read_text() == ""


def test_a_checkpoint_of_a_larger_model_is_refused(tmp_path: Path) -> None:
    Session(tmp_path, MasterWeights(model(), Rates()), minutes=0).save()
    larger = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1)).to(torch.bfloat16)
    with pytest.raises(MisfitError, match=r"0.bias is \[4\], asked for is \[8\].*remove .* to begin again"):
        Session(tmp_path, MasterWeights(larger, Rates()), minutes=0)


def test_a_gradient_that_is_not_finite_ends_the_training(tmp_path: Path) -> None:
    found = model()

    def backward(_: float) -> dict[str, float]:
        (found(torch.ones(1, 4, dtype=torch.bfloat16)).sum() * float("inf")).backward()
        return {"loss": 1.0}

    with pytest.raises(RunError, match="the gradient of step 1 is not finite"):
        Session(tmp_path, MasterWeights(found, Rates()), minutes=1).run(1.0, backward)
