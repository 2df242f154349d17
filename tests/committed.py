"""The suites as they are committed: their records, their settings, and what the manifest says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

SUITES = Path(__file__).parents[1] / "suites"
FIELDS = (
    "id suite category lang prompt turns references answer_type source source_id licence origin approx_tokens "
    "memorised sha256"
).split()


def manifest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SUITES / "MANIFEST.json").read_text(encoding="utf-8"))
    return found


def settings(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((SUITES / f"{name}.suite.yaml").read_text(encoding="utf-8"))
    return found


def items(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SUITES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
