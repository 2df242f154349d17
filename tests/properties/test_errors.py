"""What a person is told is one printable line, whatever it quotes."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from xpress_bench.errors import MOST_TOLD, UsageError


@given(st.text())
@example("a\nb\r\x1b[31m\0\u2028\ud800é")
def test_a_message_is_one_printable_line_that_keeps_what_can_be_printed(text: str) -> None:
    told = str(UsageError(text))
    assert told.isprintable()
    assert [c for c in told if c != " "] == [c for c in text if c.isprintable() and c != " "]


def test_of_a_message_that_quotes_a_whole_file_both_ends_are_told() -> None:
    told = str(UsageError(f"own.jsonl: {'x' * 10**6} is no path"))
    assert told.startswith("own.jsonl: xxx")
    assert told.endswith("xxx is no path")
    assert len(told) == MOST_TOLD + len(" ... ")
