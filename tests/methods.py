"""Every method over small random models in float64: targets, drafters and refiners by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tiny
import torch
from transformers import BertConfig, BertForMaskedLM, Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig

from xpress_bench.checkpoints.confidence import ConfidenceConfig
from xpress_bench.checkpoints.dflash import BlockConfig
from xpress_bench.checkpoints.eagle3 import Eagle3Config
from xpress_bench.checkpoints.markov import MarkovConfig
from xpress_bench.drafters import Drafter
from xpress_bench.drafters.block_diffusion import BlockDiffusion
from xpress_bench.drafters.denoising import Denoising
from xpress_bench.drafters.draft_model import DraftModel
from xpress_bench.drafters.eagle3 import Eagle3, Eagle3Model
from xpress_bench.drafters.masked_lm import MaskedLM
from xpress_bench.drafters.prompt_lookup import PromptLookup
from xpress_bench.drafters.suffix import Suffix
from xpress_bench.drafters.vocabulary import Vocabulary
from xpress_bench.refiners import Refiner
from xpress_bench.refiners.confidence import Confidence, ConfidenceHead
from xpress_bench.refiners.markov import Markov, MarkovHead
from xpress_bench.refiners.remask import Remask
from xpress_bench.targets.hf import HfTarget

WINDOW = 8


def gemma3() -> HfTarget:
    """Sliding windows of 8; own output table and smaller embeddings, or a random Gemma only repeats its last token."""
    kinds = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
    sizes = tiny.SHAPE | {"vocab_size": tiny.VOCAB, "num_hidden_layers": 4, "query_pre_attn_scalar": 8}
    config = Gemma3TextConfig(**sizes, sliding_window=WINDOW, layer_types=kinds, tie_word_embeddings=False)
    target = tiny.as_target(Gemma3ForCausalLM(config), 0)
    with torch.no_grad():
        target.model.get_input_embeddings().weight *= 0.2
    return target


def masked_lm(block_size: int) -> MaskedLM:
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = BertConfig(vocab_size=tiny.VOCAB, **sizes, max_position_embeddings=128, tie_word_embeddings=False)
    return MaskedLM(tiny.enlivened(BertForMaskedLM(config), 3), 5, tiny.VOCAB, block_size, denoising=Denoising(1))


def eagle3(target: HfTarget, block_size: int) -> Eagle3:
    shape = LlamaConfig(**tiny.SHAPE | {"num_hidden_layers": 1, "vocab_size": target.vocab_size})
    shape._attn_implementation = "sdpa"
    base = BlockConfig(shape, block_size, 0, (0, 1, 2), None, "speculators")
    return Eagle3(tiny.enlivened(Eagle3Model(Eagle3Config(base)), 1), Vocabulary(target, base), block_size)


def denoised(target: HfTarget, block_size: int) -> BlockDiffusion:
    made = tiny.dflash(target, block_size)
    made.denoising = Denoising(min(3, block_size - 1))
    return made


def markov(kind: Any) -> Markov:
    return Markov(tiny.enlivened(MarkovHead(MarkovConfig(tiny.VOCAB, 8, tiny.HIDDEN, kind)), 3))


def confidence() -> Confidence:
    return Confidence(tiny.enlivened(ConfidenceHead(ConfidenceConfig(tiny.HIDDEN, tiny.VOCAB, 8)), 4), 0.5)


TARGETS: dict[str, Callable[[], HfTarget]] = {"qwen3": tiny.qwen3, "llama": tiny.llama, "gemma3": gemma3}
DRAFTERS: dict[str, Callable[[HfTarget, int], Drafter]] = {
    "dflash": tiny.dflash,
    "dflash, shift": lambda target, size: tiny.dflash(target, size, layout="shift"),
    "dflash, 3 steps": denoised,
    "draft_model": lambda target, size: DraftModel(tiny.qwen3(seed=7, layers=1), target.vocab_size, size),
    "eagle3": eagle3,
    "masked_lm": lambda _, size: masked_lm(size),
    "prompt_lookup": lambda _, size: PromptLookup(size),
    "suffix": lambda _, size: Suffix(size),
}
Make = Callable[[BlockDiffusion], Sequence[Refiner]]
REFINERS: dict[str, Make] = {
    "vanilla": lambda drafter: [markov("vanilla")],
    "gated": lambda drafter: [markov("gated")],
    "rnn": lambda drafter: [markov("rnn")],
    "xpress": lambda drafter: [tiny.xpress(drafter.vocabulary.target, drafter.block_size, 3)],
    "remask": lambda drafter: [Remask(drafter, passes=2)],
    "markov+confidence": lambda drafter: [markov("vanilla"), confidence()],
    "remask+xpress": lambda drafter: [
        Remask(drafter, fraction=None, threshold=0.3),
        tiny.xpress(drafter.vocabulary.target, drafter.block_size, 3),
    ],
}
