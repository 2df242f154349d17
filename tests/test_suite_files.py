"""Every committed suite is what was built: its bytes, its records and their fields."""

import hashlib
import json

import committed
import pytest


@pytest.mark.parametrize("name", ["long", "qa", "short", "translation"])
def test_hashes(name: str) -> None:
    known, items = committed.manifest()[name], committed.items(name)
    assert hashlib.sha256((committed.SUITES / f"{name}.jsonl").read_bytes()).hexdigest() == known["sha256"]
    assert {item["id"]: item["sha256"] for item in items} == known["records"]
    for item in items:
        hashed = {name: item[name] for name in ("prompt", "turns", "references")}
        content = json.dumps(hashed, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        assert hashlib.sha256(content.encode()).hexdigest() == item["sha256"]
