"""Prompt lookup against a search through the whole text."""

from __future__ import annotations

import random

import pytest
import tiny
import torch

from xpress_bench.drafters import Context
from xpress_bench.drafters.prompt_lookup import PromptLookup, load
from xpress_bench.errors import UsageError
from xpress_bench.settings import DrafterSettings


def proposed(drafter: PromptLookup, tokens: list[int], room: int = 1000) -> list[int]:
    last = torch.tensor(tokens[-2:])
    found: list[int] = drafter.propose(Context(tokens, last[1:], last[:1], len(tokens) - 1, room), tiny.sampling())
    return found.tokens[0].tolist()


def started(block_size: int, max_ngram: int = 3) -> PromptLookup:
    drafter = PromptLookup(block_size, max_ngram)
    drafter.start(tiny.qwen3(layers=1), tiny.prompt(1), None)
    return drafter


def searched(tokens: list[int], count: int, max_ngram: int) -> list[int]:
    """What follows the latest earlier occurrence of the longest suffix that has one."""
    for size in range(max_ngram, 0, -1):
        for start in range(len(tokens) - size - 1, -1, -1):
            if tokens[start : start + size] == tokens[-size:]:
                return tokens[start + size :][:count]
    return []


@pytest.mark.parametrize(
    ("tokens", "right"),
    [
        ([1, 2, 3, 4, 5, 1, 2, 3], [4, 5, 1]),  # the trigram
        ([9, 3, 7, 7, 8, 3], [7, 7, 8]),  # only the single token
        ([3, 5, 0, 3, 6, 0, 3], [6, 0, 3]),  # the latest of two
        ([1, 2, 9, 9, 2, 8, 1, 2], [9, 9, 2]),  # a longer match before a later one
        ([4, 4], [4]),
        ([1, 2, 3], []),
    ],
)
def test_it_copies_what_followed_the_longest_suffix(tokens: list[int], right: list[int]) -> None:
    assert proposed(started(4), tokens) == right


@pytest.mark.parametrize("max_ngram", [1, 2, 3, 5])
def test_its_index_equals_a_search_as_the_text_grows_by_rounds(max_ngram: int) -> None:
    rng = random.Random(max_ngram)
    for _ in range(30):
        drafter, tokens = started(6, max_ngram), [rng.randrange(4) for _ in range(rng.randint(2, 12))]
        for _ in range(12):
            assert proposed(drafter, tokens) == searched(tokens, 5, max_ngram)
            tokens += [rng.randrange(4) for _ in range(rng.randint(1, 6))]


def test_a_new_request_knows_nothing_of_the_last() -> None:
    drafter = started(4)
    proposed(drafter, [1, 2, 3, 1])
    drafter.start(tiny.qwen3(layers=1), tiny.prompt(1), None)
    assert proposed(drafter, [5, 6, 1]) == []


@pytest.mark.parametrize(("room", "count"), [(9, 3), (4, 3), (3, 2), (1, 0)])
def test_a_draft_fits_the_room_that_is_left(room: int, count: int) -> None:
    assert len(proposed(started(4), [1, 2, 3, 4, 5, 1], room)) == count


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"ngram": 3}, "not ngram"),
        ({"max_ngram": 0}, "is 0"),
        ({"max_ngram": "3"}, "is '3'"),
        ({"max_ngram": True}, "True"),
    ],
)
def test_wrong_parameters_are_named(params: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        load(DrafterSettings("prompt_lookup", params=params), tiny.qwen3(layers=1), None)


def test_a_copy_has_no_denoising_steps() -> None:
    with pytest.raises(UsageError, match="denoising_steps is 2: prompt_lookup copies in one step"):
        load(DrafterSettings("prompt_lookup", denoising_steps=2), tiny.qwen3(layers=1), None)
