"""EAGLE-3 drafters against attention written out by hand without a cache, and in the whole loop."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from safetensors.torch import save_file
from scipy.stats import chisquare
from torch import Tensor
from transformers import LlamaConfig, Qwen3Config
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from xpress_bench.checkpoints.dflash import BlockConfig
from xpress_bench.checkpoints.eagle3 import Eagle3Config
from xpress_bench.drafters import Context, Draft
from xpress_bench.drafters.eagle3 import Eagle3, Eagle3Model, load
from xpress_bench.drafters.vocabulary import Vocabulary
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.sampling import Sampling
from xpress_bench.settings import DrafterSettings
from xpress_bench.targets.hf import HfTarget
from xpress_bench.targets.toy import MarkovTarget

EPS, TAPS = 1e-6, (0, 2, 1)
FAMILIES: dict[str, Any] = {"llama": LlamaConfig, "qwen3": Qwen3Config}
SWITCHES = [
    {},
    {"norm_before_residual": True},
    {"norm_before_fc": True, "norm_output": True},
    {"fc_norm": True, "norm_before_residual": True, "norm_output": True},
]


@pytest.fixture
def full_precision_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers computes these norms in float32 even in a float64 model; here the mathematics is compared."""
    for kind in (Qwen3RMSNorm, LlamaRMSNorm):
        monkeypatch.setattr(kind, "forward", lambda self, rows: norm(rows, self.weight))


def norm(rows: Tensor, weight: Tensor) -> Tensor:
    return weight * rows / torch.sqrt((rows * rows).mean(-1, keepdim=True) + EPS)


def turned(row: Tensor, position: int) -> Tensor:
    """RoPE of one head row [8]: plane i is (i, i + 4), turned by position * 100 ** (-i / 4)."""
    angles = position / torch.tensor(100.0) ** (torch.arange(4) / 4)  # float32, as transformers computes them
    cos, sin = angles.cos().double(), angles.sin().double()
    return torch.cat([row[:4] * cos - row[4:] * sin, row[4:] * cos + row[:4] * sin])


def attention(rows: Tensor, weights: dict[str, Tensor], normed: bool) -> Tensor:
    """Causal attention over rows [n, width], one head at a time; two heads share their keys and values."""
    n, heads = len(rows), []
    mask = torch.full((n, n), -math.inf, dtype=rows.dtype).triu(1)
    for head in range(4):
        own, shared = slice(head * 8, head * 8 + 8), slice(head // 2 * 8, head // 2 * 8 + 8)
        queries, keys = (rows @ weights[f"{q}_proj.weight"][part].T for q, part in (("q", own), ("k", shared)))
        if normed:
            queries, keys = norm(queries, weights["q_norm.weight"]), norm(keys, weights["k_norm.weight"])
        queries, keys = (torch.stack([turned(row, place) for place, row in enumerate(of)]) for of in (queries, keys))
        heads.append((queries @ keys.T / math.sqrt(8) + mask).softmax(-1) @ (rows @ weights["v_proj.weight"][shared].T))
    return torch.cat(heads, dim=-1) @ weights["o_proj.weight"].T


def layer(model: Eagle3Model, index: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Weights of a layer by name, those of its attention apart."""
    weights = {
        name.removeprefix(f"layers.{index}."): value
        for name, value in model.state_dict().items()
        if name.startswith(f"layers.{index}.")
    }
    inner = {name.removeprefix("self_attn."): value for name, value in weights.items() if name.startswith("self_attn.")}
    return weights, inner


def mlp(rows: Tensor, weights: dict[str, Tensor]) -> Tensor:
    gate = rows @ weights["mlp.gate_proj.weight"].T
    return (gate * torch.sigmoid(gate) * (rows @ weights["mlp.up_proj.weight"].T)) @ weights["mlp.down_proj.weight"].T


def by_hand(model: Eagle3Model, embedded: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
    """What the next step reads and what the head reads, [n, H] each, of all rows at once."""
    normed = model.config.base.qwen3.model_type == "qwen3"
    weights, inner = layer(model, 0)
    hidden = norm(states, weights["hidden_norm.weight"])
    rows = torch.cat([norm(embedded, weights["input_layernorm.weight"]), hidden], dim=-1)
    states = (hidden if model.config.norm_before_residual else states) + attention(rows, inner, normed)
    states = states + mlp(norm(states, weights["post_attention_layernorm.weight"]), weights)
    for index in range(1, model.config.base.qwen3.num_hidden_layers):
        weights, inner = layer(model, index)
        states = states + attention(norm(states, weights["input_layernorm.weight"]), inner, normed)
        states = states + mlp(norm(states, weights["post_attention_layernorm.weight"]), weights)
    read = norm(states, model.state_dict()["norm.weight"])
    return (read if model.config.norm_output else states), read


def fused(model: Eagle3Model, features: Tensor) -> Tensor:
    weights = model.state_dict()
    if model.config.norm_before_fc:
        features = norm(features, weights["input_norm.weight"])
    if model.config.fc_norm:
        parts = features.split(tiny.HIDDEN, dim=-1)
        features = torch.cat([norm(part, weights[f"fc_norm.{i}.weight"]) for i, part in enumerate(parts)], dim=-1)
    return features @ weights["fc.weight"].T


def eagle3(
    target: HfTarget,
    block_size: int = 5,
    family: str = "llama",
    layers: int = 1,
    seed: int = 1,
    ids: Any = None,
    **o: Any,
) -> Eagle3:
    sizes = tiny.SHAPE | {"num_hidden_layers": layers, "vocab_size": target.vocab_size}
    shape = FAMILIES[family](**sizes)
    shape._attn_implementation = "sdpa"
    base = BlockConfig(
        shape, block_size, 0, TAPS, None, "speculators", draft_vocab_size=None if ids is None else len(ids)
    )
    model = tiny.enlivened(Eagle3Model(Eagle3Config(base, **o)), seed)
    head = None if ids is None else target.head(torch.eye(tiny.HIDDEN, dtype=torch.float64)[None])[0].T[ids].clone()
    return Eagle3(model, Vocabulary(target, base, None, head, ids), block_size)


def features_of(target: HfTarget, count: int, seed: int = 5) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(1, count, len(TAPS) * tiny.HIDDEN, generator=generator, dtype=torch.float64)


@torch.inference_mode()
def proposed(drafter: Eagle3, tokens: list[int], room: int = 1000, how: Sampling | None = None) -> Draft:
    last = torch.tensor(tokens[-2:])
    context = Context(tokens, last[1:], last[:1], len(tokens) - 1, room)
    return drafter.propose(context, how or tiny.sampling())


# The network


@pytest.mark.usefixtures("full_precision_norm")
@torch.inference_mode()
@pytest.mark.parametrize("switches", SWITCHES)
@pytest.mark.parametrize(("family", "layers"), [("llama", 1), ("qwen3", 2)])
def test_drafts_equal_the_network_written_out_by_hand(family: str, layers: int, switches: dict[str, bool]) -> None:
    """Over rounds that accept any number of drafts: guessed rows are read again with the target's features."""
    target = tiny.qwen3()
    drafter = eagle3(target, 5, family, layers, **switches)
    weights = target.model.state_dict()
    table, head = weights["model.embed_tokens.weight"], weights["lm_head.weight"]
    tokens, features = tiny.prompt(7)[0].tolist(), features_of(target, 6)
    drafter.start(target, torch.tensor([tokens[:-1]]), features)
    for accepted in (0, 4, 2, 1, 3):
        draft = proposed(drafter, tokens)
        states, chain = fused(drafter.model, features[0]), tokens[1:]  # row i reads the embedding of token i + 1
        for slot in range(4):
            carried, read = by_hand(drafter.model, table[chain], states)
            right = read[-1] @ head.T
            torch.testing.assert_close(draft.logits[0, slot], right, rtol=0, atol=1e-9)
            assert int(draft.tokens[0, slot]) == int(right.argmax())
            chain, states = [*chain, int(right.argmax())], torch.cat([states, carried[-1:]])
        tokens = [*tokens, *draft.tokens[0, :accepted].tolist(), 11 + accepted]
        new = features_of(target, accepted + 1, seed=accepted)
        features = torch.cat([features, new], dim=1)
        drafter.observe(new)


@torch.inference_mode()
def test_features_are_those_of_the_tapped_layers_of_the_token_before() -> None:
    target, ids = tiny.qwen3(), tiny.prompt(6)
    drafter = eagle3(target)
    logits, features = target.prefill(ids, drafter.taps)
    drafter.start(target, ids, features)
    token = int(logits.argmax())
    draft = proposed(drafter, [*ids[0].tolist(), token])
    output = target.model(ids, output_hidden_states=True)
    taken = torch.cat([output.hidden_states[tap + 1] for tap in TAPS], dim=-1)
    other = eagle3(target)
    other.start(target, ids, taken)
    assert torch.equal(proposed(other, [*ids[0].tolist(), token]).logits, draft.logits)


@pytest.mark.parametrize(("room", "count"), [(9, 4), (5, 4), (3, 2), (2, 1), (1, 0)])
def test_a_draft_fits_the_room_that_is_left(room: int, count: int) -> None:
    target = tiny.qwen3()
    drafter = eagle3(target)
    drafter.start(target, tiny.prompt(3), features_of(target, 3))
    draft = proposed(drafter, [7, 8, 9, 10], room)
    assert draft.tokens.shape == (1, count)
    assert draft.tokens.dtype == torch.long


def test_a_target_without_features_is_refused() -> None:
    with pytest.raises(MisfitError, match="gave none"):
        eagle3(tiny.qwen3()).observe(None)


# The law


@pytest.mark.parametrize("verifier", ["coupled", "rejection"])
def test_every_token_is_drawn_from_the_recorded_law(verifier: str) -> None:
    target, how = tiny.qwen3(), tiny.sampling(0.7, verifier)
    drafter = eagle3(target)
    drafter.start(target, tiny.prompt(3), features_of(target, 3))
    draft = proposed(drafter, [7, 8, 9, 10], how=how)
    noise = tiny.sampling(0.7, verifier).draft.at(4, 4, draft.logits)
    assert torch.equal(draft.tokens, (draft.logits / 0.7 + noise).argmax(-1))
    assert not draft.point_mass


class Featured(MarkovTarget):
    """A target of three ids that shows features: one vector per id, three times."""

    hidden_size = tiny.HIDDEN
    table = torch.randn(3, tiny.HIDDEN, generator=torch.Generator().manual_seed(8), dtype=torch.float64)

    def prefill(self, ids: Tensor, taps: tuple[int, ...]) -> tuple[Tensor, Tensor | None]:
        return super().prefill(ids, taps)[0], self.embed(ids).repeat(1, 1, 3)

    def verify(self, ids: Tensor, taps: tuple[int, ...]) -> Tensor:
        self.features = self.embed(ids).repeat(1, 1, 3)
        return super().verify(ids, taps)

    def commit(self, keep: int) -> Tensor | None:
        super().commit(keep)
        return self.features[:, :keep]

    def embed(self, ids: Tensor) -> Tensor:
        return self.table[ids]

    def head(self, hidden: Tensor) -> Tensor:
        return hidden @ self.table.T / 4


def test_rejection_keeps_the_targets_law_with_a_reduced_vocabulary() -> None:
    transition = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.25, 0.05, 0.7]], dtype=torch.float64)
    target, ids, requests = Featured(transition), torch.tensor([[1, 0]]), 500
    arm = tiny.Arm(eagle3(target, 3, ids=torch.tensor([0, 2])))
    seen, accepted = torch.zeros(3, 3, dtype=torch.float64), 0
    for seed in range(requests):
        output = arm.run(target, ids, 3, how=tiny.sampling(1.0, "rejection", seed))
        seen[output.ids[1], output.ids[2]] += 1
        accepted += sum(step.accepted for step in output.rounds)
    right = torch.einsum("a,ab,bc->bc", transition[0], transition, transition)
    assert chisquare(seen.flatten().numpy(), (right * requests).flatten().numpy()).pvalue > 1e-4
    assert requests / 10 < accepted < 2 * requests * 0.9  # both branches of the rule were tried


def test_coupled_gives_the_ids_of_direct_sampling() -> None:
    target, ids, accepted = tiny.qwen3(), tiny.prompt(5), 0
    arm = tiny.Arm(eagle3(target, 6))
    for seed in range(4):
        output = arm.run(target, ids, 20, how=tiny.sampling(1.0, "coupled", seed))
        assert output.ids == tiny.plain(target, ids, 20, how=tiny.sampling(1.0, "coupled", seed)).ids
        accepted += sum(step.accepted for step in output.rounds)
    assert accepted > 0


# In the loop


@pytest.mark.parametrize(("make", "family"), [(tiny.qwen3, "qwen3"), (tiny.llama, "llama")])
def test_greedy_output_equals_generate_at_every_block_size(make: Any, family: str) -> None:
    accepted = 0
    for block_size in (2, 4, 8, 16):
        target, ids = make(seed=block_size), tiny.prompt((1, 2, 5, 17)[block_size % 4], block_size)
        output = tiny.Arm(eagle3(target, block_size, family, seed=block_size)).run(target, ids, 24)
        assert output.ids == tiny.generated(target, ids, 24), block_size
        accepted += sum(step.accepted for step in output.rounds)
    assert accepted > 3


def test_a_request_knows_nothing_of_the_one_before() -> None:
    target, prompts = tiny.qwen3(), [tiny.prompt(9, seed=1), tiny.prompt(23, seed=2)]
    arm = tiny.Arm(eagle3(target))
    runs = [[step.draft for step in arm.run(target, prompts[index], 16).rounds] for index in (0, 1, 0, 0, 1)]
    assert runs[0] == runs[2] == runs[3]
    assert runs[1] == runs[4]


# Loading


def written(folder: Path, drafter: Eagle3, tensors: dict[str, Tensor] | None = None, **changes: Any) -> Path:
    """A checkpoint as speculators writes one."""
    folder.mkdir()
    config = drafter.model.config
    body = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "transformer_layer_config": config.base.qwen3.to_diff_dict() | {"model_type": config.base.qwen3.model_type},
        "draft_vocab_size": config.base.draft_vocab_size or config.base.qwen3.vocab_size,
        "norm_before_residual": config.norm_before_residual,
        "eagle_aux_hidden_state_layer_ids": [tap + 1 for tap in TAPS],
        "norm_before_fc": config.norm_before_fc,
        "fc_norm": config.fc_norm,
        "norm_output": config.norm_output,
        "target_hidden_size": None,
        "speculators_config": {"algorithm": "eagle3", "proposal_methods": [{"speculative_tokens": 4}]},
    }
    kept = {key: value for key, value in (body | changes).items() if value != "absent"}
    (folder / "config.json").write_text(json.dumps(kept), encoding="utf-8")
    state = {name: tensor.contiguous() for name, tensor in drafter.model.state_dict().items()}
    save_file(state | (tensors or {}), folder / "model.safetensors")
    return folder


def loaded(folder: Path, target: HfTarget, **options: Any) -> Eagle3:
    return load(DrafterSettings("eagle3", str(folder), **options), target, None)


@pytest.mark.parametrize("switches", SWITCHES)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_checkpoint_loads_as_it_was(tmp_path: Path, family: str, switches: dict[str, bool]) -> None:
    target = tiny.qwen3(layers=4)
    drafter = eagle3(target, 5, family, **switches)
    again = loaded(written(tmp_path / "eagle", drafter), target)
    assert (again.block_size, again.taps, again.denoising_steps) == (5, TAPS, 1)
    assert (
        again.model.config == drafter.model.config or again.model.config.norm_output == drafter.model.config.norm_output
    )
    for one in (drafter, again):
        one.start(target, tiny.prompt(3), features_of(target, 3))
    assert torch.equal(proposed(again, [7, 8, 9, 10]).logits, proposed(drafter, [7, 8, 9, 10]).logits)


def test_a_reduced_vocabulary_drafts_the_targets_ids(tmp_path: Path) -> None:
    target, ids = tiny.qwen3(layers=4), torch.arange(40) * 2 + 1
    drafter = eagle3(target, ids=ids)
    head = torch.randn(40, tiny.HIDDEN, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    present = torch.zeros(tiny.VOCAB, dtype=torch.bool)
    present[ids] = True
    tables = {"lm_head.weight": head, "d2t": ids - torch.arange(40), "t2d": present}
    again = loaded(written(tmp_path / "eagle", drafter, tables), target)
    again.start(target, tiny.prompt(3), features_of(target, 3))
    draft = proposed(again, [7, 8, 9, 10])
    assert draft.logits is not None
    assert bool((draft.logits[..., ~present] == -torch.inf).all())
    with torch.inference_mode():
        drafter.start(target, tiny.prompt(3), features_of(target, 3))
        _, read = drafter.model(
            target.embed(torch.tensor([[8, 9, 10]])), drafter.model.fuse(features_of(target, 3)), drafter._cache
        )
    torch.testing.assert_close(draft.logits[0, 0, ids], (read @ head.T)[0, -1], rtol=0, atol=1e-12)
    prompt = tiny.prompt(5)
    output = tiny.Arm(again).run(target, prompt, 20)
    assert output.ids == tiny.generated(target, prompt, 20)


def test_taps_that_are_not_named_are_the_librarys(tmp_path: Path) -> None:
    target = tiny.qwen3(layers=9)
    folder = written(tmp_path / "eagle", eagle3(target), eagle_aux_hidden_state_layer_ids=None)
    assert loaded(folder, target).taps == (1, 3, 5)  # layers 2, 9 // 2 and 9 - 3 with the embeddings as layer 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"speculators_model_type": "peagle"}, "speculators_model_type is 'peagle', not 'eagle3'"),
        ({"speculators_model_type": "absent"}, "speculators can convert older ones"),
        ({"transformer_layer_config": None}, "transformer_layer_config is of None, and llama or qwen3 is read"),
        ({"transformer_layer_config": {"model_type": "gpt2"}}, "is of 'gpt2'"),
        ({"transformer_layer_config": {"model_type": ["llama"]}}, r"is of \['llama'\]"),
        ({"transformer_layer_config": {"model_type": "llama", "hidden_act": "x"}}, "is not understood"),
        ({"transformer_layer_config": {"model_type": "llama", "head_dim": 0}}, "head_dim is 0|is not understood"),
        ({"norm_output": "yes"}, "norm_output is 'yes', not true or false"),
        ({"norm_before_fc": True, "fc_norm": True}, "norm_before_fc and fc_norm are both true"),
        ({"draft_vocab_size": 0}, "draft_vocab_size is 0, not a whole number from 1 to 80"),
        ({"target_hidden_size": 64}, "target_hidden_size is not"),
        ({"eagle_aux_hidden_state_layer_ids": [0, 1, 2]}, r"layer_ids is \[0, 1, 2\], not a list"),
        ({"eagle_aux_hidden_state_layer_ids": [1, 2, 4]}, "taps layer 3"),
        ({"eagle_aux_hidden_state_layer_ids": [1, 2]}, "fc.weight has shape"),
        ({"draft_vocab_size": 40}, "needs d2t"),
    ],
)
def test_checkpoints_that_are_not_read(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    target = tiny.qwen3(layers=4)
    folder = written(tmp_path / "eagle", eagle3(target), **changes)
    with pytest.raises(UsageError, match=words) as caught:
        loaded(folder, target)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"path": None}, "head trained for target 'tiny': drafter.path=FOLDER or HUB_ID"),
        ({"denoising_steps": 2}, "has no denoising_steps"),
        ({"params": {"depth": 7}}, r"no drafter\.params"),
    ],
)
def test_settings_that_cannot_be(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        load(DrafterSettings("eagle3", **{"path": "."} | changes), tiny.qwen3(layers=1), None)
