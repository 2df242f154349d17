"""`--compile`: the parts of a run with their steps compiled, by one policy for every arm.

A plug-in has no compiled form and runs as it is; the arm says which of its parts are compiled.
"""

from __future__ import annotations

from xpress_bench.drafters import Drafter
from xpress_bench.drafters.block_diffusion import BlockDiffusion
from xpress_bench.drafters.compiled import CompiledBlockDiffusion
from xpress_bench.drafters.draft_model import DraftModel
from xpress_bench.errors import MisfitError
from xpress_bench.graphs import graph
from xpress_bench.refiners import Refiner
from xpress_bench.refiners.markov import Markov
from xpress_bench.refiners.xpress import XPress
from xpress_bench.targets import Target
from xpress_bench.targets.compiled import CompiledTarget
from xpress_bench.targets.hf import HfTarget


def compiled_target(target: Target) -> CompiledTarget:
    """The target with compiled steps. MisfitError for one that is no transformers model."""
    if not isinstance(target, HfTarget):
        raise MisfitError(f"--compile: target {target.name!r} is no transformers model, there is nothing to compile")
    made = CompiledTarget(target.model, target.name)
    made.stop_ids = target.stop_ids
    return made


def compiled_drafter(drafter: Drafter) -> Drafter:
    """The drafter with compiled steps, or as it is."""
    if isinstance(drafter, BlockDiffusion):
        return CompiledBlockDiffusion.of(drafter)
    if isinstance(drafter, DraftModel):
        drafter.model = compiled_target(drafter.model)
    return drafter


def compiled_refiner(refiner: Refiner) -> Refiner:
    """The refiner with the steps of its head compiled, or as it is."""
    if isinstance(refiner, XPress):
        head, device = refiner.head, refiner.head.w1.weight.device
        head.block_part, head.bias = graph(head.block_part, device), graph(head.bias, device)
    elif isinstance(refiner, Markov):
        head, device = refiner.head, refiner.head.markov_w1.weight.device
        head.code = graph(head.code, device)  # type: ignore[method-assign]
    return refiner


def is_compiled(part: object) -> bool:
    """Whether a part that these functions gave back has compiled steps."""
    return isinstance(part, CompiledTarget | CompiledBlockDiffusion | DraftModel | XPress | Markov)


def reserve(part: object, tokens: int, block_rows: int) -> None:
    """Tell a compiled part how long the longest request is; others need not know."""
    if isinstance(part, CompiledTarget | CompiledBlockDiffusion):
        part.reserve(tokens, block_rows)
    elif isinstance(part, DraftModel) and isinstance(part.model, CompiledTarget):
        part.model.reserve(tokens, 2)  # at most the last draft and the new anchor are read at once
