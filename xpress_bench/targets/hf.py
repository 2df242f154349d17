"""Any transformers causal LM as a target: hub id, local folder, GGUF file, or the embedded model.

Everything about caches is here and nowhere else. transformers 5.24 crops by a non-positive count of rows; layers with a
sliding window keep what they need for a rollback only after `activate_past_recording`.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, DynamicCache, GenerationConfig
from transformers.utils import logging as transformers_logging

from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.settings import TargetSettings

EMBEDDED = Path(__file__).parent.parent / "embedded" / "target"


class HfTarget:
    """A transformers causal LM behind the `Target` seam."""

    def __init__(self, model: Any, name: str) -> None:
        self.model = model
        self.name = name
        config = model.config.get_text_config(decoder=True)
        self.config = config
        table = model.get_input_embeddings()
        self.vocab_size: int = model.get_output_embeddings().weight.shape[0]
        self.hidden_size: int = config.hidden_size
        self.layers: int = config.num_hidden_layers
        self.context: int = config.max_position_embeddings
        self.stop_ids = _stop_ids(model)
        self.device: torch.device = table.weight.device
        self.dtype: torch.dtype = table.weight.dtype
        self._cache: Any = None
        self._features: Tensor | None = None
        self._rows = 0

    def prefill(self, ids: Tensor, taps: tuple[int, ...]) -> tuple[Tensor, Tensor | None]:
        """See `Target.prefill`. Nothing is carried over from an earlier request (C29)."""
        self._cache = DynamicCache(config=self.model.config)
        self._cache.activate_past_recording()
        logits = self._forward(ids, taps, logits_to_keep=1)
        self._cache.crop(0)  # sliding-window layers shrink to size on crop only
        return logits, self._features

    def verify(self, ids: Tensor, taps: tuple[int, ...]) -> Tensor:
        """See `Target.verify`. An id outside the vocabulary is read as the last row; no verifier accepts it (C27)."""
        return self._forward(ids.clamp_max(self.vocab_size - 1), taps, logits_to_keep=0)

    def commit(self, keep: int) -> Tensor | None:
        self.drop(self._rows - keep)
        return None if self._features is None else self._features[:, :keep]

    def drop(self, count: int) -> None:
        """Roll back the last `count` tokens of the cache, whatever forwards they came with."""
        self._cache.crop(-count)

    def embed(self, ids: Tensor) -> Tensor:
        table: Tensor = self.model.get_input_embeddings().weight
        return torch.nn.functional.embedding(ids, table)

    def head(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.model.get_output_embeddings()(hidden)
        return logits

    @property
    def cached(self) -> int:
        """Tokens in the cache."""
        return 0 if self._cache is None else int(self._cache.get_seq_length())

    def _forward(self, ids: Tensor, taps: tuple[int, ...], logits_to_keep: int) -> Tensor:
        self._rows = ids.shape[1]
        options: dict[str, Any] = {"output_hidden_states": [tap + 1 for tap in taps]} if taps else {}
        output = self.model(input_ids=ids, cache=self._cache, use_cache=True, logits_to_keep=logits_to_keep, **options)
        # Entry 0 is the embedding output, so layer i's output is entry i + 1.
        self._features = torch.cat([output.hidden_states[tap + 1] for tap in taps], dim=-1) if taps else None
        logits: Tensor = output.logits
        return logits


def embedded(settings: TargetSettings, device: str, dtype: str) -> HfTarget:
    """The small model that ships with the package."""
    if not (EMBEDDED / "config.json").is_file():
        raise UsageError(f"the embedded target is missing from {EMBEDDED}; reinstall xpress-bench")
    return load(settings, device, dtype, where=str(EMBEDDED))


def load(settings: TargetSettings, device: str, dtype: str, where: str | None = None) -> HfTarget:
    """Load a hub id or local folder. Safetensors or GGUF only; code from the hub runs only if the user said so."""
    where = where or settings.name
    options: dict[str, Any] = {
        "revision": settings.revision,
        "trust_remote_code": settings.trust_remote_code,
        "dtype": getattr(torch, dtype),
    }
    if settings.attn_implementation:
        options["attn_implementation"] = settings.attn_implementation
    if settings.gguf_file:
        options |= _gguf_options(settings)
    else:
        options["use_safetensors"] = True
    transformers_logging.disable_progress_bar()
    try:
        model = AutoModelForCausalLM.from_pretrained(where, **options)
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise UsageError(f"model {where!r} does not load: {_first_line(error)}. {_hint(where)}") from error
    # Not `dtype` again: `to` would round the rotary frequencies as well, which from_pretrained keeps in float32.
    model = model.to(device=device).eval()
    model.generation_config = _plain_generation(model)
    target = HfTarget(model, settings.name)
    refuse_unless_rollback(target)
    return target


def refuse_unless_rollback(target: HfTarget) -> None:
    """Two small forwards and a rollback. MisfitError for a model whose cache cannot drop rejected tokens (C26)."""
    ids = torch.zeros(1, 3, dtype=torch.long, device=target.device)
    try:
        with torch.inference_mode():
            target.prefill(ids, ())
            target.verify(ids, ())
            target.commit(1)
        held = target.cached
    except (RuntimeError, ValueError, AttributeError, NotImplementedError) as error:
        raise MisfitError(f"model {target.name!r}: its cache cannot be rolled back ({_first_line(error)})") from error
    if held != 4:
        raise MisfitError(f"model {target.name!r}: after rolling back 2 of 6 tokens its cache holds {held}, not 4")


def _plain_generation(model: Any) -> GenerationConfig:
    """The stop ids of the model's own generation settings, and nothing else of them: its sampling defaults would leak
    into runs that asked for greedy decoding (C17)."""
    own = model.generation_config
    return GenerationConfig(eos_token_id=own.eos_token_id, pad_token_id=own.pad_token_id, bos_token_id=own.bos_token_id)


def _stop_ids(model: Any) -> tuple[int, ...]:
    own = model.generation_config.eos_token_id
    found = own if own is not None else model.config.get_text_config(decoder=True).eos_token_id
    if found is None:
        return ()
    return tuple(found) if isinstance(found, list | tuple) else (int(found),)


def _gguf_options(settings: TargetSettings) -> dict[str, Any]:
    options: dict[str, Any] = {"gguf_file": settings.gguf_file}
    if settings.dequantize:
        from transformers import GgufConfig  # needs the `gguf` extra

        options["quantization_config"] = GgufConfig(dequantize=True)
    return options


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _hint(where: str) -> str:
    if Path(where).exists():
        return "The folder needs config.json and model.safetensors, or target.gguf_file=FILE."
    return "It is no local folder; a hub id needs a network, or HF_HUB_OFFLINE=1 with a filled cache."


warnings.filterwarnings("ignore", message=".*past_key_values.*", category=FutureWarning)
