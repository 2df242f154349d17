"""The wheel, as a stranger gets it (C47): what is inside, and that it works away from the checkout.

The wheel is installed into an empty folder. Python then starts in `/` with that folder and this environment's
site-packages on its path and nothing else: `-S` skips the .pth file of an editable install, and so the checkout.
The network is shut, and every warning is an error.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import sysconfig
import time
import tomllib
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
MAX_WHEEL_BYTES = 45_000_000
SUITES = "xpress_bench/_suites"
PACKAGE = ROOT / "xpress_bench"
TEMPLATES = [file.relative_to(PACKAGE) for file in PACKAGE.glob("publish/templates/**/*.*")]
EMBEDDED = ("target", "dflash", "xpress", "markov", "draft_model")
# SWIG's own types warn on import from Python 3.12 on, whoever uses them; nobody's choice, so let through.
WARNINGS = "error,ignore:builtin type:DeprecationWarning"
CLOSED = "http://127.0.0.1:9"  # nothing listens there: whatever reaches for the network fails at once
MODULE = ("-m", "xpress_bench")
LIST = ("list", "suites")
FAIL_WITHIN_S = 30.0  # starting Python and torch on a busy machine, but no retries and no time-out


@dataclass(frozen=True, slots=True)
class Install:
    """A folder that holds the unpacked wheel and nothing else."""

    folder: Path
    home: Path

    @property
    def console_script(self) -> Path:
        return self.folder / "bin" / "xpress-bench"

    def python(self, *words: str, timeout_s: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Run the interpreter in `/` without site and without the checkout."""
        command = [sys.executable, "-S", *words]
        return subprocess.run(
            command,
            cwd="/",
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=timeout_s,
            check=False,
        )

    def starts(self) -> dict[str, tuple[str, ...]]:
        """The two ways to start the program."""
        return {"module": MODULE, "console script": (str(self.console_script),)}

    def _environment(self) -> dict[str, str]:
        dropped = ("PYTHON", "HF_", "TRANSFORMERS_", "XDG_", "NO_PROXY", "no_proxy")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        packages = dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
        proxies = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), CLOSED)
        return {
            **kept,
            **proxies,
            **{name.upper(): value for name, value in proxies.items()},
            "PYTHONPATH": os.pathsep.join([str(self.folder), *packages]),
            "PYTHONSAFEPATH": "1",
            "PYTHONWARNINGS": WARNINGS,
            "HF_HUB_OFFLINE": "1",
            "HOME": str(self.home),  # no filled model cache, no user site
            "COLUMNS": "100",
        }


def quietly(command: list[str]) -> None:
    done = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    quietly([sys.executable, "-P", "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)])
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(name).decode("utf-8"))


@pytest.fixture(scope="module")
def install(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Install:
    base = tmp_path_factory.mktemp("install")
    (base / "home").mkdir()
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    quietly([*pip, "--no-deps", "--no-index", "--target", str(base / "package"), str(wheel)])
    return Install(base / "package", base / "home")


def test_size(wheel: Path) -> None:
    assert wheel.stat().st_size < MAX_WHEEL_BYTES


@pytest.mark.parametrize("file", ["qa.jsonl", "qa.suite.yaml", "MANIFEST.json", "NOTICE", "LICENCES/Apache-2.0.txt"])
def test_holds_the_suite_file(names: set[str], file: str) -> None:
    assert f"{SUITES}/{file}" in names


def test_holds_all_that_lies_under_suites(names: set[str]) -> None:
    here = {path.relative_to(ROOT / "suites").as_posix() for path in (ROOT / "suites").rglob("*") if path.is_file()}
    assert here
    assert {f"{SUITES}/{file}" for file in here} <= names


def test_suites_are_those_of_the_manifest(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        manifest = json.loads(archive.read(f"{SUITES}/MANIFEST.json"))
        for name, entry in manifest.items():
            assert hashlib.sha256(archive.read(f"{SUITES}/{name}.jsonl")).hexdigest() == entry["sha256"], name


def test_holds_the_configuration(names: set[str]) -> None:
    assert {f"xpress_bench/conf/{file}" for file in ("__init__.py", "config.yaml")} <= names
    assert {f"xpress_bench/conf/profile/{name}.yaml" for name in ("quick", "standard", "paper")} <= names
    assert {
        f"xpress_bench/conf/protocol/{file.name}" for file in ROOT.glob("xpress_bench/conf/protocol/*.yaml")
    } <= names


def test_holds_templates_and_published_tables(names: set[str]) -> None:
    templates = {f"xpress_bench/{file}" for file in TEMPLATES}
    published = {f"xpress_bench/_published/{file.name}" for file in ROOT.glob("baselines/published/*.yaml")}
    assert len(templates) > 3
    assert len(published) > 3
    assert templates | published <= names


@pytest.mark.parametrize("part", EMBEDDED)
def test_holds_the_embedded_model(names: set[str], part: str) -> None:
    assert {f"xpress_bench/embedded/{part}/{file}" for file in ("config.json", "model.safetensors")} <= names


def test_holds_the_type_marker_that_its_metadata_promises(names: set[str], metadata: Message) -> None:
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert "xpress_bench/py.typed" in names


def test_holds_nothing_else(names: set[str]) -> None:
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"xpress_bench"}
    assert not [name for name in names if name.endswith(".pyc") or "/runs/" in name]


def test_metadata(metadata: Message) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (metadata["Name"], metadata["Version"]) == ("xpress-bench", project["version"])
    assert metadata["License-Expression"] == "Apache-2.0"
    required = [line.split(";")[0].lower() for line in metadata.get_all("Requires-Dist", [])]
    assert any(line.startswith("nvidia-ml-py") for line in required)
    assert not any(line.startswith("pynvml") for line in required)  # deprecated: torch warns wherever it is installed


def test_the_installed_copy_is_the_one_that_runs(install: Install) -> None:
    done = install.python("-c", "import sys, xpress_bench; print(xpress_bench.__file__, *sys.path, sep='\\n')")
    assert (done.returncode, done.stderr) == (0, "")
    file, *path = done.stdout.splitlines()
    assert Path(file).is_relative_to(install.folder)
    assert str(ROOT) not in path


@pytest.mark.parametrize("start", ["module", "console script"])
@pytest.mark.parametrize("words", [("--help",), LIST], ids=" ".join)
def test_starts_without_a_warning(install: Install, start: str, words: tuple[str, ...]) -> None:
    done = install.python(*install.starts()[start], *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("xpress-bench" if words == ("--help",) else "qa") in done.stdout


@pytest.mark.parametrize("words", [("--help",), LIST], ids=" ".join)
def test_both_starts_say_the_same(install: Install, words: tuple[str, ...]) -> None:
    said = {name: install.python(*start, *words).stdout for name, start in install.starts().items()}
    assert said["module"] == said["console script"]


def test_composes_its_configuration(install: Install) -> None:
    code = (
        "from xpress_bench.config import settings_from as s; c = s({}, ['limit=3']); print(c.suite, c.limit, c.profile)"
    )
    done = install.python("-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "qa 3 quick\n", "")


@pytest.mark.parametrize("start", ["module", "console script"])
def test_runs_the_embedded_models(install: Install, start: str, tmp_path: Path) -> None:
    """Two prompts end to end on the CPU, with all arms; what the memory pass cannot know is null with a reason."""
    small = ("limit=2", "max_new_tokens=8", "seeds=[0]", "device=cpu", f"out={tmp_path / 'runs'}")
    done = install.python(*install.starts()[start], "--suite", "qa", *small, timeout_s=300.0)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    (journal,) = (tmp_path / "runs").glob("*/journal.jsonl")
    records = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    cells = [record for record in records if record["kind"] == "cell"]
    footer = records[-1]
    assert {cell["arm"] for cell in cells} >= {"direct", "draft", "refine"}
    assert len({cell["prompt"] for cell in cells}) == 2
    assert (footer["kind"], footer["cells"], footer["errors"], footer["complete"]) == ("footer", len(cells), 0, True)
    memory = [record for record in records if record["kind"] == "memory"]
    assert memory
    assert all(record["peak_bytes"] is not None or record["reason"] for record in memory)


@pytest.mark.parametrize("start", ["module", "console script"])
@pytest.mark.parametrize(
    ("flag", "name", "what_to_do"),
    [
        ("--suite", "openai/gsm8k", "FILE.jsonl"),
        ("--target", "Qwen/Qwen3-0.6B", "local folder"),
        ("--drafter", "z-lab/Qwen3-8B-DFlash-b16", "local folder"),
    ],
)
def test_what_needs_a_download_says_so_at_once(
    install: Install, start: str, flag: str, name: str, what_to_do: str, tmp_path: Path
) -> None:
    begun = time.perf_counter()
    suite = () if flag == "--suite" else ("--suite", "qa")
    words = (*suite, flag, name, "device=cpu", f"out={tmp_path / 'runs'}")
    done = install.python(*install.starts()[start], *words)
    assert done.returncode == 2, done.stderr
    assert name in done.stderr
    assert what_to_do in done.stderr
    assert "Traceback" not in done.stderr
    assert time.perf_counter() - begun < FAIL_WITHIN_S
