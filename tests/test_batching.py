"""Requests decoded together: each as if it were decoded alone, to the last count of every round, in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice, product
from typing import Any

import methods
import pytest
import tiny
import torch
from scipy.stats import chisquare

from xpress_bench.batching import Batch, Request, Row, decode_together
from xpress_bench.config import settings_from
from xpress_bench.decode import Limits, Output, direct, speculative
from xpress_bench.drafters import Context, Draft
from xpress_bench.drafters.toy import MarginalDrafter
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.measure.prompts import prepare
from xpress_bench.parts import assemble
from xpress_bench.records import Condition
from xpress_bench.refiners.remask import Remask
from xpress_bench.sampling import Sampling
from xpress_bench.suites import load_suite, spread
from xpress_bench.targets.toy import MarkovTarget
from xpress_bench.verifiers import VERIFIERS

GREEDY, COUPLED, REJECTION = Condition(0.0, "greedy"), Condition(1.0, "coupled"), Condition(1.0, "rejection")
CONDITIONS = (GREEDY, COUPLED, REJECTION)
ARMS: list[tuple[str | None, str | None]] = [
    (None, None),
    *((name, None) for name in ("dflash", "dflash, shift", "dflash, 3 steps", "prompt_lookup", "suffix")),
    *(("dflash", name) for name in ("vanilla", "gated", "rnn", "xpress")),
]


def prompt(seed: int) -> tuple[int, ...]:
    """1 to 29 tokens."""
    return tuple(tiny.prompt(1 + 7 * seed % 29, seed)[0].tolist())


def ragged(seed: int) -> int:
    """Limits from 1 to 16."""
    return 1 + 11 * seed % 16


@dataclass
class Arm:
    """One way of generating, for requests that are numbered."""

    target: Any
    drafter: Any
    refiners: Sequence[Any]
    condition: Condition
    prompt: Callable[[int], tuple[int, ...]] = prompt
    new: Callable[[int], int] = ragged
    stops: frozenset[int] = frozenset([70])

    @property
    def verifier(self) -> Any:
        return VERIFIERS.get(self.condition.verifier)

    def request(self, seed: int) -> Request:
        limits = Limits(self.new(seed), self.stops)
        return Request(self.prompt(seed), limits, Sampling(self.condition, seed, self.target.device))

    def batch(self, size: int) -> Batch:
        return Batch(self.target, self.drafter, self.refiners, self.verifier, size, tiny.Ticks())

    def together(self, seeds: Sequence[int]) -> list[Output]:
        parts = self.target, self.drafter, self.refiners, self.verifier
        return decode_together(*parts, [self.request(seed) for seed in seeds], tiny.Ticks())

    def alone(self, seed: int) -> Output:
        one = self.request(seed)
        end = torch.tensor([one.ids]), one.limits, one.sampling, tiny.Ticks()
        if self.drafter is None:
            return direct(self.target, *end)
        return speculative(self.target, self.drafter, self.refiners, self.verifier, *end)

    def differing(self, seeds: Sequence[int]) -> list[int]:
        """Rows of a batch that are not what they are alone."""
        rows = zip(seeds, self.together(seeds), strict=True)
        return [seed for seed, row in rows if told(row) != told(self.alone(seed))]


def told(output: Output) -> Any:
    """All of an output but its times, and the passes, which are made over the whole batch."""
    rounds = [replace(one, passes=0, stamps=()) for one in output.rounds]
    return output.ids, output.stop_reason, rounds


def arm(
    drafter: str | None = "dflash",
    refiner: str | None = None,
    condition: Condition = GREEDY,
    target: str = "qwen3",
    block_size: int = 8,
) -> Arm:
    model = methods.TARGETS[target]()
    made: Any = methods.DRAFTERS[drafter](model, block_size) if drafter else None
    return Arm(model, made, methods.REFINERS[refiner](made) if refiner else [], condition)


@pytest.mark.parametrize(("drafter", "refiner"), ARMS)
def test_every_row_is_decoded_as_alone(drafter: str | None, refiner: str | None) -> None:
    made = arm(drafter, refiner, target="gemma3")
    for made.condition in CONDITIONS:
        assert made.differing(range(5)) == []


@pytest.mark.parametrize("size", [1, 2, 3, 8, 32])
def test_every_row_of_a_batch_of_any_size_is_decoded_as_alone(size: int) -> None:
    assert arm("dflash", "xpress", COUPLED).differing(range(size)) == []


@pytest.mark.slow
@pytest.mark.parametrize("target", methods.TARGETS)
@pytest.mark.parametrize(("drafter", "refiner"), ARMS)
def test_every_row_is_decoded_as_alone_everywhere(target: str, drafter: str | None, refiner: str | None) -> None:
    found = []
    for block_size, condition in product((2, 8, 16) if drafter else (8,), CONDITIONS):
        made = arm(drafter, refiner, condition, target, block_size)
        right = {seed: told(made.alone(seed)) for seed in range(64)}
        for size in (1, 2, 3, 8, 32, 64):
            rows = enumerate(made.together(range(size)))
            found += [(block_size, condition, size, seed) for seed, row in rows if told(row) != right[seed]]
    assert found == []


def pool(batch: Batch, requests: Iterator[tuple[int, Request]]) -> Iterator[tuple[int, Row]]:
    """Continuous batching: whoever is next joins as soon as there is room, one or two at a time."""
    running = dict[int, Row]()
    while True:
        new = list(islice(requests, min(2, batch.free)))
        running |= dict(zip([seed for seed, _ in new], batch.join([one for _, one in new]), strict=True))
        for seed in [seed for seed, row in running.items() if row.done]:
            yield seed, running.pop(seed)
        if not running:
            return
        stepped = batch.step()
        assert {id(row) for row in stepped} == {id(row) for row in running.values()}


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda one: one.verifier)
@pytest.mark.parametrize(("drafter", "refiner"), [(None, None), ("dflash", "xpress"), ("suffix", None)])
def test_rows_that_join_in_the_middle_are_decoded_as_alone(
    drafter: str | None, refiner: str | None, condition: Condition
) -> None:
    made = arm(drafter, refiner, condition)
    found = dict(pool(made.batch(3), ((seed, made.request(seed)) for seed in range(12))))
    assert [told(found[seed].output) for seed in range(12)] == [told(made.alone(seed)) for seed in range(12)]


@pytest.mark.parametrize("steps", [0, 2])
def test_a_row_that_is_cancelled_keeps_what_it_has_and_disturbs_no_other(steps: int) -> None:
    """At once, before the drafter has seen its prompt, or later; another takes its place."""
    made = replace(arm(), new=lambda _: 24, stops=frozenset())
    batch = made.batch(3)
    rows = batch.join([made.request(seed) for seed in range(3)])
    for _ in range(steps):
        batch.step()
    batch.leave(rows[0])
    rows += batch.join([made.request(3)])
    while batch.rows:
        assert rows[0] not in batch.step()
    assert not rows[0].done
    assert rows[0].output.ids == made.alone(0).ids[: len(rows[0].output.ids)]
    assert len(rows[0].output.rounds) == steps
    for seed, row in list(enumerate(rows))[1:]:
        assert told(row.output) == told(made.alone(seed))


def test_rows_may_be_longer_than_the_first_buffers() -> None:
    """256 columns: one row begins beyond, one grows past them, one stays below."""
    target, lengths = tiny.qwen3(max_position_embeddings=1024), (300, 250, 20)
    made = Arm(target, tiny.dflash(target), [], GREEDY, new=lambda _: 20)
    made.prompt = lambda seed: tuple(tiny.prompt(lengths[seed], seed)[0].tolist())
    assert made.differing(range(3)) == []


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda one: one.verifier)
def test_at_the_end_of_the_context_a_row_does_not_depend_on_the_others(condition: Condition) -> None:
    """The whole block is drafted there, where one alone drafts a shorter one: other drafts, the same output. What is
    offered stays inside, also where the limits do not."""
    target = tiny.qwen3(max_position_embeddings=32)
    made = Arm(target, tiny.dflash(target), [tiny.xpress(target, 8, 3)], condition, stops=frozenset())
    made.new = lambda seed: 35 - len(prompt(seed))
    found = made.together(range(4))
    assert [told(row) for row in found] == [told(made.together([seed])[0]) for seed in range(4)]
    assert [len(row.ids) for row in found] == [made.new(seed) for seed in range(4)]
    if condition != REJECTION:
        assert [row.ids for row in found] == [made.alone(seed).ids for seed in range(4)]
    for seed, row in enumerate(found):
        anchors = accumulate((one.committed for one in row.rounds), initial=len(prompt(seed)))
        assert all(one.offered <= max(0, 31 - at) for one, at in zip(row.rounds, anchors, strict=False))


def test_passes_are_made_over_the_batch_until_its_last_row_settles() -> None:
    made = arm("dflash", None, COUPLED)
    made.refiners = [tiny.xpress(made.target, 8, 7)]
    made.new = lambda _: 9
    passes = [made.alone(seed).rounds[0].passes for seed in range(8)]
    assert len(set(passes)) > 1
    assert {row.rounds[0].passes for row in made.together(range(8))} == {max(passes)}


def test_rejection_in_a_batch_keeps_the_law_of_the_target() -> None:
    """Two ids behind the prompt, of 3,000 rows: the law of the chain, whose law is known."""
    transition = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.1, 0.8, 0.1]], dtype=torch.float64)
    drafter = MarginalDrafter(torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64), 4)
    made = Arm(MarkovTarget(transition), drafter, [], REJECTION, lambda _: (0,), lambda seed: 2 + seed % 4)
    outputs = [row for first in range(0, 3000, 300) for row in made.together(range(first, first + 300))]
    assert sum(one.accepted for row in outputs for one in row.rounds) > 1000
    seen = torch.zeros(3, 3, dtype=torch.float64)
    for row in outputs:
        seen[row.ids[0], row.ids[1]] += 1
    law = transition[0][:, None] * transition
    assert chisquare(seen.flatten(), 3000 * law.flatten()).pvalue > 0.01


def test_a_refiner_may_shorten_the_drafts_of_a_batch() -> None:
    class Halving:
        causal, passes, batchable = True, None, True

        def refine(self, draft: Draft, context: Context, sampling: Sampling) -> Draft:
            return draft.cut(3)

    made = replace(arm(), refiners=[Halving()])
    assert made.differing(range(5)) == []
    assert max(one.offered for row in made.together(range(5)) for one in row.rounds) == 3


def test_a_first_id_that_ends_an_output_needs_no_step() -> None:
    made = replace(arm(), new=lambda seed: 1 if seed == 1 else 4, stops=frozenset())
    batch = made.batch(3)
    rows = batch.join([made.request(seed) for seed in range(3)])
    assert [row.done for row in rows] == [False, True, False]
    assert batch.rows == [rows[0], rows[2]]
    assert batch.free == 1
    assert rows[1].output.stop_reason == "length"


def test_stamps_are_those_of_the_joining_and_of_the_steps() -> None:
    made = replace(arm(), new=lambda _: 24, stops=frozenset())
    batch = made.batch(3)
    first, second = batch.join([made.request(0), made.request(1)])
    batch.step()
    (third,) = batch.join([made.request(2)])
    batch.step()
    assert [(row.output.started, row.output.prefilled) for row in (first, second, third)] == [(1, 2), (1, 2), (7, 8)]
    assert [one.stamps for one in first.output.rounds] == [(3, 4, 5, 6), (9, 10, 11, 12)]
    assert second.output.rounds[1].stamps == third.output.rounds[0].stamps == (9, 10, 11, 12)


def test_one_host_read_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    made = arm("dflash", None, COUPLED)
    made.new = lambda seed: 9 + seed  # so that some are offered less
    batch, requests, reads = made.batch(4), [made.request(seed) for seed in range(4)], list[str]()

    def counting(name: str, own: Callable[..., Any]) -> Callable[..., Any]:
        def counted(tensor: torch.Tensor, *words: Any) -> Any:
            reads.append(name)
            return own(tensor, *words)

        return counted

    for name in ("tolist", "item", "cpu", "numpy", "__bool__", "__int__", "__float__", "__index__"):
        monkeypatch.setattr(torch.Tensor, name, counting(name, getattr(torch.Tensor, name)))
    batch.join(requests)
    steps = 0
    while batch.rows:
        batch.step()
        steps += 1
    assert reads == ["tolist"] * (1 + steps)


def buffers(batch: Batch) -> set[int]:
    held = [*batch.target._rows._buffers, *batch.drafter._cache.rows._buffers]  # type: ignore[attr-defined]
    return {part.data_ptr() for pair in held if pair is not None for part in pair}


def test_a_thousand_requests_use_the_buffers_of_the_first() -> None:
    target = tiny.qwen3(layers=1)
    drafter = tiny.dflash(target, 2, taps=(0,), layers=1)
    made = Arm(target, drafter, [], GREEDY, lambda seed: (seed % 70,) * (1 + seed % 9), lambda seed: 1 + seed % 3)
    batch, places, ended = made.batch(16), set[int](), 0
    for _ in pool(batch, ((seed, made.request(seed)) for seed in range(1000))):
        ended += 1
        places |= buffers(batch)
    assert ended == 1000
    assert len(places) == 4  # keys and values of either layer
    assert batch.target._rows.lengths == []  # type: ignore[attr-defined]
    assert batch.drafter._cache.rows.lengths == []  # type: ignore[attr-defined]


def test_what_does_not_belong_together_is_refused() -> None:
    made = arm()
    batch = made.batch(2)
    assert batch.join([]) == []
    assert batch.step() == []
    with pytest.raises(ValueError, match="3 requests for 2 free rows"):
        batch.join([made.request(seed) for seed in range(3)])
    batch.join([made.request(2)])
    with pytest.raises(UsageError, match="have one temperature and one verifier; make a batch of each"):
        batch.join([replace(made, condition=COUPLED).request(2)])
    assert len(batch.rows) == 1


@pytest.mark.parametrize("make", [Remask, lambda _: methods.confidence()])
def test_a_refiner_for_one_request_is_refused_in_one_line(make: Any) -> None:
    made = arm()
    made.refiners = [make(made.drafter)]
    with pytest.raises(MisfitError, match=r"works on one request at a time; in batches there are xpress and markov"):
        made.batch(2)


def embedded(count: int, new: int, *conditions: Condition) -> Iterator[Arm]:
    """Direct, draft and refine of the models that ship with the package."""
    settings = settings_from({"dtype": "float64", "device": "cpu"}, [])
    parts = assemble(settings)
    prompts, _ = prepare(load_suite("all"), parts.tokenizer, settings.target, parts.target.context, None)
    prompts = list(spread([one for one in prompts if len(one.ids) < 200], count))
    for planned, condition in product(parts.arms, conditions):
        made = Arm(parts.target, planned.drafter, planned.refiners, condition, stops=frozenset(parts.target.stop_ids))
        made.prompt, made.new = lambda seed: prompts[seed].ids, lambda seed: min(prompts[seed].budget, new)
        yield made


def test_the_embedded_models_say_together_what_they_say_alone() -> None:
    assert [made.differing(range(3)) for made in embedded(3, 9, GREEDY)] == [[]] * 3


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 3, 8, 32])
def test_the_embedded_models_say_in_batches_of_any_size_what_they_say_alone(size: int) -> None:
    assert [made.differing(range(size)) for made in embedded(32, 48, GREEDY, COUPLED)] == [[]] * 6
