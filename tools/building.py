"""What the builders of all suites share: the record, clean text, near-duplicates."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

Record = dict[str, Any]

CHARS_PER_TOKEN = 4.2
SIMILAR = 0.6  # Jaccard overlap of five-word runs from which two prompts are the same
WRITTEN = {"source": "xpress-bench", "source_id": "written", "licence": "Apache-2.0", "origin": "written"}

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffd\u200b-\u200f\ufeff\u00ad]")
_ADDRESS = re.compile(r"\b[\w.+-]+@[\w-]+\.\w|\b(?:https?|ftp)://", re.IGNORECASE)


def record(
    suite: str,
    item_id: str,
    category: str,
    prompt: str,
    references: Sequence[str],
    answer_type: str,
    origin: dict[str, str],
    memorised: str,
    *,
    lang: str = "en",
    turns: Sequence[str] | None = None,
    chars_per_token: float = CHARS_PER_TOKEN,
) -> Record:
    """The common record without its hash; tokens are estimated from characters."""
    return {
        "id": item_id, "suite": suite, "category": category, "lang": lang, "prompt": prompt,
        "turns": list(turns) if turns else None, "references": list(dict.fromkeys(references)),
        "answer_type": answer_type, **origin, "approx_tokens": round(len(prompt) / chars_per_token),
        "memorised": memorised,
    }  # fmt: skip


def clean(text: str) -> str:
    """NFC, plain newlines, no trailing blanks; inner runs of blanks stay, since they may be code."""
    text = unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\xa0", " "))
    return "\n".join(line.rstrip() for line in text.split("\n")).strip()


def flawed(text: str) -> str | None:
    """Why a text cannot stand in a suite, or None: control or replacement characters, e-mail or web addresses."""
    if _CONTROL.search(text):
        return "control or replacement character"
    return "address" if _ADDRESS.search(text) else None


def fivegrams(text: str) -> frozenset[tuple[str, ...]]:
    """Runs of five words; the whole text if it is shorter."""
    words = text.lower().split()
    return frozenset(tuple(words[i : i + 5]) for i in range(max(1, len(words) - 4)))


def similar(a: str, b: str) -> bool:
    """Jaccard overlap of five-word runs above the limit."""
    left, right = fivegrams(a), fivegrams(b)
    return len(left & right) > SIMILAR * len(left | right)


def refuse_flaws(records: Iterable[Record]) -> None:
    """SystemExit if an id or a prompt comes twice, or if a text is flawed."""
    ids: set[str] = set()
    prompts: dict[str, str] = {}
    for one in records:
        texts = (one["prompt"], *(one["turns"] or ()), *one["references"])
        problem = next((why for text in texts if (why := flawed(text))), None)
        twin = prompts.setdefault(one["prompt"].lower(), one["id"])
        if problem or one["id"] in ids or twin != one["id"]:
            raise SystemExit(f"{one['id']}: {problem or f'the same as {twin}'}")
        ids.add(one["id"])
