"""Regression gate: checks with four outcomes, and the test of wall time on paired launches (statistics.md C.6).

A gate is green only on evidence: a check says what it compared, and a check that could not know is never a pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

import numpy as np
from scipy import stats

from xpress_bench.analyse.intervals import Unknown
from xpress_bench.analyse.power import needed, spread

Outcome = Literal["pass", "regression", "broken", "inconclusive"]
EXIT_CODES: dict[Outcome, int] = {"pass": 0, "regression": 1, "broken": 2, "inconclusive": 3}
_WORST_FIRST: tuple[Outcome, ...] = ("regression", "broken", "inconclusive", "pass")
_EXACT_UP_TO = 14  # pairs: 2^n sign flips are enumerated up to here


@dataclass(frozen=True, slots=True)
class Check:
    """One thing the gate looked at.

    compared: how many values are behind it. details: every fault and remark. values: log(candidate / base) per pair,
    for wall time.
    """

    evidence: str  # counted work | wall time | acceptance | parity | memory
    name: str
    outcome: Outcome
    compared: int
    text: str
    details: tuple[str, ...] = ()
    values: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Design:
    """What a wall-time gate promises.

    pairs: launches of base and candidate each. alpha: chance of a false alarm, shared by all tests of the gate.
    floor: slow-downs up to it are no regression, however sure. slow_down: the one that must not pass in silence; a pass
    excludes it at level `excluded`. power: what the advised number of pairs is computed for.
    """

    pairs: int = 10
    alpha: float = 0.01
    floor: float = 0.02
    slow_down: float = 0.05
    excluded: float = 0.99
    power: float = 0.95


@dataclass(frozen=True, slots=True)
class Timing:
    """The test of one metric on one set of pairs. Slow-downs are relative: 0.05 is 5 % slower than base.

    logs: log(candidate / base) of each pair. p: one-sided, None where there is nothing to test. alpha: its level.
    upper: bound on the slow-down at the level `Design.excluded`.
    """

    outcome: Outcome
    logs: tuple[float, ...]
    alpha: float
    slow_down: float | None = None
    upper: float | None = None
    p: float | None = None

    def advised(self, design: Design) -> int | Unknown:
        """Pairs that would call a slow-down of `design.slow_down` with `design.power` at this spread."""
        return needed(math.log1p(design.slow_down), spread(self.logs), design.power, self.alpha)


def outcome_of(checks: Sequence[Check]) -> Outcome:
    """The worst of all checks; nothing compared is broken, not passed."""
    if not any(check.compared for check in checks) and all(check.outcome == "pass" for check in checks):
        return "broken"
    found = {check.outcome for check in checks}
    return next(outcome for outcome in _WORST_FIRST if outcome in found)


def timing(logs: Sequence[float], tests: int, design: Design) -> Timing:
    """Judge log(candidate / base), one value per pair of launches; `tests` share the false-alarm rate.

    regression: slower with p < alpha / tests, and by more than the floor. pass: a slow-down of `design.slow_down` is
    excluded. inconclusive: neither.
    """
    n, alpha = len(logs), design.alpha / tests
    if n < 2:
        return Timing("inconclusive", tuple(logs), alpha)
    slow_down, sd = math.expm1(fmean(logs)), spread(logs)
    if isinstance(sd, Unknown):  # every pair says the same, so its size alone decides
        outcome: Outcome = "regression" if slow_down > design.floor else "pass"
        return Timing(outcome, tuple(logs), alpha, slow_down, slow_down)
    p = float(stats.ttest_1samp(logs, 0, alternative="greater").pvalue)
    upper = math.expm1(fmean(logs) + float(stats.t.ppf(design.excluded, n - 1)) * sd / math.sqrt(n))
    if p < alpha and slow_down > design.floor:
        outcome = "regression"
    else:
        outcome = "pass" if upper < design.slow_down else "inconclusive"
    return Timing(outcome, tuple(logs), alpha, slow_down, upper, p)


def sign_flip_p(logs: Sequence[float]) -> float:
    """Share of all sign flips of `logs` whose mean is at least theirs: exact if base and candidate are exchangeable."""
    found = stats.permutation_test(
        (np.asarray(logs, dtype=np.float64),),
        np.mean,
        permutation_type="samples",
        alternative="greater",
        n_resamples=np.inf,
        vectorized=True,
    )
    return float(found.pvalue)


def timing_check(name: str, first: Timing, confirmed: Timing | None, design: Design) -> Check:
    """One metric as a check. After a first alarm the fresh pairs of `confirmed` alone decide."""
    one = confirmed or first
    remarks = (
        [f"first {len(first.logs)} pairs: {_told(first)}", f"fresh pairs: {_told(confirmed)}"] if confirmed else []
    )
    advised = one.advised(design) if one.outcome == "inconclusive" else None
    if isinstance(advised, int):
        remarks.append(f"{advised} pairs would do at this spread: --pairs {advised}")
    if one.slow_down is not None and one.slow_down < -design.floor and one.outcome == "pass":
        remarks.append(f"{-one.slow_down:.1%} faster than base")
    return Check("wall time", name, one.outcome, len(one.logs), _told(one), tuple(remarks), one.logs)


def _told(one: Timing) -> str:
    pairs = f"{len(one.logs)} pairs"
    if one.slow_down is None or one.upper is None:
        return f"{pairs} say nothing"
    if one.p is None:
        return f"{one.slow_down:+.2%} in every one of {pairs}"
    exact = f", sign flips {sign_flip_p(one.logs):.2g}" if len(one.logs) <= _EXACT_UP_TO else ""
    return f"{one.slow_down:+.2%}, at most {one.upper:+.2%}, p {one.p:.2g}{exact} ({pairs})"


def limit_check(
    evidence: str, name: str, base: float | None, found: float | None, limit: float, *, lower_is_better: bool
) -> Check:
    """One number that may get worse by the share `limit`. A base that is absent, zero or not finite is broken (C08)."""
    if base is None or not math.isfinite(base) or base <= 0:
        return Check(evidence, name, "broken", 0, f"the base has no usable value ({base!r})")
    if found is None or not math.isfinite(found):
        return Check(evidence, name, "broken", 0, f"the candidate has no value ({found!r}), the base has {base:.6g}")
    change = found / base - 1
    worse = change if lower_is_better else -change
    outcome: Outcome = "regression" if worse > limit + 1e-9 else "pass"  # a rise by the very limit passes
    return Check(evidence, name, outcome, 1, f"{base:.6g} -> {found:.6g} ({change:+.2%}, limit {limit:.1%} worse)")
