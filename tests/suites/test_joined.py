"""Suites run as one: items in order, one meaning for each category, one hash."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from xpress_bench.errors import UsageError
from xpress_bench.suites import Item, Suite, load_suite
from xpress_bench.suites.joined import join, smoke


def suite(name: str, *ids: str, category: str = "", **changes: object) -> Suite:
    items = tuple(Item(one, f"say {one}", category or name) for one in ids)
    return replace(Suite(name, "1.0.0", f"hash of {name}", items), **changes)  # type: ignore[arg-type]


def test_items_keep_their_order_budgets_and_scorers_and_know_their_suite() -> None:
    one = suite("qa", "a", "b", budgets={"qa": 16}, scorers={"qa": "contains"}, parity_margin=0.03, smoke=("b",))
    two = suite("long", "c", budgets={"long": 99}, parity_margin=0.02, smoke=("c",))
    both = join("qa,long", [one, two])
    assert [(item.id, item.suite, both.budget(item)) for item in both.items] == [
        ("a", "qa", 16), ("b", "qa", 16), ("c", "long", 99),
    ]  # fmt: skip
    assert (both.scorers, both.parity_margin, both.smoke) == ({"qa": "contains"}, 0.02, ("b", "c"))
    assert both.version == "qa 1.0.0, long 1.0.0"


def test_the_hash_changes_with_any_part_and_with_their_order() -> None:
    one, two = suite("qa", "a"), suite("long", "b")
    hashes = {
        join("x", parts).sha256 for parts in ([one, two], [two, one], [one], [one, replace(two, sha256="other bytes")])
    }
    assert len(hashes) == 4


@pytest.mark.parametrize(
    ("two", "told"),
    [
        (suite("long", "a"), "suites qa and long both have an item 'a'"),
        (suite("long", "b", category="qa"), "category 'qa' of suite long is run or scored in another way"),
        (suite("long", "b", category="qa", budgets={"qa": 17}), "category 'qa' of suite qa is run or scored"),
        (suite("long", "b", scorers={"none": "exact"}), "category 'qa' of suite qa is run or scored"),
    ],
)
def test_what_cannot_be_run_as_one_is_refused(two: Suite, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        join("qa,long", [suite("qa", "a", budgets={"qa": 16}), two])


def test_suites_without_conversations_have_no_say_in_the_number_of_turns() -> None:
    talk = Suite("short", "1", "0", (Item("t", "a", turns=("a", "b")),), turns=1)
    assert join("x", [suite("qa", "a", budgets={"qa": 128}), talk]).turns == 1
    with pytest.raises(UsageError, match="differ in turns"):
        join("x", [talk, replace(talk, name="own", items=(Item("u", "a", turns=("a", "b")),), turns=None)])


def test_smoke_is_a_suite_of_the_listed_items() -> None:
    small = smoke(suite("qa", "a", "b", "c", smoke=("c", "a")))
    assert [item.id for item in small.items] == ["a", "c"]
    assert small.sha256 != suite("qa", "a", "b", "c").sha256


def test_all_smoke_and_lists_of_names() -> None:
    every, small = load_suite("all"), load_suite("smoke")
    names = ("long", "qa", "short", "translation")
    assert {item.suite for item in every.items} == set(names)
    assert len(every.items) == 96 + 160 + 160 + 120
    assert {name: sum(item.suite == name for item in small.items) for name in names} == dict.fromkeys(names, 4)
    assert [item.id for item in load_suite("qa, short").items] == [
        item.id for name in ("qa", "short") for item in load_suite(name).items
    ]


def test_files_and_datasets_may_stand_in_a_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, prompt in (("own.jsonl", "one"), ("a,b.jsonl", "two")):
        Path(name).write_text(json.dumps({"prompt": prompt}) + "\n")
    assert [item.suite for item in load_suite("qa,own.jsonl").items][-2:] == ["qa", "own"]
    assert [item.prompt for item in load_suite("a,b.jsonl").items] == ["two"]


@pytest.mark.parametrize("name", ["qa,qa", "qa,", "qa,,short"])
def test_a_list_of_names_with_a_hole_or_a_twin_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="give different names between the commas"):
        load_suite(name)


def test_a_wrong_name_in_a_list_is_named() -> None:
    with pytest.raises(UsageError, match="no suite called 'shrt'; did you mean short"):
        load_suite("qa,shrt")


def test_the_name_of_several_files_is_no_path(tmp_path: Path) -> None:
    for name in ("x", "y"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"prompt": name}))
    assert (
        load_suite(f"{tmp_path}/x.jsonl,{tmp_path}/../{tmp_path.name}/y.jsonl").name == "x,y"
    )  # it names a run's folder
