"""What a checkpoint is and whether it fits a target: configs and headers of safetensors only, no weights."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from transformers import AutoConfig

from xpress_bench.checkpoints import confidence, dflash, eagle3, formats, markov, xpress
from xpress_bench.checkpoints.dflash import BlockConfig
from xpress_bench.checkpoints.files import local, opened, weight_files
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.targets import TARGETS, Target
from xpress_bench.targets.hf import EMBEDDED

Line = tuple[str, str]  # label, text
HEADS = {"xpress": xpress, "markov": markov, "confidence": confidence}
SHARED = ("hidden_size", "vocab_size", "draft_vocab_size")  # sizes of a head that are the drafter's too


@dataclass(frozen=True, slots=True)
class TargetConfig:
    """What a target's config.json says of it: all that a checkpoint is checked against."""

    name: str
    where: str  # folder or hub id
    architectures: tuple[str, ...]
    vocab_size: int
    hidden_size: int
    layers: int


def read_target(name: str) -> TargetConfig:
    """The config of a transformers target, `embedded`, a folder or a hub id. Raises UsageError."""
    where = str(EMBEDDED) if name == "embedded" else name
    if where == name and not local(name) and (name in TARGETS or "/" not in name):
        why = "has no config to compare with" if name in TARGETS else "is no folder and no hub id owner/name"
        raise UsageError(f"target {name!r} {why}; give embedded, a folder or a hub id")
    try:
        whole = AutoConfig.from_pretrained(where)
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"target {name!r}: its config does not load ({str(error).splitlines()[0]})") from error
    text = whole.get_text_config(decoder=True)
    sizes = (text.vocab_size, text.hidden_size, text.num_hidden_layers)
    return TargetConfig(name, where, tuple(whole.architectures or ()), *sizes)


def heads_in(folder: Path) -> dict[str, Any]:
    """The configs of the refiners' heads that the weights hold, by the name of the refiner."""
    return {name: kind.read_config(folder) for name, kind in HEADS.items() if kind.holds_head(folder)}


def misfits(folder: Path, target: TargetConfig) -> list[str]:
    """Why the block drafter and the heads in a folder do not fit the target, a line for each part; none if they fit."""
    sizes = cast("Target", target)  # nothing else of it is looked at
    if formats.recognise(folder).kind == eagle3.KIND:
        config = eagle3.read_config(folder, target.layers).base
    else:
        config = dflash.read_config(folder)
    calls = [(dflash.check_fit, (config, sizes, folder))]
    for name, head in heads_in(folder).items():
        block = (config.block_size,) if name == "xpress" else ()
        calls.append((HEADS[name].check_fit, (head, sizes, *block, folder)))
    return [str(error) for check, values in calls if (error := _refusal(check, values))]


def _refusal(check: Any, values: tuple[Any, ...]) -> MisfitError | None:
    try:
        check(*values)
    except MisfitError as error:
        return error
    return None


def describe(folder: Path) -> Iterator[Line]:
    """Labelled lines: format, method, layout, taps, vocabulary, heads, weights and the target that is needed."""
    found = formats.recognise(folder)
    yield "checkpoint", f"{found.kind}, format {found.format}"
    if found.kind == eagle3.KIND:
        yield "method", "eagle3: drafts token by token from the target's states"
        yield from _eagle3(eagle3.read_config(folder, 0).base)  # a depth decides on nothing but taps, left out here
    elif found.format == "transformers":
        yield "method", f"{found.drafter}: a whole model, as drafter or as target"
        yield from _whole_model(read_target(str(folder)))
    else:
        heads = heads_in(folder)
        yield "method", " with ".join([found.drafter, " and ".join(heads)] if heads else [found.drafter])
        yield from _block_drafter(dflash.read_config(folder))
        for name, head in heads.items():
            own = {key: value for key, value in asdict(head).items() if key not in SHARED}
            yield "head", f"{name}: {', '.join(f'{key} {value}' for key, value in own.items())}"
    yield "weights", _weights(folder)


def _whole_model(model: TargetConfig) -> Iterator[Line]:
    yield "network", f"{model.layers} layers, hidden size {model.hidden_size}"
    yield "vocabulary", f"{model.vocab_size} ids"
    yield "needs", "a target with the same tokenizer, or drafter.params.translate=true"


def _eagle3(config: BlockConfig) -> Iterator[Line]:
    shape = config.qwen3
    yield "network", f"{shape.num_hidden_layers} layers, hidden size {shape.hidden_size}"
    yield "vocabulary", f"{shape.vocab_size} ids, {config.draft_vocab_size or shape.vocab_size} of them drafted"
    yield "needs", f"a target of hidden size {shape.hidden_size}, {shape.vocab_size} ids"


def _block_drafter(config: BlockConfig) -> Iterator[Line]:
    shape, drafts = config.qwen3, config.drafts
    place = "position s + k, the anchor is slot 0" if config.layout == "fill_in" else "position s + k + 1"
    yield "layout", f"{config.layout}: slot k predicts {place}; {drafts} drafts in a block of {config.block_size}"
    yield "network", f"{shape.num_hidden_layers} layers, hidden size {shape.hidden_size}"
    if config.sliding:
        yield "window", f"{shape.sliding_window} in {shape.layer_types.count('sliding_attention')} layers"
    taps = ", ".join("embeddings" if tap < 0 else str(tap) for tap in config.target_layer_ids)
    yield "taps", f"outputs of target layers {taps}, counted from 0"
    reduced = "" if config.draft_vocab_size is None else f", {config.draft_vocab_size} of them drafted"
    yield "vocabulary", f"{shape.vocab_size} ids{reduced}, mask id {config.mask_token_id}"
    layers = config.num_target_layers or f"at least {max(config.target_layer_ids) + 1}"
    yield "needs", f"a target of {layers} layers, hidden size {shape.hidden_size}, {shape.vocab_size} ids"


def _weights(folder: Path) -> str:
    """Parameters, types and bytes on disk, from the headers."""
    count, types, files = 0, set(), weight_files(folder)
    for file in files:
        with opened(file) as tensors:
            parts = [tensors.get_slice(name) for name in tensors.keys()]  # noqa: SIM118
            count += sum(math.prod(part.get_shape()) for part in parts)
            types |= {part.get_dtype() for part in parts}
    size = sum(file.stat().st_size for file in files)
    return f"{count:,} parameters, {' and '.join(sorted(types))}, {size / 2**20:.1f} MiB"
