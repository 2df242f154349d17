"""The attention of the DFlash network: a block's rows look at the fused target features and at each other."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm

from xpress_bench.checkpoints.dflash import Sight


class Attention(nn.Module):
    """Queries from the block only; keys and values from the fused target features and from the block."""

    def __init__(self, config: Qwen3Config) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        width = config.hidden_size
        self.q_proj = nn.Linear(width, self.heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(width, self.kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(width, self.kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(self.heads * self.head_dim, width, bias=False)
        self.q_norm = Qwen3RMSNorm(self.head_dim, eps=config.rms_norm_eps)
        self.k_norm = Qwen3RMSNorm(self.head_dim, eps=config.rms_norm_eps)

    def keys_values(self, source: Tensor, rotary: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Rotated keys and values [b, kv_heads, n, head_dim] of source rows [b, n, H]."""
        keys = rotate(self.k_norm(_split(self.k_proj(source), self.kv_heads)), rotary)
        return keys, _split(self.v_proj(source), self.kv_heads)

    def queries(self, block: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
        return rotate(self.q_norm(_split(self.q_proj(block), self.heads)), rotary)

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
        """Output rows [b, n, H]. The mask covers the last keys, those before it are not seen; None: all are seen."""
        if mask is not None:
            keys, values = keys[:, :, -mask.shape[-1] :], values[:, :, -mask.shape[-1] :]
        mixed = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, enable_gqa=True)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


def mask_of(sight: Sight, context: int, slots: int, device: torch.device) -> Tensor | None:
    """Which of the last keys each row of a block sees: [slots, n], the block's own `slots` keys last; None: all."""
    if sight.window is None and not sight.causal:
        return None
    reach = context if sight.window is None else min(context, sight.window)  # no row sees further back
    return seen_of(sight, torch.arange(-reach, slots, device=device), slots)


def seen_of(sight: Sight, keys: Tensor, slots: int) -> Tensor:
    """Which keys each row of a block sees: [..., slots, n]; `keys` [..., n] are places that count from the anchor's."""
    rows, keys = torch.arange(slots, device=keys.device)[:, None], keys[..., None, :]
    seen = keys <= rows if sight.causal else (keys < slots).expand(*keys.shape[:-2], slots, -1)
    if sight.window is None:
        return seen
    return seen & (keys >= -sight.window if sight.from_anchor else (rows - keys).abs() < sight.window)


def rotate(rows: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary embedding of rows [b, heads, n, d] by cosines and sines [b, n, d] (half-split convention)."""
    cos, sin = (part[:, None] for part in rotary)
    first, second = rows.chunk(2, dim=-1)
    return rows * cos + torch.cat([-second, first], dim=-1) * sin


def _split(rows: Tensor, heads: int) -> Tensor:
    """[b, n, heads * d] -> [b, heads, n, d]."""
    return rows.view(*rows.shape[:-1], heads, -1).transpose(1, 2)
