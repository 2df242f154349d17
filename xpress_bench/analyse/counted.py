"""Counted work: what a run did, without any time in it. Equal on every machine, so any difference is a fault.

A counted baseline is a journal like any other whose cells hold no times (`untimed`); the settings in its header say how
to measure it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from xpress_bench.analyse.gate import Check
from xpress_bench.records import Cell, Condition, Header, Run, Steps, first_difference

Key = tuple[Condition, str, int, int, str, int, int]  # condition, prompt, turn, seed, arm, launch, repeat
COUNTS = ("offered", "accepted", "committed", "drafts", "refined", "passes", "nodes")  # fields of Steps, by step
EVIDENCE = "counted work"


def untimed(cell: Cell) -> Cell:
    """The cell without its times."""
    counts = Steps(**{name: getattr(cell.steps, name) for name in (*COUNTS, "matched")})
    return replace(cell, latency_s=None, ttft_s=None, prefill_s=None, rest_s=None, steps=counts)


def key_of(cell: Cell) -> Key:
    """What a cell is matched by."""
    return cell.condition, cell.prompt, cell.turn, cell.seed, cell.arm, cell.launch, cell.repeat


def target_passes(cell: Cell) -> int:
    """Forwards of the target, the prompt's included: one per verify step, for direct generation one per token."""
    return 1 + len(cell.steps.committed) if cell.steps.committed else len(cell.ids)


def counted_checks(base: Run, found: Run, name: str) -> list[Check]:
    """One check per arm and condition of the baseline: every cell of it must be there again, and the same."""
    if not base.cells:
        return [Check(EVIDENCE, name, "broken", 0, "the baseline holds no cells: 0 compared")]
    cells = {key_of(cell): cell for cell in found.cells}
    groups: dict[tuple[str, Condition], list[Cell]] = {}
    for cell in base.cells:
        groups.setdefault((cell.arm, cell.condition), []).append(cell)
    checks = [_group(name, arm, condition, group, cells) for (arm, condition), group in groups.items()]
    known = {key_of(cell) for cell in base.cells}
    new = [_place(cell) for key, cell in cells.items() if key not in known]
    notes = [*_other_inputs(base.header, found.header), *(f"new, not gated: {place}" for place in new)]
    return [replace(checks[0], details=(*checks[0].details, *notes)), *checks[1:]]


def _group(name: str, arm: str, condition: Condition, group: Sequence[Cell], cells: dict[Key, Cell]) -> Check:
    title = f"{name}: {arm}, {condition}"
    unusable = [_place(cell) for cell in group if cell.error or not cell.ids]
    if unusable:
        text = f"{len(unusable)} of {len(group)} baseline cells hold no output"
        return Check(EVIDENCE, title, "broken", 0, text, tuple(unusable))
    pairs = [(cell, cells.get(key_of(cell))) for cell in group]
    faults = [f"{_place(ours)}: {what}" for ours, theirs in pairs for what in _differences(ours, theirs)]
    here = [(ours, theirs) for ours, theirs in pairs if theirs is not None]
    if not here:
        text = f"0 compared: none of the baseline's {len(group)} cells is in this run"
        return Check(EVIDENCE, title, "broken", 0, text, tuple(faults))
    text = f"{len(here)} of {len(group)} cells compared; {_totals(here)}"
    return Check(EVIDENCE, title, "regression" if faults else "pass", len(here), text, tuple(faults))


def _differences(base: Cell, found: Cell | None) -> Iterator[str]:
    """Everything that is not as it was, the first place of each field."""
    if found is None:
        yield "missing from this run"
        return
    if found.error:
        yield f"failed: {found.error}"
        return
    if base.prompt_sha256 != found.prompt_sha256:
        yield f"another prompt: {base.prompt_tokens} -> {found.prompt_tokens} tokens"
    if base.stop_reason != found.stop_reason:
        yield f"stop reason {base.stop_reason} -> {found.stop_reason}"
    fields = [("token", base.ids, found.ids)]
    fields += [(f"{name} at step", getattr(base.steps, name), getattr(found.steps, name)) for name in COUNTS]
    for what, ours, theirs in fields:
        at = first_difference(ours, theirs)
        if at is not None:
            yield f"{what} {at}: {_at(ours, at)} -> {_at(theirs, at)}"


def _at(values: Sequence[object], index: int) -> str:
    if index >= len(values):
        return "the end"
    value = values[index]
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _totals(pairs: Sequence[tuple[Cell, Cell]]) -> str:
    """The counts a person knows the arm by, and what they were where that differs."""
    base, found = ([pair[side] for pair in pairs] for side in (0, 1))
    said = [f"{_change(_per_token(base), _per_token(found))} target passes per token"]
    if _passes(base) or _passes(found):
        said.append(f"{_change(str(_passes(base)), str(_passes(found)))} refinement passes")
    return ", ".join(said)


def _change(base: str, found: str) -> str:
    return base if base == found else f"{base} -> {found}"


def _per_token(cells: Sequence[Cell]) -> str:
    tokens = sum(len(cell.ids) for cell in cells)
    return f"{sum(map(target_passes, cells)) / tokens:.4f}" if tokens else "no"


def _passes(cells: Sequence[Cell]) -> int:
    return sum(sum(cell.steps.passes) for cell in cells)


def _place(cell: Cell) -> str:
    turn = f", turn {cell.turn}" if cell.turn > 1 else ""
    return f"{cell.arm}, {cell.condition}, {cell.prompt}{turn}, seed {cell.seed}"


def _other_inputs(base: Header, found: Header) -> Iterator[str]:
    """What both runs were given that is not the same: it explains differences, it does not excuse them."""
    for what, ours, theirs in (
        ("suite", base.suite.get("sha256"), found.suite.get("sha256")),
        ("target weights", base.target.get("weights_sha256"), found.target.get("weights_sha256")),
        ("tokenizer", base.target.get("tokenizer_sha256"), found.target.get("tokenizer_sha256")),
        *((f"checkpoints of {one.name}", one.checkpoints, _checkpoints(found, one.name)) for one in base.arms),
    ):
        if ours != theirs:
            yield f"{what} changed since the baseline; if that was meant, record it again: xpress-bench gate --record"


def _checkpoints(header: Header, arm: str) -> dict[str, str | None] | None:
    return next((one.checkpoints for one in header.arms if one.name == arm), None)
