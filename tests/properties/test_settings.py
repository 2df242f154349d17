"""Flags and overrides: any text reaches the settings as it is, or is refused in one line."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import example, given, settings
from hypothesis import strategies as st

from xpress_bench.config import settings_from
from xpress_bench.errors import UsageError
from xpress_bench.flags import settings_of
from xpress_bench.settings import Settings

SPECIAL = [*"\\'\"${}[](),:=@~#% \t\n\0\x1b\u2028\ud800", "..", "null", "true", "1e3", "${oc.env:HOME}"]
TEXT = st.lists(st.sampled_from(SPECIAL) | st.text(max_size=3), max_size=6).map("".join)
WHERE = {"suite": lambda s: s.suite, "target": lambda s: s.target.name, "drafter": lambda s: s.drafter.name}


def composed(words: list[str]) -> Settings | None:
    """The settings, None where they are refused; nothing but a UsageError may be raised."""
    try:
        return settings_of([*words, "--device=cpu"], "xpress-bench")
    except UsageError:
        return None


@settings(max_examples=40)
@given(flag=st.sampled_from(sorted(WHERE)), text=TEXT)
def test_any_text_after_a_flag_is_taken_as_it_is_or_refused(flag: str, text: str) -> None:
    found = composed([f"--{flag}={text}"])
    assert found is None or WHERE[flag](found) == text


@settings(max_examples=20)
@given(text=st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20))
@example(text="it's a \\' path: \"50%=done\", [#1] {a,b} (c) ~/@x ${oc.env:HOME} \\\\")
def test_no_printable_text_is_refused(text: str) -> None:
    found = composed([f"--drafter={text}"])
    assert found is not None
    assert found.drafter.name == text


@settings(max_examples=20)
@given(key=st.sampled_from(["seeds", "limit", "dtype", "target.name", "drafter.params.x", "temperatures"]), text=TEXT)
def test_any_override_is_composed_or_refused(key: str, text: str) -> None:
    with suppress(UsageError):
        found = settings_from({}, [f"{key}={text}"])
        assert Settings.from_json(found.to_json()) == found
