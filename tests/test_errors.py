"""What is never told: passwords and tokens."""

from __future__ import annotations

import pytest

from xpress_bench.errors import UsageError, redact

TOKEN = "hf_" + "abcdefghijklmnopqrstuvwxyz012345"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("https://me:pass@host/path", "https://[hidden]@host/path"),
        (f"https://{TOKEN}@host", "https://[hidden]@host"),
        (f"token={TOKEN}, next", "token=[hidden], next"),
        ("the value is s3cret-value.", "the value is [hidden]."),
        ("longer s3cret-value-and-more", "longer [hidden]"),
        ("https://host/path and a@b.org", "https://host/path and a@b.org"),
        ("Qwen/Qwen3-8B at hf_hub, hf:owner/name", "Qwen/Qwen3-8B at hf_hub, hf:owner/name"),
        ("short: abc", "short: abc"),  # too short to be told from ordinary words
        ("tokenizers: on-and-on-and-on", "tokenizers: on-and-on-and-on"),
    ],
)
def test_secrets_are_hidden(monkeypatch: pytest.MonkeyPatch, text: str, told: str) -> None:
    monkeypatch.setenv("SOME_API_KEY", "s3cret-value")
    monkeypatch.setenv("OTHER_SECRET", "s3cret-value-and-more")
    monkeypatch.setenv("HF_TOKEN", "abc")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "on-and-on-and-on")
    assert redact(text) == told
    assert str(UsageError(text)) == told
