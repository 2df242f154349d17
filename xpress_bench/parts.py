"""Settings -> the target, drafter and refiners of a run, loaded and checked against each other before any timing."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch

from xpress_bench.checkpoints.files import has_tokenizer, local, locate, weights_sha256
from xpress_bench.checkpoints.formats import recognise
from xpress_bench.compiling import compiled_drafter, compiled_refiner, compiled_target, is_compiled
from xpress_bench.drafters import DRAFTERS, Drafter, Translates
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.records import Arm
from xpress_bench.refiners import REFINERS, Refiner
from xpress_bench.refiners.choosing import choose
from xpress_bench.settings import (
    ONE_DRAFT,
    CandidateSettings,
    DrafterSettings,
    RefinerSettings,
    Settings,
    TargetSettings,
)
from xpress_bench.targets import TARGETS, Target
from xpress_bench.weights import RandomIds, are_random, random_weights

NONE = "none"


@dataclass(frozen=True, slots=True)
class PlannedArm:
    """One arm: what the journal says of it, and the parts that make it. Direct generation has no drafter."""

    arm: Arm
    drafter: Drafter | None
    refiners: tuple[Refiner, ...]
    candidates: CandidateSettings = ONE_DRAFT


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything loaded. `arms` starts with direct generation."""

    target: Target
    tokenizer: Any
    arms: tuple[PlannedArm, ...]


def assemble(settings: Settings, only: str | None = None) -> Parts:
    """Load what `settings` name. `only` leaves out what that one arm does not need (for the memory pass)."""
    torch.set_num_threads(settings.threads or torch.get_num_threads())
    with random_weights() if settings.weights == "random" else nullcontext():
        return _assembled(settings, only)


def _assembled(settings: Settings, only: str | None) -> Parts:
    drafter_settings = settings.drafter if only != "direct" else DrafterSettings(NONE)
    named = resolve_drafter(drafter_settings, settings.target)
    refined = choose(
        settings.refiner if only not in ("direct", "draft") else RefinerSettings(NONE), named, settings.target
    )
    target: Target = load_target(settings)
    if settings.compile:
        target = compiled_target(target)
    tokenizer = getattr(target, "tokenizer", None) or load_tokenizer(settings.target, target.vocab_size)
    arms = [PlannedArm(Arm("direct", None, None, None, None, None), None, ())]
    if named.name != NONE:
        drafter = DRAFTERS.get(named.name)(named, target, settings.block_size)
        check_tokenizer(drafter, tokenizer, target.name)
        if settings.compile:
            drafter = compiled_drafter(drafter)
        arms.append(_arm("draft", named.name, drafter, {}, settings.candidates))
        if refined:
            refiners = {one.name: REFINERS.get(one.name)(one, target, drafter) for one in refined}
            if settings.compile:
                refiners = {name: compiled_refiner(refiner) for name, refiner in refiners.items()}
            arms.append(_arm("refine", named.name, drafter, refiners, settings.candidates))
    elif settings.drafter.name == NONE and settings.candidates != ONE_DRAFT:
        raise UsageError("candidates are asked for and there is nothing to make them of: drafter is none")
    elif refined:
        raise UsageError(f"refiner {settings.refiner.name!r} has nothing to refine: drafter is none")
    if settings.compile:
        arms = [_told(planned, target) for planned in arms]
    kept = [planned for planned in arms if only in (None, planned.arm.name)]
    return Parts(target, tokenizer, tuple(kept))


def load_target(settings: Settings) -> Target:
    """A registered target, or any transformers causal LM by hub id or folder."""
    name = settings.target.name
    if name in TARGETS:
        if are_random() and name != "embedded":
            raise UsageError(f"target {name!r} has no config to make random weights from; leave --weights random out")
        return TARGETS.get(name)(settings.target, settings.device, settings.dtype)
    if not local(name) and "/" not in name:
        raise UsageError(f"{TARGETS.unknown(name)}; a hub id looks like owner/name, a folder like ./name")
    from xpress_bench.targets import hf

    return hf.load(settings.target, settings.device, settings.dtype)


def load_tokenizer(settings: TargetSettings, vocab_size: int = 0) -> Any:
    """The target's tokenizer, from where its weights are.

    Random weights need none: without its files, text becomes random ids below `vocab_size`.
    """
    from transformers import AutoTokenizer

    from xpress_bench.targets.hf import EMBEDDED

    where = str(EMBEDDED) if settings.name == "embedded" else settings.name
    if are_random() and not has_tokenizer(locate(where, settings.revision)):
        return RandomIds(vocab_size)
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
    One that translates is given the target's instead.
    """
    if isinstance(drafter, Translates):
        drafter.translate_from(tokenizer)
        return
    own = getattr(drafter, "tokenizer", None)
    if own is None or are_random():
        return
    ours, theirs = ({index: token for token, index in each.get_vocab().items()} for each in (own, tokenizer))
    for index in range(1 + min(max(ours), max(theirs))):
        if ours.get(index) != theirs.get(index):
            raise MisfitError(
                f"drafter {own.name_or_path} and target {target!r} have different tokenizers: id {index} is "
                f"{ours.get(index)!r} in the drafter's and {theirs.get(index)!r} in the target's; "
                "a draft_model can translate: drafter.params.translate=true"
            )


def resolve_drafter(settings: DrafterSettings, target: TargetSettings) -> DrafterSettings:
    """A registry name stays; a checkpoint (folder or hub id) becomes the name of its format's loader and a path."""
    if settings.name == NONE or settings.name in DRAFTERS:
        return settings
    if not local(settings.name) and "/" not in settings.name:
        raise UsageError(f"{DRAFTERS.unknown(settings.name)}; a checkpoint is given as a folder or hub id owner/name")
    folder = locate(settings.name, settings.revision)
    return replace(settings, name=recognise(folder).drafter, path=str(folder))


def _arm(
    name: str, drafter_name: str, drafter: Drafter, refiners: dict[str, Refiner], candidates: CandidateSettings
) -> PlannedArm:
    """`refiners` by name, in the order in which they work; the arm's passes are those of all of them."""
    passes = [refiner.passes for refiner in refiners.values() if refiner.passes is not None]
    weighing = refiners if len(refiners) > 1 else {"refiner": next(iter(refiners.values()), None)}
    arm = Arm(
        name=name,
        drafter=drafter_name,
        refiner="+".join(refiners) or None,
        block_size=drafter.block_size,
        denoising_steps=drafter.denoising_steps,
        passes=sum(passes) if passes else None,
        candidates=None if candidates.count == 1 else candidates.count,
        nodes=candidates.nodes,
        checkpoints=_hashes({"drafter": drafter, **weighing}),
    )
    return PlannedArm(arm, drafter, tuple(refiners.values()), candidates)


def _told(planned: PlannedArm, target: Target) -> PlannedArm:
    """The arm with the kinds of its parts whose steps are compiled."""
    parts = {"target": (target,), "drafter": (planned.drafter,), "refiner": planned.refiners}
    compiled = tuple(kind for kind, ones in parts.items() if ones and all(map(is_compiled, ones)))
    return replace(planned, arm=replace(planned.arm, compiled=compiled))


def _hashes(parts: dict[str, Any]) -> dict[str, str | None]:
    """Hash of the weights behind each part that came from a checkpoint `folder`; of random ones there is none."""
    folders = {name: getattr(part, "folder", None) for name, part in parts.items()}
    known = {name: folder for name, folder in folders.items() if folder is not None}
    return {name: None if are_random() else weights_sha256(folder) for name, folder in known.items()}
