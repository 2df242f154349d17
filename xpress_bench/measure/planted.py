"""Defects for `gate --self-test`: a gate that does not see these sees nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any

from xpress_bench import decode
from xpress_bench.drafters import Context, Draft
from xpress_bench.refiners import Refiner
from xpress_bench.sampling import Sampling

EVERY_STEP = 40  # steps between two planted tokens
EVERY_BLOCK = 5  # blocks between two spoiled ones
# What a planted launch runs instead of `-m xpress_bench`.
SLOW_PROGRAM = (
    "import sys; from xpress_bench.cli import main; from xpress_bench.measure.planted import slow; "
    "planted = slow({share}, refining={refining}); planted.__enter__(); sys.exit(main())"
)


def slow_program(share: float, *, refining: bool) -> tuple[str, ...]:
    """Arguments of an interpreter that runs `xpress-bench` with one arm slower by `share`."""
    return ("-c", SLOW_PROGRAM.format(share=float(share), refining=bool(refining)))


@contextmanager
def slow(share: float, *, refining: bool) -> Iterator[None]:
    """Every step takes longer by `share`: of arms with a refiner, or of those without one."""
    last_s, step_s, request = 0.0, 0.0, 0

    def wait(draft: Draft, refiners: Sequence[Refiner], context: Context) -> Draft:
        nonlocal last_s, step_s, request
        if bool(refiners) == refining:
            now_s = time.perf_counter()
            if id(context.tokens) == request:  # else the time since then was spent on other arms
                step_s = now_s - last_s
            while time.perf_counter() < now_s + share * step_s:
                pass  # a sleep would overshoot by more than the planted share of a small step
            last_s, request = time.perf_counter(), id(context.tokens)
        return draft

    with _after_refining(wait):
        yield


@contextmanager
def spoiled_drafts() -> Iterator[None]:
    """Every few blocks the first draft token is another one: the output stays, acceptance drops."""
    blocks = count(1)

    def spoil(draft: Draft, _: Sequence[Refiner], __: Context) -> Draft:
        if next(blocks) % EVERY_BLOCK or draft.tokens.shape[1] == 0:
            return draft
        tokens = draft.tokens.clone()
        tokens[:, 0] = (tokens[:, 0] + 1) % 2  # 0 or 1: control ids in every tokenizer here, never what comes next
        return replace(draft, tokens=tokens, point_mass=True)

    with _after_refining(spoil):
        yield


@contextmanager
def changed_tokens() -> Iterator[None]:
    """Every few steps the target's own token is another one: the output is wrong."""
    steps, inner = count(1), decode.read_once

    def read(*arguments: Any) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
        accepted, new, before, after = inner(*arguments)
        return accepted, new if next(steps) % EVERY_STEP else new ^ 1, before, after

    with _instead_of("read_once", read):
        yield


@contextmanager
def _after_refining(change: Callable[[Draft, Sequence[Refiner], Context], Draft]) -> Iterator[None]:
    inner = decode.refine

    def refine(draft: Draft, refiners: Sequence[Refiner], context: Context, sampling: Sampling) -> Draft:
        return change(inner(draft, refiners, context, sampling), refiners, context)

    with _instead_of("refine", refine):
        yield


@contextmanager
def _instead_of(name: str, planted: Callable[..., Any]) -> Iterator[None]:
    kept = getattr(decode, name)
    setattr(decode, name, planted)
    try:
        yield
    finally:
        setattr(decode, name, kept)
