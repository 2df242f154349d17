"""Names: own, published by plug-ins, nearly right, broken."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from xpress_bench import registry
from xpress_bench.errors import UsageError
from xpress_bench.registry import Entry, Registry


@pytest.fixture
def drafters() -> Registry[object]:
    found: Registry[object] = Registry("drafters")
    found.add("dflash", "json:dumps", "block diffusion")
    found.add("prompt_lookup", "no.such.module:load", "copies")
    return found


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("mine", "json:loads", "xpress_bench.drafters"),
        EntryPoint("broken", "no_such_package:load", "xpress_bench.drafters"),
        EntryPoint("dflash", "json:loads", "xpress_bench.drafters"),
        EntryPoint("elsewhere", "json:loads", "xpress_bench.refiners"),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: EntryPoints(points).select(group=group))


def test_a_name_gives_its_object_and_is_imported_only_then(drafters: Registry[object]) -> None:
    import json

    assert drafters.get("dflash") is json.dumps
    assert drafters.names() == ["dflash", "prompt_lookup"]  # though the second does not even exist


def test_the_decorator_registers_the_thing_itself(drafters: Registry[object]) -> None:
    @drafters.register("new", "a new one")
    def build() -> None: ...

    assert drafters.get("new") is build
    assert "new" in drafters


@pytest.mark.parametrize(("typed", "meant"), [("dflsh", "dflash"), ("promt_lookup", "prompt_lookup")])
def test_a_wrong_name_suggests_the_nearest(drafters: Registry[object], typed: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"no drafter called '{typed}'; did you mean {meant}") as caught:
        drafters.get(typed)
    assert "\n" not in str(caught.value)


def test_a_name_like_none_lists_all(drafters: Registry[object]) -> None:
    with pytest.raises(UsageError, match=r"known: dflash, prompt_lookup\. `xpress-bench list drafters`"):
        drafters.get("zzz")


def test_a_taken_name_is_refused(drafters: Registry[object]) -> None:
    with pytest.raises(ValueError, match="'dflash' is taken"):
        drafters.add("dflash", "json:loads", "another")


@pytest.mark.usefixtures("plugins")
def test_plug_ins_of_this_kind_are_found_and_own_names_win(drafters: Registry[object]) -> None:
    import json

    assert drafters.get("mine") is json.loads
    assert drafters.get("dflash") is json.dumps
    assert drafters.names() == ["dflash", "prompt_lookup", "broken", "mine"]
    assert drafters.entries()[-1] == Entry("mine", "json:loads", "unknown")
    assert [entry.name for entry in drafters.entries()] == ["dflash", "prompt_lookup", "broken", "dflash", "mine"]
    assert "mine" in drafters
    assert "elsewhere" not in drafters


@pytest.mark.usefixtures("plugins")
def test_plug_ins_are_suggested_too(drafters: Registry[object]) -> None:
    with pytest.raises(UsageError, match="did you mean mine"):
        drafters.get("mime")


@pytest.mark.usefixtures("plugins")
def test_a_broken_plug_in_is_named_with_its_reason(drafters: Registry[object]) -> None:
    with pytest.raises(
        UsageError, match=r"plug-in 'broken' \(no_such_package:load\) is broken: ModuleNotFoundError: No"
    ):
        drafters.get("broken")


@pytest.mark.usefixtures("plugins")
def test_the_list_says_which_plug_ins_cannot_be_used_and_why(drafters: Registry[object]) -> None:
    said = [entry.summary for entry in drafters.entries() if entry.origin != "xpress_bench"]
    assert said == [
        "no_such_package:load, broken: ModuleNotFoundError: No module named 'no_such_package'",
        "json:loads, hidden: its name is taken, it needs another",
        "json:loads",
    ]
