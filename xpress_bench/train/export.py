"""Write trained parts in the public formats: transformers, z-lab DFlash, released xPress, UIUC Markov. bfloat16."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from xpress_bench.checkpoints import dflash, markov, xpress
from xpress_bench.drafters.block_diffusion import BlockDiffusionModel
from xpress_bench.refiners.markov import MarkovHead
from xpress_bench.refiners.xpress import XPressHead


def export_target(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def export_dflash(model: BlockDiffusionModel, folder: Path) -> None:
    """A drafter alone, in the z-lab format."""
    _write(folder, dflash.to_config(model.config), _tensors(model, ""))


def export_xpress(model: BlockDiffusionModel, head: XPressHead, folder: Path) -> None:
    """A drafter with its head, in the released xPress format."""
    config = xpress.to_config(dflash.to_config(model.config), head.config)
    _write(folder, config, _tensors(model, "") | _tensors(head, xpress.PREFIX))


def export_markov(model: BlockDiffusionModel, head: MarkovHead, folder: Path) -> None:
    """A drafter with a Markov head, in UIUC's format."""
    config = markov.to_config(dflash.to_config(model.config), head.config)
    _write(folder, config, _tensors(model, "") | _tensors(head, markov.PREFIX))


def export_draft_model(model: Any, tokenizer: Any, folder: Path) -> None:
    """An autoregressive draft model, as transformers saves it, with the target's tokenizer."""
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _tensors(module: nn.Module, prefix: str) -> dict[str, Tensor]:
    return {
        f"{prefix}{name}": tensor.detach().to(torch.bfloat16).contiguous()
        for name, tensor in module.state_dict().items()
    }


def _write(folder: Path, config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
