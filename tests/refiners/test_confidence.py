"""Where a draft ends, by confidences that are written down."""

from __future__ import annotations

import math
from typing import Any

import pytest
import tiny
import torch

from xpress_bench.checkpoints.confidence import ConfidenceConfig
from xpress_bench.drafters import Context, Draft
from xpress_bench.errors import MisfitError
from xpress_bench.refiners.confidence import Confidence, ConfidenceHead

CONTEXT = Context([0, 1], torch.tensor([1]), torch.tensor([0]), 1, 99)


def logit(chance: float) -> float:
    return math.log(chance / (1 - chance))


def a_head() -> ConfidenceHead:
    """Says the state's first number, and 10 more behind token 2."""
    head = ConfidenceHead(ConfidenceConfig(hidden_size=2, vocab_size=3, rank=1)).double()
    weights = {"proj.weight": [[1.0, 0.0, 1.0]], "proj.bias": [0.0], "markov_w1.weight": [[0.0], [0.0], [10.0]]}
    head.load_state_dict({name: torch.tensor(rows) for name, rows in weights.items()})
    return head.requires_grad_(False)


def a_draft(*chances: float, tokens: tuple[int, ...] = (0, 0, 0, 0), lead: int = 1) -> Draft:
    rows = [[0.0, 0.0]] * lead + [[logit(chance), 5.0] for chance in chances]
    hidden = torch.tensor([rows], dtype=torch.float64)
    logits = torch.zeros(1, 4, 3, dtype=torch.float64)
    return Draft(torch.tensor([tokens]), logits, hidden, noise=logits, point_mass=False)


def kept(draft: Draft, threshold: float, temperatures: tuple[float, ...] = ()) -> int:
    found = Confidence(a_head(), threshold, temperatures).refine(draft, CONTEXT, tiny.sampling())
    count = found.tokens.shape[1]
    assert torch.equal(found.tokens, draft.tokens[:, :count])
    assert found.logits is not None
    assert found.noise is not None
    assert found.logits.shape == found.noise.shape == (1, count, 3)
    assert not found.point_mass
    return count


@pytest.mark.parametrize(("threshold", "count"), [(0.0, 4), (0.05, 4), (0.5, 2), (0.85, 1), (0.95, 0)])
@pytest.mark.parametrize("lead", [0, 1])
def test_a_draft_ends_before_the_first_slot_below_the_threshold(threshold: float, count: int, lead: int) -> None:
    """In both layouts; the sure fourth slot does not bring back the third."""
    assert kept(a_draft(0.9, 0.8, 0.1, 0.9, lead=lead), threshold) == count


def test_the_head_reads_the_token_before_the_slot() -> None:
    """Slot 3 is doubted by its state, and trusted behind a 2 in slot 2; a 2 in its own place helps nothing."""
    doubted = (0.9, 0.8, 0.1, 0.9)
    assert kept(a_draft(*doubted, tokens=(0, 2, 0, 0)), 0.5) == 4
    assert kept(a_draft(*doubted, tokens=(0, 0, 2, 0)), 0.5) == 2


@pytest.mark.parametrize(
    ("threshold", "count"), [(0.91, 0), (0.89, 1), (0.73, 1), (0.71, 2), (0.49, 2), (0.37, 4), (0.0, 4)]
)
def test_with_temperatures_the_product_of_confidences_is_compared(threshold: float, count: int) -> None:
    """Temperature 2 turns the logit of 16/17 into that of 4/5, so that survivals are 0.9, 0.72, 0.48 and 0.384."""
    assert kept(a_draft(0.9, 16 / 17, 2 / 3, 0.8), threshold, (1.0, 2.0, 1.0, 1.0)) == count


def test_rows_of_a_batch_stay_as_long_as_the_longest() -> None:
    drafts = [a_draft(0.9, 0.1, 0.9, 0.9), a_draft(0.9, 0.9, 0.9, 0.1)]
    both = Draft(torch.cat([one.tokens for one in drafts]), hidden=torch.cat([one.hidden for one in drafts]))
    found = Confidence(a_head(), 0.5).refine(both, CONTEXT.over(2), tiny.sampling())
    assert found.tokens.shape == (2, 3)


def test_a_draft_without_states_is_refused() -> None:
    with pytest.raises(MisfitError, match="such as dflash"):
        Confidence(a_head(), 0.5).refine(Draft(torch.tensor([[1]])), CONTEXT, tiny.sampling())


def test_doubted_drafts_are_offered_shorter_and_counted_so() -> None:
    target, ids = tiny.qwen3(), tiny.prompt(5)
    heads: list[Any] = [
        Confidence(tiny.enlivened(ConfidenceHead(ConfidenceConfig(tiny.HIDDEN, tiny.VOCAB, 4)), 1), threshold)
        for threshold in (0.0, 0.5)
    ]
    whole, cut = (tiny.Arm(tiny.dflash(target, 6), [head]).run(target, ids, 20) for head in heads)
    assert cut.ids == whole.ids == tiny.generated(target, ids, 20)
    offered = [step.offered for step in cut.rounds]
    assert [len(step.refined) for step in cut.rounds] == [len(step.draft) for step in cut.rounds] == offered
    assert {step.offered for step in whole.rounds[:-5]} == {5}  # the last ones end at the limit
    assert min(offered[:-5]) == 0
    assert len(set(offered[:-5])) > 2
