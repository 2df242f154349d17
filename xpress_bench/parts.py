"""Settings -> the target, drafter and refiners of a run, loaded and checked against each other before any timing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from xpress_bench.checkpoints import markov, xpress
from xpress_bench.checkpoints.files import architectures, local, locate, read_json, weights_sha256
from xpress_bench.drafters import DRAFTERS, Drafter
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.records import Arm
from xpress_bench.refiners import REFINERS, Refiner
from xpress_bench.settings import DrafterSettings, RefinerSettings, Settings, TargetSettings
from xpress_bench.targets import TARGETS, Target

NONE = "none"
# The table of public formats: the first architecture of config.json -> who loads it.
DRAFTER_OF = {
    "DFlashDraftModel": "dflash",
    xpress.ARCHITECTURE: "dflash",
    "Qwen3XPressForCausalLM": "dflash",
    markov.ARCHITECTURE: "dflash",
}
# Heads that a checkpoint may hold, by the refiner that computes them; of several the first is taken.
HEADS = {"xpress": xpress, "markov": markov}


@dataclass(frozen=True, slots=True)
class PlannedArm:
    """One arm: what the journal says of it, and the parts that make it. Direct generation has no drafter."""

    arm: Arm
    drafter: Drafter | None
    refiners: tuple[Refiner, ...]


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything loaded. `arms` starts with direct generation."""

    target: Target
    tokenizer: Any
    arms: tuple[PlannedArm, ...]


def assemble(settings: Settings, only: str | None = None) -> Parts:
    """Load what `settings` name. `only` leaves out what that one arm does not need (for the memory pass)."""
    torch.set_num_threads(settings.threads or torch.get_num_threads())
    drafter_settings = settings.drafter if only != "direct" else DrafterSettings(NONE)
    named = resolve_drafter(drafter_settings, settings.target)
    refined = resolve_refiner(
        settings.refiner if only not in ("direct", "draft") else RefinerSettings(NONE), named, settings.target
    )
    target = load_target(settings)
    tokenizer = getattr(target, "tokenizer", None) or load_tokenizer(settings.target)
    arms = [PlannedArm(Arm("direct", None, None, None, None, None), None, ())]
    if named.name != NONE:
        drafter = DRAFTERS.get(named.name)(named, target, settings.block_size)
        check_tokenizer(drafter, tokenizer, target.name)
        arms.append(_arm("draft", named, drafter, None, None))
        if refined.name != NONE:
            refiner = REFINERS.get(refined.name)(refined, target, drafter)
            arms.append(_arm("refine", named, drafter, refined, refiner))
    elif refined.name != NONE:
        raise UsageError(f"refiner {refined.name!r} has nothing to refine: drafter is none")
    kept = [planned for planned in arms if only in (None, planned.arm.name)]
    return Parts(target, tokenizer, tuple(kept))


def load_target(settings: Settings) -> Target:
    """A registered target, or any transformers causal LM by hub id or folder."""
    name = settings.target.name
    if name in TARGETS:
        return TARGETS.get(name)(settings.target, settings.device, settings.dtype)
    if not local(name) and "/" not in name:
        raise UsageError(f"{TARGETS.unknown(name)}; a hub id looks like owner/name, a folder like ./name")
    from xpress_bench.targets import hf

    return hf.load(settings.target, settings.device, settings.dtype)


def load_tokenizer(settings: TargetSettings) -> Any:
    """The target's tokenizer, from where its weights are."""
    from transformers import AutoTokenizer

    from xpress_bench.targets.hf import EMBEDDED

    where = str(EMBEDDED) if settings.name == "embedded" else settings.name
    options: dict[str, Any] = {"revision": settings.revision, "trust_remote_code": settings.trust_remote_code}
    if settings.gguf_file:
        options["gguf_file"] = settings.gguf_file
    try:
        return AutoTokenizer.from_pretrained(where, **options)
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"target {where!r}: its tokenizer does not load ({str(error).splitlines()[0]})") from error


def check_tokenizer(drafter: Drafter, tokenizer: Any, target: str) -> None:
    """A drafter that has a `tokenizer` of its own must mean by every shared id what the target means by it (C27).

    Ids beyond the smaller vocabulary are not compared: versions of one tokenizer differ by tokens added at the end.
    """
    own = getattr(drafter, "tokenizer", None)
    if own is None:
        return
    ours, theirs = ({index: token for token, index in each.get_vocab().items()} for each in (own, tokenizer))
    for index in range(1 + min(max(ours), max(theirs))):
        if ours.get(index) != theirs.get(index):
            raise MisfitError(
                f"drafter {own.name_or_path} and target {target!r} have different tokenizers: id {index} is "
                f"{ours.get(index)!r} in the drafter's and {theirs.get(index)!r} in the target's"
            )


def resolve_drafter(settings: DrafterSettings, target: TargetSettings) -> DrafterSettings:
    """A registry name stays; a checkpoint (folder or hub id) becomes the name of its format's loader and a path."""
    if settings.name == NONE or settings.name in DRAFTERS:
        return settings
    if not local(settings.name) and "/" not in settings.name:
        raise UsageError(f"{DRAFTERS.unknown(settings.name)}; a checkpoint is given as a folder or hub id owner/name")
    folder = locate(settings.name, settings.revision)
    config = folder / "config.json"
    kind = (*architectures(read_json(config), config), "none named")[0]
    loader = DRAFTER_OF.get(kind)
    if loader is None and kind.endswith("ForCausalLM"):
        loader = "draft_model"
    if loader is None:
        known = f"known: {', '.join(DRAFTER_OF)}, or a causal LM (*ForCausalLM)"
        raise UsageError(f"{folder}: architecture {kind!r} is no drafter this version reads; {known}")
    return replace(settings, name=loader, path=str(folder))


def resolve_refiner(settings: RefinerSettings, drafter: DrafterSettings, target: TargetSettings) -> RefinerSettings:
    """`auto` is the head inside the drafter's checkpoint, or the embedded one beside the embedded drafter, or none."""
    if settings.name == "auto":
        return _own_head(settings, drafter, target)
    if settings.name == NONE:
        return settings
    if settings.name in REFINERS:
        inside = drafter.path and settings.name in HEADS and HEADS[settings.name].holds_head(Path(drafter.path))
        return replace(settings, path=drafter.path) if settings.path is None and inside else settings
    if not local(settings.name) and "/" not in settings.name:
        raise UsageError(f"{REFINERS.unknown(settings.name)}; a checkpoint is given as a folder or hub id owner/name")
    folder = locate(settings.name, settings.revision)
    head = _head_in(folder)
    if head == NONE:
        known = " or ".join(f"{kind.PREFIX}*" for kind in HEADS.values())
        raise UsageError(f"{folder}: holds no refiner this version reads (tensors named {known})")
    return replace(settings, name=head, path=str(folder))


def _own_head(settings: RefinerSettings, drafter: DrafterSettings, target: TargetSettings) -> RefinerSettings:
    if drafter.name != "dflash":
        return replace(settings, name=NONE)
    if drafter.path is None:
        return replace(settings, name="xpress" if target.name == "embedded" else NONE)
    head = _head_in(Path(drafter.path))
    return replace(settings, name=head, path=drafter.path if head != NONE else None)


def _head_in(folder: Path) -> str:
    """The refiner whose head the folder's weights hold, or `none`."""
    return next((name for name, kind in HEADS.items() if kind.holds_head(folder)), NONE)


def _arm(
    name: str,
    drafter_settings: DrafterSettings,
    drafter: Drafter,
    refiner_settings: RefinerSettings | None,
    refiner: Refiner | None,
) -> PlannedArm:
    arm = Arm(
        name=name,
        drafter=drafter_settings.name,
        refiner=refiner_settings.name if refiner_settings else None,
        block_size=drafter.block_size,
        denoising_steps=drafter.denoising_steps,
        passes=refiner.passes if refiner else None,
        checkpoints=_hashes({"drafter": drafter, "refiner": refiner}),
    )
    return PlannedArm(arm, drafter, (refiner,) if refiner else ())


def _hashes(parts: dict[str, Any]) -> dict[str, str | None]:
    """Hash of the weights behind each part that came from a checkpoint `folder`."""
    folders = {name: getattr(part, "folder", None) for name, part in parts.items()}
    return {name: weights_sha256(folder) for name, folder in folders.items() if folder is not None}
