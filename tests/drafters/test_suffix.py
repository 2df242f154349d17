"""Suffix decoding against a search through all texts, and what it may remember of other requests."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
import tiny
import torch

from xpress_bench.drafters import Context
from xpress_bench.drafters.suffix import Suffix, load
from xpress_bench.errors import UsageError
from xpress_bench.settings import DrafterSettings
from xpress_bench.targets.toy import ScriptedTarget

TARGET = ScriptedTarget([], 0)


def proposed(drafter: Suffix, tokens: list[int], room: int = 1000) -> list[int]:
    last = torch.tensor(tokens[-2:])
    found = drafter.propose(Context(tokens, last[1:], last[:1], len(tokens) - 1, room), tiny.sampling())
    assert found.point_mass
    assert found.tokens.dtype == torch.long
    return found.tokens[0].tolist()  # type: ignore[no-any-return]


def started(block_size: int, prompt: Iterable[int] = (1,), **options: Any) -> Suffix:
    drafter = Suffix(block_size, **options)
    drafter.start(TARGET, torch.tensor([list(prompt)]), None)
    return drafter


def request(drafter: Suffix, prompt: list[int], output: list[int]) -> None:
    """A request of one round, whose output is known when it drafts."""
    drafter.start(TARGET, torch.tensor([prompt]), None)
    proposed(drafter, prompt + output)


@pytest.mark.parametrize(
    ("tokens", "options", "right"),
    [
        ([7, 5, 7, 6, 7, 5, 0, 7], {}, [5]),  # one token of suffix: one token, the one that came twice of three times
        ([1, 2, 3, 4, 5, 6, 1, 2, 3], {}, [4, 5, 6]),  # three tokens of suffix: three
        ([1, 2, 3, 4, 5, 6, 1, 2, 3], {"factor": 2}, [4, 5, 6, 1, 2, 3]),
        ([1, 2, 3, 4, 5, 6, 1, 2, 3], {"factor": 0.5}, [4]),
        ([1, 2, 3, 4, 5, 6, 1, 2, 3], {"max_depth": 2}, [4, 5]),
        ([7, 5, 7, 6, 7], {}, [6]),  # equally often: the later one
        ([7, 5, 7, 6, 7], {"min_probability": 0.6}, []),
        ([1, 7, 5, 2, 7, 6, 3, 7, 6, 1, 7], {}, [5, 2]),  # two tokens that are sure before one of two thirds
        ([4, 4], {}, [4]),
        ([1, 2, 3], {}, []),
    ],
)
def test_it_continues_as_the_text_did_most_often(tokens: list[int], options: dict[str, Any], right: list[int]) -> None:
    assert proposed(started(8, **options), tokens) == right


def searched(texts: list[list[int]], tokens: list[int], most: int, deepest: int, factor: float, least: float) -> Any:
    """The same from the definition: every length of suffix, every place in the texts, newest first."""
    best: tuple[float, int, list[int]] = (0.0, 0, [])
    for size in range(1, min(deepest, len(tokens)) + 1):
        suffix = tokens[-size:]
        rests = [
            text[start + size :]
            for text in texts
            for start in range(len(text) - size - 1, -1, -1)
            if text[start : start + size] == suffix
        ]
        draft: list[int] = []
        chance, score = 1.0, 0.0
        while len(draft) < min(most, int(factor * size)):
            agree = [rest[len(draft)] for rest in rests if rest[: len(draft)] == draft and len(rest) > len(draft)]
            if not agree:
                break
            token, times = Counter(agree).most_common(1)[0]
            chance *= times / len(agree)
            if chance < least:
                break
            draft, score = [*draft, token], score + chance
        best = max(best, (score, size, draft), key=lambda found: found[:2]) if draft else best
    return best[2]


@pytest.mark.parametrize(("deepest", "factor", "least"), [(24, 1.0, 0.1), (3, 1.5, 0.4), (1, 3.0, 0.01)])
def test_it_equals_a_search_as_texts_grow_by_rounds(deepest: int, factor: float, least: float) -> None:
    rng, drafted = random.Random(deepest), 0
    drafter = started(7, max_depth=deepest, factor=factor, min_probability=least, memory=60)
    outputs: list[list[int]] = []
    for number in range(30):
        tokens = prompt = [100 + number, *(rng.randrange(3) for _ in range(rng.randint(1, 8)))]
        drafter.start(TARGET, torch.tensor([prompt]), None)
        for _ in range(6):
            tokens = [*tokens, *(rng.randrange(3) for _ in range(rng.randint(1, 4)))]
            right = searched([tokens, *reversed(outputs)], tokens, 6, deepest, factor, least)
            assert proposed(drafter, tokens) == right
            drafted += len(right)
        outputs.append(tokens[len(prompt) :])
        while sum(map(len, outputs)) > 60:
            outputs.pop(0)
    assert drafted > 100


# Other requests

PROMPT, OTHER = [1, 2, 3], [1, 2, 4]
ANSWER = [20, 21, 22, 23]


def test_a_request_knows_nothing_of_others_unless_it_is_told_to() -> None:
    drafter = started(8)
    request(drafter, OTHER, ANSWER)
    drafter.start(TARGET, torch.tensor([PROMPT]), None)
    assert proposed(drafter, [*PROMPT, 20]) == []


@pytest.mark.parametrize(
    ("prompt", "right"),
    [
        (OTHER, []),  # the same prompt again: a repeat, another seed or another arm
        (OTHER[:2], []),  # an earlier turn: the answer to a later one knows what was said to this
        ([*OTHER, *ANSWER, 5], [21]),  # a later turn: all of this is in its own prompt
        ([*OTHER, 5], [21]),
        (PROMPT, [21]),
    ],
)
def test_outputs_of_other_prompts_are_remembered_and_never_an_answer_to_this_one(
    prompt: list[int], right: list[int]
) -> None:
    drafter = started(8, memory=100)
    request(drafter, OTHER, ANSWER)
    drafter.start(TARGET, torch.tensor([prompt]), None)
    assert proposed(drafter, [*prompt, 9, 20]) == right


def test_prompts_are_not_remembered() -> None:
    drafter = started(8, memory=100)
    request(drafter, [30, 31, 32], ANSWER)
    drafter.start(TARGET, torch.tensor([PROMPT]), None)
    assert proposed(drafter, [*PROMPT, 30]) == []
    assert proposed(drafter, [*PROMPT, 30, 32]) == []  # nor what the output began with


@pytest.mark.parametrize(
    ("memory", "first", "second"),
    [(3, [], []), (4, [], [41]), (7, [], [41]), (8, [21], [41])],
)
def test_the_oldest_outputs_are_forgotten_whole(memory: int, first: list[int], second: list[int]) -> None:
    for token, right in ((20, first), (40, second)):
        drafter = started(8, memory=memory)
        request(drafter, OTHER, ANSWER)
        request(drafter, [5], [40, 41, 42, 43])
        drafter.start(TARGET, torch.tensor([PROMPT]), None)
        assert proposed(drafter, [*PROMPT, token]) == right


@pytest.mark.parametrize("memory", [0, 1000])
def test_repeats_of_a_prompt_are_alike_whatever_is_remembered(memory: int) -> None:
    target, ids = tiny.qwen3(), tiny.prompt(5)
    arm = tiny.Arm(Suffix(6, memory=memory))
    first, again = (arm.run(target, ids, 30) for _ in range(2))
    assert [step.draft for step in again.rounds] == [step.draft for step in first.rounds]
    assert len(first.rounds) > 12  # an answer that is known would take 6


def test_by_default_the_order_of_requests_changes_nothing() -> None:
    target, arm = tiny.qwen3(), tiny.Arm(Suffix(6))
    prompts = [tiny.prompt(5, seed=1), tiny.prompt(9, seed=2)]
    runs = [arm.run(target, prompts[index], 24) for index in (0, 1, 0, 0, 1)]
    assert [step.draft for step in runs[0].rounds] == [step.draft for step in runs[2].rounds]
    assert [step.draft for step in runs[0].rounds] == [step.draft for step in runs[3].rounds]
    assert [step.draft for step in runs[1].rounds] == [step.draft for step in runs[4].rounds]


# In the loop


@pytest.mark.parametrize("family", [tiny.qwen3, tiny.llama])
@pytest.mark.parametrize("memory", [0, 200])
def test_greedy_output_equals_generate_at_every_block_size(family: Any, memory: int) -> None:
    accepted = 0
    for block_size in (2, 4, 8, 16):
        target, arm = family(seed=block_size), tiny.Arm(Suffix(block_size, memory=memory))
        for seed in (1, 2):
            ids = tiny.prompt((1, 2, 5, 17)[block_size % 4], seed)
            output = arm.run(target, ids, 40)
            assert output.ids == tiny.generated(target, ids, 40), block_size
            accepted += sum(step.accepted for step in output.rounds)
    assert accepted > 40


def test_coupled_gives_the_ids_of_direct_sampling() -> None:
    target, ids, accepted = tiny.qwen3(), tiny.prompt(5), 0
    for seed in range(4):
        output = tiny.Arm(Suffix(6)).run(target, ids, 40, how=tiny.sampling(0.3, "coupled", seed))
        assert output.ids == tiny.plain(target, ids, 40, how=tiny.sampling(0.3, "coupled", seed)).ids
        accepted += sum(step.accepted for step in output.rounds)
    assert accepted > 0


@pytest.mark.parametrize(("room", "count"), [(9, 3), (4, 3), (3, 2), (2, 1), (1, 0)])
def test_a_draft_fits_the_room_that_is_left(room: int, count: int) -> None:
    assert len(proposed(started(4), [1, 2, 3, 4, 5, 1, 2, 3], room)) == count


# Settings


def test_options_reach_the_drafter() -> None:
    params = {"max_depth": 5, "factor": 2.5, "min_probability": 1, "memory": 10}
    drafter = load(DrafterSettings("suffix", params=params), TARGET, 6)
    assert drafter.block_size == 6
    assert (drafter.max_depth, drafter.factor, drafter.min_probability, drafter.memory) == (5, 2.5, 1, 10)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"params": {"depth": 3}}, r"suffix knows drafter.params.max_depth, .*memory, not depth"),
        ({"params": {"max_depth": 0}}, "max_depth is 0: give a whole number of at least 1"),
        ({"params": {"max_depth": True}}, "max_depth is True"),
        ({"params": {"factor": 0}}, "factor is 0: give a number above 0"),
        ({"params": {"factor": "2"}}, "factor is '2'"),
        ({"params": {"min_probability": 1.5}}, "min_probability is 1.5: give a number above 0, 1 at most"),
        ({"params": {"min_probability": float("nan")}}, "min_probability is nan"),
        ({"params": {"memory": -1}}, "memory is -1: give a whole number of at least 0"),
        ({"denoising_steps": 2}, "denoising_steps is 2: suffix copies in one step"),
    ],
)
def test_settings_that_cannot_be(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        load(DrafterSettings("suffix", **changes), TARGET, None)
    assert "\n" not in str(caught.value)
