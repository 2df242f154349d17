"""Data sets whose true values are known, for testing what our own intervals cover.

Log seconds of a request = prompt (normal, sd 0.45) + seed of that prompt (normal, sd 0.10) + repeat (Student's t with
4 degrees of freedom, sd 0.02, and in 2 % of the repeats a spike of +0.2). A seed gives both arms the same tokens, so
the arms share the first two parts. The log speed-up of a prompt is skewed: gamma, sd 0.10, skewness 1. A draft token is
accepted with the rate of its prompt, beta(6, 4), and a seed offers 30 to 400 of them. 5 seeds, 3 repeats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from runs import COUPLED, cell, grid, steps
from scipy import optimize, stats

from xpress_bench.analyse.intervals import Interval, Measure
from xpress_bench.records import Cell

Array = NDArray[np.float64]

PROMPT_SD, SEED_SD, REPEAT_SD = 0.45, 0.10, 0.02
SPIKE, SPIKE_SHARE = 0.2, 0.02
SEEDS, REPEATS = 5, 3
GAMMA_SHAPE, GAMMA_SCALE = 4, 0.05  # sd = sqrt(shape) * scale = 0.10, skewness = 2 / sqrt(shape) = 1
BETA = (6, 4)
FEWEST_DRAFTS, MOST_DRAFTS = 30, 400  # of a seed
DRAFTS_PER_STEP = 7

TRUE_SPEED_UP = math.exp(GAMMA_SHAPE * GAMMA_SCALE)  # the noise of both arms has one law and cancels in the mean
TRUE_ACCEPT_RATE = BETA[0] / sum(BETA)  # how many drafts a seed offers does not depend on the rate


class Trial(NamedTuple):
    """One quantity of one data set: our interval, the one that takes rows for independent, and the true value."""

    ours: Measure
    shortcut: Measure
    truth: float


class Coverage(NamedTuple):
    """Share of data sets in which an interval holds the true value."""

    ours: float
    shortcut: float


Study = Callable[[int, np.random.Generator], dict[str, Trial]]  # prompts -> the quantities of one new data set


@lru_cache
def coverage(study: Study, prompts: int, data_sets: int) -> dict[str, Coverage]:
    """Coverage of each quantity of a study; the same numbers in every call."""
    rng = np.random.default_rng([prompts, data_sets])
    found = [study(prompts, rng) for _ in range(data_sets)]
    trials = {name: [data_set[name] for data_set in found] for name in found[0]}
    return {
        name: Coverage(
            _share_covered([(trial.ours, trial.truth) for trial in some]),
            _share_covered([(trial.shortcut, trial.truth) for trial in some]),
        )
        for name, some in trials.items()
    }


def timed_cells(prompts: int, rng: np.random.Generator) -> list[Cell]:
    """Latencies of the arms direct and draft: prompts x seeds x repeats x arms cells."""
    shared = rng.normal(0, PROMPT_SD, size=(prompts, 1, 1)) + _seeds(prompts, rng)
    log_speed_up = rng.gamma(GAMMA_SHAPE, GAMMA_SCALE, size=(prompts, 1, 1))
    direct, draft = shared + _repeats(prompts, rng), shared - log_speed_up + _repeats(prompts, rng)
    latencies_s = np.exp(np.stack([direct, draft], axis=-1)).ravel().tolist()
    return [replace(one, latency_s=seconds) for one, seconds in zip(_design(prompts), latencies_s, strict=True)]


def counted_cells(prompts: int, rng: np.random.Generator) -> list[Cell]:
    """Verify steps of the arm draft, one cell per prompt and seed."""
    cells = []
    for p, rate in enumerate(rng.beta(*BETA, size=prompts)):
        for seed in range(SEEDS):
            offered = _offered(int(rng.integers(FEWEST_DRAFTS, MOST_DRAFTS, endpoint=True)))
            found = steps(rng.binomial(offered, rate).tolist(), offered)
            cells.append(cell("draft", f"p{p}", seed=seed, condition=COUPLED, steps=found))
    return cells


@lru_cache
def true_median_s() -> float:
    """Median over all prompts of the median of a prompt's 15 latencies in seconds, by a simulation of its own.

    Its log is the x at which the mean over D of Phi((x - D) / PROMPT_SD) is 1/2, with D the median of a prompt's seeds
    and repeats. 100,000 draws of D leave an error of 0.0002 in x, a thousandth of the interval of 80 prompts.
    """
    rng, draws = np.random.default_rng(2026), 100_000
    inner = np.median((_seeds(draws, rng) + _repeats(draws, rng)).reshape(draws, -1), axis=1)
    return math.exp(optimize.brentq(lambda x: stats.norm.cdf((x - inner) / PROMPT_SD).mean() - 0.5, -1, 1))


def _share_covered(pairs: list[tuple[Measure, float]]) -> float:
    intervals = [(measure, truth) for measure, truth in pairs if isinstance(measure, Interval)]
    assert len(intervals) == len(pairs), "a full data set has every interval"
    return float(np.mean([measure.low <= truth <= measure.high for measure, truth in intervals]))


@lru_cache
def _design(prompts: int) -> list[Cell]:
    return grid(lambda _arm, _p: 1.0, prompts, ("direct", "draft"), SEEDS, REPEATS, condition=COUPLED)


def _seeds(prompts: int, rng: np.random.Generator) -> Array:
    return rng.normal(0, SEED_SD, size=(prompts, SEEDS, 1))


def _repeats(prompts: int, rng: np.random.Generator) -> Array:
    size = (prompts, SEEDS, REPEATS)
    spikes = SPIKE * (rng.random(size) < SPIKE_SHARE)
    return rng.standard_t(4, size) * REPEAT_SD / math.sqrt(2) + spikes  # t with 4 degrees of freedom has variance 2


def _offered(drafts: int) -> list[int]:
    full, rest = divmod(drafts, DRAFTS_PER_STEP)
    return [DRAFTS_PER_STEP] * full + [rest] * (rest > 0)
