"""The DFlash network against attention written out by hand, without a cache."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import tiny
import torch
from torch import Tensor
from transformers import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from xpress_bench.drafters import Context
from xpress_bench.drafters.block_diffusion import BlockDiffusionModel, ContextCache
from xpress_bench.drafters.denoising import Denoising
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


def everything(layer: int, row: int, key: int) -> bool:
    return True


def by_hand(
    model: BlockDiffusionModel, features: Tensor, block: Tensor, sees: Callable[[int, int, int], bool] = everything
) -> Tensor:
    """Final states [B, H] of block [B, H] after the context of all `features` [n, taps * H]; one head at a time.

    Whether `sees(layer, row, key)`: places are counted from the anchor's, those of the context below 0.
    """
    weights, shape = model.state_dict(), model.config.qwen3
    theta = shape.rope_parameters["rope_theta"]
    context = by_hand_norm(features @ weights["fc.weight"].T, weights["hidden_norm.weight"])
    n, slots, width = len(context), len(block), shape.head_dim
    for layer in range(shape.num_hidden_layers):
        seen = torch.tensor([[sees(layer, row, key) for key in range(-n, slots)] for row in range(slots)])
        mask = torch.zeros(slots, n + slots, dtype=block.dtype).masked_fill(~seen, -torch.inf)
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
@pytest.mark.parametrize(
    ("options", "sees"),
    [
        ({"is_causal": True}, lambda layer, row, key: key <= row),
        # z-lab: layer 0 is causal and counts its window of 5 from each row, itself included.
        ({"shape": tiny.SLIDING}, lambda layer, row, key: layer == 1 or row - 5 < key <= row),
        ({"shape": tiny.SLIDING, "is_causal": False}, lambda layer, row, key: layer == 1 or abs(row - key) < 5),
        (
            {"shape": tiny.SLIDING, "is_causal": True},
            lambda layer, row, key: key <= row and (layer == 1 or row - 5 < key),
        ),
        # speculators: a window of 5 before the anchor for every row, and the whole block or what is not behind it.
        (
            {"shape": tiny.SLIDING, "is_causal": False, "format": "speculators"},
            lambda layer, row, key: layer == 1 or key >= -5,
        ),
        (
            {"shape": tiny.SLIDING, "is_causal": True, "format": "speculators"},
            lambda layer, row, key: layer == 1 or -5 <= key <= row,
        ),
        ({"is_causal": True, "format": "speculators"}, everything),
        # A sliding layer without a window is causal in z-lab's code, and like the others in speculators'.
        ({"shape": tiny.SLIDING | {"sliding_window": None}}, lambda layer, row, key: layer == 1 or key <= row),
        (
            {"shape": tiny.SLIDING | {"sliding_window": None}, "is_causal": True, "format": "speculators"},
            everything,
        ),
    ],
)
def test_a_row_sees_what_its_format_lets_it_see(options: dict[str, Any], sees: Callable[[int, int, int], bool]) -> None:
    model = tiny.dflash(tiny.qwen3(), 8, **options).model
    cache, features = ContextCache(2), torch.empty(0, 64, dtype=torch.float64)
    for step, (grown, slots) in enumerate([(3, 8), (1, 8), (9, 8), (4, 3)]):  # shorter than the window, then longer
        new, block = rows(grown, 64, seed=step), rows(slots, 32, seed=100 + step)
        model.append(new[None], cache)
        features = torch.cat([features, new])
        assert equal(model(block[None], cache)[0], by_hand(model, features, block, sees))


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
def test_in_the_shift_layout_every_slot_predicts_the_place_behind_it() -> None:
    target = tiny.qwen3()
    drafter = tiny.dflash(target, 4, layout="shift")
    features = rows(7, 64, seed=3)
    drafter.start(target, tiny.prompt(7), features[None])

    draft = drafter.propose(Context([1] * 7 + [23], torch.tensor([23]), torch.tensor([1]), 7, 99), tiny.sampling())

    weights = target.model.state_dict()
    states = by_hand(drafter.model, features, weights["model.embed_tokens.weight"][[23, 79, 79, 79]])
    assert equal(draft.hidden[0], states)
    assert equal(draft.logits[0], states @ weights["lm_head.weight"].T)
    assert draft.tokens.shape == (1, 4)
    assert draft.cut(2).hidden.shape[1] == 2


@torch.inference_mode()
def test_logits_are_scaled_then_capped_and_embeddings_scaled() -> None:
    target = tiny.qwen3()
    options = {"input_embedding_scale": 2.0, "output_multiplier": 0.5, "final_logit_softcapping": 3.0}
    drafter = tiny.dflash(target, 3, **options)
    features = rows(7, 64, seed=3)
    drafter.start(target, tiny.prompt(7), features[None])

    hidden, logits = drafter.predict(torch.tensor([23]), torch.tensor([[79, 5]]))

    weights = target.model.state_dict()
    states = by_hand(drafter.model, features, 2 * weights["model.embed_tokens.weight"][[23, 79, 5]])
    assert equal(hidden[0], states)
    assert equal(logits[0], 3 * torch.tanh(states[1:] @ weights["lm_head.weight"].T * 0.5 / 3))


@torch.inference_mode()
def test_features_are_the_outputs_of_the_tapped_layers_in_the_order_of_the_taps() -> None:
    target, ids = tiny.qwen3(), tiny.prompt(5)
    outputs: dict[int, Tensor] = {}
    for index, layer in enumerate(target.model.model.layers):
        layer.register_forward_hook(lambda _, __, output, index=index: outputs.update({index: output}))
    _, features = target.prefill(ids, (1, 0, -1))
    embedded = target.model.state_dict()["model.embed_tokens.weight"][ids]
    assert equal(features, torch.cat([outputs[1], outputs[0], embedded], dim=-1))


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
@pytest.mark.parametrize(
    ("layout", "room", "drafts"),
    [("fill_in", *each) for each in [(99, 7), (8, 7), (5, 4), (2, 1), (1, 0)]]
    + [("shift", *each) for each in [(99, 8), (9, 8), (8, 7), (2, 1), (1, 0)]],
)
def test_a_block_is_no_longer_than_the_room_that_is_left(layout: str, room: int, drafts: int) -> None:
    target = tiny.qwen3()
    drafter = tiny.dflash(target, 8, layout=layout)
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


@torch.inference_mode()
def test_several_blocks_over_one_context_are_each_as_if_alone() -> None:
    target = tiny.qwen3()
    drafter = tiny.dflash(target, 4)
    drafter.start(target, tiny.prompt(7), rows(7, 64, seed=3)[None])
    tokens = torch.tensor([[79, 79, 79], [5, 79, 6], [1, 2, 3]])
    together = drafter.predict(torch.tensor([23, 23, 23]), tokens)
    for index, each in enumerate(tokens):
        alone = drafter.predict(torch.tensor([23]), each[None])
        assert all(equal(many[index], one[0]) for many, one in zip(together, alone, strict=True))


VARIANTS: dict[str, dict[str, Any]] = {
    "shift": {"layout": "shift"},
    "sliding": {"shape": tiny.SLIDING},
    "causal": {"is_causal": True},
    "capped": {"input_embedding_scale": 1.5, "output_multiplier": 0.7, "final_logit_softcapping": 2.0},
    "embeddings": {"taps": (-1, 1)},
    "dflash2": {"dflash2": tiny.DFLASH2},
    "dflash2, shift": {"dflash2": tiny.DFLASH2, "layout": "shift"},
}


@pytest.mark.parametrize("block_size", [2, 4, 8, 16])
@pytest.mark.parametrize("variant", VARIANTS)
def test_greedy_output_is_that_of_direct_generation(variant: str, block_size: int) -> None:
    target, ids = tiny.qwen3(seed=block_size), tiny.prompt(9, block_size)
    drafter = tiny.dflash(target, block_size, **VARIANTS[variant])
    run = tiny.Arm(drafter).run(target, ids, 40)
    assert run.ids == tiny.generated(target, ids, 40)
    assert max(step.offered for step in run.rounds) == block_size - (drafter.layout == "fill_in")


@pytest.mark.parametrize("variant", ["shift", "dflash2"])
@pytest.mark.parametrize("seed", [0, 1])
def test_coupled_sampling_gives_the_ids_of_direct_sampling(variant: str, seed: int) -> None:
    target, ids = tiny.qwen3(), tiny.prompt(9)
    direct = tiny.plain(target, ids, 30, how=tiny.sampling(0.8, "coupled", seed)).ids
    arm = tiny.Arm(tiny.dflash(target, 6, **VARIANTS[variant]))
    assert arm.run(target, ids, 30, how=tiny.sampling(0.8, "coupled", seed)).ids == direct


@torch.inference_mode()
def test_several_steps_in_the_shift_layout_show_a_slot_the_token_before_its_own() -> None:
    """Two slots in two steps: the surer one is committed first; only slot 0's token is ever an input, of slot 1."""
    target = tiny.qwen3()
    drafter = tiny.dflash(target, 2, layout="shift")
    drafter.denoising = Denoising(2)
    drafter.start(target, tiny.prompt(7), rows(7, 64, seed=3)[None])
    anchor = torch.tensor([23])
    first = drafter.predict(anchor, torch.tensor([[79, 79]]))[1].softmax(-1)[0]
    sure = int(first.max(-1).values.argmax())
    token = int(first[sure].argmax())
    then = drafter.predict(anchor, torch.tensor([[token, 79] if sure == 0 else [79, token]]))[1][0]

    draft = drafter.propose(Context([1] * 7 + [23], anchor, torch.tensor([1]), 7, 99), tiny.sampling())

    right = [int(then[slot].argmax()) if slot != sure else token for slot in range(2)]
    assert draft.tokens[0].tolist() == right
    assert draft.point_mass
