"""What `refiner.name` and `refiner.params` stand for: the refiners of an arm, in the order in which they work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from xpress_bench.checkpoints import confidence, markov, xpress
from xpress_bench.checkpoints.files import local, locate
from xpress_bench.errors import UsageError
from xpress_bench.refiners import REFINERS
from xpress_bench.refiners.confidence import OPTIONS
from xpress_bench.settings import DrafterSettings, RefinerSettings, TargetSettings

NONE = "none"
CORRECTING = {"xpress": xpress, "markov": markov}  # heads by their refiner; of several in a checkpoint, the first
HEADS = CORRECTING | {"confidence": confidence}
NO_PASSES = ("remask", "confidence")  # beside them, refiner.passes means the others


def choose(settings: RefinerSettings, drafter: DrafterSettings, target: TargetSettings) -> tuple[RefinerSettings, ...]:
    """The settings of every refiner, by registry name and with the folder of its head.

    A name is `none`, a registry name, a checkpoint with a head, or `auto`: the head inside the drafter's checkpoint,
    or the embedded one beside the embedded drafter. Several are joined by `+`; each then has its own options in
    `refiner.params.NAME`. Options of a confidence head put it behind the one other head of its checkpoint.
    """
    whole = settings.name in REFINERS or local(settings.name) is not None
    names = [settings.name] if whole else settings.name.split("+")
    found = [_chosen(replace(settings, name=name), drafter, target) for name in names]
    chosen = [one for one in found if one.name != NONE]
    if len(chosen) > 1:
        return _dealt(chosen, settings)
    return _confident(chosen[0]) if chosen else ()


def _chosen(settings: RefinerSettings, drafter: DrafterSettings, target: TargetSettings) -> RefinerSettings:
    if settings.name == "auto":
        return _own_head(settings, drafter, target)
    if settings.name == NONE:
        return settings
    if settings.name in REFINERS:
        inside = drafter.path and settings.name in HEADS and HEADS[settings.name].holds_head(Path(drafter.path))
        return replace(settings, path=drafter.path) if settings.path is None and inside else settings
    if not settings.name or (not local(settings.name) and "/" not in settings.name):
        raise UsageError(f"{REFINERS.unknown(settings.name)}; a checkpoint is given as a folder or hub id owner/name")
    folder = locate(settings.name, settings.revision)
    head = _head_in(folder)
    if head == NONE:
        known = " or ".join(f"{kind.PREFIX}*" for kind in CORRECTING.values())
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
    return next((name for name, kind in CORRECTING.items() if kind.holds_head(folder)), NONE)


def _confident(refiner: RefinerSettings) -> tuple[RefinerSettings, ...]:
    """The one refiner, and behind a head that corrects the confidence head of its checkpoint, if options ask for it."""
    own = {key: value for key, value in refiner.params.items() if key in OPTIONS}
    if not own or refiner.name not in CORRECTING:
        return (refiner,)
    if not refiner.path or not confidence.holds_head(Path(refiner.path)):
        raise UsageError(
            f"refiner.params.{min(own)} is for a confidence head, and beside the {refiner.name} head is none"
        )
    rest = {key: value for key, value in refiner.params.items() if key not in OPTIONS}
    return replace(refiner, params=rest), replace(refiner, name="confidence", params=own, passes=None)


def _dealt(chosen: Sequence[RefinerSettings], settings: RefinerSettings) -> tuple[RefinerSettings, ...]:
    """Several refiners, each with its own options."""
    names = [one.name for one in chosen]
    if len(set(names)) < len(names):
        raise UsageError(f"refiner {settings.name!r}: {' and '.join(names)} are not all different")
    for key, value in settings.params.items():
        if key not in names or not isinstance(value, dict):
            raise UsageError(
                f"refiner.params.{key}: of the refiners {' and '.join(names)} each has options of its own, "
                "as in refiner.params.NAME.option=value"
            )
    passing = [name for name in names if name not in NO_PASSES] or names
    return tuple(
        replace(one, params=settings.params.get(one.name, {}), passes=settings.passes if one.name in passing else None)
        for one in chosen
    )
