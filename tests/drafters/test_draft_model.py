"""The autoregressive draft model against transformers' own generate and forward, and against direct generation."""

from __future__ import annotations

import copy
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from scipy.stats import chisquare
from torch import Tensor
from transformers import AutoConfig

from xpress_bench import parts
from xpress_bench.config import settings_from
from xpress_bench.drafters import Context, Draft, draft_model
from xpress_bench.drafters.draft_model import DraftModel, load
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.sampling import Sampling
from xpress_bench.settings import DrafterSettings
from xpress_bench.targets.hf import EMBEDDED as EMBEDDED_TARGET
from xpress_bench.targets.hf import HfTarget
from xpress_bench.targets.toy import MarkovTarget


def started(model: HfTarget, block_size: int, vocab: int = tiny.VOCAB) -> DraftModel:
    drafter = DraftModel(model, vocab, block_size)
    drafter.start(model, tiny.prompt(1), None)
    return drafter


@torch.inference_mode()
def proposed(drafter: DraftModel, tokens: list[int], room: int = 1000, how: Sampling | None = None) -> Draft:
    last = torch.tensor(tokens[-2:])
    context = Context(tokens, last[1:], last[:1], len(tokens) - 1, room)
    return drafter.propose(context, how or tiny.sampling())


def near(target: HfTarget, noise: float) -> HfTarget:
    """A draft model that often agrees with the target: its weights moved a little."""
    model = copy.deepcopy(target.model)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in model.parameters():
            weight += noise * weight.std() * torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
    return HfTarget(model, "near")


def rows_fed(model: HfTarget) -> list[int]:
    """Filled with the number of rows of every forward of the model."""
    rows: list[int] = []
    model.model.register_forward_pre_hook(
        lambda module, args, named: rows.append(named["input_ids"].shape[1]), with_kwargs=True
    )
    return rows


def sliding() -> HfTarget:
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    return tiny.qwen3(use_sliding_window=True, sliding_window=8, layer_types=kinds)


# The draft is the model's own continuation


@pytest.mark.parametrize("make", [tiny.qwen3, tiny.llama, sliding])
def test_greedy_drafts_are_what_generate_continues_with(make: Any) -> None:
    """Over rounds that accept any number of drafts, and then go on with another token."""
    model, rng = make(), random.Random(0)
    for length in (1, 5, 20):
        drafter, tokens = started(model, 6), tiny.prompt(length + 1)[0].tolist()
        for accepted in (0, 5, 2, 4, 0, 0, 5, 1, 3):
            draft = proposed(drafter, tokens)
            right = tiny.generated(model, torch.tensor([tokens]), 5)
            assert draft.tokens[0].tolist() == right
            assert draft.point_mass
            assert draft.noise is None
            tokens = [*tokens, *right[:accepted], rng.randrange(tiny.VOCAB)]


def test_drafts_that_a_refiner_changed_are_dropped_from_the_cache() -> None:
    model = tiny.qwen3()
    drafter, tokens = started(model, 5), [7, 8, 9]
    for _ in range(3):
        draft = proposed(drafter, tokens).tokens[0].tolist()
        tokens = [*tokens, draft[0], (draft[1] + 1) % tiny.VOCAB, draft[2], 11]
    assert proposed(drafter, tokens).tokens[0].tolist() == tiny.generated(model, torch.tensor([tokens]), 4)


def test_the_same_context_twice_gives_the_same_draft() -> None:
    drafter = started(tiny.qwen3(), 5)
    assert torch.equal(proposed(drafter, [7, 8, 9]).tokens, proposed(drafter, [7, 8, 9]).tokens)


def test_a_round_feeds_only_what_the_cache_lacks() -> None:
    model = tiny.qwen3()
    rows, drafter, tokens = rows_fed(model), started(model, 5), [7, 8, 9]
    for accepted, first in ((4, 3), (2, 2), (0, 1), (4, 1), (4, 2)):  # `first`: the last draft is never fed
        rows.clear()
        draft = proposed(drafter, tokens).tokens[0].tolist()
        assert rows == [first, 1, 1, 1]
        tokens = [*tokens, *draft[:accepted], 79]


@pytest.mark.parametrize(("room", "count"), [(9, 3), (4, 3), (3, 2), (2, 1), (1, 0)])
def test_a_draft_fits_the_room_that_is_left(room: int, count: int) -> None:
    draft = proposed(started(tiny.qwen3(), 4), [7, 8, 9], room)
    assert draft.tokens.shape == (1, count)
    assert draft.tokens.dtype == torch.long


# The law


@pytest.mark.parametrize("verifier", ["coupled", "rejection"])
def test_every_token_is_drawn_from_the_recorded_law_which_is_the_models(verifier: str) -> None:
    model, temperature = tiny.qwen3(), 0.7
    drafter, tokens, how = started(model, 5), [7, 8, 9], tiny.sampling(temperature, verifier)
    for _ in range(3):
        draft = proposed(drafter, tokens, how=how)
        assert draft.logits is not None
        assert draft.noise is not None
        assert not draft.point_mass
        whole = torch.tensor([[*tokens, *draft.tokens[0].tolist()]])
        with torch.inference_mode():
            right = model.model(whole).logits[:, len(tokens) - 1 : -1]  # no cache
        torch.testing.assert_close(draft.logits, right, rtol=0, atol=1e-9)
        assert torch.equal((right / temperature + draft.noise).argmax(-1), draft.tokens)
        if verifier == "coupled":
            shared = tiny.sampling(temperature, verifier).target.at(len(tokens), 4, right)
            assert shared is not None
            assert torch.equal(draft.noise, shared)
        tokens = [*tokens, int(draft.tokens[0, 0]), 11]


@pytest.mark.parametrize("verifier", ["coupled", "rejection"])
def test_two_tokens_follow_the_targets_law(verifier: str) -> None:
    transition = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.25, 0.05, 0.7]], dtype=torch.float64)
    target, ids, requests = MarkovTarget(transition), torch.tensor([[1, 0]]), 800
    arm = tiny.Arm(DraftModel(tiny.qwen3(layers=1, vocab=3), 3, 3))
    seen, accepted = torch.zeros(3, 3, dtype=torch.float64), 0
    for seed in range(requests):
        output = arm.run(target, ids, 3, how=tiny.sampling(1.0, verifier, seed))
        seen[output.ids[1], output.ids[2]] += 1
        accepted += sum(step.accepted for step in output.rounds)
    right = torch.einsum("a,ab,bc->bc", transition[0], transition, transition)
    assert chisquare(seen.flatten().numpy(), (right * requests).flatten().numpy()).pvalue > 1e-4
    assert requests / 10 < accepted < 2 * requests * 0.9  # both branches of the rule were tried


# In the loop


@pytest.mark.parametrize("verifier", ["greedy", "coupled", "rejection"])
def test_a_draft_model_equal_to_the_target_has_everything_accepted(verifier: str) -> None:
    target, ids = tiny.qwen3(), tiny.prompt(6)
    how = tiny.sampling(0.0 if verifier == "greedy" else 1.0, verifier)
    output = tiny.Arm(DraftModel(near(target, 0.0), target.vocab_size, 6)).run(target, ids, 1 + 4 * 6, how=how)
    assert [step.committed for step in output.rounds] == [6] * 4


@pytest.mark.parametrize("family", [tiny.qwen3, tiny.llama])
def test_greedy_output_equals_generate_at_every_block_size(family: Any) -> None:
    seen = set()
    for block_size in range(2, 13):
        target, ids = family(seed=block_size), tiny.prompt((1, 2, 5, 17)[block_size % 4], block_size)
        output = tiny.Arm(DraftModel(near(target, 0.1), target.vocab_size, block_size)).run(target, ids, 24)
        assert output.ids == tiny.generated(target, ids, 24), block_size
        seen |= {step.accepted < step.offered for step in output.rounds if step.accepted}
    assert seen == {True, False}  # blocks accepted in part and in full


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_coupled_gives_the_ids_of_direct_sampling(temperature: float) -> None:
    target, ids, accepted = tiny.qwen3(), tiny.prompt(5), 0
    arm = tiny.Arm(DraftModel(near(target, 0.1), target.vocab_size, 6))
    for seed in range(4):
        output = arm.run(target, ids, 20, how=tiny.sampling(temperature, "coupled", seed))
        assert output.ids == tiny.plain(target, ids, 20, how=tiny.sampling(temperature, "coupled", seed)).ids
        accepted += sum(step.accepted for step in output.rounds)
    assert accepted > 10


def test_a_request_knows_nothing_of_the_one_before() -> None:
    target = tiny.qwen3()
    model = near(target, 0.1)
    used, rows = tiny.Arm(DraftModel(model, target.vocab_size, 6)), rows_fed(model)
    prompts = [tiny.prompt(9, seed=1), tiny.prompt(23, seed=2)]

    def trace(arm: tiny.Arm, ids: Tensor) -> tuple[list[int], list[tuple[int, ...]]]:
        output = arm.run(target, ids, 16)
        return output.ids, [step.draft for step in output.rounds]

    for index in (0, 1, 0, 0, 1):
        ids = prompts[index]
        rows.clear()
        found = trace(used, ids)
        assert rows[0] == ids.shape[1] + 1  # the prompt and the first anchor, at once
        assert found == trace(tiny.Arm(DraftModel(near(target, 0.1), target.vocab_size, 6)), ids)


def test_beyond_the_draft_models_own_context_it_drafts_less_and_then_nothing() -> None:
    target, ids = tiny.qwen3(), tiny.prompt(6)
    model = near(tiny.qwen3(max_position_embeddings=20), 0.0)
    output = tiny.Arm(DraftModel(model, target.vocab_size, 6)).run(target, ids, 30)
    assert output.ids == tiny.generated(target, ids, 30)
    # Anchors at 6, 12, 18; the last of its 20 rows predicts position 20.
    assert [step.offered for step in output.rounds] == [5, 5, 2, *[0] * 14]  # 1 + 6 + 6 + 3 tokens, then one a round
    assert model.cached == 20


def test_a_prompt_longer_than_the_draft_models_context() -> None:
    target, ids = tiny.qwen3(), tiny.prompt(40)
    drafter = DraftModel(tiny.qwen3(max_position_embeddings=20), target.vocab_size, 6)
    assert tiny.Arm(drafter).run(target, ids, 4).ids == tiny.generated(target, ids, 4)


# Vocabularies of different sizes (C27)


@pytest.mark.parametrize(("target_vocab", "draft_vocab"), [(80, 88), (88, 80)])
@pytest.mark.parametrize("verifier", ["greedy", "coupled", "rejection"])
def test_padding_rows_are_cut_or_made_impossible(target_vocab: int, draft_vocab: int, verifier: str) -> None:
    target, model, common = tiny.qwen3(vocab=target_vocab), tiny.qwen3(seed=1, vocab=draft_vocab), 80
    with torch.no_grad():
        for padded in (target, model):
            padded.model.lm_head.weight[common:] *= 4  # padding rows hold noise, and win where they may
    drafter = DraftModel(model, target_vocab, 6)
    how = [tiny.sampling(0.0 if verifier == "greedy" else 1.0, verifier) for _ in range(2)]
    ids = torch.cat([torch.tensor([[target_vocab - 1]]), tiny.prompt(5)], dim=1)  # an id the draft model may lack
    output = tiny.Arm(drafter).run(target, ids, 24, how=how[0])
    assert max(token for step in output.rounds for token in step.draft) < common
    if verifier != "rejection":
        assert output.ids == tiny.plain(target, ids, 24, how=how[1]).ids

    drafter.start(target, ids, None)
    logits = proposed(drafter, ids[0].tolist(), how=how[0]).logits
    assert logits is not None
    with torch.inference_mode():
        right = model.model(ids.clamp_max(draft_vocab - 1)).logits[0, -1]
    torch.testing.assert_close(logits[0, 0, :common], right[:common], rtol=0, atol=1e-9)
    assert logits.shape[-1] == target_vocab
    assert bool((logits[..., common:] == -torch.inf).all())


# Loading


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model with the embedded target's tokenizer and eight more padding rows."""
    where: Path = tmp_path_factory.mktemp("draft") / "model"
    tiny.qwen3(layers=1, vocab=AutoConfig.from_pretrained(EMBEDDED_TARGET).vocab_size + 8).model.save_pretrained(where)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(EMBEDDED_TARGET / name, where)
    return where


def settings(folder: Path) -> Any:
    return settings_from({"drafter.name": str(folder), "device": "cpu", "dtype": "float64"}, [])


def test_a_causal_lm_given_as_a_drafter_is_a_draft_model(folder: Path) -> None:
    loaded = parts.assemble(settings(folder))
    arm, drafter = loaded.arms[1].arm, loaded.arms[1].drafter
    assert [planned.arm.name for planned in loaded.arms] == ["direct", "draft"]
    assert isinstance(drafter, DraftModel)
    assert (arm.drafter, arm.block_size, arm.denoising_steps, drafter.taps) == ("draft_model", 8, 1, ())
    assert set(arm.checkpoints or {}) == {"drafter"}
    assert (drafter.model.dtype, drafter.vocab_size) == (torch.float64, loaded.target.vocab_size)
    ids = tiny.prompt(6, vocab=loaded.target.vocab_size)
    assert tiny.Arm(drafter).run(loaded.target, ids, 8).ids == tiny.plain(loaded.target, ids, 8).ids


def test_another_tokenizer_is_refused_with_both_names(folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "other")
    body = json.loads((other / "tokenizer.json").read_text(encoding="utf-8"))
    tokens = {index: token for token, index in body["model"]["vocab"].items()}
    body["model"]["vocab"] |= {tokens[40]: 41, tokens[41]: 40}
    (other / "tokenizer.json").write_text(json.dumps(body), encoding="utf-8")
    with pytest.raises(MisfitError, match=r"other and target 'embedded' have different tokenizers: id 40 is") as caught:
        parts.assemble(settings(other))
    assert "\n" not in str(caught.value)


class Words:
    name_or_path = "words"

    def __init__(self, *words: str) -> None:
        self.words = words

    def get_vocab(self) -> dict[str, int]:
        return {word: index for index, word in enumerate(self.words)}


def test_tokens_added_at_the_end_are_no_other_tokenizer() -> None:
    drafter = DraftModel(tiny.qwen3(layers=1), tiny.VOCAB, 4, tokenizer=Words("a", "b"))
    parts.check_tokenizer(drafter, Words("a", "b", "<tool>"), "tiny")
    with pytest.raises(MisfitError, match="id 1 is 'b' in the drafter's and 'c' in the target's"):
        parts.check_tokenizer(drafter, Words("a", "c", "b"), "tiny")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"path": None}, "tokenizer of target 'tiny': --drafter FOLDER or HUB_ID"),
        ({"path": "./nowhere"}, "'./nowhere': no such folder"),
        ({"denoising_steps": 2}, "denoising_steps is 2"),
        ({"params": {"layers": 2}}, "knows drafter.params.translate, not layers"),
    ],
)
def test_settings_that_cannot_be(folder: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        load(DrafterSettings("draft_model", **{"path": str(folder)} | changes), tiny.qwen3(layers=1), None)


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        ("config.json", "config.json: not found"),
        ("model.safetensors", "needs model.safetensors"),
        ("tokenizer.json", "holds no tokenizer"),
    ],
)
def test_a_file_that_is_missing_is_named(folder: Path, tmp_path: Path, gone: str, words: str) -> None:
    broken = shutil.copytree(folder, tmp_path / "broken")
    (broken / gone).unlink()
    with pytest.raises(UsageError, match=words) as caught:
        load(DrafterSettings("draft_model", path=str(broken)), tiny.qwen3(layers=1), None)
    assert "\n" not in str(caught.value)


def test_without_an_embedded_draft_model_one_has_to_be_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(draft_model, "EMBEDDED", tmp_path / "none")
    target = tiny.qwen3(layers=1)
    target.name = "embedded"
    with pytest.raises(UsageError, match=r"FOLDER or HUB_ID \(none is embedded in .*none\)"):
        load(DrafterSettings("draft_model"), target, None)
