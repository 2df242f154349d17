"""Small random models in float64, and the least that a decode loop needs around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from xpress_bench.checkpoints.dflash import BlockConfig, DFlash2Config
from xpress_bench.checkpoints.xpress import HeadConfig
from xpress_bench.decode import Limits, Output, direct, speculative
from xpress_bench.drafters import Drafter
from xpress_bench.drafters.block_diffusion import BlockDiffusion, BlockDiffusionModel
from xpress_bench.errors import UsageError
from xpress_bench.records import Condition
from xpress_bench.refiners import Refiner
from xpress_bench.refiners.xpress import XPress, XPressHead
from xpress_bench.sampling import Sampling
from xpress_bench.settings import ONE_DRAFT, CandidateSettings
from xpress_bench.targets import Target
from xpress_bench.targets.hf import HfTarget
from xpress_bench.verifiers import VERIFIERS

HIDDEN, VOCAB = 32, 80
SHAPE: dict[str, Any] = {
    "hidden_size": HIDDEN,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
    "rope_theta": 100.0,  # so that positions a few apart turn every frequency
}
CPU = torch.device("cpu")
torch.set_num_threads(1)  # the models are too small to share out, and the machine may be busy


class Ticks:
    """A clock whose every stamp is one more than the last."""

    def __init__(self) -> None:
        self.now = 0

    def stamp(self) -> int:
        self.now += 1
        return self.now


def enlivened(module: nn.Module, seed: int) -> Any:
    """The module in float64, redrawn so that its outputs vary; most ids have a small output row, so a random drafter
    agrees with a random target now and then."""
    generator = torch.Generator().manual_seed(seed)
    module = module.double().eval()
    with torch.no_grad():
        for name, weight in module.named_parameters():
            if weight.ndim == 1:
                weight.uniform_(0.5, 1.5, generator=generator)
            else:
                embedding = "embed_tokens" in name
                weight.normal_(0, 1.0 if embedding else 1.5 * weight.shape[-1] ** -0.5, generator=generator)
            if name in ("lm_head.weight", "w2.weight"):
                weight[4:] *= 0.25
    return module


def qwen3(seed: int = 0, layers: int = 3, vocab: int = VOCAB, **options: Any) -> HfTarget:
    config = Qwen3Config(**SHAPE | {"num_hidden_layers": layers, "vocab_size": vocab} | options)
    return as_target(Qwen3ForCausalLM(config), seed)


def llama(seed: int = 0, layers: int = 3) -> HfTarget:
    return as_target(LlamaForCausalLM(LlamaConfig(**SHAPE, num_hidden_layers=layers, vocab_size=VOCAB)), seed)


def as_target(model: Any, seed: int) -> HfTarget:
    model = enlivened(model, seed)
    model.generation_config = GenerationConfig(pad_token_id=0)
    return HfTarget(model, "tiny")


SLIDING: dict[str, Any] = {
    "layer_types": ["sliding_attention", "full_attention"],
    "use_sliding_window": True,
    "sliding_window": 5,
}  # options of a drafter's two layers
DFLASH2 = DFlash2Config(kernel_size=3, group_size=4, rank=6, top_k=5)


def block_config(
    target: Target,
    block_size: int = 8,
    taps: Sequence[int] = (0, 1),
    layers: int = 2,
    shape: Mapping[str, Any] = MappingProxyType({}),
    **options: Any,
) -> BlockConfig:
    """`shape` goes to the Qwen3 config, `options` to the drafter's own."""
    qwen3 = Qwen3Config(**SHAPE | {"num_hidden_layers": layers, "vocab_size": target.vocab_size} | dict(shape))
    return BlockConfig(qwen3, block_size, target.vocab_size - 1, tuple(taps), target.layers, **options)


def dflash(
    target: Target, block_size: int = 8, seed: int = 1, taps: Sequence[int] = (0, 1), **o: Any
) -> BlockDiffusion:
    model = enlivened(BlockDiffusionModel(block_config(target, block_size, taps, **o)), seed)
    return BlockDiffusion(model, target, block_size)


def head(vocab: int, block_size: int, seed: int = 2, rank: int = 8, hidden: int = HIDDEN) -> XPressHead:
    found: XPressHead = enlivened(XPressHead(HeadConfig(hidden, vocab, rank, 2 * rank, block_size, 6)), seed)
    return found


def xpress(target: Target, block_size: int, passes: int, seed: int = 2) -> XPress:
    return XPress(head(target.vocab_size, block_size, seed), passes)


def prompt(length: int, seed: int = 0, vocab: int = VOCAB) -> Tensor:
    return torch.randint(0, vocab, (1, length), generator=torch.Generator().manual_seed(seed))


def sampling(temperature: float = 0.0, verifier: str = "greedy", seed: int = 0) -> Sampling:
    return Sampling(Condition(temperature, verifier), seed, CPU)


def plain(target: Target, ids: Tensor, new: int, stop: Sequence[int] = (), how: Sampling | None = None) -> Output:
    return direct(target, ids, Limits(new, frozenset(stop)), how or sampling(), Ticks())


@dataclass
class Arm:
    """A drafter and its refiners, to be run on any target and prompt."""

    drafter: Drafter
    refiners: Sequence[Refiner] = ()
    candidates: CandidateSettings = ONE_DRAFT

    def run(
        self, target: Target, ids: Tensor, new: int, stop: Sequence[int] = (), how: Sampling | None = None
    ) -> Output:
        how = how or sampling()
        verifier = VERIFIERS.get(how.condition.verifier)
        return speculative(
            target,
            self.drafter,
            self.refiners,
            verifier,
            ids,
            Limits(new, frozenset(stop)),
            how,
            Ticks(),
            self.candidates,
        )


def generated(target: HfTarget, ids: Tensor, new: int, **options: Any) -> list[int]:
    """New ids of transformers' own generate; greedy unless `options` say otherwise."""
    settings = {"do_sample": False, "max_new_tokens": new} | options
    output = target.model.generate(ids, attention_mask=torch.ones_like(ids), **settings)
    found: list[int] = output[0, ids.shape[1] :].tolist()
    return found


def after(prompt_length: int, chain: Sequence[int]) -> Callable[[list[int]], list[int]]:
    """A script for `ScriptedDrafter` that always proposes the rest of the target's chain."""
    return lambda tokens: list(chain[len(tokens) - prompt_length :])


def refused(call: Callable[[], object], folder: Path, kind: type[UsageError]) -> str:
    """What a refusal says: one line that names the folder."""
    with pytest.raises(kind) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)
    return str(caught.value)
