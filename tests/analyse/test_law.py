"""The draft law test on places that follow their law and on places that do not."""

from dataclasses import replace

import numpy as np
import pytest
from runs import COUPLED, REJECTION, run, study

from xpress_bench.analyse.intervals import Unknown
from xpress_bench.analyse.law import LEVEL, draft_law
from xpress_bench.analyse.summary import summarise
from xpress_bench.records import Trace


def placed(places, condition=REJECTION):
    rows = tuple((float(place),) for place in places)
    return Trace("p", 0, "draft", condition, (1,), (1,) * len(rows), places=rows)


def test_honest_places_are_accused_as_often_as_stated():
    rng = np.random.default_rng(8)
    p_values = np.array([draft_law([placed(rng.uniform(size=40))]).p_value for _ in range(1000)])
    for level in (0.01, 0.1):  # four standard errors
        assert np.mean(p_values < level) == pytest.approx(level, abs=4 * np.sqrt(level / 1000))
    assert np.mean(p_values < LEVEL) <= 5 / 1000  # 1 expected


def test_places_that_lean_are_refuted_and_told_where():
    found = draft_law([placed(np.linspace(0.5, 1, 40)), placed([0.6, 0.9])])
    assert (found.tokens, found.refuted) == (42, True)
    assert found.place == pytest.approx(0.75, abs=0.01)
    honest = np.random.default_rng(9).uniform(size=320)
    assert not draft_law([placed(honest)]).refuted
    assert draft_law([placed(np.concatenate([honest, np.zeros(80)]))]).refuted  # one in five is impossible


def test_parity_is_refuted_where_the_law_is():
    cells = [replace(c, condition=REJECTION) for c in study()]
    lies = [placed(np.full(20, 1.0)), replace(placed(np.linspace(0, 1, 20)), arm="refine")]
    of = summarise(replace(run(cells), traces=tuple(lies))).conditions[0]
    draft, refine = (one.parity for one in of.arms[1:])
    assert (draft.outcome, refine.outcome) == ("refuted", "not shown")
    assert draft.reason.startswith("has not the target's law")


def test_where_no_law_is_claimed():
    assert draft_law([]) == Unknown("no request was traced")
    assert "point masses" in draft_law([placed([])]).reason
    assert "only rejection" in draft_law([placed([0.5], COUPLED)]).reason
