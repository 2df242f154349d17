"""Finding the most rows: the search by a fake that fails above n, and once by a real limit of memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import rig

from xpress_bench.errors import RunError
from xpress_bench.load import limit
from xpress_bench.load.limit import bisect, find_limits
from xpress_bench.load_records import Probe
from xpress_bench.settings import DrafterSettings, TargetSettings


def probed(holds: int, most: int) -> list[tuple[int, bool]]:
    return [(one.rows, one.fits) for one in bisect(lambda rows: Probe("direct", rows, rows <= holds), most)]


def test_it_doubles_until_one_does_not_fit_and_then_bisects() -> None:
    assert probed(11, 64) == [
        (1, True),
        (2, True),
        (4, True),
        (8, True),
        (16, False),
        (12, False),
        (10, True),
        (11, True),
    ]
    assert probed(8, 64) == [
        (1, True),
        (2, True),
        (4, True),
        (8, True),
        (16, False),
        (12, False),
        (10, False),
        (9, False),
    ]
    assert probed(0, 64) == [(1, False)]
    assert probed(1, 64) == [(1, True), (2, False)]


def test_it_tries_no_more_than_it_may() -> None:
    assert probed(99, 6) == [(1, True), (2, True), (4, True), (6, True)]
    assert probed(5, 6) == [(1, True), (2, True), (4, True), (6, False), (5, True)]
    assert probed(99, 1) == [(1, True)]


@pytest.mark.parametrize("holds", range(40))
def test_neighbours_are_found_for_every_boundary(holds: int) -> None:
    found = dict(probed(holds, 39))
    assert max((rows for rows, fits in found.items() if fits), default=0) == min(holds, 39)
    assert holds >= 39 or found[holds + 1] is False


def probe(monkeypatch: pytest.MonkeyPatch, program: str) -> Probe:
    monkeypatch.setattr(limit, "CHILD", ("-c", program))
    return limit._probe(Path("settings.json"), "draft", 3, None)


def test_a_process_that_the_system_kills_had_no_memory_left(monkeypatch: pytest.MonkeyPatch) -> None:
    found = probe(monkeypatch, "import os; os.kill(os.getpid(), 9)")
    assert found == Probe("draft", 3, False, reason="the process was killed by signal 9")
    found = probe(monkeypatch, "raise MemoryError")
    assert (found.fits, found.reason) == (False, "MemoryError")


def test_any_other_end_is_no_boundary(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RunError, match="3 rows of draft: the probe ended with status 1: ValueError: broken"):
        probe(monkeypatch, "raise ValueError('broken')")
    with pytest.raises(RunError, match="no message"):
        probe(monkeypatch, "pass")


@pytest.mark.slow
def test_a_real_limit_of_memory_has_a_boundary() -> None:
    settings = rig.settings(
        target=TargetSettings("embedded"), drafter=DrafterSettings("none"), suite="qa", limit=2, max_new_tokens=2
    )
    (one,) = find_limits(settings, None, 1, quiet)
    assert one.fits
    assert one.peak_bytes is not None
    probes = find_limits(settings, one.peak_bytes + 2**26, 4096, quiet)
    fits = max(one.rows for one in probes if one.fits)
    fails = min(one.rows for one in probes if not one.fits)
    assert fails == fits + 1 > 1
    assert all("oom: " in (one.reason or "") or "killed" in (one.reason or "") for one in probes if not one.fits)


def quiet(done: int, total: int, what: str) -> None:
    """Shows nothing."""
