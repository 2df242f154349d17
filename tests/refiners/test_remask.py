"""Re-masking against rounds worked out by hand, with a drafter whose answers are written down."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import tiny
import torch
from torch import Tensor

from xpress_bench.drafters import Context, Draft
from xpress_bench.drafters.prompt_lookup import PromptLookup
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.refiners.remask import Remask, load
from xpress_bench.settings import RefinerSettings

MASK = 9
CONTEXT = Context([7, 8], torch.tensor([8]), torch.tensor([7]), 1, 99)


def logits_of(shares: list[dict[int, float]]) -> Tensor:
    """Logits [1, N, 10] whose softmax gives these ids these probabilities, and the rest to id 0."""
    law = torch.zeros(1, len(shares), 10, dtype=torch.float64)
    for slot, row in enumerate(shares):
        for token, share in row.items():
            law[0, slot, token] = share
        law[0, slot, 0] += 1 - sum(row.values())
    return law.log()


class Written:
    """Answers the calls with the laws it was given, one after the other, and keeps what it was shown."""

    mask_token_id = MASK

    def __init__(self, *answers: list[dict[int, float]]) -> None:
        self.answers = [logits_of(answer) for answer in answers]
        self.shown: list[list[int]] = []

    def predict(self, anchor: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        self.shown.append([*anchor.tolist(), *tokens[0].tolist()])
        hidden = torch.full((1, tokens.shape[1] + 1, 2), float(len(self.shown)), dtype=torch.float64)
        return hidden, self.answers[len(self.shown) - 1]


FIRST = [{1: 0.9}, {2: 0.6}, {3: 0.7}, {4: 0.8}]
SECOND = [{5: 0.95}, {5: 0.65}, {6: 0.99}, {7: 0.9}]
THIRD = [{8: 0.95}] * 4


def a_draft() -> Draft:
    logits = logits_of(FIRST)
    return Draft(logits.argmax(-1), logits, torch.zeros(1, 5, 2, dtype=torch.float64))


def refined(drafter: Any, **knobs: Any) -> Draft:
    return Remask(drafter, **knobs).refine(a_draft(), CONTEXT, tiny.sampling())


def test_half_of_the_slots_is_drafted_again_beside_the_others() -> None:
    """Least sure are slots 2 and 3; the new 5 at 0.65 is then the least sure, with the old 4 at 0.8."""
    drafter = Written(SECOND, THIRD)
    found = refined(drafter, passes=2)
    assert drafter.shown == [[8, 1, MASK, MASK, 4], [8, 1, MASK, 6, MASK]]
    assert found.tokens.tolist() == [[1, 8, 6, 8]]
    assert found.passes == 2
    torch.testing.assert_close(found.logits, logits_of([FIRST[0], THIRD[1], SECOND[2], THIRD[3]]))
    assert found.hidden is not None
    assert found.hidden[0, :, 0].tolist() == [0, 0, 2, 1, 2]


@pytest.mark.parametrize(
    ("knobs", "shown"),
    [
        ({"fraction": 0.25}, [8, 1, MASK, 3, 4]),
        ({"fraction": 0.3}, [8, 1, MASK, MASK, 4]),  # 1.2 slots: two
        ({"fraction": 1.0}, [8, MASK, MASK, MASK, MASK]),
        ({"fraction": 0.5, "keep_prefix": 2}, [8, 1, 2, MASK, 4]),  # of the other two slots
        ({"fraction": None, "threshold": 0.75}, [8, 1, MASK, MASK, 4]),
        ({"fraction": None, "threshold": 0.75, "keep_prefix": 2}, [8, 1, 2, MASK, 4]),
    ],
)
def test_the_knobs_say_what_is_masked(knobs: dict[str, Any], shown: list[int]) -> None:
    drafter = Written(SECOND)
    refined(drafter, **knobs)
    assert drafter.shown == [shown]


@pytest.mark.parametrize(
    "knobs",
    [{"passes": 0}, {"fraction": 0.0}, {"fraction": None, "threshold": 0.5}, {"fraction": 1.0, "keep_prefix": 9}],
)
def test_with_nothing_to_mask_the_draft_stays_and_the_drafter_is_not_asked(knobs: dict[str, Any]) -> None:
    drafter, draft = Written(), a_draft()
    found = refined(drafter, **knobs)
    assert torch.equal(found.tokens, draft.tokens)
    assert torch.equal(found.logits, draft.logits)
    assert (drafter.shown, found.passes) == ([], 0)


def test_new_tokens_are_picked_with_the_noise_of_their_slots() -> None:
    """All laws of the answer are flat, so that the noise alone decides."""
    logits = logits_of(FIRST)
    noise = torch.zeros(1, 4, 10, dtype=torch.float64)
    noise[0, range(4), [1, 5, 6, 4]] = 50
    draft = Draft(torch.tensor([[1, 2, 3, 4]]), logits, torch.zeros(1, 5, 2, dtype=torch.float64), noise)
    drafter = Written([dict.fromkeys(range(1, 10), 0.1)] * 4)
    found = Remask(drafter).refine(draft, CONTEXT, tiny.sampling(1.0, "coupled"))
    assert found.tokens.tolist() == [[1, 5, 6, 4]]


def test_several_drafts_of_a_block_are_each_refined_as_if_alone() -> None:
    target, ids = tiny.qwen3(), tiny.prompt(6)
    drafter = tiny.dflash(target, 5)
    drafter.start(target, ids, target.prefill(ids, drafter.taps)[1])
    context = Context(ids[0].tolist(), ids[0, -1:], ids[0, -2:-1], 6, 99)
    one = drafter.propose(context, tiny.sampling())
    other = replace(one, tokens=one.tokens.flip(-1))
    rows = [torch.cat(pair) for pair in ((one.tokens, other.tokens), (one.logits,) * 2, (one.hidden,) * 2)]
    both = Remask(drafter).refine(Draft(*rows), context.over(2), tiny.sampling())
    for row, draft in enumerate((one, other)):
        alone = Remask(drafter).refine(draft, context, tiny.sampling())
        assert torch.equal(both.tokens[row], alone.tokens[0])
        torch.testing.assert_close(both.logits[row], alone.logits[0])


def test_rounds_and_what_is_masked_come_from_the_parameters() -> None:
    drafter: Any = Written()
    given = {"rounds": 3, "threshold": 0.4, "keep_prefix": 1}
    for params, right in (({}, (1, 0.5, None, 0)), (given, (3, None, 0.4, 1)), ({"fraction": 0.1}, (1, 0.1, None, 0))):
        found = load(RefinerSettings("remask", params=params), tiny.qwen3(), drafter)
        assert (found.passes, found.fraction, found.threshold, found.keep_prefix) == right
    assert not found.causal


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"params": {"depth": 1}}, "refiner.params.threshold, refiner.params.keep_prefix, not depth"),
        ({"params": {"rounds": -1}}, "refiner.params.rounds is -1: give a whole number"),
        ({"params": {"keep_prefix": 0.5}}, "refiner.params.keep_prefix is 0.5: give a whole number"),
        ({"params": {"fraction": 1.5}}, "refiner.params.fraction is 1.5: give a number from 0 to 1"),
        ({"params": {"threshold": True}}, "refiner.params.threshold is True: give a number from 0 to 1"),
        ({"params": {"fraction": 0.5, "threshold": 0.5}}, "remask takes one of them"),
        ({"passes": 2}, "refiner.passes is 2: remask makes refiner.params.rounds"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], told: str) -> None:
    drafter: Any = Written()
    with pytest.raises(UsageError, match=told):
        load(RefinerSettings("remask", **settings), tiny.qwen3(), drafter)


def test_a_drafter_that_fills_no_masks_is_refused() -> None:
    with pytest.raises(MisfitError, match="remask needs a drafter that fills a masked block, such as dflash"):
        load(RefinerSettings("remask"), tiny.qwen3(), PromptLookup(4))
