"""What drafters that are whole models share: their checkpoint, their tokenizer, the target's vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import AutoTokenizer

from xpress_bench.checkpoints.files import has_tokenizer, locate, read_json, weight_files
from xpress_bench.errors import UsageError
from xpress_bench.weights import are_random


def checkpoint(where: str, revision: str | None) -> tuple[Path, Any]:
    """The folder of a model, seen to hold a config and weights, and its tokenizer. UsageError names what is missing.

    Random weights need no tokenizer: None then.
    """
    folder = locate(where, revision)
    read_json(folder / "config.json")
    weight_files(folder)
    if has_tokenizer(folder):
        return folder, _tokenizer(folder)
    if are_random():
        return folder, None
    raise UsageError(f"{folder}: holds no tokenizer, so it cannot be compared with the target's; add its files")


def over_target(logits: Tensor, vocab_size: int) -> Tensor:
    """Logits over the target's V: rows beyond it are cut, rows that the drafter lacks are impossible (C27)."""
    return F.pad(logits, (0, vocab_size - logits.shape[-1]), value=-torch.inf)


def _tokenizer(folder: Path) -> Any:
    try:
        return AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"{folder}: its tokenizer does not load ({str(error).splitlines()[0]})") from error
