"""How small a difference a run can find, and how many prompts a wanted one takes.

Everything is for the paired t test over prompts that `intervals` uses, from the standard deviation `sd` that the paired
values show, in their own unit: log ratios for a speed-up, score for a parity margin. `alpha` is one-sided. Its default
is that of a verdict here: an effect is shown when the two-sided 95 % interval lies on its side of the bound. Exact by
the noncentral t law (noncentrality `effect / sd * sqrt(n)`), but where a normal formula is named.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import stdev

from scipy import optimize, stats

from xpress_bench.analyse.intervals import ALPHA, Unknown

ONE_SIDED = ALPHA / 2
PROMPTS_MOST = 10**9  # beyond it the answer is "more than anyone runs"


def spread(values: Sequence[float]) -> float | Unknown:
    """Standard deviation of one paired value per prompt; Unknown where they show none."""
    if len(values) < 2:
        return Unknown("n < 2")
    sd = stdev(values)
    return sd if sd > 1e-12 * max(map(abs, values)) else Unknown("no spread between prompts")


def power(effect: float, sd: float, n: int, alpha: float = ONE_SIDED) -> float:
    """Chance to find a true mean of `effect` with `n` >= 2 prompts."""
    bar = stats.t.ppf(1 - alpha, n - 1)
    return float(stats.nct.sf(bar, n - 1, effect / sd * math.sqrt(n)))


def detectable(sd: float | Unknown, n: int, wanted: float, alpha: float = ONE_SIDED) -> float | Unknown:
    """Smallest true mean that `n` prompts find with power `wanted`."""
    if isinstance(sd, Unknown):
        return sd
    if n < 2:
        return Unknown("n < 2")
    high = 1.0  # in units of sd
    while power(high, 1.0, n, alpha) < wanted:
        high *= 2
    return sd * float(optimize.brentq(lambda effect: power(effect, 1.0, n, alpha) - wanted, 0.0, high))


def detectable_speed_up(sd: float | Unknown, n: int, wanted: float, alpha: float = ONE_SIDED) -> float | Unknown:
    """The same as a ratio of latencies above 1, from the spread of log ratios."""
    found = detectable(sd, n, wanted, alpha)
    return found if isinstance(found, Unknown) else math.exp(found)


def needed(effect: float, sd: float | Unknown, wanted: float, alpha: float = ONE_SIDED) -> int | Unknown:
    """Fewest prompts that find a true mean of `effect` > 0 with power `wanted`."""
    normal = _normal_size(effect, sd, wanted, alpha)  # the t test never takes fewer
    if isinstance(sd, Unknown) or isinstance(normal, Unknown):
        return normal
    n = max(2, normal)
    while power(effect, sd, n, alpha) < wanted:
        n += 1
    return n


def needed_for_margin(margin: float, sd: float | Unknown, wanted: float, alpha: float = ONE_SIDED) -> int | Unknown:
    """Prompts that show an arm, in truth as good, to be worse by less than `margin` > 0.

    ((z_alpha + z_power) sd / margin)^2 rounded up, the normal formula; the t test takes one or two more.
    """
    return _normal_size(margin, sd, wanted, alpha)


def _normal_size(effect: float, sd: float | Unknown, wanted: float, alpha: float) -> int | Unknown:
    if isinstance(sd, Unknown):
        return sd
    if effect <= 0:
        return Unknown("no number of prompts finds an effect of 0")
    size = ((stats.norm.ppf(1 - alpha) + stats.norm.ppf(wanted)) * sd / effect) ** 2
    return math.ceil(size) if size <= PROMPTS_MOST else Unknown(f"more than {PROMPTS_MOST:.0e} prompts")
