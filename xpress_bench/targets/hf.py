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
from transformers import AutoModelForCausalLM, GenerationConfig, GgufConfig
from transformers.utils import logging as transformers_logging

from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.settings import TargetSettings
from xpress_bench.targets import branching
from xpress_bench.targets.cache import growing_cache
from xpress_bench.trees import Tree
from xpress_bench.weights import are_random, random_causal_lm

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
        self._cache = growing_cache(self.model.config)
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

    def verify_tree(self, ids: Tensor, tree: Tree, taps: tuple[int, ...]) -> Tensor:
        """See `TreeTarget.verify_tree`."""
        instead = "verify chains (candidates.merge=best)"
        branching.refuse_unless_free(self.model, self._cache, self.name, "a tree", instead)
        mask = branching.masks(self._cache, tree, self.dtype)
        positions = (self.cached + tree.depths)[None]
        ids = ids.clamp_max(self.vocab_size - 1)
        return self._forward(ids, taps, logits_to_keep=0, attention_mask=mask, position_ids=positions)

    def commit_path(self, path: Tensor) -> Tensor | None:
        """See `TreeTarget.commit_path`."""
        branching.move_up(self._cache, self._rows, path)
        self.drop(self._rows - len(path))
        return None if self._features is None else self._features[:, path]

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

    def _forward(self, ids: Tensor, taps: tuple[int, ...], logits_to_keep: int, **options: Any) -> Tensor:
        self._rows = ids.shape[1]
        if taps:
            options["output_hidden_states"] = [tap + 1 for tap in taps]
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
        "output_loading_info": True,
    }
    if settings.attn_implementation:
        options["attn_implementation"] = settings.attn_implementation
    if settings.gguf_file:
        options |= {"gguf_file": settings.gguf_file, "quantization_config": GgufConfig(dequantize=settings.dequantize)}
    else:
        options["use_safetensors"] = True
    transformers_logging.disable_progress_bar()
    try:
        if are_random():
            model, missing = random_causal_lm(where, device, options), []
        else:
            model, report = AutoModelForCausalLM.from_pretrained(where, **options)
            missing = sorted(report["missing_keys"])
    except (OSError, ValueError, ImportError, LookupError, RuntimeError, TypeError, AttributeError) as error:
        raise UsageError(f"model {where!r} does not load: {_first_line(error)}{_hint(where)}") from error
    _refuse_unless_as_asked(model, missing, settings)
    # Not `dtype` again: `to` would round the rotary frequencies as well, which from_pretrained keeps in float32.
    model = model.to(device=device).eval()
    model.generation_config = _plain_generation(model)
    target = HfTarget(model, settings.name)
    if are_random():
        target.stop_ids = ()  # by chance one arm would end before another
    refuse_unless_rollback(target)
    return target


def refuse_unless_rollback(target: HfTarget) -> None:
    """MisfitError for a model whose cache keeps a trace of rejected tokens (C26): small forwards show it."""
    try:
        with torch.inference_mode():
            one, other = (_after_rejecting(target, token) for token in (1, 2))
            dropped = target._cache.is_croppable and target.cached == 5
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        raise MisfitError(f"model {target.name!r}: no forward with a rollback ({_first_line(error)})") from error
    # Not bit by bit: experts get other shapes with other tokens, and round differently, by some per cent in 16 bits.
    traced = bool((one - other).std() > 0.1 * one.std())
    if traced or not dropped:
        raise MisfitError(
            f"model {target.name!r}: its cache cannot be rolled back after rejected tokens, as with recurrent layers "
            "(state space, linear attention); choose a target of attention layers only"
        )


def _after_rejecting(target: HfTarget, token: int) -> Tensor:
    """Logits of one more token after a small block whose last two tokens, `token` twice, were rejected."""
    ids = torch.zeros(1, 3, dtype=torch.long, device=target.device)
    target.prefill(ids, ())
    target.verify(torch.tensor([[0, token, token]], device=target.device), ())
    target.commit(1)
    return target.verify(ids[:, :1], ()).float()


def _refuse_unless_as_asked(model: Any, missing: list[str], settings: TargetSettings) -> None:
    """transformers fills what a file lacks with random numbers, and unpacks what it cannot compute packed."""
    if missing:
        count = f"{len(missing)} tensor{'s' * (len(missing) > 1)}"
        raise UsageError(f"model {settings.name!r}: its weights lack {count}, e.g. {missing[0]}; download it again")
    if settings.gguf_file and not settings.dequantize and not model.hf_quantizer.packed_modules:
        raise UsageError(
            f"target.dequantize=false: {settings.gguf_file} cannot stay packed here (that needs quantised tensors and "
            "the package `kernels` with a kernel for this device); use target.dequantize=true"
        )


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


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _hint(where: str) -> str:
    folder = Path(where)
    if not folder.exists():
        return ". It is no local folder; a hub id needs a network, or HF_HUB_OFFLINE=1 with a filled cache."
    whole = (folder / "config.json").is_file() and any(folder.glob("*.safetensors"))
    if whole or any(folder.glob("*.gguf")):
        return ""
    return ". The folder needs config.json and model.safetensors, or target.gguf_file=FILE."


warnings.filterwarnings("ignore", message=".*past_key_values.*", category=FutureWarning)
