"""What a checkpoint is, from its config.json and at most the names of its tensors: the table of public formats."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from xpress_bench.checkpoints import speculators
from xpress_bench.checkpoints.files import architectures, read_json, tensor_names
from xpress_bench.errors import UsageError

Layout = Literal["fill_in", "shift"]  # slot k predicts position s + k, or s + k + 1 (methods.md 1)
Format = Literal["z-lab", "uiuc", "deepspec", "speculators", "transformers"]

DFLASH = "DFlashDraftModel"
DFLASH2 = "DFlash2DraftModel"
DSPARK = "Qwen3DSparkModel"
XPRESS = "Qwen3XPressModel"
# The first architecture of config.json -> the registered drafter that loads it, and whose format it is.
KNOWN: dict[str, tuple[str, Format]] = {
    DFLASH: ("dflash", "z-lab"),
    DFLASH2: ("dflash2", "z-lab"),
    XPRESS: ("dflash", "uiuc"),
    "Qwen3XPressForCausalLM": ("dflash", "uiuc"),
    DSPARK: ("dflash", "deepspec"),
}
# Of configs that name no architecture: a prefix of tensors -> the architecture; the first that is there decides.
BY_TENSORS = {
    "xpress_head.": XPRESS,
    "markov_head.": DSPARK,
    "confidence_head.": DSPARK,
    "candidate_selector.": DFLASH2,
    "hidden_norm.": DFLASH,
}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a folder holds. `drafter` is the registered name of its loader, `kind` what the checkpoint calls itself."""

    drafter: str
    kind: str
    format: Format
    layout: Layout | None  # None: no block drafter


def recognise(folder: Path) -> Checkpoint:
    """Reads config.json and, if that names no architecture, the header of the tensors. Raises UsageError."""
    return read(folder)[0]


def read(folder: Path) -> tuple[Checkpoint, dict[str, Any]]:
    """What the folder holds, and its config in z-lab's keys."""
    file = folder / "config.json"
    body = read_json(file)
    if body.get(speculators.TYPE) == "eagle3":
        return Checkpoint("eagle3", "eagle3", "speculators", None), body
    if speculators.TYPE in body:
        kind, body = body[speculators.TYPE], speculators.translated(body, file)
        return Checkpoint(KNOWN[body["architectures"][0]][0], kind, "speculators", _layout(body, file)), body
    kind = next(iter(architectures(body, file) or _by_tensors(folder)), "none named")
    if kind not in KNOWN and kind.endswith("ForCausalLM"):
        return Checkpoint("draft_model", kind, "transformers", None), body
    if kind not in KNOWN and kind.endswith("ForMaskedLM"):
        return Checkpoint("masked_lm", kind, "transformers", None), body
    if kind not in KNOWN:
        known = f"known: {', '.join(KNOWN)}, or a language model (*ForCausalLM, *ForMaskedLM)"
        raise UsageError(f"{folder}: architecture {kind!r} is no drafter this version reads; {known}")
    body = body | {"architectures": [kind]}
    layout = _layout(body, file)
    drafter, whose = KNOWN[kind]
    return Checkpoint(drafter, kind, "uiuc" if kind == DSPARK and layout == "fill_in" else whose, layout), body


def _by_tensors(folder: Path) -> list[str]:
    """The architectures whose tensors the folder holds, the more special first."""
    names = tensor_names(folder)
    return [kind for prefix, kind in BY_TENSORS.items() if any(name.startswith(prefix) for name in names)]


def _layout(body: dict[str, Any], file: Path) -> Layout:
    """`sample_from_anchor`; where it is absent, only DeepSpec's own configs mean shift."""
    flag = body.get("sample_from_anchor")
    if flag is not None and not isinstance(flag, bool):
        raise UsageError(f"{file}: sample_from_anchor is {flag!r}, not true or false")
    return "shift" if flag or (flag is None and body["architectures"] == [DSPARK]) else "fill_in"
