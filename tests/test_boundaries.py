"""What an import may pull in, and how soon the program answers: both from a fresh interpreter."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = {"torch", "transformers", "diffusers", "datasets", "hydra", "omegaconf"}
LIGHT = (
    "xpress_bench",
    "xpress_bench.analyse",
    "xpress_bench.cli",
    "xpress_bench.drafters",
    "xpress_bench.errors",
    "xpress_bench.publish",
    "xpress_bench.records",
    "xpress_bench.refiners",
    "xpress_bench.registry",
    "xpress_bench.settings",
    "xpress_bench.suites",
    "xpress_bench.targets",
    "xpress_bench.verifiers",
)
WHOLE = ("xpress_bench.analyse", "xpress_bench.publish")  # every module in them: they work from a journal alone
IMPORT = """
import importlib, json, pkgutil, sys
name, whole = sys.argv[1], sys.argv[2] == "whole"
package = importlib.import_module(name)
found = [one.name for one in pkgutil.walk_packages(package.__path__, name + ".")] if whole else []
for module in found:
    importlib.import_module(module)
print(json.dumps([len(found), sorted(sys.modules)]))
"""
AIM_S = 0.5
LIMIT_S = 1.5  # the aim, with room for a loaded machine


def imported_by(name: str, extent: str) -> tuple[int, set[str]]:
    """How many submodules were imported, and the names of all modules that are loaded then."""
    command = [sys.executable, "-c", IMPORT, name, extent]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    count, loaded = json.loads(done.stdout)
    return count, set(loaded)


@pytest.mark.parametrize("name", LIGHT)
def test_imports_nothing_heavy(name: str) -> None:
    _, loaded = imported_by(name, "alone")
    assert name in loaded
    assert not loaded & HEAVY


@pytest.mark.parametrize("name", WHOLE)
def test_all_of_it_imports_nothing_heavy(name: str) -> None:
    count, loaded = imported_by(name, "whole")
    assert count > 0
    assert not loaded & HEAVY


def test_the_check_sees_a_heavy_import() -> None:
    _, loaded = imported_by("xpress_bench.config", "alone")
    assert loaded & HEAVY == {"hydra", "omegaconf"}


@pytest.mark.parametrize("word", ["--help", "list"])
def test_answers_at_once(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    best_s = min(answer_s(word) for _ in range(3))
    with capsys.disabled():
        print(f"\n  xpress-bench {word}: {best_s:.2f} s, best of 3 (aim {AIM_S} s)")
    assert best_s < LIMIT_S


def answer_s(word: str) -> float:
    """Seconds from starting the interpreter to its end."""
    begun = time.perf_counter()
    command = [sys.executable, "-m", "xpress_bench", word]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=60, check=False)
    seconds = time.perf_counter() - begun
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    return seconds


def test_the_deprecated_pynvml_distribution_is_absent() -> None:
    """The module `pynvml` comes from nvidia-ml-py; with the distribution of that name torch warns at import."""
    with pytest.raises(PackageNotFoundError):
        distribution("pynvml")
    assert distribution("nvidia-ml-py")
