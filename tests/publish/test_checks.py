"""Every rule of admission lets a good run pass and names a run that breaks it."""

import json
from collections import Counter
from dataclasses import replace
from functools import cache, reduce
from operator import getitem
from random import Random

import pytest
from runs import GREEDY, steps
from submitted import AFTER, GIT, NAMES, SUITE, header, records, run_of, submission, use_suite

from xpress_bench.analyse import metrics
from xpress_bench.analyse.reduce import select
from xpress_bench.journals import from_line, to_line
from xpress_bench.publish import methods
from xpress_bench.publish.checks import FIRST, THEN, faults
from xpress_bench.publish.checks.submission import known_suites
from xpress_bench.publish.standings import entry_of
from xpress_bench.records import Cell, Condition, Footer, Launch, Memory, Replay, Skipped
from xpress_bench.suites import SUITES, load_suite

SHORT = {"seeds": [0], "repeats": 2, "launches": 2, "batch_size": 1, "threads": 2}
STOP = 2


@pytest.fixture(autouse=True)
def suite(monkeypatch):
    use_suite(monkeypatch)


@cache
def good():
    return tuple(records(header(settings=header().settings | SHORT)))


def journal(**changes):
    return records(header(**{"settings": header().settings | SHORT, **changes})) if changes else list(good())


def found(lines):
    return [(fault.code, fault.what) for fault in faults(submission(lines))]


def changed(kind, change, only=lambda one: True):
    """The journal with every record of a kind changed, or those that `only` says."""
    return [change(one) if isinstance(one, kind) and only(one) else one for one in journal()]


def head(**changes):
    return changed(type(header()), lambda one: replace(one, **changes))


def first_cells(count, **changes):
    """The journal with the first cells of draft changed."""
    left = iter(range(count))
    return changed(
        Cell, lambda one: replace(one, **changes), lambda one: one.arm == "draft" and next(left, None) is not None
    )


def settings(**changes):
    return head(settings=header().settings | SHORT | changes)


def swapped():
    """The first two prompts, their cells mixed."""
    lines = journal()
    cells = [at for at, one in enumerate(lines) if isinstance(one, Cell)]
    lines[cells[2]], lines[cells[3]] = lines[cells[3]], lines[cells[2]]
    return lines


def always_first():
    """Direct always first, as it is written down."""
    lines, batch = [], []
    for one in journal():
        if not isinstance(one, Cell):
            lines.append(one)
            continue
        batch.append(one)
        if len(batch) == len(NAMES):
            batch.sort(key=lambda cell: NAMES.index(cell.arm))
            lines += [replace(cell, order=place) for place, cell in enumerate(batch)]
            batch = []
    return lines


def unjudged():
    return first_cells(1, ids=(5, 6, 7, 8, 9, 10, 11, 13, STOP))


def far_dirty():
    """The second launch was of changed files."""
    machine = {"git": GIT | {"dirty": True}}
    return changed(Launch, lambda one: replace(one, machine=one.machine | machine), lambda one: one.launch == 1)


def elsewhere():
    """The second launch was on another machine."""
    machine = {"git": GIT, "hard": {"cpu_model": "Another CPU", "torch_threads": 2}}
    return changed(Launch, lambda one: replace(one, machine=one.machine | machine), lambda one: one.launch == 1)


def busy():
    """Others took 8 of 20 CPU seconds of the second launch, whatever its mark says."""
    return ended(AFTER | {"cpu_busy_s": 20.0, "cpu_idle_s": 0.0, "own_cpu_s": 12.0})


def blind():
    """A system that tells nobody's CPU time; no reading shows that anything disturbed the second launch."""
    return ended({"cpu_busy_s": None, "own_cpu_s": 10.0, "reasons": {"cpu_busy_s": "no CPU times on this system"}})


def ended(after):
    """The journal with these readings at the end of the second launch."""
    return changed(
        Launch,
        lambda one: replace(one, machine={"after": after}),
        lambda one: one.launch == 1 and one.event == "ended",
    )


def remembered(arm):
    """An arm that answers a prompt ten times faster when it sees it again."""
    return changed(
        Cell, lambda one: replace(one, latency_s=one.latency_s / 10), lambda one: one.arm == arm and one.repeat > 0
    )


def without(kind, only=lambda one: True):
    return [one for one in journal() if not (isinstance(one, kind) and only(one))]


BROKEN = {
    "schema: no settings": ("schema", head(settings={})),
    "schema: seeds of a billion": ("schema", settings(repeats=10**9)),
    "schema: batch": ("schema", settings(batch_size=2)),
    "schema: batches": ("schema", head(batches=(("p0", "p1"),))),
    "schema: name of an arm": ("schema", head(arms=(header().arms[0], replace(header().arms[1], name="x" * 10_000)))),
    "schema: one arm": ("schema", head(arms=header().arms[:1])),
    "schema: no direct": ("schema", head(arms=header().arms[1:])),
    "schema: an arm twice": ("schema", head(arms=(*header().arms, header().arms[1]))),
    "schema: machine of a list": ("schema", head(machine={"hard": {"cpu_model": ["x"]}})),
    "schema: commit that is markup": ("schema", head(git={"commit": "<b>", "dirty": False})),
    "schema: mark of a launch": ("schema", changed(Launch, lambda one: replace(one, machine={"git": "x"}))),
    "schema: conditions of a launch": (
        "schema",
        changed(Launch, lambda one: replace(one, machine={"after": {"own_cpu_s": {"x": [1]}}})),
    ),
    "schema: a date that is none": ("schema", head(created_utc="<script>")),
    "numbers: a huge time": ("numbers", first_cells(1, latency_s=1e300)),
    "numbers: hardly a time": ("numbers", first_cells(1, latency_s=5e-324)),
    "numbers: no time": ("numbers", first_cells(1, latency_s=None)),
    "numbers: time before the first id": ("numbers", first_cells(1, ttft_s=1e9)),
    "numbers: stage times": (
        "numbers",
        first_cells(1, steps=replace(steps([2, 2, 1], [3, 3, 1]), draft_s=(-1.0, 0, 0))),
    ),
    "numbers: a row of a batch": ("numbers", first_cells(1, batch=0)),
    "numbers: a huge peak": ("numbers", changed(Memory, lambda one: replace(one, peak_bytes=2**60))),
    "numbers: an endless error": ("numbers", first_cells(1, latency_s=None, error="x" * 10_000)),
    "suite: another hash": ("suite", head(suite=header().suite | {"sha256": "0" * 64})),
    "suite: a path": ("suite", head(suite=header().suite | {"name": "../../etc/passwd"})),
    "suite: limit": ("suite", settings(limit=16)),
    "suite: own budget": ("suite", settings(max_new_tokens=4)),
    "suite: prompts left out": ("suite", head(prompts=header().prompts[1:])),
    "suite: prompts of its own": ("suite", head(prompts=(*header().prompts, "easy"))),
    "suite: skipped that it has not": ("suite", head(skipped=(Skipped("easy", "too long"),))),
    "weights: random": ("weights", settings(weights="random")),
    "cells: one missing": (
        "cells",
        without(Cell, lambda one: one.prompt == "p3" and one.arm == "draft" and one.repeat),
    ),
    "cells: one for another": ("cells", first_cells(1, repeat=7)),
    "cells: another condition": ("cells", first_cells(1, condition=Condition(1.0, "coupled"))),
    "cells: no footer": ("cells", without(Footer)),
    "cells: incomplete": ("cells", changed(Footer, lambda one: replace(one, complete=False))),
    "order: mixed prompts": ("order", swapped()),
    "order: direct always first": ("order", always_first()),
    "order: not as it says": ("order", first_cells(1, order=9)),
    "launches: one process": ("launches", head(in_process=True)),
    "launches: quick": ("launches", head(profile="quick")),
    "launches: one did not end": ("launches", without(Launch, lambda one: one.launch == 1 and one.event == "ended")),
    "launches: another machine": ("launches", elsewhere()),
    "quiet: others": ("quiet", busy()),
    "quiet: unknown": ("quiet", blind()),
    "memory: none": ("memory", without(Memory)),
    "memory: unknown": ("memory", changed(Memory, lambda one: replace(one, peak_bytes=None, reason="no child"))),
    "tree: dirty": ("tree", head(git=GIT | {"dirty": True})),
    "tree: later launch dirty": ("tree", far_dirty()),
    "tree: unknown": ("tree", [*journal(git={"commit": None, "dirty": None}, versions={"xpress-bench": None})]),
    "caching: draft": ("caching", remembered("draft")),
    "caching: no repeats": ("caching", [*journal(settings=header().settings | SHORT | {"repeats": 1})]),
    "tokens: more than committed": ("tokens", first_cells(1, ids=(5, 6, 7, 8, 9, 10, 11, 12, 13, STOP))),
    "tokens: after the stop": ("tokens", first_cells(1, ids=(5, 6, 7, 8, STOP, 10, 11, 12, STOP))),
    "tokens: no stop": ("tokens", first_cells(1, ids=(5, 6, 7, 8, 9, 10, 11, 12, 13))),
    "tokens: none": ("tokens", first_cells(1, ids=())),
    "tokens: no steps": ("tokens", first_cells(1, steps=steps([]))),
    "tokens: more accepted than offered": ("tokens", first_cells(1, steps=steps([2, 2, 1], offered=[1, 3, 1]))),
    "tokens: more committed than accepted": ("tokens", first_cells(1, steps=steps([0, 2, 1], [3, 3, 1], [3, 3, 2]))),
    "parity: no replay": ("parity", unjudged()),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_rule_is_named(case):
    code, lines = BROKEN[case]
    first, *others = [name for name, _ in found(lines)]
    assert first == code
    assert set(others) <= {"parity"}  # other ids are also a difference that no replay judged


def test_what_could_not_be_read_is_not_taken_for_quiet():
    said = "launch 1 could not be judged: the CPU time of others (no CPU times on this system)"
    assert found(blind()) == [("quiet", said)]


def test_a_good_run_breaks_none():
    assert found(journal()) == []


def test_every_rule_is_broken_by_a_test_and_says_itself():
    codes = [check.code for check in FIRST + THEN]
    assert len(set(codes)) == len(codes)
    assert set(codes) - {"summary"} == {code for code, _ in BROKEN.values()}  # that one has a test of its own
    assert all(check.rule.endswith(".") and check.remedy for check in FIRST + THEN)


def test_declared_figures_are_compared_with_the_journal():
    one = submission(journal())
    rows = one.declaration.headline
    assert [row.arm for row in rows] == list(NAMES)
    for change in ({"speed_up": (2.1, 2.0, 2.2)}, {"latency_s": 0.4}, {"tokens_per_step": None}, {"identical": 0.5}):
        boast = (*rows[:2], replace(rows[2], **change))
        told = faults(replace(one, declaration=replace(one.declaration, headline=boast)))
        assert [(one.code, "refine" in one.what) for one in told] == [("summary", True)]
    fewer = replace(one, declaration=replace(one.declaration, headline=rows[:2]))
    assert [one.code for one in faults(fewer)] == ["summary"]


def test_rounding_of_another_library_is_no_lie():
    one = submission(journal())
    rows = tuple(replace(row, latency_s=row.latency_s * (1 + 1e-9)) for row in one.declaration.headline)
    assert faults(replace(one, declaration=replace(one.declaration, headline=rows))) == []


def test_a_judged_difference_is_admitted_though_it_is_wrong():
    lines = unjudged()
    prompt = next(one.prompt for one in lines if isinstance(one, Cell) and one.ids[-2] == 13)
    replay = Replay(prompt, 0, "draft", GREEDY, 7, 12, 13, 3.0, 1e-6, "real")
    assert found([*lines, replay]) == []


def test_a_release_without_a_checkout_is_admitted():
    installed = {"commit": None, "dirty": None, "reason": "the package is in no git checkout"}
    lines = changed(Launch, lambda one: replace(one, machine=one.machine | {"git": installed}))
    assert found([*head(git=installed)[:1], *lines[1:]]) == []


def test_margin_and_scorers_are_those_of_the_suite():
    boast = submission(head(suite=header().suite | {"parity_margin": 1.0, "scorers": {"c0": "contains"}}))
    assert (boast.run.header.suite["parity_margin"], boast.run.header.suite["scorers"]) == (SUITE.parity_margin, {})


def test_what_a_rule_cannot_judge_is_refused():
    lines = first_cells(1, prompt_sha256="other tokens")
    assert {(code, "cannot be judged" in what) for code, what in found(lines)} >= {("caching", True)}


NASTY = (None, True, -1, 10**30, 1e300, 5e-324, "", "x" * 5000, "<script>", [], {}, [None], {"a": [1]}, "\u202e\x00")


def places(value, at=()):
    """Where there is something in a JSON value, by the keys that lead to it."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, one in inner for place in ((*at, key), *places(one, (*at, key)))]


def spoilt(record, rng):
    """A record with something nasty somewhere; None if a journal with it cannot be read, which is also right."""
    body = json.loads(to_line(record))
    *way, last = rng.choice([place for place in places(body) if place != ("kind",)])
    reduce(getitem, way, body)[last] = rng.choice(NASTY)
    try:
        return from_line(json.dumps(body))
    except (ValueError, KeyError, TypeError):
        return None


def test_whatever_a_stranger_writes_is_refused_or_shown():
    rng, outcomes = Random(0), Counter()
    others = [at for at, one in enumerate(good()) if not isinstance(one, Cell)]
    for _ in range(60):
        lines = journal()
        at = rng.choice([0, rng.choice(others), rng.randrange(len(lines))])
        lines[at] = spoilt(lines[at], rng)
        one = submission(lines) if lines[at] else None
        refused = one is None or bool(faults(one))
        outcomes["refused" if refused else "shown"] += 1
        if not refused:
            assert entry_of(one, "0" * 64).rows
    assert len(outcomes) == 2


def test_the_suites_of_the_package_are_known_by_hash():
    known_suites.cache_clear()
    known = known_suites()
    assert {name for name, _ in known} == {entry.name for entry in SUITES.entries() if entry.origin == "xpress_bench"}
    assert known["qa", load_suite("qa").sha256].items


def test_methods_define_every_metric_and_no_other():
    cells = [one for one in journal() if isinstance(one, Cell) and one.arm == "draft"]
    stems = {name.partition("[")[0].rpartition("_")[0] for name in metrics.metrics(cells)}
    assert set(methods.ACCEPTANCE) == stems
    assert {name.partition("[")[0].rpartition("_")[2] for name in metrics.metrics(cells)} == {
        suffix.removeprefix("_") for suffix in methods.SUFFIXES
    }
    selection = select(run_of(journal()), GREEDY)
    assert set(methods.SPEED) == set(metrics.speedups(selection, "draft", "direct"))
