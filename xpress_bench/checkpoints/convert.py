"""A checkpoint in another public format: the same tensors under its names, or a refusal that says what it lacks.

z-lab's format, with UIUC's heads, borrows the target's tables. DeepSpec stores copies. Speculators may, of the final
norm too, and takes what it does not store from the target (0.9.0 saves no copies). A copy is dropped only where it
equals the target's own.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from xpress_bench.checkpoints import deepspec, dflash, formats, markov, speculators, xpress
from xpress_bench.checkpoints.dflash import BlockConfig
from xpress_bench.checkpoints.files import locate, read_json, read_tensors
from xpress_bench.checkpoints.inspection import TargetConfig, heads_in, misfits
from xpress_bench.errors import MisfitError, UsageError

COPIES = {
    "embed_tokens.weight": "model.embed_tokens.weight",
    "lm_head.weight": "lm_head.weight",
    "verifier_lm_head.weight": "lm_head.weight",
    "verifier_norm.weight": "model.norm.weight",
}  # what a checkpoint may store of its target, and the target's own name for it
TABLES = ("embed_tokens.weight", "lm_head.weight")
MAY_STORE: dict[str, tuple[str, ...]] = {"z-lab": (), "speculators": tuple(COPIES), "deepspec": TABLES}
MUST_STORE: dict[str, tuple[str, ...]] = {"z-lab": (), "speculators": (), "deepspec": TABLES}
REDUCED = ("d2t", "t2d")  # of a reduced vocabulary, which only speculators has


def convert(folder: Path, out: Path, to: str, target: TargetConfig) -> None:
    """Write the checkpoint of `folder`, made for `target`, into the new folder `out`.

    Raises MisfitError for what the format cannot say, UsageError for what cannot be read or written.
    """
    found = formats.recognise(folder)
    if found.layout is None:
        raise UsageError(f"{folder}: {found.kind} is no block drafter, and there is no other format for it")
    if ("z-lab" if found.format == "uiuc" else found.format) == to:
        raise UsageError(f"{folder}: is in the {to} format already")
    if out.exists():
        raise UsageError(f"{out}: is there already; choose a new folder")
    _refuse_misfits(folder, target)
    config, tensors = _config(folder, to, target), _tensors(folder, to, target)
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=out.parent) as scratch:
        made = Path(scratch) / out.name
        made.mkdir()
        (made / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        save_file(tensors, made / "model.safetensors", metadata={"format": "pt"})
        if _read(made, target) != _read(folder, target):
            raise MisfitError(f"{folder}: the {to} format does not keep all of its config")
        _refuse_misfits(made, target)
        made.rename(out)


def _refuse_misfits(folder: Path, target: TargetConfig) -> None:
    for problem in misfits(folder, target):
        raise MisfitError(problem)


def _read(folder: Path, target: TargetConfig) -> tuple[Any, ...]:
    """What is computed from a folder, whatever its format."""
    config = _plain(dflash.read_config(folder), target)
    return replace(config, qwen3=None, format="z-lab"), config.qwen3.to_dict(), heads_in(folder)


def _plain(config: BlockConfig, target: TargetConfig) -> BlockConfig:
    """The config without what changes nothing: how windows are masked where there is none."""
    idle = config.format == "speculators" or config.is_causal is False
    return replace(
        config,
        num_target_layers=target.layers,
        is_causal=None if idle and not config.sliding else config.is_causal,
    )


def _config(folder: Path, to: str, target: TargetConfig) -> dict[str, Any]:
    """config.json in the format `to`."""
    config, heads = _plain(dflash.read_config(folder), target), heads_in(folder)
    if to == "z-lab":
        body = dflash.to_config(config)
    elif to == "deepspec":
        body = deepspec.to_config(config)
    else:
        body = speculators.to_config(config, target.where, list(target.architectures))
    if "xpress" in heads and (to == "deepspec" or len(heads) > 1):
        raise MisfitError(f"the {to} format knows no xPress head" + " beside another" * (to != "deepspec"))
    if "xpress" in heads:
        body = (xpress.to_config if to == "z-lab" else xpress.to_speculators)(body, heads["xpress"])
    elif heads:
        body |= _sequential(folder, to, heads)
    if to == "speculators":
        body["speculators_config"]["algorithm"] = body[speculators.TYPE]
    return body


def _sequential(folder: Path, to: str, heads: dict[str, Any]) -> dict[str, Any]:
    """The keys of a Markov and a confidence head; all formats name them alike, and differ in what absence means."""
    body = read_json(folder / "config.json")
    keys: dict[str, Any] = {
        "markov_rank": heads["markov"].rank if "markov" in heads else 0,
        "markov_head_type": heads["markov"].kind if "markov" in heads else "vanilla",
        "enable_confidence_head": "confidence" in heads,
        "confidence_head_with_markov": body.get("confidence_head_with_markov", True),
    }
    if to == "speculators":
        return keys | {speculators.TYPE: "dspark", "architectures": ["DSparkSpeculator"]}
    return keys | {"architectures": [markov.ARCHITECTURE], "sample_from_anchor": to == "deepspec"}


def _tensors(folder: Path, to: str, target: TargetConfig) -> dict[str, Tensor]:
    """The tensors of the format `to`, bytes untouched."""
    own = read_tensors(folder, lambda name: True)
    if "fc.weight" not in own:
        raise MisfitError(f"{folder}: has no tensor fc.weight, without which it is no drafter")
    if to != "speculators" and (kept := own.keys() & REDUCED):
        raise MisfitError(f"{folder}: has {min(kept)}, and the {to} format knows no reduced vocabulary")
    added = [name for name in MUST_STORE[to] if name not in own]
    dropped = [name for name in COPIES if name in own and name not in MAY_STORE[to]]
    copies = _copies(target, own["fc.weight"].dtype) if added or dropped else {}
    for name in dropped:
        tensor = own.pop(name)
        if tensor.dtype != copies[name].dtype or not torch.equal(tensor, copies[name]):
            raise MisfitError(f"{folder}: {name} is not that of target {target.name!r}, and {to} has no place for it")
    return {name: copies[name] for name in added} | {_named(name, to): tensor for name, tensor in own.items()}


def _copies(target: TargetConfig, dtype: torch.dtype) -> dict[str, Tensor]:
    """The target's tables and final norm, by the names and in the type that a checkpoint stores them in."""
    folder = locate(target.where, None)
    found = read_tensors(folder, lambda name: name in COPIES.values())
    if "model.embed_tokens.weight" in found:
        found.setdefault("lm_head.weight", found["model.embed_tokens.weight"])  # tied
    missing = sorted(set(COPIES.values()) - set(found))
    if missing:
        raise MisfitError(f"{folder}: target {target.name!r} has no tensor {missing[0]}; only text models are read")
    return {name: found[theirs].to(dtype, copy=True) for name, theirs in COPIES.items()}


def _named(name: str, to: str) -> str:
    """The name of a tensor in the format `to`: only xPress heads have others in speculators."""
    prefix = next((one for one in (xpress.PREFIX, xpress.SPECULATORS_PREFIX) if name.startswith(one)), None)
    if prefix is None:
        return name
    bare = name.removeprefix(prefix)
    if bare == xpress.FOLDED:
        raise MisfitError(f"{name}: a folded mixer, and the {to} format stores it raw; unfolding would round it")
    if to == "speculators":
        return xpress.SPECULATORS_PREFIX + xpress.SPECULATORS_NAMES.get(bare, bare)
    released = {theirs: ours for ours, theirs in xpress.SPECULATORS_NAMES.items()}
    return xpress.PREFIX + released.get(bare, bare)
