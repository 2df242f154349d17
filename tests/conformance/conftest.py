"""Code of others is compared in exact mathematics: every RMS norm in the precision of its input."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm


@pytest.fixture(autouse=True)
def full_precision_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers computes the norm in float32 even in a float64 model, where the last bit decides about 1e-7."""

    def forward(self: Qwen3RMSNorm, rows: Tensor) -> Tensor:
        return self.weight * rows * torch.rsqrt((rows * rows).mean(-1, keepdim=True) + self.variance_epsilon)

    monkeypatch.setattr(Qwen3RMSNorm, "forward", forward)
