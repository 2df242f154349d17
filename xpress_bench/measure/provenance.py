"""The header of a journal: what was run, on what, with which code, by hashes wherever a name could mislead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import torch

from xpress_bench.errors import UsageError, redact
from xpress_bench.measure import machine
from xpress_bench.measure.conditions import conditions
from xpress_bench.measure.ready import Ready
from xpress_bench.parts import Parts
from xpress_bench.records import Header
from xpress_bench.settings import Settings, flat


def refuse_secrets(settings: Settings) -> None:
    """UsageError for a setting that holds a secret: settings are written down as they are, where others read them."""
    for key, value in flat(asdict(settings)).items():
        if redact(str(value)) != str(value):
            raise UsageError(
                f"setting {key} holds a password or token, and settings are kept with the run: leave it out"
            )


def header(settings: Settings, ready: Ready, argv: Sequence[str], name: str) -> Header:
    """Everything needed to know what was run, on what, with which code."""
    threads, suite, parts = torch.get_num_threads(), ready.suite, ready.parts
    names = tuple(dict.fromkeys(prompt.item.id for prompt in ready.prompts))
    return Header(
        run=name,
        created_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        argv=tuple(map(redact, argv)),
        settings=asdict(settings) | {"threads": threads},
        settings_sha256=settings.sha256(),
        suite={
            "name": suite.name,
            "version": suite.version,
            "sha256": suite.sha256,
            "items": len(suite.items),
            "selected": len(names),
            "report_by": suite.report_by,
            "parity_margin": suite.parity_margin,
            "scorers": suite.scorers,
        },
        target=_target(settings, parts),
        arms=tuple(planned.arm for planned in parts.arms),
        conditions=settings.conditions(),
        prompts=names,
        batches=_batches(ready) if settings.batch_size > 1 else (),
        turns={item: count for item, count in Counter(prompt.item.id for prompt in ready.prompts).items() if count > 1},
        skipped=tuple(ready.skipped),
        versions=machine.versions(),
        git=machine.git_state(),
        machine=machine.fingerprint(settings.device, threads) | {"before": conditions(settings.device)},
        profile=settings.profile,
        in_process=settings.launches == 1,
    )


def _batches(ready: Ready) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(prompt for prompt, _ in batch) for batch in ready.requests.batches)


def _target(settings: Settings, parts: Parts) -> dict[str, Any]:
    target, model = parts.target, getattr(parts.target, "model", None)
    found = {
        "name": target.name,
        "parameters": sum(weight.numel() for weight in model.parameters()) if model is not None else None,
        "dtype": settings.dtype,
        "device": settings.device,
        "context": target.context,
        "vocab_size": target.vocab_size,
        "stop_ids": list(target.stop_ids),
        "weights_sha256": weights_hash(model),
        "tokenizer_sha256": tokenizer_hash(parts.tokenizer),
        "attention": getattr(getattr(model, "config", None), "_attn_implementation", None),
    }
    return found | getattr(target, "says", {})  # what servers say of themselves


def weights_hash(model: Any) -> str | None:
    """Hash of the loaded parameters themselves, so that it holds for files, GGUF and hub alike."""
    if model is None:
        return None
    digest = sha256()
    for name, weight in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(weight.detach().contiguous().view(torch.uint8).cpu().numpy().tobytes())
    return digest.hexdigest()


def tokenizer_hash(tokenizer: Any) -> str | None:
    """Hash of ids and chat template; None for what stands in for a tokenizer and has no ids."""
    vocabulary = sorted(tokenizer.get_vocab().items())
    if not vocabulary:
        return None
    return sha256(repr((vocabulary, tokenizer.chat_template)).encode()).hexdigest()
