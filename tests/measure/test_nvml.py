"""Which board, which bytes: the right ones, or None with a reason."""

# ruff: noqa: N802 - the fake has NVML's names
import itertools
import os
import sys
from types import SimpleNamespace

import pytest

from xpress_bench.measure import nvml
from xpress_bench.measure.nvml import Board, PeakSampler, device_memory, open_board, process_memory, running_peak

MIB, GIB = 2**20, 2**30
BOARDS = ("GPU-a", "GPU-b", "GPU-c", "GPU-d")  # by bus; they use 1, 2, 3 and 4 GiB


class FakeNvml:
    """NVML with four boards and one MIG slice. `refuse`: the calls that raise, v1 and v2 memory as "v1" and "v2"."""

    class NVMLError(Exception):
        pass

    class NVMLLibraryMismatchError(Exception):
        pass

    def __init__(self, refuse=(), processes=(), reserve_bytes=0):
        self.used_bytes = {name: at * GIB for at, name in enumerate(BOARDS, start=1)} | {"MIG-x": 5 * GIB}
        self.total_bytes = dict.fromkeys(BOARDS, 40 * GIB) | {"MIG-x": 20 * GIB}
        self.refuse, self.processes, self.reserve_bytes = set(refuse), processes, reserve_bytes
        self.split_by_mig = set()

    def _answer(self, call, value):
        if call in self.refuse:
            raise self.NVMLError("Not Supported")
        return value

    def nvmlInit(self):
        self._answer("nvmlInit", None)

    def nvmlSystemGetDriverVersion(self):
        return self._answer("nvmlSystemGetDriverVersion", "570.86.15")

    def nvmlDeviceGetHandleByUUID(self, uuid):
        if uuid not in self.used_bytes:
            raise self.NVMLError("Not Found")
        return uuid

    def nvmlDeviceGetMigMode(self, handle):
        return [int(handle in self.split_by_mig), 0]

    def nvmlDeviceGetMemoryInfo(self, handle, version=None):
        extra_bytes = 0 if version else self.reserve_bytes
        memory = SimpleNamespace(used=self.used_bytes[handle] + extra_bytes, total=self.total_bytes[handle])
        return self._answer("v2" if version else "v1", memory)

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        found = [SimpleNamespace(pid=pid, usedGpuMemory=used_bytes) for pid, used_bytes in self.processes]
        return self._answer("processes", found)

    def nvmlDeviceGetUtilizationRates(self, handle):
        raise self.NVMLError("Not Supported")


@pytest.fixture
def install(monkeypatch):
    """Make a fake the `pynvml` that the module imports, and torch see the boards of `visible`, in CUDA's order."""

    def use(fake=None, visible=()):
        found = [SimpleNamespace(uuid=uuid, name=f"board {uuid}") for uuid in visible]
        cuda = SimpleNamespace(device_count=lambda: len(found), get_device_properties=found.__getitem__)
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
        monkeypatch.setitem(sys.modules, "pynvml", fake)
        return fake

    return use


@pytest.mark.parametrize(
    ("visible", "device", "uuid", "used_gib"),
    [
        pytest.param("d", "cuda:0", "GPU-d", 4, id="a: CUDA_VISIBLE_DEVICES=3"),
        pytest.param("ca", "cuda:1", "GPU-a", 1, id="b: 2,0"),
        pytest.param("c", "cuda:0", "GPU-c", 3, id="c: GPU-c"),
        pytest.param("dcba", "cuda:0", "GPU-d", 4, id="e: unset, CUDA's order reversed"),
        pytest.param("dcba", "cuda", "GPU-d", 4, id="no index"),
    ],
)
def test_c19_the_board_is_found_by_uuid(install, visible, device, uuid, used_gib):
    install(FakeNvml(), visible)
    board = open_board(device)
    assert (board.uuid, board.name, board.mig, board.reason) == (uuid, f"board {uuid[-1]}", False, None)
    assert device_memory(board).used_bytes == used_gib * GIB


def test_c19d_an_invisible_board_is_named_as_such(install):
    install(FakeNvml(), visible="d")
    assert open_board("cuda:1").reason == "cuda:1 does not exist: 1 visible device"


def test_c19f_a_mig_slice_shows_its_own_memory(install):
    install(FakeNvml(), visible="x")
    board = open_board("cuda:0")
    assert (board.uuid, board.mig) == ("MIG-x", True)
    assert device_memory(board).total_bytes == 20 * GIB
    assert board.ask("UtilizationRates") == (None, "nvmlDeviceGetUtilizationRates: Not Supported")


def test_c19f_the_parent_of_an_unknown_slice_is_not_taken_for_it(install):
    install(FakeNvml(), visible="a").split_by_mig.add("GPU-a")
    board = open_board("cuda:0")
    assert "MIG" in board.reason
    assert device_memory(board).used_bytes is None


def test_c19g_without_a_visible_board_memory_is_unknown(install):
    install(FakeNvml(), visible="")
    assert open_board("cpu").reason == "cpu is no NVIDIA board"
    assert open_board("cuda:0").reason == "cuda:0 does not exist: 0 visible devices"
    assert device_memory(open_board("cpu")).used_bytes is None


@pytest.mark.parametrize("uuid", ["a", "GPU-a"])
def test_a_uuid_may_have_its_prefix(install, uuid):
    install(FakeNvml())
    assert nvml.open_uuid(uuid).uuid == "GPU-a"


@pytest.mark.parametrize(
    ("processes", "refuse", "others", "foreign", "reason"),
    [
        pytest.param([(546113, 59 * GIB)], (), (546113,), 0, "own pid is not among the 1 listed", id="a: a host pid"),
        pytest.param([(7, 0), (8, 0)], (), (7, 8), 1, "own pid is not among the 2 listed", id="a: two host pids"),
        pytest.param([(os.getpid(), None)], (), (), 0, "the driver keeps no memory by process", id="b: WSL"),
        pytest.param([], ("processes",), None, None, "Not Supported", id="c: refused"),
        pytest.param([], (), (), None, "own pid is not among the 0 listed", id="d: nothing listed"),
    ],
)
def test_c20_memory_of_an_unseen_process_is_unknown(install, processes, refuse, others, foreign, reason):
    install(FakeNvml(refuse, processes), visible="a")
    board = open_board("cuda:0")
    memory = process_memory(board)
    assert (memory.own_bytes, memory.others, memory.foreign) == (None, others, foreign)
    assert reason in memory.reason
    assert device_memory(board).used_bytes == 1 * GIB


def test_c20e_own_memory_is_told_from_that_of_others(install):
    install(FakeNvml(processes=[(os.getpid(), 5 * GIB), (9, 9 * GIB)]), visible="a")
    memory = process_memory(open_board("cuda:0"))
    assert (memory.own_bytes, memory.others, memory.foreign, memory.reason) == (5 * GIB, (9,), 1, None)


@pytest.mark.parametrize(("refuse", "struct", "idle_mib"), [((), "v2", 8), (("v2",), "v1", 912)])
def test_c35_the_drivers_reserve_cancels_out(install, refuse, struct, idle_mib):
    fake = install(FakeNvml(refuse, reserve_bytes=904 * MIB), visible="a")
    fake.used_bytes["GPU-a"] = 8 * MIB
    peaks = running_peak(open_board("cuda:0"))
    idle = next(peaks)
    assert (idle.struct, idle.idle_bytes, idle.peak_minus_idle_bytes) == (struct, idle_mib * MIB, 0)
    fake.used_bytes["GPU-a"] += 2 * GIB
    next(peaks)
    fake.used_bytes["GPU-a"] -= 2 * GIB
    peak = next(peaks)
    assert (peak.peak_bytes, peak.peak_minus_idle_bytes) == (idle_mib * MIB + 2 * GIB, 2 * GIB)
    assert (peak.struct, peak.samples) == (struct, 3)


def test_c35_the_struct_never_changes_under_way(install):
    fake = install(FakeNvml(), visible="a")
    peaks = running_peak(open_board("cuda:0"))
    next(peaks)
    fake.refuse.add("v2")
    broken = next(peaks)
    fake.refuse.clear()
    assert broken.reason == "nvmlDeviceGetMemoryInfo: Not Supported"
    assert broken.peak_bytes is broken.peak_minus_idle_bytes is None
    assert next(peaks) == broken


def test_no_binding_and_no_library_are_reasons(install):
    install(None, visible="a")
    assert open_board("cuda:0").reason == "nvidia-ml-py is not installed"
    assert open_board("cuda:0").uuid == "a"
    install(FakeNvml(refuse=["nvmlInit"]), visible="a")
    board = open_board("cuda:0")
    assert device_memory(board).reason == process_memory(board).reason == "nvmlInit: Not Supported"
    assert nvml.driver_version() == (None, "nvmlInit: Not Supported")


CHILDS_NVML = """
from types import SimpleNamespace

used = iter([100, 700])

class NVMLError(Exception): pass
class NVMLLibraryMismatchError(Exception): pass
def nvmlInit(): pass
def nvmlDeviceGetMigMode(handle): return [0, 0]
def nvmlDeviceGetHandleByUUID(uuid): return uuid
def nvmlDeviceGetMemoryInfo(handle, version): return SimpleNamespace(used=next(used, 400), total=1000)
"""


def test_the_sampler_watches_from_a_child_process(monkeypatch, tmp_path):
    (tmp_path / "pynvml.py").write_text(CHILDS_NVML)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), *sys.path)))
    with PeakSampler(Board("MIG-x")) as sampler:
        assert sampler.peak.reason == "not sampled yet"
    peak = sampler.peak
    assert (peak.idle_bytes, peak.peak_bytes, peak.struct, peak.reason) == (100, 700, "v2", None)
    assert peak.samples >= 2


def test_the_sampler_ends_with_the_work_it_watches(monkeypatch, tmp_path):
    (tmp_path / "pynvml.py").write_text(CHILDS_NVML)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), *sys.path)))
    sampler = PeakSampler(Board("MIG-x"))
    with pytest.raises(MemoryError), sampler:
        raise MemoryError
    assert sampler.peak.peak_bytes == 700


def test_a_sampler_that_dies_is_a_reason(monkeypatch, tmp_path):
    (tmp_path / "pynvml.py").write_text("raise SystemExit(3)")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), *sys.path)))
    with PeakSampler(Board("MIG-x")) as sampler:
        pass
    assert (sampler.peak.peak_bytes, sampler.peak.samples) == (None, 0)
    assert sampler.peak.reason == "the sampling process ended early, with status 3"


def test_a_board_that_could_not_be_opened_is_not_sampled():
    with PeakSampler(Board(reason="cpu is no NVIDIA board")) as sampler:
        pass
    assert (sampler.peak.peak_minus_idle_bytes, sampler.peak.reason) == (None, "cpu is no NVIDIA board")


def test_reading_goes_on_for_as_long_as_the_work(install):
    install(FakeNvml(), visible="b")
    *_, last = itertools.islice(running_peak(open_board("cuda:0")), 1000)
    assert (last.samples, last.peak_bytes) == (1000, 2 * GIB)
