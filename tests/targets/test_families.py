"""Families of models as targets: sliding windows roll back exactly, every arm says what `generate` says, and a model
that keeps a trace of rejected tokens is refused (C26)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import tiny
import torch
from methods import WINDOW, gemma3
from transformers import (
    AutoModelForCausalLM,
    BambaConfig,
    FalconH1Config,
    GPT2Config,
    Lfm2Config,
    MambaConfig,
    MistralConfig,
    MixtralConfig,
    PretrainedConfig,
    Qwen3NextConfig,
    RecurrentGemmaConfig,
    RwkvConfig,
)

from xpress_bench.drafters.prompt_lookup import PromptLookup
from xpress_bench.errors import MisfitError
from xpress_bench.targets.hf import HfTarget, refuse_unless_rollback

SHAPE = tiny.SHAPE | {"vocab_size": tiny.VOCAB, "num_hidden_layers": 4}


def built(config: PretrainedConfig, dtype: torch.dtype = torch.float64) -> HfTarget:
    target = tiny.as_target(AutoModelForCausalLM.from_config(config), 0)
    target.model.to(dtype)
    return HfTarget(target.model, type(config).__name__)


def qwen3() -> HfTarget:
    return tiny.qwen3(use_sliding_window=True, sliding_window=WINDOW, max_window_layers=1)


def mistral() -> HfTarget:
    return built(MistralConfig(**SHAPE, sliding_window=WINDOW))


def gpt2() -> HfTarget:
    """Learned positions, names of sizes that are its own; no biases, which would drown the rest of a random model."""
    size = {"n_embd": tiny.HIDDEN, "n_layer": 3, "n_head": 4, "n_positions": 256, "vocab_size": tiny.VOCAB}
    target = built(GPT2Config(**size, bos_token_id=None, eos_token_id=None, tie_word_embeddings=False))
    with torch.no_grad():
        [weight.zero_() for name, weight in target.model.named_parameters() if name.endswith("bias")]
    return target


WINDOWED = {"gemma3": gemma3, "qwen3": qwen3, "mistral": mistral}
Make = Callable[[], HfTarget]


def arm(kind: str, target: HfTarget, block_size: int) -> tiny.Arm:
    if kind == "prompt_lookup":
        return tiny.Arm(PromptLookup(block_size))
    drafter = tiny.dflash(target, block_size, block_size)
    return tiny.Arm(drafter, [tiny.xpress(target, block_size, 2)] if kind == "xpress" else [])


# Sliding windows


@torch.inference_mode()
@pytest.mark.parametrize("make", WINDOWED.values(), ids=WINDOWED)
@pytest.mark.parametrize("length", [3, WINDOW - 1, WINDOW, WINDOW + 1, 20])
def test_after_every_rollback_a_window_holds_what_a_fresh_forward_reads(make: Make, length: int) -> None:
    target, kept = make(), tiny.prompt(length)
    target.prefill(kept, ())
    for seed, keep in enumerate([1, 6, 3, 5, 1, 2]):
        block = tiny.prompt(6, seed)
        found = target.verify(block, (0, 2))
        features = target.commit(keep)
        fresh = target.model(torch.cat([kept, block], dim=1), use_cache=False, output_hidden_states=True)
        torch.testing.assert_close(found, fresh.logits[:, -6:], rtol=0, atol=1e-9)
        right = torch.cat([fresh.hidden_states[tap + 1][:, -6:][:, :keep] for tap in (0, 2)], dim=-1)
        torch.testing.assert_close(features, right, rtol=0, atol=1e-9)
        kept = torch.cat([kept, block[:, :keep]], dim=1)
        assert target.cached == kept.shape[1]
        assert max(layer.keys.shape[-2] for layer in target._cache.layers if layer.is_sliding) < WINDOW


@torch.inference_mode()
def test_what_lies_before_every_window_is_out_of_sight() -> None:
    """Else the test above would show nothing about windows."""
    target = mistral()
    reach = 1 + target.layers * (WINDOW - 1)
    text = tiny.prompt(reach + 1)
    seen, unseen = text.clone(), text.clone()
    unseen[0, 0] = 79 - unseen[0, 0]
    seen[0, 1] = 79 - seen[0, 1]
    right = target.prefill(text, ())[0]
    assert torch.equal(target.prefill(unseen, ())[0], right)
    assert not torch.equal(target.prefill(seen, ())[0], right)


# Greedy parity in float64


@pytest.mark.parametrize(
    ("family", "kind"),
    [*product(WINDOWED, ("dflash", "xpress", "prompt_lookup")), ("gpt2", "prompt_lookup")],
)
def test_every_arm_says_what_generate_says(family: str, kind: str) -> None:
    target, accepted = (WINDOWED | {"gpt2": gpt2})[family](), 0
    for length in (5, 20):  # shorter than the window, and longer
        ids = tiny.prompt(length, seed=length)
        right = tiny.generated(target, ids, 24)
        assert tiny.plain(target, ids, 24).ids == right
        assert len(set(right)) > 3  # else a drafter that repeats one token would be right
        for block_size in (2, 4, 8, 16):
            output = arm(kind, target, block_size).run(target, ids, 24)
            assert output.ids == right, (length, block_size)
            accepted += sum(step.accepted for step in output.rounds)
    assert accepted > 5  # else only rejection was tried


# What cannot be rolled back

MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 4, "mamba_n_groups": 1}
LINEAR = {"linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
EXPERTS = {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16}
RECURRENT: dict[str, tuple[Any, dict[str, Any]]] = {
    "state space": (MambaConfig, {"state_size": 4}),
    "state space beside attention": (BambaConfig, MAMBA | {"attn_layer_indices": [1]}),
    "both in each layer": (FalconH1Config, MAMBA | {"mamba_n_heads": 4, "mamba_d_ssm": 32}),
    "linear attention": (Qwen3NextConfig, LINEAR | EXPERTS | {"shared_expert_intermediate_size": 16}),
    "cache of its own": (RwkvConfig, {"attention_hidden_size": tiny.HIDDEN}),
    "gated recurrence": (RecurrentGemmaConfig, {"lru_width": tiny.HIDDEN, "attention_window_size": WINDOW}),
}


@pytest.mark.parametrize("kind", RECURRENT)
def test_a_model_that_cannot_drop_tokens_is_refused_before_any_timing(kind: str) -> None:
    config, options = RECURRENT[kind]
    target = built(config(**SHAPE | options), torch.float32)
    with pytest.raises(MisfitError, match=r"model '\w+Config': .*roll") as caught:
        refuse_unless_rollback(target)
    assert "\n" not in str(caught.value)


class Leaking(HfTarget):
    """Attention layers only and the right count, but what was rejected stays."""

    cached = 5  # type: ignore[assignment]

    def drop(self, count: int) -> None:
        self._cache.crop(0)


def test_a_trace_of_rejected_tokens_is_seen_whatever_the_cache_says_of_itself() -> None:
    model = tiny.qwen3().model
    refuse_unless_rollback(HfTarget(model, "tiny"))
    with pytest.raises(MisfitError, match="cannot be rolled back"):
        refuse_unless_rollback(Leaking(model, "tiny"))


@torch.inference_mode()
@pytest.mark.parametrize(
    ("config", "options"),
    [
        (Lfm2Config, {"layer_types": ["conv", "full_attention", "conv", "conv"]}),
        (MixtralConfig, {"num_local_experts": 4}),
    ],
)
def test_convolutions_and_experts_are_no_reason_to_refuse(config: Any, options: dict[str, Any]) -> None:
    target, ids, block = built(config(**SHAPE | options), torch.float32), tiny.prompt(12), tiny.prompt(6, seed=4)
    refuse_unless_rollback(target)
    target.prefill(ids, ())
    target.verify(block, ())
    target.commit(2)
    found = target.verify(block, ())
    fresh = target.model(torch.cat([ids, block[:, :2], block], dim=1), use_cache=False)
    torch.testing.assert_close(found, fresh.logits[:, -6:], rtol=1e-4, atol=1e-4)
