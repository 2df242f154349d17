"""Our DFlash and DFlash 2 against the model file of the PyPI package `dflash` 0.1.0 (transformers 5.24, torch 2.13).

`pip install --no-deps dflash==0.1.0` in the environment of the tests is enough; without it they are skipped.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import DynamicCache

from xpress_bench.checkpoints import dflash
from xpress_bench.drafters import Context
from xpress_bench.drafters.block_diffusion import BlockDiffusion, load
from xpress_bench.settings import DrafterSettings
from xpress_bench.targets.hf import HfTarget

pytestmark = pytest.mark.slow

VARIANTS: dict[str, dict[str, Any]] = {
    "full": {},
    "sliding, causal": {"shape": tiny.SLIDING},
    "sliding, both ways": {"shape": tiny.SLIDING | {"sliding_window": 3}, "is_causal": False},
    "causal": {"is_causal": True},
    "scaled and capped": {"input_embedding_scale": 1.5, "output_multiplier": 0.7, "final_logit_softcapping": 2.0},
    "dflash2": {"dflash2": tiny.DFLASH2, "shape": tiny.SLIDING},
}


@pytest.fixture
def theirs() -> Any:
    return pytest.importorskip("dflash.model", reason="needs the package dflash 0.1.0")


def written(drafter: BlockDiffusion, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(dflash.to_config(drafter.model.config)))
    save_file(drafter.model.state_dict(), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def opened(theirs: Any, folder: Path, drafter: BlockDiffusion, dtype: torch.dtype = torch.float64) -> Any:
    kind = theirs.DFlash2DraftModel if drafter.model.config.dflash2 else theirs.DFlashDraftModel
    return kind.from_pretrained(folder, dtype=dtype).eval()


def ours(folder: Path, target: HfTarget) -> BlockDiffusion:
    return load(DrafterSettings("dflash", path=str(folder)), target, None)


def cache_for(config: Any) -> DynamicCache:
    cache = DynamicCache(config=config)
    cache.activate_past_recording()
    return cache


@torch.inference_mode()
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("variant", VARIANTS)
def test_states_logits_and_ids_are_theirs_over_several_rounds(
    theirs: Any, variant: str, dtype: torch.dtype, tolerance: float, tmp_path: Path
) -> None:
    target = tiny.qwen3()
    target.model.to(dtype)
    target.dtype = dtype
    folder = written(tiny.dflash(target, 6, **VARIANTS[variant]), tmp_path)
    drafter = ours(folder, target)
    model = opened(theirs, folder, drafter, dtype)
    cache, tokens, seen = cache_for(model.config), tiny.prompt(40)[0].tolist(), 0
    scale = drafter.model.config.input_embedding_scale
    for grown in (9, 1, 3, 6):
        features = torch.randn(1, grown, 64, generator=torch.Generator().manual_seed(grown)).to(dtype)
        drafter.start(target, tiny.prompt(grown), features) if seen == 0 else drafter.observe(features)
        seen += grown
        anchor = torch.tensor([tokens[seen]])
        draft = drafter.propose(Context(tokens[: seen + 1], anchor, anchor, seen, 99), tiny.sampling())

        block = torch.tensor([[tokens[seen], *[79] * 5]])
        positions = torch.arange(seen - grown, seen + 6)[None]
        embedded = target.embed(block) * scale
        states = model(positions, None, embedded, features, cache, use_cache=True)
        cache.crop(seen - cache.get_seq_length())
        right = states[:, 1:]
        logits = model.compute_logits(right, target.model.lm_head)
        torch.testing.assert_close(draft.hidden, states, rtol=tolerance, atol=tolerance)
        if drafter.model.config.dflash2:
            path, candidates, _ = model.candidate_selector.select(right, logits, anchor, 0.0)
            assert draft.tokens.tolist() == path.tolist()
            there = draft.logits.isfinite()
            assert there.sum(-1).tolist() == [[5] * 5]
            assert there.gather(-1, candidates).all()
        else:
            torch.testing.assert_close(draft.logits, logits, rtol=tolerance, atol=tolerance)
            assert draft.tokens.tolist() == logits.argmax(-1).tolist()


@pytest.mark.filterwarnings("ignore:`past_key_values` is deprecated:FutureWarning")
@pytest.mark.parametrize("variant", VARIANTS)
def test_their_loop_gives_the_same_ids_in_the_same_steps(
    theirs: Any, variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(theirs, "_cuda_time", lambda: 0.0)
    target, ids = tiny.qwen3(), tiny.prompt(11)
    folder = written(tiny.dflash(target, 6, **VARIANTS[variant]), tmp_path)
    drafter = ours(folder, target)

    found = theirs.dflash_generate(opened(theirs, folder, drafter), target.model, ids, 90, None, return_stats=True)

    run = tiny.Arm(drafter).run(target, ids, 90)
    assert run.ids == found.output_ids[0, 11:].tolist() == tiny.generated(target, ids, 90)
    assert [step.committed for step in run.rounds] == found.acceptance_lengths
    assert max(found.acceptance_lengths) > 1


@torch.inference_mode()
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_folder_that_they_wrote_is_read(theirs: Any, variant: str, tmp_path: Path) -> None:
    target = tiny.qwen3()
    made = tiny.dflash(target, 6, **VARIANTS[variant])
    opened(theirs, written(made, tmp_path / "ours"), made).save_pretrained(tmp_path / "theirs")

    back = ours(tmp_path / "theirs", target)

    assert back.model.config.sight(0) == made.model.config.sight(0)
    assert all(torch.equal(back.model.state_dict()[name], each) for name, each in made.model.state_dict().items())


@torch.inference_mode()
def test_the_law_of_a_choice_is_theirs(theirs: Any, tmp_path: Path) -> None:
    """At a temperature, q lives on the candidates: their rows of probabilities, in our logits' softmax."""
    target = tiny.qwen3()
    made = tiny.dflash(target, 6, dflash2=tiny.DFLASH2)
    folder = written(made, tmp_path)
    model = opened(theirs, folder, made)
    drafter = ours(folder, target)
    drafter.start(target, tiny.prompt(7), torch.randn(1, 7, 64, dtype=torch.float64))
    draft = drafter.propose(
        Context([1] * 8, torch.tensor([1]), torch.tensor([1]), 7, 99), tiny.sampling(0.7, "rejection")
    )
    assert not draft.point_mass

    states, logits = drafter.predict(torch.tensor([1]), torch.full((1, 5), 79))
    walked: list[Tensor] = []
    chosen = iter(draft.tokens[0].tolist())

    def forced(probabilities: Tensor) -> Tensor:  # their walk, along our tokens
        walked.append(probabilities)
        return (candidates[0, len(walked) - 1] == next(chosen)).nonzero()[0]

    candidates = torch.topk(logits, 5, dim=-1, sorted=False).indices
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(theirs, "_sample_probs", forced)
        path, _, q = model.candidate_selector.select(states[:, 1:], logits, torch.tensor([1]), 0.7)
    assert path.tolist() == draft.tokens.tolist()
    law = torch.softmax(draft.logits / 0.7, dim=-1).gather(-1, candidates)
    torch.testing.assert_close(law.float(), q.float(), rtol=1e-5, atol=1e-7)
