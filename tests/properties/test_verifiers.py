"""The acceptance rules on any logits and drafts, against their definitions; the law of `rejection` exactly."""

from __future__ import annotations

from itertools import takewhile
from unittest.mock import patch

import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from xpress_bench.drafters import Draft
from xpress_bench.sampling import pick
from xpress_bench.verifiers import Verdict, rules

VOCAB = 4
TOKENS = st.lists(st.integers(0, VOCAB + 1), max_size=5)  # some of them outside the vocabulary (C27)
SEEDS = st.integers(0, 2**32)
TEMPERATURES = st.floats(0.05, 20)


def random_logits(rows: int, seed: int) -> Tensor:
    return torch.randn(1, rows, VOCAB, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def leading(draft: list[int], own: list[int]) -> tuple[int, int]:
    """By definition: how many drafts in a row are the target's own tokens, and its own token after them."""
    accepted = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(draft, own, strict=False))))
    return accepted, own[accepted]


def told(verdict: Verdict) -> tuple[int, int]:
    return verdict.accepted.item(), verdict.next_token.item()  # type: ignore[return-value]


def drafted(tokens: list[int]) -> Draft:
    return Draft(torch.tensor([tokens], dtype=torch.long))


@given(TOKENS, SEEDS)
def test_greedy_accepts_the_leading_run_of_argmaxes(tokens: list[int], seed: int) -> None:
    logits = random_logits(len(tokens) + 1, seed)
    own = [max(range(VOCAB), key=row.__getitem__) for row in logits[0].tolist()]
    assert told(rules.match(drafted(tokens), logits, 7, tiny.sampling())) == leading(tokens, own)


@given(TOKENS, SEEDS, TEMPERATURES, st.integers(0, 10_000), st.integers(0, 5))
def test_coupled_accepts_the_leading_run_of_what_direct_would_draw(
    tokens: list[int], seed: int, temperature: float, position: int, good: int
) -> None:
    logits = random_logits(len(tokens) + 1, seed)
    alone = tiny.sampling(temperature, "coupled", seed)  # direct asks for one position at a time
    own = [
        int(pick(logits[:, i : i + 1], temperature, alone.target.at(position + 1 + i, 1, logits[:, :1])))
        for i in range(len(tokens) + 1)
    ]
    tokens = [*own[:good], *tokens[good:]][: len(tokens)]
    how = tiny.sampling(temperature, "coupled", seed)
    assert told(rules.match(drafted(tokens), logits, position, how)) == leading(tokens, own)


@given(TOKENS, SEEDS, TEMPERATURES, st.integers(0, 5))
def test_a_point_mass_under_rejection_is_accepted_while_it_is_a_fresh_draw_of_the_target(
    tokens: list[int], seed: int, temperature: float, good: int
) -> None:
    logits = random_logits(len(tokens) + 1, seed)
    drawn = tiny.sampling(temperature, "rejection", seed).verify.at(8, len(tokens) + 1, logits)
    own = pick(logits, temperature, drawn)[0].tolist()
    tokens = [*own[:good], *tokens[good:]][: len(tokens)]
    how = tiny.sampling(temperature, "rejection", seed)
    assert told(rules.rejection(drafted(tokens), logits, 7, how)) == leading(tokens, own)


# Rejection, exactly. The token it gives at the first place has the law
#   sum over drafts d of q(d) [a(d) (x = d) + (1 - a(d)) r(x)],   a(d) = min(1, p(d) / q(d)),
# where r is what a refusal draws from. The coin that decides is set, and r is caught, so that nothing is estimated.

LAWS = st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any).map(lambda w: [x / sum(w) for x in w])
EQUAL = [1 / 3] * 3  # the law of draft and target before the place that is looked at: always accepted


def rejected(p: list[list[float]], q: list[list[float]], draft: list[int], coin: float) -> tuple[int, list[float]]:
    """Accepted count, and the law that the next token was drawn from; the last draft's coin is `coin`."""
    coins = torch.tensor([[0.5] * (len(draft) - 1) + [coin]], dtype=torch.float64)
    caught: list[Tensor] = []

    def catch(logits: Tensor, temperature: float, noise: Tensor) -> Tensor:
        caught.append((logits / temperature).softmax(-1))
        return logits.argmax(-1)

    block = Draft(torch.tensor([draft]), torch.tensor([q], dtype=torch.float64).log(), point_mass=False)
    logits = torch.tensor([p], dtype=torch.float64).log()
    with patch.object(rules, "pick", catch):
        verdict = rules.rejection(block, logits, 0, Known(coins))
    return int(verdict.accepted), caught[-1][0, 0].tolist()


class Known:
    """Sampling at temperature 1 whose coins are known, and whose noise is not needed, because the draw is caught."""

    temperature = 1.0

    def __init__(self, coins: Tensor) -> None:
        self.verify = self
        self._coins = coins

    def at(self, position: int, count: int, like: Tensor) -> None:
        return None

    def coins(self, like: Tensor) -> Tensor:
        assert like.shape == self._coins.shape
        return self._coins


@given(LAWS, LAWS, st.integers(0, 2))
def test_rejection_gives_exactly_the_targets_law(p: list[float], q: list[float], place: int) -> None:
    law = [0.0] * 3
    for draft in (d for d in range(3) if q[d]):
        accept = min(1.0, p[draft] / q[draft])
        laws = [EQUAL] * place + [p, EQUAL], [EQUAL] * place + [q]
        tokens = [0] * place + [draft]
        law[draft] += q[draft] * accept
        if accept > 0:
            assert rejected(*laws, tokens, accept * (1 - 1e-9))[0] == place + 1
        if accept < 1:
            accepted, after = rejected(*laws, tokens, accept + 1e-9)
            assert accepted == place
            law = [share + q[draft] * (1 - accept) * then for share, then in zip(law, after, strict=True)]
    assert law == pytest.approx(p, abs=1e-9)


@given(LAWS)
def test_after_a_full_acceptance_rejection_draws_from_the_targets_last_law(p: list[float]) -> None:
    assert rejected([EQUAL, p], [EQUAL], [1], 0.5) == (1, pytest.approx(p))
