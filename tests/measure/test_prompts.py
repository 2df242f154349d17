"""From suite items to ids: one rendering for all arms, special tokens once, and no prompt is ever cut."""

from __future__ import annotations

from typing import Any

import pytest

from xpress_bench.measure.prompts import prepare, render
from xpress_bench.parts import load_tokenizer
from xpress_bench.records import Skipped
from xpress_bench.settings import TargetSettings
from xpress_bench.suites import Item, Suite

BOS, TURN, THINK = 1, 2, 3


class Chatty:
    """One id per letter; a template that writes its own BOS and, by a flag, `<think>`."""

    chat_template = "{{ messages }}"

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": [BOS, *map(ord, text)]}

    def apply_chat_template(self, messages: list[dict[str, str]], **flags: Any) -> dict[str, list[int]]:
        assert flags["add_generation_prompt"]
        thinking = [THINK] if flags["enable_thinking"] else []
        return {"input_ids": [BOS, *(i for one in messages for i in (*map(ord, one["content"]), TURN)), *thinking]}


ITEM = Item("p", "ab")


def prepared(thinking: bool, *items: Item, budget: int = 8, context: int = 64) -> Any:
    suite, settings = Suite("s", "1", "0", items, budgets={"all": budget}), TargetSettings("toy", thinking=thinking)
    return prepare(suite, Chatty(), settings, context, None)


def test_c16_the_thinking_flag_changes_ids_and_hash_and_unset_is_off() -> None:
    (on,), _ = prepared(True, ITEM)
    (off,), _ = prepared(False, ITEM)
    assert on.ids == (BOS, 97, 98, TURN, THINK)
    assert off.ids == (BOS, 97, 98, TURN)
    assert on.sha256 != off.sha256
    assert render([ITEM.prompt], Chatty(), TargetSettings("toy")) == off.ids


def test_plain_text_gets_the_tokenizer_s_own_special_tokens_once() -> None:
    assert render([ITEM.prompt], Chatty(), TargetSettings("toy", chat_template=False)) == (BOS, 97, 98)


def test_the_embedded_template_neither_loses_nor_doubles_special_tokens() -> None:
    tokenizer, item = load_tokenizer(TargetSettings("embedded")), Item("p", "What is 2 + 3?")
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": item.prompt}], add_generation_prompt=True, tokenize=False, enable_thinking=False
    )
    ids = render([item.prompt], tokenizer, TargetSettings("embedded"))
    assert list(ids) == tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == text


@pytest.mark.parametrize(
    ("letters", "budget", "kept"),
    [(78, 16, False), (58, 16, False), (38, 8, True), (8, 64, False), (46, 16, True), (47, 16, False)],
)
def test_c41_a_prompt_fits_whole_or_is_skipped_and_named(letters: int, budget: int, kept: bool) -> None:
    """The template adds two ids: 80, 60, 40, 10, 48 and 49 in a context of 64."""
    prompts, skipped = prepared(False, Item("p", "x" * letters), ITEM, budget=budget)
    if kept:
        assert len(prompts[0].ids) == letters + 2
        assert not skipped
    else:
        reason = "with its budget longer than the context of 64 tokens"
        assert skipped[0] == Skipped("p", reason, letters + 2 + budget)


def test_max_new_tokens_wins_over_the_suite_s_budget() -> None:
    suite = Suite("s", "1", "0", (ITEM,), budgets={"all": 8})
    (prompt,), _ = prepare(suite, Chatty(), TargetSettings("toy"), 64, 5)
    assert prompt.budget == 5


def test_a_history_alternates_between_user_and_assistant() -> None:
    class Roles(Chatty):
        def apply_chat_template(self, messages: list[dict[str, str]], **flags: Any) -> dict[str, list[int]]:
            assert [one["role"] for one in messages] == ["user", "assistant", "user"]
            return super().apply_chat_template(messages, **flags)

    assert render(["a", "b", "c"], Roles(), TargetSettings("toy")) == (BOS, 97, TURN, 98, TURN, 99, TURN)
