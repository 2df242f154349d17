"""The short form of `scripts/fuzz.py`: its examples are parsed, and a few mutations of them meet the contract."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from xpress_bench.errors import UsageError


@pytest.fixture(scope="module")
def fuzz() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fuzz", Path(__file__).parents[1] / "scripts" / "fuzz.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


def test_every_example_is_parsed_as_it_stands(fuzz: ModuleType, tmp_path: Path) -> None:
    for name, (_, examples) in fuzz.PARSERS.items():
        assert {fuzz.outcome(name, raw, tmp_path) for raw in examples()} == {("parsed", "")}, name


def test_mutated_inputs_are_parsed_or_refused(fuzz: ModuleType, tmp_path: Path) -> None:
    found = {seed: fuzz.work(seed, tmp_path) for seed in range(300)}
    assert {kind for kind, _ in found.values()} == {"parsed", "refused"}, {
        seed: one for seed, one in found.items() if one[0] not in ("parsed", "refused")
    }


@pytest.mark.parametrize("error", [KeyError("x"), RecursionError(), MemoryError()])
def test_any_other_error_is_a_violation(
    fuzz: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(raw: bytes, folder: Path) -> None:
        raise error if raw else UsageError("refused")

    monkeypatch.setitem(fuzz.PARSERS, "broken", (fails, lambda: [b"x"]))
    assert fuzz.outcome("broken", b"x", tmp_path)[0] == type(error).__name__
    assert fuzz.outcome("broken", b"", tmp_path) == ("refused", "refused")
