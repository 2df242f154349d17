"""Train a small autoregressive draft model with the target's tokenizer: some of the target's layers, taught further."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from xpress_bench.train.blocks import slot_loss
from xpress_bench.train.distil import Lessons
from xpress_bench.train.fresh import Tables
from xpress_bench.train.progressive import MasterWeights, Rates, Session, fast_dtype

PROMPT_WEIGHT = 0.1


@dataclass(frozen=True, slots=True)
class DraftModelRecipe:
    """`layers` of the target, spread over its depth; then `rows` rows of `length` tokens a step."""

    minutes: float = 6.0
    layers: int = 3
    rows: int = 8
    length: int = 256
    rates: Rates = Rates(muon_lr=0.01, adam_lr=1e-3, decay_from=0.3)
    ce: float = 0.4
    l1: float = 0.6
    seed: int = 4


def shortened(target: Any, layers: int) -> Any:
    """A new model of the target's kind with `layers` of its layers, the first and the last among them."""
    depth = target.config.num_hidden_layers
    kept = [round(index * (depth - 1) / max(1, layers - 1)) for index in range(min(layers, depth))]
    shape = target.config.to_dict() | {"num_hidden_layers": len(kept)}
    for name in ("layer_types", "no_rope_layers"):  # lists with one entry a layer
        if shape.get(name):
            shape[name] = [shape[name][layer] for layer in kept]
    shape.pop("quantization_config", None)
    model = AutoModelForCausalLM.from_config(type(target.config).from_dict(shape), dtype=torch.float32)
    known = target.state_dict()
    weights = dict(known)
    for new, old in enumerate(kept):
        weights |= {
            name.replace(f"layers.{old}.", f"layers.{new}.", 1): tensor
            for name, tensor in known.items()
            if f"layers.{old}." in name
        }
    model.load_state_dict({name: weights[name] for name in model.state_dict()})
    return model


def train_draft_model(target: Any, tables: Tables, lessons: Lessons, recipe: DraftModelRecipe, folder: Path) -> Any:
    """A trained draft model; trains for `recipe.minutes` in `folder`, from which it resumes. The tables stay frozen."""
    torch.manual_seed(recipe.seed)
    device = tables.embed.device
    dtype = fast_dtype(device)
    model = shortened(target, recipe.layers).to(device)
    for weight in model.parameters():  # the parameters only: rounded rotary frequencies would misplace far tokens
        weight.data = weight.data.to(dtype)
    for table in (model.get_input_embeddings(), model.get_output_embeddings()):
        table.weight.requires_grad_(False)
    session = Session(folder, MasterWeights(model, recipe.rates), recipe.minutes)
    head = tables.head.to(dtype)
    loss_of = torch.compile(slot_loss, dynamic=False)
    source = _rows(lessons, recipe, torch.Generator().manual_seed(recipe.seed + session.step))

    def backward(progress: float) -> dict[str, Any]:
        ids, states, weights = (tensor.to(device) for tensor in next(source))
        hidden = model.base_model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
        law = (states.to(dtype).flatten(0, 1) @ head.t()).float().softmax(-1)
        logits = hidden.flatten(0, 1) @ head.t()
        loss = loss_of(logits, ids[:, 1:].flatten(), law, weights.flatten(), recipe.ce, recipe.l1)
        loss.backward()
        return {"loss": round(float(loss.detach()), 4)}

    session.run(1.0, backward)
    return model


def _rows(
    lessons: Lessons, recipe: DraftModelRecipe, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Endless ids [R, T + 1], the target's states [R, T, H] that predict ids 1.., and the weights [R, T] of those."""
    while True:
        starts = torch.randint(0, len(lessons.ids) - recipe.length - 1, (recipe.rows, 1), generator=generator)
        index = starts + torch.arange(recipe.length + 1)
        same = lessons.documents[index[:, 1:]] == lessons.documents[index[:, :-1]]
        weights = torch.where(lessons.is_answer[index[:, 1:]], 1.0, PROMPT_WEIGHT) * same
        yield lessons.ids[index], lessons.final[index[:, :-1]], weights
