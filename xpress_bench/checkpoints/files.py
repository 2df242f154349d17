"""Find a checkpoint folder and read its config and tensors. Safetensors only: nothing here can run code from a file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeGuard

from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.weights import are_random

MAX_CONFIG_BYTES = 10_000_000
LARGEST = 10_000_000  # a size above it is no size: it would only fill the memory before anything else is found wrong


def local(where: str) -> Path | None:
    """The folder of that name here; None if there is none, or if that can be no path."""
    try:
        folder = Path(where).expanduser()
        return folder if folder.is_dir() else None
    except (OSError, RuntimeError):  # too long for a path, or the home of nobody
        return None


def locate(where: str, revision: str | None) -> Path:
    """The local folder of a checkpoint: itself if it exists, else a snapshot of the hub id (network or cache)."""
    folder = local(where)
    if folder:
        return folder
    if where.startswith((".", "/", "~")) or where.count("/") != 1:
        raise UsageError(f"checkpoint {where!r}: no such folder (a hub id looks like owner/name)")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        # Weights with their index and config, and what a tokenizer is made of; nothing that can run code.
        patterns = ["*.json", "merges.txt", "vocab.txt", "tokenizer.model"]
        patterns += [] if are_random() else ["*.safetensors"]
        return Path(snapshot_download(where, revision=revision, allow_patterns=patterns))
    except (OSError, HFValidationError, HfHubHTTPError, LocalEntryNotFoundError) as error:
        raise UsageError(
            f"checkpoint {where!r}: no such folder, and the hub cannot be reached ({type(error).__name__}); "
            "give a local folder, or fill the cache and set HF_HUB_OFFLINE=1"
        ) from error


def read_json(file: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises UsageError naming the file."""
    if not file.is_file():
        raise UsageError(f"{file}: not found; a checkpoint folder holds config.json and model.safetensors")
    if file.stat().st_size > MAX_CONFIG_BYTES:
        raise UsageError(f"{file}: larger than {MAX_CONFIG_BYTES} bytes, that is no config")
    try:
        body = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file}: not JSON ({error})") from error
    if not isinstance(body, dict):
        raise UsageError(f"{file}: holds a {type(body).__name__}, not an object")
    return body


def architectures(body: dict[str, Any], file: Path) -> tuple[str, ...]:
    """The names that a config.json gives to its kind of model; it may give none."""
    named = body.get("architectures") or []
    if not isinstance(named, list) or not all(isinstance(one, str) for one in named):
        raise UsageError(f"{file}: architectures is {named!r}, not a list of names")
    return tuple(named)


def whole(value: Any, least: int = 1, most: int = LARGEST) -> TypeGuard[int]:
    """Whether a value of a config is a number that a size, an id or a count can be."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a folder. Raises UsageError if there are none, also when only pickles lie there.

    None is looked for where weights are random.
    """
    if are_random():
        return []
    found = sorted(folder.glob("*.safetensors"))
    if not found:
        pickles = sorted(file.name for pattern in ("*.bin", "*.pt", "*.pth") for file in folder.glob(pattern))
        why = f"only {pickles[0]}, a pickle, which is not read" if pickles else "none there"
        raise UsageError(f"{folder}: needs model.safetensors ({why})")
    return found


def has_tokenizer(folder: Path) -> bool:
    """Whether a tokenizer lies there; where none does, transformers would make up an empty one."""
    return any(True for pattern in ("tokenizer.*", "vocab.*") for _ in folder.glob(pattern))


@contextmanager
def opened(file: Path) -> Iterator[Any]:
    """A safetensors file to look into. UsageError if it is none, or cannot be mapped."""
    try:
        with safe_open(file, framework="pt") as tensors:
            yield tensors
    except (SafetensorError, OSError, RuntimeError) as error:  # RuntimeError: larger than what can be mapped
        raise UsageError(f"{file}: not a safetensors file that can be read ({error})") from error


def tensor_names(folder: Path) -> set[str]:
    """Names of all tensors, without loading any."""
    names: set[str] = set()
    for file in weight_files(folder):
        with opened(file) as tensors:
            names |= set(tensors.keys())
    return names


def read_tensors(folder: Path, wanted: Callable[[str], bool]) -> dict[str, Tensor]:
    """The tensors whose names are wanted, on the CPU and as stored; no other is read."""
    tensors: dict[str, Tensor] = {}
    for file in weight_files(folder):
        with opened(file) as held:
            tensors |= {name: held.get_tensor(name) for name in held.keys() if wanted(name)}  # noqa: SIM118
    return tensors


def load_into(
    module: nn.Module,
    folder: Path,
    prefix: str,
    ignore: Iterable[str] = (),
    adapt: Callable[[dict[str, Tensor]], dict[str, Tensor]] = dict,
) -> None:
    """Fill `module` with the tensors whose names start with `prefix`; every parameter must be there, in its shape.

    Tensors under a prefix in `ignore` belong to another part of the same checkpoint. `adapt` turns the tensors of
    another format, by their names without `prefix`, into those that `module` names. Random weights stay as they are.
    """
    if are_random():
        return
    skipped = tuple(ignore)
    tensors = read_tensors(folder, lambda name: name.startswith(prefix) and not (skipped and name.startswith(skipped)))
    own = adapt({name.removeprefix(prefix): tensor for name, tensor in tensors.items()})
    wanted = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    missing, extra = sorted(set(wanted) - set(own)), sorted(set(own) - set(wanted))
    if missing or extra:
        raise MisfitError(f"{folder}: tensors missing {missing[:3] or 'none'}, not understood {extra[:3] or 'none'}")
    for name, shape in wanted.items():
        if tuple(own[name].shape) != shape:
            raise MisfitError(
                f"{folder}: {prefix}{name} has shape {tuple(own[name].shape)}, its config asks for {shape}"
            )
    module.load_state_dict(own)


def weights_sha256(folder: Path) -> str:
    """One hash over all weight files, in name order."""
    digest = hashlib.sha256()
    for file in weight_files(folder):
        with file.open("rb") as opened:
            while chunk := opened.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()
