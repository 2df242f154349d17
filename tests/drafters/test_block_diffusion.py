"""The DFlash network against attention written out by hand, without a cache."""

from __future__ import annotations

import math

import pytest
import tiny
import torch
from torch import Tensor
from transformers import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from xpress_bench.drafters import Context
from xpress_bench.drafters.block_diffusion import BlockDiffusionModel, ContextCache
from xpress_bench.errors import MisfitError

EPS = 1e-6


@pytest.fixture(autouse=True)
def full_precision_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers computes this norm in float32 even in a float64 model; here the mathematics is compared."""
    monkeypatch.setattr(Qwen3RMSNorm, "forward", lambda self, rows: by_hand_norm(rows, self.weight))


def by_hand_norm(rows: Tensor, weight: Tensor) -> Tensor:
    return weight * rows / torch.sqrt((rows * rows).mean(-1, keepdim=True) + EPS)


def turned(row: Tensor, position: int, theta: float) -> Tensor:
    """RoPE of one head row [d]: plane i is (i, i + d/2), turned by position * theta ** (-2i / d)."""
    half = len(row) // 2
    angles = position / torch.tensor(theta) ** (torch.arange(half) / half)  # float32, as transformers computes them
    cos, sin = angles.cos().double(), angles.sin().double()
    first, second = row[:half], row[half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin])


def by_hand(model: BlockDiffusionModel, features: Tensor, block: Tensor) -> Tensor:
    """Final states [B, H] of block [B, H] after the context of all `features` [n, taps * H]; one head at a time."""
    weights, shape = model.state_dict(), model.config.qwen3
    theta = shape.rope_parameters["rope_theta"]
    context = by_hand_norm(features @ weights["fc.weight"].T, weights["hidden_norm.weight"])
    n, slots, width = len(context), len(block), shape.head_dim
    mask = torch.zeros(slots, n + slots, dtype=block.dtype)  # every row sees all context and the whole block
    for layer in range(shape.num_hidden_layers):
        own = {name: weights[f"layers.{layer}.{name}.weight"] for name in LAYER}
        normed = by_hand_norm(block, own["input_layernorm"])
        sources = torch.cat([context, normed])  # the context does not pass the input norm
        heads = []
        for index in range(shape.num_attention_heads):
            shared = index * shape.num_key_value_heads // shape.num_attention_heads
            rows, kv = slice(index * width, (index + 1) * width), slice(shared * width, (shared + 1) * width)
            queries = by_hand_norm(normed @ own["self_attn.q_proj"][rows].T, own["self_attn.q_norm"])
            keys = by_hand_norm(sources @ own["self_attn.k_proj"][kv].T, own["self_attn.k_norm"])
            values = sources @ own["self_attn.v_proj"][kv].T
            queries = torch.stack([turned(row, n + slot, theta) for slot, row in enumerate(queries)])
            keys = torch.stack([turned(row, place, theta) for place, row in enumerate(keys)])
            heads.append(torch.softmax(queries @ keys.T / math.sqrt(width) + mask, dim=-1) @ values)
        block = block + torch.cat(heads, dim=-1) @ own["self_attn.o_proj"].T
        normed = by_hand_norm(block, own["post_attention_layernorm"])
        gate = normed @ own["mlp.gate_proj"].T
        block = block + (gate * torch.sigmoid(gate) * (normed @ own["mlp.up_proj"].T)) @ own["mlp.down_proj"].T
    return by_hand_norm(block, weights["norm.weight"])


LAYER = [
    "input_layernorm",
    "post_attention_layernorm",
    *(f"self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")),
    *(f"mlp.{name}" for name in ("gate_proj", "up_proj", "down_proj")),
]


def rows(count: int, width: int, seed: int) -> Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def equal(found: Tensor, right: Tensor) -> bool:
    return torch.allclose(found, right, rtol=0, atol=1e-10)


@torch.inference_mode()
def test_a_block_equals_attention_written_out_by_hand_over_several_rounds() -> None:
    model = tiny.dflash(tiny.qwen3(), 6).model
    cache, features = ContextCache(2), torch.empty(0, 64, dtype=torch.float64)
    for step, (grown, slots) in enumerate([(9, 6), (1, 6), (4, 3), (6, 2), (2, 6)]):
        new, block = rows(grown, 64, seed=step), rows(slots, 32, seed=100 + step)
        model.append(new[None], cache)
        features = torch.cat([features, new])
        assert equal(model(block[None], cache)[0], by_hand(model, features, block))


@torch.inference_mode()
def test_a_long_context_outgrows_the_first_buffer_unharmed() -> None:
    model = tiny.dflash(tiny.qwen3(), 4).model
    cache, features, block = ContextCache(2), rows(300, 64, seed=1), rows(4, 32, seed=2)
    for part in features.split([100, 3, 197]):
        model.append(part[None], cache)
        model(block[None], cache)  # leaves block rows behind, which must not be read again
    assert equal(model(block[None], cache)[0], by_hand(model, features, block))


@torch.inference_mode()
def test_the_draft_comes_from_raw_embeddings_and_slots_after_the_anchor() -> None:
    target = tiny.qwen3()
    drafter = tiny.dflash(target, 5)
    features = rows(7, 64, seed=3)
    drafter.start(target, tiny.prompt(7), features[None])
    context = Context([1] * 7 + [23], torch.tensor([23]), torch.tensor([1]), 7, 99)

    draft = drafter.propose(context, tiny.sampling())

    mask = drafter.model.config.mask_token_id
    weights = target.model.state_dict()
    states = by_hand(drafter.model, features, weights["model.embed_tokens.weight"][[23, mask, mask, mask, mask]])
    assert equal(draft.hidden[0], states)
    assert equal(draft.logits[0], states[1:] @ weights["lm_head.weight"].T)
    assert draft.tokens[0].tolist() == draft.logits[0].argmax(-1).tolist()
    assert draft.point_mass


@torch.inference_mode()
def test_features_are_the_outputs_of_the_tapped_layers_in_the_order_of_the_taps() -> None:
    target, ids = tiny.qwen3(), tiny.prompt(5)
    outputs: dict[int, Tensor] = {}
    for index, layer in enumerate(target.model.model.layers):
        layer.register_forward_hook(lambda _, __, output, index=index: outputs.update({index: output}))
    _, features = target.prefill(ids, (1, 0))
    assert equal(features, torch.cat([outputs[1], outputs[0]], dim=-1))


@torch.inference_mode()
def test_a_new_request_forgets_the_last_one() -> None:
    target = tiny.qwen3()
    context = Context([1, 2, 3, 4], torch.tensor([4]), torch.tensor([3]), 3, 99)
    used, fresh = tiny.dflash(target), tiny.dflash(target)
    used.start(target, tiny.prompt(40), rows(40, 64, seed=1)[None])
    used.propose(context, tiny.sampling())
    for drafter in (used, fresh):
        drafter.start(target, tiny.prompt(3), rows(3, 64, seed=2)[None])
    assert torch.equal(used.propose(context, tiny.sampling()).hidden, fresh.propose(context, tiny.sampling()).hidden)


@torch.inference_mode()
@pytest.mark.parametrize(("room", "drafts"), [(99, 7), (8, 7), (5, 4), (2, 1), (1, 0)])
def test_a_block_is_no_longer_than_the_room_that_is_left(room: int, drafts: int) -> None:
    target = tiny.qwen3()
    drafter = tiny.dflash(target, 8)
    drafter.start(target, tiny.prompt(3), rows(3, 64, seed=2)[None])
    context = Context([1, 2, 3, 4], torch.tensor([4]), torch.tensor([3]), 3, room)
    assert drafter.propose(context, tiny.sampling()).tokens.shape == (1, drafts)


def test_a_target_without_features_is_refused() -> None:
    with pytest.raises(MisfitError, match="gave none"):
        tiny.dflash(tiny.qwen3()).observe(None)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rotary_frequencies_are_not_rounded_with_the_weights(dtype: torch.dtype) -> None:
    shape = Qwen3Config(**tiny.SHAPE, num_hidden_layers=1, vocab_size=tiny.VOCAB)
    model = tiny.dflash(tiny.qwen3()).model.float().to(dtype)
    exact = torch.tensor([shape.rope_parameters["rope_theta"] ** (-index / 4) for index in range(4)])
    assert model.fc.weight.dtype == dtype
    torch.testing.assert_close(model.rotary.inv_freq, exact)
