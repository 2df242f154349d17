"""A recipe that cannot be trained is refused before its first step, in one line that says what to set."""

from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from xpress_bench import cli
from xpress_bench.train.limits import LEAST, MOST, check
from xpress_bench.train.recipe import Recipe


def test_the_recipe_as_it_stands_is_fine() -> None:
    check(Recipe())


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("drafter.minutes=-1", "drafter.minutes is -1.0: give a number from 0 on"),
        ("refiner.minutes=inf", "refiner.minutes is inf: give a number from 0 on"),
        ("markov.minutes=nan", "markov.minutes is nan: give a number from 0 on"),
        ("shape.layers=0", "shape.layers is 0: give a number from 1 on"),
        ("shape.passes=0", "shape.passes is 0: give a number from 1 on"),  # no checkpoint may say 0
        ("shape.block_size=1", "shape.block_size is 1: give a number from 2 on"),
        ("drafter.draw.block_sizes=[8,1]", "drafter.draw.block_sizes.1 is 1: give a number from 2 on"),
        ("drafter.draw.gamma=0", "drafter.draw.gamma is 0.0: give a number from 1e-06 on"),
        ("answers.sampled=30", "answers.sampled is 30.0: give a number from 0 to 1"),
        ("answers.open=0.9 answers.long=0.2", "are shares of all prompts and make more than 1"),
        ("answers.answers=0 answers.given=0", "there would be nothing to learn from"),
        ("refiner.draw.anchors=3", "refiner.draw.anchors is 3: give a number from refiner.draw.rows=4 on"),
        ("markov.draw.anchors=3000", "no more than the 2048 tokens of all rows"),
        ("shape.block_size=32", "shape.block_size is 32, and shape.largest_block 16"),
        ("vocab_size=100", "vocab_size is 100: give a number from 260 to 65535"),
        ("vocab_size=100000", "vocab_size is 100000: give a number from 260 to 65535"),
        ("pretrain.shape.heads=3 pretrain.shape.kv_heads=2", "heads=3 has to be a multiple of kv_heads=2"),
        ("pretrain.rates.warmup_steps=0", "pretrain.rates.warmup_steps is 0: give a number from 1 on"),
    ],
)
def test_what_cannot_be_trained_is_one_line(word: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "tokenizer", "--work", "nowhere", *word.split()]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_limits_are_about_settings_that_there_are() -> None:
    def words(kind: Any) -> set[str]:
        if isinstance(kind, tuple):
            return set().union(*map(words, kind))
        if not is_dataclass(kind):
            return set()
        return set().union(*({field.name} | words(getattr(kind, field.name)) for field in fields(kind)))

    assert set(LEAST) | set(MOST) <= words(Recipe())
