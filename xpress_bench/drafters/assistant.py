"""The DFlash drafter as the assistant of transformers' own `generate`: the outside referee (methods.md 2.5).

`target.generate(ids, assistant_model=DFlashAssistant(model), speculation_type="dflash")` runs the same weights under a
loop that shares no line with ours, so ids, drafts and speed can be compared.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutput

from xpress_bench.drafters.block_diffusion import BlockDiffusionModel, ContextCache
from xpress_bench.errors import MisfitError


class DFlashAssistant(nn.Module):
    """What `generate` asks of a DFlash drafter. It keeps a cache of its own; the one that is passed stays empty."""

    def __init__(self, model: BlockDiffusionModel, block_size: int | None = None) -> None:
        super().__init__()
        config = model.config
        scaled = config.input_embedding_scale != 1 or config.output_multiplier != 1 or config.final_logit_softcapping
        if config.layout == "shift" or config.dflash2 or config.draft_vocab_size or scaled:
            raise MisfitError("transformers drives only fill-in drafters that use the target's tables as they are")
        self.model = model
        self.config = copy.deepcopy(model.config.qwen3)
        self.config.layer_types = ["full_attention"] * len(model.layers)  # an empty sliding cache cannot be cropped
        self.config.block_size = block_size or model.config.block_size
        self.config.mask_token_id = model.config.mask_token_id
        self.config.target_layer_ids = list(model.config.target_layer_ids)

    @property
    def device(self) -> torch.device:
        return self.model.fc.weight.device

    def forward(
        self,
        noise_embeds: Tensor,
        context_hidden_states: Tensor,
        position_ids: Tensor,
        attention_mask: Tensor | None = None,
        cache: object = None,
    ) -> BaseModelOutput:
        """Final states [1, B, H] of noise_embeds [1, B, H], after adding context_hidden_states [1, c, taps * H]."""
        if int(position_ids[0, 0]) == 0:  # positions that start again are a new request
            self._context = ContextCache(len(self.model.layers))
        self.model.append(context_hidden_states, self._context)
        return BaseModelOutput(last_hidden_state=self.model(noise_embeds, self._context))
