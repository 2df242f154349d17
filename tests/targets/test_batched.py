"""Rows of several requests over one cache: each as if it were alone, whatever joined, was rejected or left."""

from __future__ import annotations

from typing import Any

import methods
import pytest
import tiny
import torch
from transformers import GPT2Config, GPT2LMHeadModel, MistralConfig, MistralForCausalLM

from xpress_bench.errors import MisfitError
from xpress_bench.targets.batched import HfRows, Rows, TargetCopies, batched_target
from xpress_bench.targets.cache import LEAST
from xpress_bench.targets.compiled import CompiledTarget
from xpress_bench.targets.hf import HfTarget
from xpress_bench.targets.toy import MarkovTarget

TAPS = (0, 1)


def mistral() -> HfTarget:
    """Every layer has the window."""
    shape = tiny.SHAPE | {"sliding_window": 8, "num_hidden_layers": 2, "vocab_size": tiny.VOCAB}
    return tiny.as_target(MistralForCausalLM(MistralConfig(**shape)), 0)


def gpt2(context: int = 64) -> HfTarget:
    """Positions are rows of a table, and it ends with the context."""
    shape = {"n_embd": 32, "n_head": 4, "n_layer": 2, "vocab_size": tiny.VOCAB, "n_positions": context}
    return tiny.as_target(GPT2LMHeadModel(GPT2Config(**shape, bos_token_id=None, eos_token_id=None)), 0)


def eager() -> HfTarget:
    target = tiny.qwen3()
    target.model.set_attn_implementation("eager")
    return target


MODELS = [(tiny.qwen3, 1e-10), (tiny.llama, 1e-10), (methods.gemma3, 1e-10), (mistral, 1e-10), (gpt2, 1e-10)]
MODELS += [(eager, 1e-5)]  # its softmax is in float32 whatever the model is in


class Alone:
    """One request on a target of its own: what a row has to be like."""

    def __init__(self, target: HfTarget, seed: int, length: int) -> None:
        self.target = HfTarget(target.model, "alone")
        self.prompt, self.seed = tiny.prompt(length, seed), seed
        self.logits, self.features = self.target.prefill(self.prompt, TAPS)

    def block(self, step: int, count: int) -> torch.Tensor:
        return tiny.prompt(count, 100 * self.seed + step)


def check(rows: HfRows, alone: list[Alone], step: int, keep: list[int], atol: float, count: int = 5) -> None:
    """A step of all rows has every row's own logits and features."""
    found = rows.verify(torch.cat([one.block(step, count) for one in alone]), TAPS)
    for logits, features, one, kept in zip(found, rows.commit(keep), alone, keep, strict=True):
        right = one.target.verify(one.block(step, count), TAPS)[0]
        torch.testing.assert_close(logits, right, rtol=0, atol=atol)
        torch.testing.assert_close(features, one.target.commit(kept), rtol=0, atol=atol)


@torch.inference_mode()
@pytest.mark.parametrize(("make", "atol"), MODELS)
def test_every_row_is_as_if_it_were_alone(make: Any, atol: float) -> None:
    """Prompts below, at and beyond a window of 8; all, some or none of a block kept; rows that leave and come."""
    target = make()
    rows = HfRows(target, 4)

    def joined(seed: int, length: int) -> Alone:
        one = Alone(target, seed, length)
        logits, features = rows.join(one.prompt, TAPS)
        assert torch.equal(logits, one.logits)
        assert torch.equal(features, one.features)
        return one

    alone = [joined(seed, length) for seed, length in enumerate([1, 8, 23])]
    check(rows, alone, 0, [1, 5, 3], atol)
    check(rows, alone, 1, [0, 2, 5], atol)
    alone.append(joined(3, 4))
    check(rows, alone, 2, [5, 1, 1, 4], atol)
    rows.drop(0)  # the last row takes its place
    alone = [alone[3], alone[1], alone[2]]
    check(rows, alone, 3, [1, 2, 3], atol)
    rows.drop(2)
    alone = [*alone[:2], joined(4, 30)]  # where a longer row was before
    check(rows, alone, 4, [5, 5, 5], atol)
    check(rows, alone, 5, [1, 1, 1], atol, count=1)


@torch.inference_mode()
def test_what_lies_behind_a_row_is_never_seen() -> None:
    target = tiny.qwen3()
    found = []
    for poison in (0.0, 1e3):
        rows = HfRows(target, 3)
        for seed, length in ((0, 4), (1, 20)):
            rows.join(tiny.prompt(length, seed), ())
        for held in rows._rows._buffers:
            for part in held:
                part[0, :, 4:] += poison
                part[1, :, 20:] += poison
        found.append(rows.verify(tiny.prompt(6).reshape(2, 3), ()))
    assert torch.equal(*found)


@torch.inference_mode()
def test_what_was_in_memory_before_is_never_seen() -> None:
    """Fresh memory is made NaN, which is no less so with a weight of 0."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)  # and with it `fill_uninitialized_memory`
    try:
        rows = HfRows(tiny.qwen3(), 2)
        for length in (3, 20):
            rows.join(tiny.prompt(length), ())
        assert rows.verify(tiny.prompt(6).reshape(2, 3), ()).isfinite().all()
    finally:
        torch.use_deterministic_algorithms(before)


@torch.inference_mode()
def test_padding_may_lie_beyond_a_table_of_positions() -> None:
    target = gpt2(context=16)
    rows, one = HfRows(target, 2), Alone(target, 1, 12)
    rows.join(one.prompt, ())
    rows.join(tiny.prompt(3), ())
    block = one.block(0, 8)  # up to position 19
    found = rows.verify(torch.cat([block, block]), ())
    torch.testing.assert_close(found[:1, :4], one.target.verify(block[:, :4], ()), rtol=0, atol=1e-10)


def test_rows_hold_what_was_put_there() -> None:
    """Against lists of columns; the buffers stay where they are until a row needs more."""
    rows, held = Rows(1, 3, tiny.CPU), list[list[float]]()
    numbers = iter(range(1, 10**6))

    def put(which: list[int], count: int, keep: list[int]) -> int:
        new = torch.tensor([[next(numbers) for _ in range(count)] for _ in which]).double()[:, None, :, None]
        rows.aim(which)
        found = rows.put(0, new, -new)
        for row, block, kept in zip(which, new[:, 0, :, 0].tolist(), keep, strict=True):
            assert found[0][row, 0, : len(held[row]) + count, 0].tolist() == held[row] + block
            assert torch.equal(found[0], -found[1])
            held[row] += block[:kept]
            rows.lengths[row] += kept
        return int(found[0].data_ptr())

    for length in (7, 3, 5):
        rows.lengths.append(0)
        held.append([])
        place = put([len(held) - 1], length, [length])
    assert put([0, 1, 2], 4, [4, 0, 2]) == place
    assert put([0, 2], 2, [2, 1]) == place
    rows.drop(0)
    held = [held[2], held[1]]
    assert put([0, 1], 3, [1, 3]) == place
    assert put([0], LEAST - 20, [LEAST - 20]) == put([1], LEAST - 20, [0]) == place
    assert put([1], LEAST, [LEAST]) != place
    rows.drop(1)
    rows.drop(0)
    assert rows.lengths == []


def test_a_target_that_is_batchable_is_copied_for_each_row() -> None:
    chain = MarkovTarget(torch.eye(9, dtype=torch.float64) + 0.1)
    rows = batched_target(chain, 2)
    assert isinstance(rows, TargetCopies)
    for token in (3, 5):
        rows.join(torch.tensor([[0, token]]), ())
    assert rows.verify(torch.tensor([[1, 2], [7, 8]]), ()).argmax(-1).tolist() == [[1, 2], [7, 8]]
    assert rows.commit([1, 2]) == [None, None]
    assert [one.cached for one in rows._rows] == [3, 4]  # type: ignore[attr-defined]
    rows.drop(0)
    assert [one._cache for one in rows._rows] == [[0, 5, 7, 8]]  # type: ignore[attr-defined]


def flash() -> HfTarget:
    target = tiny.qwen3()
    target.model.config._attn_implementation = "flash_attention_2"
    return target


def own() -> Any:
    class Own:
        name = "own"

    return Own()


REFUSED = [
    (flash, r"'flash_attention_2' takes no mask of a batch; use target\.attn_implementation=sdpa, or use batch_size=1"),
    (lambda: tiny.qwen3(rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 100.0}), "longest row"),
    (lambda: CompiledTarget(tiny.qwen3().model, "tiny"), "target 'tiny' takes one request at a time"),
    (own, "target 'own' takes one request at a time; use batch_size=1"),
]


@pytest.mark.parametrize(("make", "why"), REFUSED)
def test_what_cannot_work_on_rows_is_refused_in_one_line(make: Any, why: str) -> None:
    with pytest.raises(MisfitError, match=why) as caught:
        batched_target(make(), 2)
    assert "\n" not in str(caught.value)
