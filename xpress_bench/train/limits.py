"""What the recipe's settings may be, checked before a step begins: an hour later would be too late to say it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from xpress_bench.errors import UsageError

if TYPE_CHECKING:
    from xpress_bench.train.distil import AnswerRecipe
    from xpress_bench.train.drafter import DrafterRecipe
    from xpress_bench.train.recipe import Recipe

# By the last word of a setting's key. Numbers that are not listed are whole from 1 on, or not whole from 0 on.
LEAST = {
    "vocab_size": 260,  # bytes and special tokens
    "tokenizer_tasks": 0, "answers": 0, "given": 0, "long_from": 0, "mask_token_id": 0, "rounds": 0,
    "seed": 0, "block_size": 2, "block_sizes": 2, "gamma": 1e-6,
}  # fmt: skip
MOST = {"vocab_size": 65_535} | dict.fromkeys(
    ("open", "prose", "long", "sampled", "wide", "revealed", "task_share", "until", "decay_from", "final"), 1
)  # token streams are 16 bits wide; the others are shares


def check(recipe: Recipe) -> None:
    """Raises UsageError, one line, for the first setting that no training can be made with."""
    for key, value in _numbers(recipe, ""):
        word = next(part for part in reversed(key.split(".")) if not part.isdigit())
        least, most = LEAST.get(word, 1 if isinstance(value, int) else 0), MOST.get(word, math.inf)
        if not (least <= value <= most and math.isfinite(value)):
            upto = f" to {most}" if most < math.inf else " on"
            raise UsageError(f"{key} is {value}: give a number from {least}{upto}")
    _check_answers(recipe.answers)
    for name in ("drafter", "refiner", "markov"):
        _check_draw(name, getattr(recipe, name))
    shape = recipe.pretrain.shape
    if shape.heads % shape.kv_heads or shape.head_dim % 2:
        raise UsageError(
            f"pretrain.shape: heads={shape.heads} has to be a multiple of kv_heads={shape.kv_heads}, "
            f"and head_dim={shape.head_dim} even"
        )
    if recipe.shape.block_size > recipe.shape.largest_block:
        raise UsageError(
            f"shape.block_size is {recipe.shape.block_size}, and shape.largest_block {recipe.shape.largest_block}: "
            "set the second at least as high"
        )


def _numbers(value: Any, key: str) -> Iterator[tuple[str, int | float]]:
    """Every number of nested settings with its dotted key."""
    if is_dataclass(value):
        parts: dict[str, Any] = {field.name: getattr(value, field.name) for field in fields(value)}
    elif isinstance(value, tuple):
        parts = {str(index): part for index, part in enumerate(value)}
    else:
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield key, value
        return
    for name, part in parts.items():
        yield from _numbers(part, f"{key}.{name}".strip("."))


def _check_answers(answers: AnswerRecipe) -> None:
    if answers.open + answers.prose + answers.long > 1 + 1e-9:
        raise UsageError(
            f"answers.open={answers.open}, answers.prose={answers.prose} and answers.long={answers.long} are shares of "
            "all prompts and make more than 1"
        )
    if not answers.answers + answers.given:
        raise UsageError("answers.answers and answers.given are both 0: there would be nothing to learn from")


def _check_draw(name: str, recipe: DrafterRecipe) -> None:
    draw = recipe.draw
    if not draw.rows <= draw.anchors <= draw.rows * draw.length:
        raise UsageError(
            f"{name}.draw.anchors is {draw.anchors}: give a number from {name}.draw.rows={draw.rows} on, and no more "
            f"than the {draw.rows * draw.length} tokens of all rows"
        )
