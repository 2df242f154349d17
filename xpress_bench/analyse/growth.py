"""Does memory grow while a stage lasts?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from xpress_bench.analyse.intervals import Unknown

LEAST = 0.01  # growth over half a stage that is told; below it is the allocator's noise
FEWEST = 10  # looks in half a stage
Looks = Sequence[tuple[float, int]]  # seconds, bytes


@dataclass(frozen=True, slots=True)
class Growth:
    """Bytes at the first look, at the last, and at most; whether they grow, or None where too few looks can tell."""

    first_bytes: int
    last_bytes: int
    peak_bytes: int
    grows: bool | None


def growth(repeats: Sequence[Looks]) -> Growth | Unknown:
    """Of the repeat of a stage that grew most."""
    found = [_growth(looks) for looks in repeats if looks]
    if not found:
        return Unknown("the engine is another process, or no stage ended")
    return max(found, key=lambda one: (bool(one.grows), one.last_bytes - one.first_bytes))


def _growth(looks: Looks) -> Growth:
    """It grows where the slope over the second half, with all buffers made, is surely above 0 (Theil, Sen 1968) and

    adds more than LEAST to it.
    """
    sizes = [size for _, size in looks]
    later = looks[len(looks) // 2 :]
    ends = sizes[0], sizes[-1], max(sizes)
    if len(later) < FEWEST:
        return Growth(*ends, None)
    at_s, held = np.array(later, dtype=np.float64).T
    slope, _, low, _ = stats.theilslopes(held, at_s)
    return Growth(*ends, bool(low > 0 and slope * np.ptp(at_s) > LEAST * np.median(held)))
