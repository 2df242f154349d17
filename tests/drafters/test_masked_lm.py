"""Masked language models as drafters: what they are shown, what is taken from them, and the whole loop."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from scipy.stats import chisquare
from transformers import AutoConfig, BertConfig, BertForMaskedLM, ModernBertConfig, ModernBertForMaskedLM

from xpress_bench import parts
from xpress_bench.config import settings_from
from xpress_bench.drafters import Context, Draft
from xpress_bench.drafters.denoising import Denoising
from xpress_bench.drafters.masked_lm import MaskedLM, load
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.refiners.remask import Remask
from xpress_bench.sampling import Sampling
from xpress_bench.settings import DrafterSettings
from xpress_bench.targets.hf import EMBEDDED, HfTarget
from xpress_bench.targets.toy import MarkovTarget

MASK = 5


def bert(vocab: int = tiny.VOCAB, seed: int = 3, places: int = 128, **options: Any) -> BertForMaskedLM:
    sizes: dict[str, Any] = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": places,
        "tie_word_embeddings": False,
    }
    return lively(BertForMaskedLM(BertConfig(vocab_size=vocab, **sizes | options)), seed)


def lively(model: Any, seed: int) -> Any:
    """Outputs that vary with the context, and favour a few ids as the tiny targets do."""
    model = tiny.enlivened(model, seed)
    with torch.no_grad():
        model.get_output_embeddings().weight[4:] *= 0.25
    return model


def drafter_of(block_size: int, steps: int = 1, model: Any = None, vocab: int = tiny.VOCAB, **options: Any) -> MaskedLM:
    denoising = Denoising(steps, options.pop("threshold", 1.0), options.pop("editing_threshold", None))
    return MaskedLM(model or bert(), MASK, vocab, block_size, denoising=denoising, **options)


@torch.inference_mode()
def proposed(drafter: MaskedLM, tokens: list[int], room: int = 1000, how: Sampling | None = None) -> Draft:
    last = torch.tensor(tokens[-2:])
    context = Context(tokens, last[1:], last[:1], len(tokens) - 1, room)
    return drafter.propose(context, how or tiny.sampling())


TOKENS = [7, 8, 9, 10, 11]


@pytest.mark.parametrize(("window", "read"), [(256, TOKENS), (5, TOKENS), (2, [10, 11]), (1, [11])])
def test_the_model_sees_a_window_with_the_anchor_last_and_masks_behind_it(window: int, read: list[int]) -> None:
    model = bert()
    draft = proposed(drafter_of(4, model=model, window=window), TOKENS)
    with torch.no_grad():
        output = model(torch.tensor([[*read, MASK, MASK, MASK]]), output_hidden_states=True)
    right = output.logits[:, -3:]
    right[..., MASK] = -torch.inf
    assert torch.equal(draft.logits, right)
    assert torch.equal(draft.hidden, output.hidden_states[-1][:, -4:])
    assert torch.equal(draft.tokens, right.argmax(-1))
    assert draft.point_mass


@pytest.mark.parametrize(("room", "count"), [(9, 3), (4, 3), (3, 2), (2, 1), (1, 0)])
@pytest.mark.parametrize("steps", [1, 3])
def test_a_draft_fits_the_room_that_is_left(room: int, count: int, steps: int) -> None:
    draft = proposed(drafter_of(4, steps), TOKENS, room)
    assert draft.tokens.shape == (1, count)
    assert draft.tokens.dtype == torch.long


@pytest.mark.parametrize(("temperature", "steps", "certain"), [(0.0, 1, True), (1.0, 1, False), (1.0, 2, True)])
def test_only_a_sample_of_one_step_has_a_law(temperature: float, steps: int, certain: bool) -> None:
    how = tiny.sampling(temperature, "rejection" if temperature else "greedy")
    assert proposed(drafter_of(4, steps), TOKENS, how=how).point_mass is certain


# The law


def test_rejection_keeps_the_targets_law() -> None:
    """The target has three ids, the model a fourth, MASK, and a fifth that no one has."""
    transition = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.25, 0.05, 0.7]], dtype=torch.float64)
    target, ids, requests = MarkovTarget(transition), torch.tensor([[1, 0]]), 800
    arm = tiny.Arm(MaskedLM(bert(vocab=5, num_hidden_layers=1), 3, 3, 3))
    seen, accepted = torch.zeros(3, 3, dtype=torch.float64), 0
    for seed in range(requests):
        output = arm.run(target, ids, 3, how=tiny.sampling(1.0, "rejection", seed))
        seen[output.ids[1], output.ids[2]] += 1
        accepted += sum(step.accepted for step in output.rounds)
    right = torch.einsum("a,ab,bc->bc", transition[0], transition, transition)
    assert chisquare(seen.flatten().numpy(), (right * requests).flatten().numpy()).pvalue > 1e-4
    assert requests / 10 < accepted < 2 * requests * 0.9  # both branches of the rule were tried


# In the loop


def modern() -> ModernBertForMaskedLM:
    config = ModernBertConfig(
        vocab_size=tiny.VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=128,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=2,
        cls_token_id=2,
        sep_token_id=1,
        tie_word_embeddings=False,
    )
    return lively(ModernBertForMaskedLM(config), 4)


@pytest.mark.parametrize(("family", "steps"), [(bert, 1), (bert, 2), (bert, 3), (modern, 2)])
def test_greedy_output_equals_generate_at_every_block_size(family: Any, steps: int) -> None:
    model, accepted = family(), 0
    for block_size in (2, 4, 8, 16):
        target, ids = tiny.qwen3(seed=block_size), tiny.prompt((1, 2, 5, 17)[block_size % 4], block_size)
        drafter = drafter_of(block_size, min(steps, block_size - 1), model)
        output = tiny.Arm(drafter).run(target, ids, 24)
        assert output.ids == tiny.generated(target, ids, 24), block_size
        accepted += sum(step.accepted for step in output.rounds)
    assert accepted > 3


@pytest.mark.parametrize("options", [{}, {"steps": 3}, {"steps": 4, "threshold": 0.3, "editing_threshold": 0.3}])
@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_coupled_gives_the_ids_of_direct_sampling(temperature: float, options: dict[str, Any]) -> None:
    target, ids, accepted = tiny.qwen3(), tiny.prompt(5), 0
    arm = tiny.Arm(drafter_of(6, **options))
    for seed in range(4):
        output = arm.run(target, ids, 20, how=tiny.sampling(temperature, "coupled", seed))
        assert output.ids == tiny.plain(target, ids, 20, how=tiny.sampling(temperature, "coupled", seed)).ids
        accepted += sum(step.accepted for step in output.rounds)
    assert accepted > 0


def test_remask_works_with_it() -> None:
    target, ids = tiny.qwen3(), tiny.prompt(5)
    drafter = drafter_of(6)
    output = tiny.Arm(drafter, [Remask(drafter, passes=2)]).run(target, ids, 20)
    assert output.ids == tiny.generated(target, ids, 20)
    assert {step.passes for step in output.rounds if step.offered} == {2}


# Vocabularies of different sizes (C27)


@pytest.mark.parametrize(("target_vocab", "rows"), [(80, 88), (88, 80)])
@pytest.mark.parametrize("steps", [1, 3])
def test_padding_rows_are_cut_or_made_impossible(target_vocab: int, rows: int, steps: int) -> None:
    target, model, common = tiny.qwen3(vocab=target_vocab), bert(vocab=rows), 80
    with torch.no_grad():
        model.get_output_embeddings().weight[common:] *= 16  # padding rows hold noise, and win where they may
    drafter = drafter_of(6, steps, model, target_vocab)
    ids = torch.cat([torch.tensor([[target_vocab - 1]]), tiny.prompt(5)], dim=1)  # an id the model may lack
    output = tiny.Arm(drafter).run(target, ids, 20)
    assert output.ids == tiny.generated(target, ids, 20)
    assert max(token for step in output.rounds for token in step.draft) < common
    draft = proposed(drafter, [target_vocab - 1, 7])
    assert draft.logits is not None
    assert draft.logits.shape[-1] == target_vocab
    assert bool((draft.logits[..., common:] == -torch.inf).all())
    if steps == 1:
        with torch.no_grad():
            unknown = target_vocab - 1 if target_vocab <= rows else MASK
            right = model(torch.tensor([[unknown, 7, *[MASK] * 5]])).logits[0, -5:, :common]
        right[:, MASK] = -torch.inf
        assert torch.equal(draft.logits[0, :, :common], right)


# Loading


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model with the embedded target's tokenizer, which has a mask token, and eight more padding rows."""
    where: Path = tmp_path_factory.mktemp("masked") / "model"
    bert(vocab=AutoConfig.from_pretrained(EMBEDDED).vocab_size + 8).save_pretrained(where)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(EMBEDDED / name, where)
    return where


def target() -> HfTarget:
    return tiny.qwen3(layers=1)


def test_a_masked_lm_drafts_for_the_embedded_target(folder: Path) -> None:
    words = [f"drafter.path={folder}", "drafter.denoising_steps=2", "+drafter.params.window=9", "block_size=5"]
    loaded = parts.assemble(settings_from({"drafter.name": "masked_lm", "device": "cpu", "dtype": "float64"}, words))
    arm, drafter = loaded.arms[1].arm, loaded.arms[1].drafter
    assert isinstance(drafter, MaskedLM)
    assert (arm.drafter, arm.block_size, arm.denoising_steps, drafter.taps) == ("masked_lm", 5, 2, ())
    assert set(arm.checkpoints or {}) == {"drafter"}
    assert drafter.mask_token_id == loaded.tokenizer.mask_token_id
    assert (drafter.window, drafter.model.dtype, drafter.vocab_size) == (9, torch.float64, loaded.target.vocab_size)
    ids = tiny.prompt(6, vocab=loaded.target.vocab_size)
    assert tiny.Arm(drafter).run(loaded.target, ids, 8).ids == tiny.plain(loaded.target, ids, 8).ids


def test_options_reach_the_drafter(folder: Path) -> None:
    params = {"threshold": 0.9, "editing_threshold": 0.5, "window": 120}
    drafter = load(DrafterSettings("masked_lm", str(folder), denoising_steps=3, params=params), target(), None)
    assert drafter.denoising == Denoising(3, 0.9, 0.5)
    assert (drafter.block_size, drafter.window) == (8, 120)


def test_the_window_is_what_the_positions_leave(folder: Path) -> None:
    assert load(DrafterSettings("masked_lm", str(folder)), target(), 4).window == 128 - 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"path": None}, "tokenizer of target 'tiny': drafter.path=FOLDER or HUB_ID"),
        ({"path": "./nowhere"}, "'./nowhere': no such folder"),
        ({"denoising_steps": 8}, r"denoising_steps is 8: a block has 7 to fill; choose 1\.\.7"),
        ({"params": {"steps": 2}}, "masked_lm knows drafter.params.threshold, .*window, not steps"),
        ({"params": {"threshold": 1.5}}, "threshold is 1.5: give a number above 0, 1 at most"),
        ({"params": {"editing_threshold": 0}}, "editing_threshold is 0"),
        ({"params": {"window": 122}}, "122 tokens of context and a block's 7 masks do not fit its 128 positions"),
        ({"params": {"window": 0}}, "window is 0: give a whole number of at least 1"),
        ({"path": str(EMBEDDED)}, "does not load as a masked LM"),
    ],
)
def test_settings_that_cannot_be(folder: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        load(DrafterSettings("masked_lm", **{"path": str(folder)} | changes), target(), None)
    assert "\n" not in str(caught.value)


def changed(folder: Path, where: Path, name: str, **changes: Any) -> Path:
    copied = shutil.copytree(folder, where)
    file = copied / name
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | changes), encoding="utf-8")
    return copied


def test_a_tokenizer_without_a_mask_is_refused(folder: Path, tmp_path: Path) -> None:
    broken = changed(folder, tmp_path / "broken", "tokenizer_config.json", mask_token=None)
    message = tiny.refused(lambda: load(DrafterSettings("masked_lm", str(broken)), target(), None), broken, MisfitError)
    assert "add mask_token to its tokenizer" in message


def test_weights_that_are_not_there_are_not_made_up(folder: Path, tmp_path: Path) -> None:
    broken = changed(folder, tmp_path / "broken", "config.json", num_hidden_layers=3)
    message = tiny.refused(lambda: load(DrafterSettings("masked_lm", str(broken)), target(), None), broken, UsageError)
    assert "lacks weights of a masked LM, e.g. bert.encoder.layer.2" in message
