"""What doctor finds on machines made of files and fakes, and that it finds nothing on a quiet one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from xpress_bench.measure import health, nvml
from xpress_bench.measure.health import Trial, findings
from xpress_bench.measure.nvml import Board, Reading

STEADY = Trial((0.01,) * 30, None, 0)
CPU = "sys/devices/system/cpu"


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine of four usable CPUs on two cores, with nothing to be said against it."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    monkeypatch.setattr(health, "governor", lambda: Reading("performance"))
    monkeypatch.setattr(health, "installed", lambda name: None)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    for cpu in range(4):
        write(tmp_path, f"{CPU}/cpu{cpu}/topology/thread_siblings_list", f"{cpu % 2},{cpu % 2 + 2}\n")
    write(tmp_path, f"{CPU}/intel_pstate/no_turbo", "1\n")
    write(tmp_path, "proc/self/cgroup", "0::/own\n")
    write(tmp_path, "sys/fs/cgroup/own/cpu.max", "max 100000\n")
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def told(root: Path, threads: int = 2, trial: Trial = STEADY, device: str = "cpu") -> list[tuple[str, str]]:
    return [(one.level, one.what) for one in findings(device, threads, trial, root)]


def test_a_quiet_machine_has_no_finding(root: Path) -> None:
    assert told(root) == []


def test_an_empty_root_is_no_finding(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Another system, which has none of these files."""
    assert told(tmp_path_factory.mktemp("bare")) == []


@pytest.mark.parametrize(
    ("threads", "what"),
    [
        (5, "5 threads on 4 usable CPUs"),
        (3, "3 threads on 2 cores: some share a core with a sibling"),
    ],
)
def test_more_threads_than_cores(root: Path, threads: int, what: str) -> None:
    assert told(root, threads) == [("warning", what)]


@pytest.mark.parametrize(
    ("files", "what"),
    [
        ({"sys/fs/cgroup/own/cpu.max": "150000 100000\n"}, "a quota of 1.5 CPUs for 2 threads"),
        ({"sys/fs/cgroup/cpu.max": "50000 100000\n"}, "a quota of 0.5 CPUs for 2 threads"),
        ({"sys/fs/cgroup/own/cpu.max": "200000 100000\n"}, None),
        (
            {"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "100000", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"},
            "a quota of 1 CPUs for 2 threads",
        ),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, None),
    ],
)
def test_a_quota_of_the_control_group(root: Path, files: dict[str, str], what: str | None) -> None:
    for name, text in files.items():
        write(root, name, text)
    assert told(root) == ([("warning", what)] if what else [])


def test_clocks(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(root, f"{CPU}/intel_pstate/no_turbo", "0\n")
    monkeypatch.setattr(health, "governor", lambda: Reading("powersave"))
    assert told(root) == [("warning", "the frequency governor is powersave"), ("note", "turbo is on")]
    (root / CPU / "intel_pstate/no_turbo").unlink()
    write(root, f"{CPU}/cpufreq/boost", "1\n")
    assert ("note", "turbo is on") in told(root)


def test_a_container(root: Path) -> None:
    write(root, ".dockerenv", "")
    assert told(root) == [("note", "this is a container")]


def test_software(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "installed", {"pynvml": "11.5.0"}.get)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    assert [what for _, what in told(root)] == [
        "the distribution `pynvml` is installed",
        "torch computes with DEFAULT, without AVX",
        "torch is built without MKL",
    ]
    monkeypatch.setattr("platform.machine", lambda: "aarch64")  # which has neither
    assert len(told(root)) == 1


@pytest.mark.parametrize(
    ("trial", "what"),
    [
        (
            Trial((0.01,) * 30, "other processes took 67% of the CPU time", 0),
            "other processes took 67% of the CPU time",
        ),
        (Trial((0.01,) * 30, None, 12), "memory is being swapped"),
        (Trial((0.01,) * 27 + (0.02,) * 3, None, 0), "the same work takes different times"),  # one in ten is slow
        (Trial((0.01,) * 15 + (0.011,) * 15, None, None), "the same work takes different times"),  # 10 % drift
    ],
)
def test_what_was_seen_while_it_was_tried(root: Path, trial: Trial, what: str) -> None:
    assert told(root, trial=trial) == [("warning", what)]


def test_spread_and_drift_by_hand() -> None:
    one = Trial((1.0, 1.0, 2.0, 2.0, 3.0, 3.0), None, None)
    assert one.drift == 2.0  # 3 over 1
    assert one.spread == 0.5  # the 95th percentile is 3, the median 2


class FakeBoard(Board):
    answers: dict[str, Any] = {"PersistenceMode": 1, "EccMode": [1, 1]}  # noqa: RUF012

    def ask(self, what: str, *arguments: object) -> Reading:
        return Reading(self.answers[what])


def test_a_board(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boards = [
        FakeBoard("GPU-x", "H200"),
        FakeBoard("MIG-x", "H200"),
        Board("x", reason="nvidia-ml-py is not installed"),
    ]
    monkeypatch.setattr(nvml, "open_board", lambda device: boards[0])
    assert told(root, device="cuda") == []
    monkeypatch.setattr(FakeBoard, "answers", {"PersistenceMode": 0, "EccMode": [0, 0]})
    assert told(root, device="cuda") == [("warning", "persistence mode is off"), ("note", "ECC is off")]
    del boards[0]
    assert ("note", "a MIG slice") in told(root, device="cuda")
    monkeypatch.setattr(FakeBoard, "answers", {"PersistenceMode": None, "EccMode": None})  # not supported
    assert told(root, device="cuda") == [("note", "a MIG slice")]
    del boards[0]
    assert told(root, device="cuda") == [("warning", "the board cannot be read: nvidia-ml-py is not installed")]


def test_the_work_is_tried_on_this_machine() -> None:
    tried = health.trial("cpu", tried_s=0.05)
    assert min(tried.seconds) > 0
    assert sum(tried.seconds) < 30
