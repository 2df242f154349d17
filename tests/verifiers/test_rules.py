"""The acceptance rules against hand-made cases and against the target's own law."""

from __future__ import annotations

from typing import Any

import pytest
import tiny
import torch
from scipy.stats import chisquare
from torch import Tensor

from xpress_bench.decode import refine
from xpress_bench.drafters import Context, Draft
from xpress_bench.refiners.xpress import XPress
from xpress_bench.sampling import Sampling, pick
from xpress_bench.verifiers.rules import match, rejection

ROWS = 20_000


def logits_of(rows: list[list[float]]) -> Tensor:
    return torch.tensor([rows], dtype=torch.float64).log()


# greedy


@pytest.mark.parametrize(
    ("draft", "accepted", "token"),
    [([1, 2, 0], 3, 1), ([1, 2, 1], 2, 0), ([1, 0, 0], 1, 2), ([0, 2, 0], 0, 1), ([], 0, 1)],
)
def test_greedy_accepts_the_longest_prefix_of_argmaxes(draft: list[int], accepted: int, token: int) -> None:
    peaks = [1, 2, 0, 1][: len(draft) + 1]
    logits = torch.nn.functional.one_hot(torch.tensor([peaks]), 3).double()
    verdict = match(Draft(torch.tensor([draft], dtype=torch.long)), logits, 5, tiny.sampling())
    assert (verdict.accepted.tolist(), verdict.next_token.tolist()) == ([accepted], [token])


def test_coupled_accepts_what_the_target_would_draw_at_the_same_positions() -> None:
    logits = torch.randn(1, 4, 6, generator=torch.Generator().manual_seed(0)).double()
    noise = tiny.sampling(0.8, "coupled", 3).target
    own = [int((logits[:, i] / 0.8 + noise.at(6 + i, 1, logits)[:, 0]).argmax()) for i in range(4)]
    for good in range(4):
        draft = [*own[:good], *[(token + 1) % 6 for token in own[good:3]]]
        verdict = match(Draft(torch.tensor([draft])), logits, 5, tiny.sampling(0.8, "coupled", 3))
        assert (verdict.accepted.item(), verdict.next_token.item()) == (good, own[good])


# rejection on two tokens (C03): target (0.6, 0.4), one draft token

TARGET = [0.6, 0.4]


def two_tokens(drawn_from: list[float] | None, declared: list[float] | None) -> tuple[float, float]:
    """Share of token 0 among first tokens, and acceptance. `drawn_from` None proposes token 0 always."""
    how = tiny.sampling(1.0, "rejection", 11)
    if drawn_from is None:
        tokens = torch.zeros(ROWS, 1, dtype=torch.long)
    else:
        wide = logits_of([drawn_from]).expand(ROWS, 1, 2)
        tokens = pick(wide, 1.0, how.draft.at(0, 1, wide))
    q = None if declared is None else logits_of([declared]).expand(ROWS, 1, 2)
    verdict = rejection(Draft(tokens, q, point_mass=q is None), logits_of([TARGET] * 2).expand(ROWS, 2, 2), 0, how)
    first = torch.where(verdict.accepted == 1, tokens[:, 0], verdict.next_token)
    return float((first == 0).double().mean()), float(verdict.accepted.double().mean())


def test_an_honest_law_gives_the_targets_share_and_the_overlap_as_acceptance() -> None:
    share, acceptance = two_tokens([0.9, 0.1], [0.9, 0.1])
    assert share == pytest.approx(0.6, abs=0.015)
    assert acceptance == pytest.approx(0.7, abs=0.015)


def test_a_fixed_proposal_is_a_point_mass() -> None:
    share, acceptance = two_tokens(None, None)
    assert share == pytest.approx(0.6, abs=0.015)
    assert acceptance == pytest.approx(0.6, abs=0.015)


def test_a_drafter_that_declares_another_law_than_it_draws_from_is_biased() -> None:
    share, acceptance = two_tokens([0.9, 0.1], TARGET)
    assert share == pytest.approx(0.9, abs=0.015)
    assert acceptance == 1.0


# edges of rejection


@pytest.mark.parametrize(
    ("p", "q", "draft"),
    [
        ([0.5, 0.5, 0.0], [0.0, 0.5, 0.5], 2),  # the target never says it
        ([0.5, 0.5, 0.0], [0.5, 0.5, 0.0], 2),  # neither does
        ([0.5, 0.5, 0.0], [0.0, 1.0, 0.0], 0),  # the draft's own law never does
        ([0.5, 0.5, 0.0], [0.0, 0.5, 0.5], 7),  # outside the vocabulary
        ([0.5, 0.5, 0.0], [0.0, 0.5, 0.5], -1),
    ],
)
def test_impossible_drafts_are_refused_and_the_next_token_is_possible(
    p: list[float], q: list[float], draft: int
) -> None:
    for seed in range(20):
        verdict = rejection(
            Draft(torch.tensor([[draft]]), logits_of([q]), point_mass=False),
            logits_of([p, p]),
            0,
            tiny.sampling(1.0, "rejection", seed),
        )
        assert verdict.accepted.item() == 0
        assert verdict.next_token.item() in (0, 1)


@pytest.mark.parametrize("how", [("greedy", 0.0), ("coupled", 1.0), ("rejection", 1.0)], ids=lambda how: how[0])
@pytest.mark.parametrize("spoilt", ["target", "draft", "both"])
def test_a_law_that_is_not_finite_gives_ids_of_the_vocabulary(how: tuple[str, float], spoilt: str) -> None:
    """They mean nothing, and the request is told as failed; but no later forward may be asked for an id beyond it."""
    nan, p = torch.full((1, 3, 4), float("nan")), torch.zeros(1, 3, 4)
    logits, own = nan if spoilt != "draft" else p, nan[:, 1:] if spoilt != "target" else p[:, 1:]
    rule = rejection if how[0] == "rejection" else match
    draft = Draft(torch.tensor([[1, 2]]), own, point_mass=False)
    verdict = rule(draft, logits, 5, tiny.sampling(how[1], how[0]))
    assert verdict.accepted.item() in range(3)
    assert verdict.next_token.item() in range(4)


def test_c27_a_padding_row_of_the_target_is_an_id_like_any_other() -> None:
    """`generate` may pick one as well; a drafter of the tokenizer's width cannot offer it."""
    logits = torch.tensor([[[0.0, 0.0, 0.0, 9.0], [0.0, 9.0, 0.0, 0.0]]])
    offered = match(Draft(torch.tensor([[3]])), logits, 5, tiny.sampling())
    assert (offered.accepted.item(), offered.next_token.item()) == (1, 1)
    narrow = Draft(torch.tensor([[2]]), torch.zeros(1, 1, 3), point_mass=False)
    padded = torch.tensor([[[-torch.inf] * 3 + [0.0], [0.0] * 4]])
    refused = rejection(narrow, padded, 5, tiny.sampling(1.0, "rejection"))
    assert (refused.accepted.item(), refused.next_token.item()) == (0, 3)


def test_equal_laws_are_always_accepted() -> None:
    p = torch.randn(ROWS, 2, 5, generator=torch.Generator().manual_seed(1)).double()
    how = tiny.sampling(1.0, "rejection")
    tokens = pick(p[:, :1], 1.0, how.draft.at(0, 1, p[:, :1]))
    assert rejection(Draft(tokens, p[:, :1], point_mass=False), p, 0, how).accepted.min() == 1


def test_without_a_draft_the_target_draws_from_its_own_law() -> None:
    how = tiny.sampling(1.0, "rejection")
    p = logits_of([[0.2, 0.3, 0.5]]).expand(ROWS, 1, 3)
    verdict = rejection(Draft(torch.empty(ROWS, 0, dtype=torch.long)), p, 0, how)
    seen = verdict.next_token.bincount(minlength=3).numpy()
    assert chisquare(seen, [0.2 * ROWS, 0.3 * ROWS, 0.5 * ROWS]).pvalue > 1e-4


# The law of three tokens on a Markov target: a whole round with two drafts, 20,000 times at once

TRANSITION = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.25, 0.05, 0.7]], dtype=torch.float64)
MARGINAL = torch.tensor([0.2, 0.2, 0.6], dtype=torch.float64)
ANCHOR = 0


class Echo:
    """Redraws slot 0 knowing slot 1, under the frozen noise. A refiner that is not causal, whatever it declares."""

    passes = 1

    def __init__(self, causal: bool) -> None:
        self.causal = causal

    def refine(self, draft: Draft, context: Context, sampling: Sampling) -> Draft:
        logits = draft.logits.clone()
        logits[:, 0] += 3 * torch.nn.functional.one_hot(draft.tokens[:, 1], 3)
        return Draft(pick(logits, 1.0, draft.noise), logits, draft.hidden, draft.noise, point_mass=False)


def p_value(refiners: list[Any], temperature: float = 1.0) -> float:
    how = tiny.sampling(temperature, "rejection", 5)
    anchor = torch.full((ROWS,), ANCHOR)
    base = MARGINAL.log().expand(ROWS, 2, 3)
    noise = how.draft.at(1, 2, base)
    hidden = torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(0)).double().expand(ROWS, 3, 4)
    draft = Draft(pick(base, temperature, noise), base, hidden, noise, point_mass=False)
    draft = refine(draft, refiners, Context([ANCHOR], anchor, anchor, 0, 99), how)

    logits = TRANSITION.log()[torch.cat([anchor[:, None], draft.tokens], dim=1)]
    verdict = rejection(draft, logits, 0, how)

    return chi_square(completed(draft.tokens, verdict.accepted, verdict.next_token, temperature), temperature)


def scaled(temperature: float) -> Tensor:
    return (TRANSITION ** (1 / temperature)) / (TRANSITION ** (1 / temperature)).sum(-1, keepdim=True)


def completed(drafts: Tensor, accepted: Tensor, own: Tensor, temperature: float) -> Tensor:
    """Three tokens per row: the round's own, then draws from the chain where the round gave fewer."""
    tokens = torch.cat([drafts, drafts[:, :1]], dim=1)
    tokens[torch.arange(ROWS), accepted] = own
    generator = torch.Generator().manual_seed(99)
    for slot in (1, 2):
        drawn = torch.multinomial(scaled(temperature)[tokens[:, slot - 1]], 1, generator=generator)[:, 0]
        tokens[:, slot] = torch.where(accepted < slot, drawn, tokens[:, slot])
    return tokens


def chi_square(tokens: Tensor, temperature: float) -> float:
    chain = scaled(temperature)
    right = torch.einsum("a,ab,bc->abc", chain[ANCHOR], chain, chain).flatten() * ROWS
    seen = (tokens @ torch.tensor([9, 3, 1])).bincount(minlength=27)
    return float(chisquare(seen.numpy(), right.numpy()).pvalue)


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.5])
def test_independent_drafts_give_the_targets_law(temperature: float) -> None:
    assert p_value([], temperature) > 1e-4


@pytest.mark.parametrize("passes", [0, 1, 2])
def test_causal_refinement_gives_the_targets_law_converged_or_not(passes: int) -> None:
    head = tiny.head(3, 3, hidden=4)
    assert p_value([XPress(head, passes)]) > 1e-4


def test_a_refiner_that_is_not_causal_is_verified_as_a_point_mass_and_keeps_the_law() -> None:
    assert p_value([Echo(causal=False)]) > 1e-4


def test_the_same_refiner_declared_causal_is_caught_by_this_very_check() -> None:
    assert p_value([Echo(causal=True)]) < 1e-6
