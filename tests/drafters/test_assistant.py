"""What transformers' own `generate` can drive: drafters with windows and causal blocks too, and no others silently."""

from __future__ import annotations

from typing import Any

import pytest
import tiny

from xpress_bench.drafters.assistant import DFlashAssistant
from xpress_bench.errors import MisfitError


@pytest.mark.parametrize(
    "options", [{"shape": tiny.SLIDING}, {"shape": tiny.SLIDING, "is_causal": False}, {"is_causal": True}]
)
def test_the_outside_referee_takes_as_many_steps(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    target, ids = tiny.qwen3(), tiny.prompt(9)
    drafter = tiny.dflash(target, 6, **options)
    assistant = DFlashAssistant(drafter.model)
    blocks: list[int] = []
    monkeypatch.setattr(
        assistant, "forward", lambda *given, run=assistant.forward, **named: blocks.append(1) or run(*given, **named)
    )
    run = tiny.Arm(drafter).run(target, ids, 40)
    assert tiny.generated(target, ids, 40, assistant_model=assistant, speculation_type="dflash") == run.ids
    assert len(blocks) == sum(step.offered > 0 for step in run.rounds)


@pytest.mark.parametrize(
    "options",
    [
        {"layout": "shift"},
        {"dflash2": tiny.DFLASH2},
        {"draft_vocab_size": 10},
        {"input_embedding_scale": 2.0},
        {"output_multiplier": 2.0},
        {"final_logit_softcapping": 2.0},
    ],
)
def test_what_transformers_would_compute_otherwise_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(MisfitError, match="only fill-in drafters"):
        DFlashAssistant(tiny.dflash(tiny.qwen3(), **options).model)
