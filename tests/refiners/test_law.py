"""`rejection` keeps the target's law behind every causal refiner, and would not behind one that only says it is causal.

The target is a Markov chain, so the law of its first tokens is known. Many blocks are drafted, refined and verified at
once; behind what a block gives, the chain itself goes on, so that every output has three tokens to look at.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import tiny
import torch
from scipy.stats import chisquare
from torch import Tensor

from xpress_bench.checkpoints.confidence import ConfidenceConfig
from xpress_bench.checkpoints.markov import KINDS, MarkovConfig
from xpress_bench.decode import refine
from xpress_bench.drafters import Context, Draft
from xpress_bench.refiners import Refiner
from xpress_bench.refiners.confidence import Confidence, ConfidenceHead
from xpress_bench.refiners.markov import Markov, MarkovHead
from xpress_bench.refiners.remask import Remask
from xpress_bench.refiners.xpress import XPress
from xpress_bench.sampling import Sampling, pick
from xpress_bench.verifiers.rules import rejection

V, N, BLOCKS, WIDTH = 3, 3, 100_000, 4
CHAIN = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.25, 0.05, 0.7]], dtype=torch.float64)
DRAFT = torch.tensor([0.2, 0.2, 0.6], dtype=torch.float64)  # of every slot
STATES = torch.randn(1, 1 + N, WIDTH, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


class Filler:
    """A drafter for `remask`: its law of a slot leans to the token behind the slot, where that is not masked."""

    mask_token_id = V - 1

    def predict(self, anchor: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        behind = torch.cat([tokens[:, 1:], tokens[:, :1]], dim=1)
        return STATES.expand(len(tokens), -1, -1), DRAFT.log() + 2 * torch.nn.functional.one_hot(behind, V)


@dataclass
class Backwards:
    """Picks every slot by the token behind it, and says that it is causal."""

    causal: bool = True
    passes: int | None = None

    def refine(self, draft: Draft, context: Context, sampling: Sampling) -> Draft:
        behind = torch.cat([draft.tokens[:, 1:], draft.tokens[:, :1]], dim=1)
        logits = draft.logits + 2 * torch.nn.functional.one_hot(behind, V)
        return replace(draft, tokens=pick(logits, sampling.temperature, draft.noise), logits=logits)


@dataclass
class Choosy:
    """Ends the draft before its first 0, a decision about a slot by its own token, and says that it is causal."""

    causal: bool = True
    passes: int | None = None

    def refine(self, draft: Draft, context: Context, sampling: Sampling) -> Draft:
        return draft.cut(int((draft.tokens[0] != 0).int().cumprod(-1).sum()))


def markov(kind: Any) -> Markov:
    return Markov(tiny.enlivened(MarkovHead(MarkovConfig(V, 2, WIDTH, kind)), 1).requires_grad_(False))


def xpress(passes: int) -> XPress:
    return XPress(tiny.head(V, 1 + N, rank=4, hidden=WIDTH).requires_grad_(False), passes)


def confidence(threshold: float, temperatures: tuple[float, ...] = ()) -> Confidence:
    """Doubts a token behind a 2, so that drafts are kept up to different lengths."""
    head = ConfidenceHead(ConfidenceConfig(WIDTH, V, 1)).double()
    weights = {"markov_w1.weight": torch.tensor([[1.0], [1.0], [-1.0]]), "proj.bias": torch.zeros(1)}
    head.load_state_dict(weights | {"proj.weight": torch.tensor([[0.0] * WIDTH + [1.0]])})
    return Confidence(head.requires_grad_(False), threshold, temperatures)


def drafted(how: Sampling, blocks: int = BLOCKS) -> list[Draft]:
    """Blocks of the drafter, those with equal tokens in one batch: a refiner may end them at the same place."""
    logits = DRAFT.log().expand(blocks, N, -1)
    noise = how.draft.at(2, N, logits)
    assert noise is not None
    tokens = pick(logits, 1.0, noise)
    groups = (tokens * V ** torch.arange(N)).sum(-1)
    found = []
    for group in groups.unique():
        rows = groups == group
        states = STATES.expand(int(rows.sum()), -1, -1)
        found.append(Draft(tokens[rows], logits[rows], states, noise[rows], point_mass=False))
    return found


def outputs(draft: Draft, refiner: Refiner, how: Sampling, generator: torch.Generator) -> Tensor:
    """The first three tokens [b, 3] behind the token 0, of which the draft is refined and verified."""
    anchor = torch.zeros(len(draft.tokens), dtype=torch.long)
    refined = refine(draft, [refiner], Context([1, 0], anchor, anchor + 1, 1, 99), how)
    verdict = rejection(refined, CHAIN.log()[torch.cat([anchor[:, None], refined.tokens], dim=1)], 1, how)
    out = torch.nn.functional.pad(refined.tokens, (0, 1 + N - refined.tokens.shape[1]))
    out.scatter_(1, verdict.accepted[:, None], verdict.next_token[:, None])
    for place in (1, 2):  # the target goes on where the block ended
        fresh = torch.multinomial(CHAIN[out[:, place - 1]], 1, generator=generator)[:, 0]
        out[:, place] = torch.where(place > verdict.accepted, fresh, out[:, place])
    return out[:, :3]


def pvalue(refiner: Refiner, blocks: int = BLOCKS) -> float:
    """Of a chi-square test of the triples against the chain."""
    how, generator = tiny.sampling(1.0, "rejection"), torch.Generator().manual_seed(9)
    out = torch.cat([outputs(draft, refiner, how, generator) for draft in drafted(how, blocks)])
    seen = torch.bincount((out * torch.tensor([V * V, V, 1])).sum(-1), minlength=V**3)
    right = torch.einsum("a,ab,bc->abc", CHAIN[0], CHAIN, CHAIN).flatten()
    found: float = chisquare(seen.numpy(), (right * blocks).numpy()).pvalue
    return found


CAUSAL = {
    **{f"markov {kind}": markov(kind) for kind in KINDS},
    **{f"xpress K={passes}": xpress(passes) for passes in range(N + 1)},
    "confidence": confidence(0.5),
    "calibrated confidence": confidence(0.2, (1.0, 2.0, 0.5)),
}


@pytest.mark.parametrize("name", CAUSAL)
def test_rejection_keeps_the_law_behind_a_causal_refiner(name: str) -> None:
    assert CAUSAL[name].causal
    assert pvalue(CAUSAL[name]) > 1e-4


@pytest.mark.parametrize("name", ["confidence", "calibrated confidence"])
def test_the_confidence_heads_end_drafts_at_different_places(name: str) -> None:
    how, anchor = tiny.sampling(1.0, "rejection"), torch.zeros(1, dtype=torch.long)
    first = [replace(draft, tokens=draft.tokens[:1], hidden=STATES) for draft in drafted(how)]
    context = Context([1, 0], anchor, anchor + 1, 1, 99)
    assert len({CAUSAL[name].refine(draft, context, how).tokens.shape[1] for draft in first}) > 1


@pytest.mark.parametrize(
    ("refiner", "blocks"),
    [(Backwards(), BLOCKS), (Choosy(), BLOCKS), (Remask(Filler()), BLOCKS // 10)],  # it asks the drafter row by row
    ids=["backwards", "choosy", "remask"],
)
def test_a_refiner_that_only_says_it_is_causal_loses_the_law_and_keeps_it_if_it_says_otherwise(
    refiner: Any, blocks: int
) -> None:
    assert pvalue(replace(refiner, causal=True), blocks) < 1e-9
    assert pvalue(replace(refiner, causal=False), blocks) > 1e-4
