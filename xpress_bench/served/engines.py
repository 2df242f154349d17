"""What each kind of server can be asked beyond OpenAI's protocol, and what it tells of its speculation by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from xpress_bench.served.counters import Speculation

# The whole law of the target: servers else cut it, or weigh what was said already, by defaults of their own.
_WHOLE_LAW = {"min_p": 0.0, "repetition_penalty": 1.0}


@dataclass(frozen=True, slots=True)
class Engine:
    """`asks`: more fields of a request. `about`: the page that says what it is, and the names there that are kept."""

    name: str
    asks: Mapping[str, Any] = field(default_factory=dict)
    thinking: bool = False  # takes `chat_template_kwargs`
    about: str | None = None
    keeps: tuple[str, ...] = ()


ENGINES = {  # by `owned_by` of /v1/models
    "vllm": Engine("vllm", {"return_token_ids": True, "top_k": -1, **_WHOLE_LAW}, True, "/version", ("version",)),
    "sglang": Engine(
        "sglang",
        {"return_spec_tokens_details": True, "top_k": -1, **_WHOLE_LAW},
        True,
        "/get_server_info",
        (
            "version",
            "dtype",
            "quantization",
            "attention_backend",
            "tp_size",
            "speculative_algorithm",
            "speculative_draft_model_path",
            "speculative_num_steps",
            "speculative_num_draft_tokens",
        ),
    ),
    "llamacpp": Engine(
        "llama.cpp",
        {"cache_prompt": False, "top_k": 0, "min_p": 0.0, "repeat_penalty": 1.0},
        True,
        "/props",
        ("build_info", "model_path", "model_ftype", "total_slots", "chat_template"),
    ),
}
SERVE = Engine("transformers serve")
OTHER = Engine("of another kind")
# Verify steps, draft tokens, accepted ones, and how many steps accepted exactly 0, 1, ... of them.
_VLLM = "num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens", "acceptance_histogram"
_SGLANG = "spec_verify_ct", "spec_num_proposed_drafts", "spec_num_correct_drafts", "spec_correct_drafts_histogram"


def engine_of(entry: Mapping[str, Any]) -> Engine:
    """The kind of server that lists a model so. Only transformers says whether it is loaded."""
    other = SERVE if isinstance(entry.get("status"), Mapping) else OTHER
    return ENGINES.get(str(entry.get("owned_by")), other)


def told(said: Mapping[str, Any]) -> Speculation | None:
    """What came with an answer of its speculation, in whichever form; None if nothing did, or nothing that is whole.

    vLLM with --per-request-spec-decode-metrics, SGLang, llama.cpp, whose `draft_n` is left out where it is 0.
    """
    vllm = _table(_table(said.get("metrics")).get("speculative_decoding"))
    sglang = _table(_table(said.get("sglext")).get("spec_tokens_details"))
    llama = _table(said.get("timings"))
    if _VLLM[0] in vllm:
        return _of_histogram(*map(vllm.get, _VLLM))
    if _SGLANG[0] in sglang:
        return _of_histogram(*map(sglang.get, _SGLANG))
    if "predicted_n" in llama:
        return Speculation(None, _count(llama.get("draft_n", 0)), _count(llama.get("draft_n_accepted", 0)))
    return None


def _of_histogram(drafts: Any, offered: Any, accepted: Any, histogram: Any) -> Speculation:
    """`histogram[j]`: steps that accepted exactly j drafts."""
    exact = [_count(one) or 0 for one in histogram] if isinstance(histogram, Sequence) else []
    at_least = list(accumulate(reversed(exact)))[::-1]
    return Speculation(_count(drafts), _count(offered), _count(accepted), tuple(at_least[1:]))


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
