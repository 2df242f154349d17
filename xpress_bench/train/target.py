"""Train the embedded target: a small, deep, narrow Qwen3 language model, from scratch.

Deep and narrow so that a step is dominated by per-layer cost: checking a block of 8 tokens then costs little more than
decoding one, as it does for a large model on a GPU. Forward and backward run in bfloat16 where that is native.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from xpress_bench.train.data import Stream, batches
from xpress_bench.train.progressive import MasterWeights, Rates, Session, fast_dtype

CPU = torch.device("cpu")
Batches = Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]


@dataclass(frozen=True, slots=True)
class Shape:
    """Qwen3 dimensions; vocabulary and context are the tokenizer's and the recipe's."""

    hidden_size: int = 192
    intermediate_size: int = 512
    layers: int = 16
    heads: int = 3
    kv_heads: int = 1
    head_dim: int = 64


@dataclass(frozen=True, slots=True)
class Phase:
    """Rows of `length` tokens until a share `until` of the budget; `accumulate` batches of `rows` make one step."""

    until: float
    rows: int
    length: int
    accumulate: int


@dataclass(frozen=True, slots=True)
class TargetRecipe:
    minutes: float = 130.0
    shape: Shape = Shape()
    context: int = 2048
    phases: tuple[Phase, ...] = (Phase(0.35, 8, 256, 2), Phase(0.84, 8, 256, 4), Phase(1.0, 1, 2048, 4))
    task_share: float = 0.8
    rates: Rates = Rates()
    seed: int = 0


def new_model(shape: Shape, tokenizer: PreTrainedTokenizerFast, context: int) -> Qwen3ForCausalLM:
    """A freshly initialised model that knows its tokenizer's stop and pad ids."""
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    return Qwen3ForCausalLM(config)


def train_target(
    tokenizer: PreTrainedTokenizerFast,
    streams: dict[str, Stream],
    recipe: TargetRecipe,
    folder: Path,
    device: torch.device = CPU,
) -> Qwen3ForCausalLM:
    """Train for `recipe.minutes` in `folder`, from which it resumes. `streams` are named tasks and prose."""
    torch.manual_seed(recipe.seed)
    model = new_model(recipe.shape, tokenizer, recipe.context).to(device)
    for weight in model.parameters():  # the parameters only: rounded rotary frequencies would misplace far tokens
        weight.data = weight.data.to(fast_dtype(device))
    session = Session(folder, MasterWeights(model, recipe.rates), recipe.minutes)
    for layer in model.model.layers:
        layer.compile(dynamic=False)
    loss_of = torch.compile(weighted_loss, dynamic=False)
    shares = {"tasks": (streams["tasks"], recipe.task_share), "prose": (streams["prose"], 1 - recipe.task_share)}
    for phase in recipe.phases:
        source = batches(shares, phase.rows, phase.length, seed=recipe.seed + session.step)
        # On CPU the flash kernel's backward is slower than plain matrix products until the scores outgrow the caches.
        model.config._attn_implementation = "eager" if device.type == "cpu" and phase.length <= 512 else "sdpa"
        session.run(phase.until, partial(_backward, model, loss_of, source, phase))
    model.config._attn_implementation = None
    return model


def weighted_loss(hidden: Tensor, head: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Cross-entropy of hidden [n, H] through head [V, H] against labels [n], averaged by weights [n]."""
    losses = F.cross_entropy((hidden @ head.t()).float(), labels, reduction="none")
    return (losses * weights).sum() / weights.sum().clamp_min(1.0)


def _backward(
    model: Qwen3ForCausalLM, loss_of: Any, source: Batches, phase: Phase, progress: float
) -> dict[str, Any]:  # `progress`: what `Session.run` tells every loss; this one does not change on the way
    total = 0.0
    for _ in range(phase.accumulate):
        ids, weights = (torch.from_numpy(array).to(model.device) for array in next(source))
        hidden = model.model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
        loss = loss_of(hidden.flatten(0, 1), model.lm_head.weight, ids[:, 1:].flatten(), weights[:, 1:].flatten())
        (loss / phase.accumulate).backward()
        total += float(loss.detach())
    return {"length": phase.length, "loss": round(total / phase.accumulate, 4)}
