"""Verify steps as sums, counted by hand."""

from __future__ import annotations

import pytest

from xpress_bench.records import Steps
from xpress_bench.tally import Tally, counted


def test_steps_of_one_kind_are_counted_together() -> None:
    found = counted(offered=(7, 7, 3), accepted=(2, 2, 0), committed=(3, 3, 1), matched=(2, 2, 1))
    assert found == Tally((((7, 2, 3, 2), 2), ((3, 0, 1, 1), 1)), 3, 17, 4, 7, last=1)
    assert found.longest == 7


def test_what_an_older_journal_does_not_say_is_unknown() -> None:
    assert counted((7,), (2,), (3,), ()).rounds == (((7, 2, 3, None), 1),)


def test_no_steps_are_no_steps_and_took_no_time_that_is_known() -> None:
    assert Steps().tally == Tally((), 0, 0, 0, 0, 0, 0.0, 0.0, None)
    assert Tally().longest == 0


def test_times_are_summed() -> None:
    steps = Steps((2, 1), (1, 1), (2, 2), draft_s=(0.25, 0.5), refine_s=(0.0, 0.125), verify_s=(1.0, 2.0))
    assert (steps.tally.draft_s, steps.tally.refine_s, steps.tally.verify_s) == (0.75, 0.125, 3.0)
    assert steps.tally.tally is not None
    assert steps.tally.tally == steps.tally


def test_fields_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        counted((7, 7), (2,), (3,), ())
