"""A stranger's drafter and refiner in a package of their own: installed by pip, found, run, shown in the guide."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from xpress_bench.cli import main
from xpress_bench.journals import read_run

ROOT = Path(__file__).parents[1]
PLUGIN = Path(__file__).parent / "plugin"
FILES = ("pyproject.toml", "ngrams/drafter.py", "ngrams/refiner.py", "test_ngrams.py")
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of installed packages that holds the plug-in and nothing else; no network is needed for it."""
    folder = tmp_path_factory.mktemp("site")
    quiet = ["--quiet", "--disable-pip-version-check", "--no-build-isolation", "--no-deps", "--no-index"]
    command = [sys.executable, "-m", "pip", "install", *quiet, "--target", str(folder), str(PLUGIN)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def _installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "ngrams"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(site))


@pytest.mark.usefixtures("_installed")
def test_an_installed_plug_in_is_listed_with_its_package(capsys: Capture) -> None:
    assert main(["list", "drafters"]) == 0
    assert re.search(r"\n  bigrams +ngrams\.drafter:load  \(xpress-bench-ngrams\)\n", capsys.readouterr().out)
    assert main(["list", "refiners"]) == 0
    assert re.search(r"\n  trigrams +ngrams\.refiner:load  \(xpress-bench-ngrams\)\n", capsys.readouterr().out)


@pytest.mark.usefixtures("_installed")
def test_a_plug_in_runs_from_the_command_line_and_leaves_the_output_as_it_was(tmp_path: Path, site: Path) -> None:
    (tmp_path / "own.jsonl").write_text('{"id": "a", "prompt": "to be or not to be"}\n{"id": "b", "prompt": "aaaa"}\n')
    where = ["--suite", str(tmp_path / "own.jsonl"), "--out", str(tmp_path / "runs"), "--device", "cpu"]
    what = ["--target", "toy", "--drafter", "bigrams", "--refiner", "trigrams", "--temperature", "0,1"]
    assert main([*where, *what, "block_size=4", "max_new_tokens=40", "memory=false", "trace=0"]) == 0

    assert Path(sys.modules["ngrams.drafter"].__file__ or "").is_relative_to(site)
    (folder,) = (tmp_path / "runs").iterdir()
    run = read_run(folder)
    assert [(arm.name, arm.drafter, arm.refiner, arm.block_size, arm.passes) for arm in run.header.arms] == [
        ("direct", None, None, None, None),
        ("draft", "bigrams", None, 4, None),
        ("refine", "bigrams", "trigrams", 4, 1),
    ]
    said: dict[object, dict[str, object]] = {}
    for cell in run.cells:
        assert cell.error is None
        said.setdefault((cell.condition, cell.prompt, cell.seed, cell.repeat), {})[cell.arm] = cell.ids
    assert len({condition for condition, *_ in said}) == 2
    for ids in said.values():
        assert ids["draft"] == ids["refine"] == ids["direct"]
    assert any(sum(cell.steps.accepted) for cell in run.cells if cell.arm == "refine")


def publish(folder: Path, name: str, point: str) -> None:
    """What pip leaves behind of a package, without the package."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[xpress_bench.drafters]\n{point}\n")


def test_a_broken_plug_in_is_listed_as_broken_and_refused_in_one_line(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "halfway.py").write_text("raise RuntimeError('not\\nfinished')\n")
    publish(tmp_path, "unfinished", "halfway = halfway:load")
    publish(tmp_path, "late", "dflash = halfway:load")
    monkeypatch.syspath_prepend(str(tmp_path))

    assert main(["list", "drafters"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  halfway         halfway:load, broken: RuntimeError: not finished  (unfinished)" in lines
    assert "  dflash          halfway:load, hidden: its name is taken, it needs another  (late)" in lines
    assert main(["--target", "toy", "--drafter", "halfway", "--device", "cpu"]) == 2
    assert "the plug-in 'halfway' (halfway:load) is broken: RuntimeError: not finished" in capsys.readouterr().err


def test_the_guide_shows_the_files_of_the_package_whole() -> None:
    guide = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    shown = re.findall(r"^`([\w./]+)`\n\n```\w+\n(.*?)^```$", guide, flags=re.MULTILINE | re.DOTALL)
    assert shown == [(name, (PLUGIN / name).read_text(encoding="utf-8")) for name in FILES]


@pytest.mark.parametrize("name", ["ngrams/drafter.py", "ngrams/refiner.py"])
def test_a_drafter_and_a_refiner_take_less_than_thirty_lines(name: str) -> None:
    assert len((PLUGIN / name).read_text(encoding="utf-8").splitlines()) < 30
