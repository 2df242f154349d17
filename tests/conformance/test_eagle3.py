"""EAGLE-3 against the network of speculators itself (0.9.0), from a checkpoint that it wrote.

Not among the dependencies: `pip install --no-deps speculators==0.9.0` and what its import then asks for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from transformers import LlamaConfig, Qwen3Config

from xpress_bench.drafters import Context
from xpress_bench.drafters.eagle3 import load
from xpress_bench.settings import DrafterSettings

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*past_key_values.*:FutureWarning")]
SWITCHES = [
    {},
    {"norm_before_residual": True},
    {"norm_before_fc": True, "norm_output": True},
    {"fc_norm": True, "norm_before_residual": True, "norm_output": True},
]
ROWS, STEPS = 9, 3


def theirs(kind: Any, layers: int, switches: dict[str, bool], reduced: bool) -> Any:
    models = pytest.importorskip("speculators.models.eagle3", reason="speculators 0.9.0 is not installed")
    shape = kind(**tiny.SHAPE | {"num_hidden_layers": layers, "vocab_size": tiny.VOCAB})
    shape._attn_implementation = "eager"
    config = models.Eagle3SpeculatorConfig(
        transformer_layer_config=shape,
        draft_vocab_size=40 if reduced else tiny.VOCAB,
        eagle_aux_hidden_state_layer_ids=[1, 3, 2],
        **switches,
    )
    model = tiny.enlivened(models.Eagle3DraftModel(config), 3)
    if reduced:
        ids = torch.arange(40) * 2 + 1
        model.d2t.copy_(ids - torch.arange(40))
        model.t2d[ids] = True
    return model


@torch.inference_mode()
@pytest.mark.parametrize("switches", SWITCHES)
@pytest.mark.parametrize(
    ("kind", "layers", "reduced"), [(LlamaConfig, 1, True), (Qwen3Config, 1, False), (LlamaConfig, 2, False)]
)
def test_logits_are_those_of_speculators(
    tmp_path: Path, kind: Any, layers: int, reduced: bool, switches: dict[str, bool]
) -> None:
    """Their training forward drafts from every row at once, with the text's own tokens fed back; ours with forced ones.

    Their attention takes its softmax in float32.
    """
    model, target = theirs(kind, layers, switches, reduced), tiny.qwen3(layers=4)
    model.save_pretrained(tmp_path)
    drafter = load(DrafterSettings("eagle3", str(tmp_path)), target, STEPS + 1)
    ids = tiny.prompt(ROWS + 1) // 2 * 2 + 1  # all of them in the reduced vocabulary
    features = torch.randn(1, ROWS, 96, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    right: list[Any] = []
    model.lm_head.register_forward_hook(lambda module, args, output: right.append(output[0]))
    documents = torch.zeros(1, ROWS, dtype=torch.long)
    model(hidden_states=features, input_ids=ids[:, 1:], document_ids=documents, ttt_steps=STEPS)

    text = ids[0].tolist()
    for row in range(ROWS - STEPS + 1):
        drafter.start(target, ids[:, : row + 1], features[:, : row + 1])
        how = Forced(text[row + 2 :])
        draft = drafter.propose(Context(text[: row + 2], ids[:, row + 1], ids[:, row], row + 1, 99), how)  # type: ignore[arg-type]
        assert draft.logits is not None
        kept = draft.logits[0, :, 1:80:2] if reduced else draft.logits[0]
        for step in range(STEPS):
            torch.testing.assert_close(kept[step], right[step][row], rtol=1e-5, atol=1e-4)


class Forced:
    """A sampling whose noise makes the drafts the given ids."""

    temperature = 1.0

    def __init__(self, ids: list[int]) -> None:
        self.ids = ids
        self.draft = self

    def at(self, position: int, count: int, like: torch.Tensor) -> torch.Tensor:
        noise = torch.zeros(1, count, like.shape[-1], dtype=like.dtype)
        for slot, token in enumerate(self.ids[:count]):
            noise[0, slot, token] = 1e6
        return noise
