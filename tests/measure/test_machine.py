"""What identifies a machine does not change by itself, and what is unknown says why."""

import json
import platform
import subprocess
import sys
from types import SimpleNamespace

import pytest

import xpress_bench
from xpress_bench.measure import machine, nvml
from xpress_bench.measure.conditions import conditions
from xpress_bench.measure.machine import fingerprint, git_state, versions
from xpress_bench.measure.nvml import Board, DeviceMemory, Reading

ANSWERS = {
    ("PowerManagementLimit",): 699_600,
    ("ApplicationsClock", 1): 1980,
    ("PersistenceMode",): 1,
    ("EccMode",): [1, 0],
}


class FakeBoard(Board):
    def ask(self, what, *arguments):
        return Reading(ANSWERS[what, *arguments])


@pytest.fixture
def board(monkeypatch):
    monkeypatch.setattr(nvml, "open_board", lambda device: FakeBoard("MIG-x", "H200 MIG 1g.18gb"))
    monkeypatch.setattr(nvml, "driver_version", lambda: Reading("570.86.15"))
    monkeypatch.setattr(nvml, "device_memory", lambda board: DeviceMemory(8, 18 * 2**30 + 5, "v2"))


def test_versions_name_everything_that_can_change_a_result():
    found = versions()
    libraries = {"torch", "transformers", "diffusers", "datasets", "numpy", "scipy"}
    assert set(found) == {"xpress-bench", "python", *libraries, "cuda", "cudnn", "driver"}
    assert found["python"] == platform.python_version()
    assert found["numpy"]


def test_what_is_not_installed_has_no_version(monkeypatch):
    monkeypatch.setattr(machine, "_PACKAGES", ("no-such-distribution",))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert [versions()[name] for name in ("no-such-distribution", "cuda", "cudnn")] == [None, None, None]


def test_versions_import_no_torch():
    source = "import sys; from xpress_bench.measure.machine import versions; versions(); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", source], capture_output=True, check=True).stdout == b"False\n"


def test_cuda_comes_from_the_loaded_torch(monkeypatch):
    cudnn = SimpleNamespace(version=lambda: 91002)
    fake = SimpleNamespace(version=SimpleNamespace(cuda="12.8"), backends=SimpleNamespace(cudnn=cudnn))
    monkeypatch.setitem(sys.modules, "torch", fake)
    assert (versions()["cuda"], versions()["cudnn"]) == ("12.8", "91002")


@pytest.fixture
def git(monkeypatch):
    """A git with these answers by sub-command; an exception is raised. Returns the list of its calls."""
    calls = []

    def use(**answers):
        def run(command, **options):
            calls.append((command, options))
            answer = answers[command[2].replace("-", "_")]
            if isinstance(answer, Exception):
                raise answer
            return SimpleNamespace(stdout=answer)

        monkeypatch.setattr(subprocess, "run", run)
        return calls

    return use


@pytest.mark.parametrize(("changes", "dirty"), [("", False), (" M decode.py\n", True)])
def test_git_state_is_that_of_the_package(git, monkeypatch, tmp_path, changes, dirty):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    calls = git(ls_files="__init__.py\n", rev_parse="3f9a12\n", status=changes)
    assert git_state() == {"commit": "3f9a12", "dirty": dirty, "reason": None}
    for _, options in calls:
        assert str(options["cwd"]) in xpress_bench.__file__
        assert "GIT_DIR" not in options["env"]


@pytest.mark.parametrize(
    "problem",
    [FileNotFoundError("git"), subprocess.TimeoutExpired("git", 10), subprocess.CalledProcessError(128, "git")],
)
def test_git_state_never_fails(git, problem):
    git(ls_files=problem)
    found = git_state()
    assert found["commit"] is found["dirty"] is None
    assert "git" in found["reason"]


def test_a_package_inside_a_foreign_repository_is_not_that_repository(git):
    git(ls_files=subprocess.CalledProcessError(1, "git"), rev_parse="3f9a12", status="")
    assert git_state()["commit"] is None


def test_hard_keys_decide_the_hash_and_nothing_else():
    one, other = fingerprint("cpu", 2), fingerprint("cpu", 4)
    assert one["hard"] == {**other["hard"], "torch_threads": 2}
    assert one["sha256"] != other["sha256"]
    assert one["sha256"] == fingerprint("cpu", 2)["sha256"]


def test_c44_clocks_and_load_are_no_identity(monkeypatch, tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    monkeypatch.setattr(machine, "_CPUINFO", cpuinfo)
    found = []
    for mhz, load in ((2600.0, 0.1), (2602.6, 7.0)):
        cpuinfo.write_text(f"model name\t: Xeon 6\ncpu MHz\t\t: {mhz}\n\nmodel name\t: Xeon 6\ncpu MHz\t\t: {mhz}\n")
        monkeypatch.setattr("os.getloadavg", lambda load=load: (load, load, load))
        assert (conditions("cpu")["cpu_mhz"], conditions("cpu")["load_average"]) == (mhz, [load] * 3)
        found.append(fingerprint("cpu", 2))
    assert found[0] == found[1]
    assert found[0]["hard"]["cpu_model"] == "Xeon 6"


def test_governors_of_all_cores_are_named(monkeypatch, tmp_path):
    for core, governor in enumerate(("powersave", "performance", "performance")):
        (tmp_path / f"cpu{core}" / "cpufreq").mkdir(parents=True)
        (tmp_path / f"cpu{core}" / "cpufreq" / "scaling_governor").write_text(f"{governor}\n")
    monkeypatch.setattr(machine, "_CPUS", tmp_path)
    assert conditions("cpu")["governor"] == "performance+powersave"
    assert fingerprint("cpu", 2)["soft"]["governor"] == "performance+powersave"


def test_what_can_not_be_read_is_none_with_a_reason(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "_CPUINFO", tmp_path / "absent")
    monkeypatch.setattr(machine, "_CPUS", tmp_path)
    assert fingerprint("cpu", 2)["hard"]["cpu_model"] in (platform.processor(), platform.machine())


def test_a_board_is_part_of_the_fingerprint(board):
    found = fingerprint("cuda:0", 2)
    gpu = {name: value for name, value in found["hard"].items() if name.startswith("gpu")}
    assert gpu == {
        "gpu_name": "H200 MIG 1g.18gb",
        "gpu_mig": True,
        "gpu_memory_gib": 18,
        "gpu_driver_major": 570,
        "gpu_power_limit_w": 700,
        "gpu_application_clock_mhz": 1980,
    }
    gpu = {name: value for name, value in found["soft"].items() if name.startswith("gpu")}
    assert gpu == {"gpu_uuid": "MIG-x", "gpu_persistence": True, "gpu_ecc": True, "gpu_memory_struct": "v2"}


def test_a_board_without_nvml_is_unknown_but_for_its_name(monkeypatch):
    monkeypatch.setattr(nvml, "open_board", lambda device: Board("x", "H200", reason="no NVML here"))
    monkeypatch.setattr(nvml, "driver_version", lambda: Reading(None, "no NVML here"))
    found = fingerprint("cuda:0", 2)
    assert (found["hard"]["gpu_name"], found["soft"]["gpu_uuid"]) == ("H200", "x")
    for name in ("gpu_mig", "gpu_driver_major", "gpu_power_limit_w", "gpu_memory_struct"):
        assert ({**found["hard"], **found["soft"]}[name], found["reasons"][name]) == (None, "no NVML here")


def test_nothing_secret_is_told(git, monkeypatch):
    git(ls_files=subprocess.CalledProcessError(128, "git", stderr=f"fatal: {xpress_bench.__file__}"))
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("LOGNAME", "ada_l")
    monkeypatch.setattr(platform, "node", lambda: "adas-laptop")
    text = json.dumps([versions(), git_state(), fingerprint("cpu", 2), conditions("cpu")], allow_nan=False)
    for secret in ("hf_secret", "ada_l", "adas-laptop", xpress_bench.__file__, sys.executable):
        assert secret not in text
