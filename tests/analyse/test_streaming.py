"""Cells reduced while they are read: the same numbers, other objects, and no trace in memory."""

from __future__ import annotations

import gc
import json
import tracemalloc
from dataclasses import fields, replace

import pytest
from runs import COUPLED, cell, exact_study, failed, figures, run

from xpress_bench.analyse.streaming import Reducer, read_reduced
from xpress_bench.analyse.summary import summarise
from xpress_bench.errors import UsageError
from xpress_bench.journals import from_line, read_run, to_line
from xpress_bench.records import Steps

TRACE = Steps(
    offered=(2, 1),
    accepted=(1, 1),
    committed=(2, 2),
    drafts=((4, 5), (6,)),
    refined=((4, 9), (6,)),
    draft_s=(0.1, 0.2),
    refine_s=(0.0, 0.1),
    verify_s=(0.3, 0.4),
    matched=(1, 1),
    passes=(4, 3),
)
FULL = cell("draft", ids=(4, 5, 6), text="été\u2028", ttft_s=0.5, prefill_s=0.5, rest_s=0.1, steps=TRACE, turn=2)


def journal(folder, *lines):
    file = folder / "journal.jsonl"
    file.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines))
    return folder


def written(folder, of):
    return journal(folder, *map(to_line, (of.header, *of.cells, of.footer)), "")


@pytest.mark.parametrize("one", [FULL, cell("direct"), failed("refine"), replace(FULL, condition=COUPLED)])
def test_a_cell_is_the_same_but_for_its_steps(one):
    found = Reducer().record(to_line(one).encode())
    assert [getattr(found, f.name) for f in fields(found) if f.name != "steps"] == [
        getattr(one, f.name) for f in fields(one) if f.name != "steps"
    ]
    assert found.steps == one.steps.tally
    with pytest.raises(AttributeError):
        _ = found.steps.drafts


def test_what_older_journals_lack_is_as_it_was():
    body = json.loads(to_line(FULL))
    del body["turn"], body["steps"]["matched"], body["steps"]["passes"]
    old = json.dumps(body, separators=(",", ":")).encode()
    found = Reducer().record(old)
    assert (found.turn, found.steps) == (1, from_line(old).steps.tally)


def test_the_order_of_keys_is_free():
    body = json.loads(to_line(FULL))
    turned = json.dumps(dict(reversed(body.items()))).encode()
    assert Reducer().record(turned) == replace(FULL, steps=TRACE.tally)


def test_equal_values_are_one_object():
    reducer = Reducer()
    ours, theirs = (reducer.record(to_line(replace(FULL, arm=arm, latency_s=2.0)).encode()) for arm in ("a", "b"))
    for name in ("prompt", "prompt_sha256", "text", "ids", "condition"):
        assert getattr(ours, name) is getattr(theirs, name)
    assert ours.steps.rounds is theirs.steps.rounds


LINE = to_line(FULL)


@pytest.mark.parametrize(
    "bad",
    [
        LINE[:-1],
        LINE.replace('"turn":2', '"turn":2,"more":1'),
        LINE.replace('"passes":', '"more":[],"passes":'),
        LINE.replace('"verifier":', '"more":1,"verifier":'),
        LINE.replace('"rest_s":0.1', '"rest_s":NaN'),
        LINE.replace('"rest_s":0.1', '"rest_s":1e999'),
        LINE.replace("[0.1,0.2]", "[0.1,Infinity]"),
        LINE.replace('"accepted":[1,1]', '"accepted":[1]'),
        LINE.replace('"accepted":[1,1]', '"accepted":[1,"1"]'),
        LINE.replace("[4,5,6]", "[4,5,0.5]"),
        LINE.replace('"seed":0', '"seed":"0"'),
        LINE.replace('"prompt":"p0",', ""),
        LINE.encode().replace("é".encode(), b"\xe9"),
    ],
)
def test_a_bad_line_is_named(tmp_path, bad):
    folder = journal(tmp_path, to_line(run([FULL]).header), bad, LINE, "")
    with pytest.raises(UsageError, match=r"journal\.jsonl, line 2: not a journal record"):
        read_reduced(folder)


def test_a_torn_last_line_is_dropped(tmp_path):
    folder = journal(tmp_path, to_line(run([FULL]).header), LINE, LINE[:-1])
    assert len(read_reduced(folder).cells) == 1


def test_a_summary_is_that_of_the_whole_journal(tmp_path):
    cells = [replace(c, steps=TRACE) if c.arm == "refine" else c for c in exact_study()]
    folder = written(tmp_path, run(cells))
    assert figures(summarise(read_reduced(folder))) == figures(summarise(read_run(folder)))


def peak_bytes(folder, steps):
    """Peak of reading 600 cells whose 41 output ids took so many steps, each with times of its own."""
    each = 40 // steps
    plain = Steps((7,) * steps, (each - 1,) * steps, (each,) * steps, ((1, 2, 3, 4, 5, 6, 7),) * steps)
    cells = [
        cell(arm, f"p{p}", seed=seed, ids=tuple(range(41)), steps=replace(plain, draft_s=(0.001 * p + seed,) * steps))
        for p in range(100)
        for seed in range(3)
        for arm in ("draft", "refine")
    ]
    written(folder, run(cells))
    tracemalloc.start()
    try:
        held = read_reduced(folder)
        return tracemalloc.get_traced_memory()[1] if len(held.cells) == len(cells) else 0
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_length_of_traces(tmp_path):
    read_reduced(written(tmp_path, run([FULL])))  # what is allocated once
    short, long = peak_bytes(tmp_path, 20), peak_bytes(tmp_path, 40)
    assert long < short + 20 * 600  # less than a byte for each further step


def test_the_collector_is_on_again_whatever_happens(tmp_path):
    assert gc.isenabled()
    with pytest.raises(UsageError):
        read_reduced(tmp_path)
    assert gc.isenabled()
