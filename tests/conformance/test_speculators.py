"""Our DFlash, DFlash 2 and xPress against the PyPI package `speculators` 0.9.0 (with transformers 5.24, torch 2.13).

It asks for an older transformers than ours: `pip install --no-deps speculators==0.9.0 hs-connectors==0.9.0 loguru
openai aiohttp httpx pydantic-settings`, and what those need, beside the package. Without it these tests are skipped.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from xpress_bench.checkpoints import dflash, speculators, xpress
from xpress_bench.drafters import Context, Draft
from xpress_bench.drafters.block_diffusion import BlockDiffusion, load
from xpress_bench.refiners.xpress import load as load_xpress
from xpress_bench.settings import DrafterSettings, RefinerSettings
from xpress_bench.targets.hf import HfTarget

pytestmark = [
    pytest.mark.slow,
    # Their pydantic models shadow fields of transformers' configs.
    pytest.mark.filterwarnings("ignore::UserWarning:pydantic", "ignore::DeprecationWarning"),
]

LENGTH, ANCHOR, B = 30, 17, 6
KEPT = torch.arange(3, 80, 2)  # a reduced vocabulary: every other id
VARIANTS: dict[str, dict[str, Any]] = {
    "full": {},
    "shift": {"layout": "shift"},
    "sliding, causal": {"shape": tiny.SLIDING, "is_causal": True},
    "sliding, both ways": {"shape": tiny.SLIDING | {"sliding_window": 3}, "is_causal": False},
    "reduced": {"draft_vocab_size": len(KEPT)},
    "dflash2": {"dflash2": tiny.DFLASH2, "shape": tiny.SLIDING, "is_causal": False},
}


@pytest.fixture
def theirs() -> Any:
    return pytest.importorskip("speculators", reason="needs the package speculators 0.9.0")


def saved_target(folder: Path) -> tuple[HfTarget, Path]:
    target = tiny.qwen3()
    target.model.save_pretrained(folder / "target")
    return target, folder / "target"


def written(variant: str, target: HfTarget, verifier: Path, folder: Path) -> Path:
    """A speculators checkpoint made by our code."""
    options = VARIANTS[variant] | {"format": "speculators"}
    model = tiny.dflash(target, B, **options).model
    folder.mkdir()
    body = speculators.to_config(model.config, str(verifier), ["Qwen3ForCausalLM"])
    (folder / "config.json").write_text(json.dumps(body))
    tensors = dict(model.state_dict())
    if model.config.draft_vocab_size:
        head = torch.randn(len(KEPT), tiny.HIDDEN, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
        present = torch.zeros(tiny.VOCAB, dtype=torch.bool)
        present[KEPT] = True
        tensors |= {"lm_head.weight": head, "d2t": KEPT - torch.arange(len(KEPT)), "t2d": present}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def add_tensors(folder: Path, more: dict[str, Tensor]) -> None:
    file = folder / "model.safetensors"
    save_file(load_file(file) | more, file, metadata={"format": "pt"})


def opened(theirs: Any, folder: Path, dtype: torch.dtype = torch.float64) -> Any:
    config = theirs.SpeculatorModelConfig.from_pretrained(folder)
    config.transformer_layer_config._attn_implementation = "sdpa"  # eager rounds to float32
    model = theirs.SpeculatorModel.from_pretrained(folder, config=config, dtype=dtype)
    model.load_verifier_weights()
    return model.to(dtype).eval()


def ours(folder: Path, target: HfTarget) -> BlockDiffusion:
    return load(DrafterSettings("dflash", path=str(folder)), target, None)


def inputs(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Ids [1, T] and features [1, T, taps * H]."""
    generator = torch.Generator().manual_seed(3)
    return tiny.prompt(LENGTH, 3), torch.randn(1, LENGTH, 64, generator=generator, dtype=torch.float64).to(dtype)


def their_block(model: Any, ids: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
    """States [1, B, H] and logits [1, B, D] of one block; their masks let one anchor's block see what is before it."""
    chosen = torch.zeros(1, LENGTH, dtype=torch.long)
    chosen[0, ANCHOR] = 1
    last = torch.zeros(1, LENGTH, tiny.HIDDEN, dtype=features.dtype)
    states, logits, *_ = model._backbone_forward(features, ids, chosen, last, torch.zeros_like(ids), max_anchors=1)
    return states, logits


def our_context(ids: Tensor) -> Context:
    known = ids[0, : ANCHOR + 1].tolist()
    return Context(known, torch.tensor(known[-1:]), torch.tensor(known[-2:-1]), ANCHOR, 99)


def our_draft(drafter: BlockDiffusion, target: HfTarget, ids: Tensor, features: Tensor) -> Draft:
    drafter.start(target, ids[:, :ANCHOR], features[:, :ANCHOR])
    return drafter.propose(our_context(ids), tiny.sampling())


@torch.inference_mode()
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
@pytest.mark.parametrize("variant", VARIANTS)
def test_states_logits_and_ids_are_theirs(
    theirs: Any, variant: str, dtype: torch.dtype, tolerance: float, tmp_path: Path
) -> None:
    target, verifier = saved_target(tmp_path)
    folder = written(variant, target, verifier, tmp_path / "drafter")
    target.model.to(dtype)
    target.dtype = dtype
    ids, features = inputs(dtype)
    model = opened(theirs, folder, dtype)
    states, logits = their_block(model, ids, features)

    draft = our_draft(ours(folder, target), target, ids, features)

    count = draft.tokens.shape[1]
    assert count == (B if VARIANTS[variant].get("layout") == "shift" else B - 1)
    torch.testing.assert_close(draft.hidden, states, rtol=tolerance, atol=tolerance)
    logits = logits[:, -count:]
    if variant == "dflash2":
        anchor = ids[:, ANCHOR]
        for slot in range(count):
            candidates, scores = model.candidate_selector.select(logits[:, slot], states[:, slot + 1], anchor)
            torch.testing.assert_close(
                draft.logits[:, slot].gather(-1, candidates), scores, rtol=tolerance, atol=tolerance
            )
            anchor = candidates.gather(-1, scores.argmax(-1, keepdim=True))[:, 0]
            assert draft.tokens[:, slot].tolist() == anchor.tolist()
        return
    right = logits.argmax(-1)
    found = draft.logits
    if variant == "reduced":
        found, right = found[..., KEPT], right + model.d2t[right]
        assert int(draft.logits.isfinite().sum()) == count * len(KEPT)
    torch.testing.assert_close(found, logits, rtol=tolerance, atol=tolerance)
    assert draft.tokens.tolist() == right.tolist()


@torch.inference_mode()
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_folder_that_they_wrote_is_read(theirs: Any, variant: str, tmp_path: Path) -> None:
    target, verifier = saved_target(tmp_path)
    first = written(variant, target, verifier, tmp_path / "ours")
    opened(theirs, first).save_pretrained(tmp_path / "theirs")

    made, back = ours(first, target), ours(tmp_path / "theirs", target)

    ids, features = inputs()
    assert torch.equal(*(our_draft(drafter, target, ids, features).logits for drafter in (made, back)))
    assert (back.layout, back.taps, back.block_size) == (made.layout, made.taps, made.block_size)


@torch.inference_mode()
def test_their_converter_makes_the_same_drafter_of_a_zlab_folder(theirs: Any, tmp_path: Path) -> None:
    from speculators.convert.dflash.converter import DFlashConverter

    target, verifier = saved_target(tmp_path)
    model = tiny.dflash(target, B).model.float()  # as which their converter handles every file
    (tmp_path / "z").mkdir()
    (tmp_path / "z" / "config.json").write_text(json.dumps(dflash.to_config(model.config)))
    save_file(model.state_dict(), tmp_path / "z" / "model.safetensors", metadata={"format": "pt"})

    DFlashConverter().convert(tmp_path / "z", tmp_path / "s", str(verifier))

    made, back, (ids, features) = ours(tmp_path / "z", target), ours(tmp_path / "s", target), inputs()
    assert back.taps == made.taps  # theirs are one more in the file
    assert torch.equal(*(our_draft(drafter, target, ids, features).logits for drafter in (made, back)))


@torch.inference_mode()
@pytest.mark.parametrize("layout", ["fill_in", "shift"])
@pytest.mark.parametrize("passes", [0, 1, 2, B])
def test_xpress_passes_are_theirs(theirs: Any, layout: str, passes: int, tmp_path: Path) -> None:
    target, verifier = saved_target(tmp_path)
    folder = written("shift" if layout == "shift" else "full", target, verifier, tmp_path / "drafter")
    head = tiny.head(tiny.VOCAB, B)
    names = {
        f"{xpress.SPECULATORS_PREFIX}{xpress.SPECULATORS_NAMES.get(name, name)}": tensor
        for name, tensor in head.state_dict().items()
    }
    body = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(xpress.to_speculators(body, head.config)))
    add_tensors(folder, names)
    ids, features = inputs()
    model = opened(theirs, folder)
    states, base = their_block(model, ids, features)
    # transformers 5.24 leaves a buffer that is not stored unfilled where the class does not fill it itself.
    model.refiner_head.causal_tril = torch.ones(B, B, dtype=torch.float64).tril()
    cache = model.refiner_head.hidden_cache(states)
    first = ids[:, ANCHOR - (layout == "fill_in")][:, None]  # what stands before slot 0
    tokens, logits = base.argmax(-1), base
    for _ in range(passes):
        if layout == "fill_in":
            tokens[:, 0] = ids[:, ANCHOR]
        logits = base + model.refiner_head.block_bias(torch.cat([first, tokens[:, :-1]], dim=1), hcache=cache)
        tokens = logits.argmax(-1)

    block = ours(folder, target)
    refiner = load_xpress(RefinerSettings("xpress", path=str(folder), passes=passes), target, block)
    refined = refiner.refine(our_draft(block, target, ids, features), our_context(ids), tiny.sampling())

    count = refined.tokens.shape[1]
    torch.testing.assert_close(refined.logits, logits[:, -count:], rtol=1e-10, atol=1e-10)
    assert refined.tokens.tolist() == tokens[:, -count:].tolist()
