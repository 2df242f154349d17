"""One fresh process for each arm: what it reports, and what is said when it can not."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from xpress_bench.measure import memory, nvml
from xpress_bench.measure.footprint import Footprint
from xpress_bench.measure.memory import measure_arms, observe, peak_rss_bytes
from xpress_bench.measure.nvml import Board, DevicePeak, ProcessMemory
from xpress_bench.records import Memory

GIB = 2**30


@pytest.fixture
def settings(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"device": "cpu"}))
    return path


@pytest.fixture
def child(monkeypatch):
    """Make the child process run this Python source; it finds the settings and the arm in sys.argv."""

    def use(source):
        monkeypatch.setattr(memory, "CHILD", (sys.executable, "-S", "-c", source))

    return use


def test_each_arm_has_its_own_process_in_order(settings, child):
    child(
        "import json, sys; print('loading'); "
        "print(json.dumps({'arm': sys.argv[2], 'quantity': 'process_peak_rss', 'peak_bytes': len(sys.argv[2])}))"
    )
    assert measure_arms(settings, ["direct", "refine"]) == [
        Memory("direct", "process_peak_rss", 6),
        Memory("refine", "process_peak_rss", 6),
    ]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import sys; sys.exit('OutOfMemoryError: 12 GiB')", "status 1: OutOfMemoryError: 12 GiB"),
        ("import os; os._exit(7)", "status 7: no message"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "status -9: no message"),
        ("print('done')", "printed no record"),
        ("print('{}')", "printed no record"),
        ("print('[1]')", "printed no record"),
        ("", "printed no record"),
    ],
)
def test_a_child_that_fails_is_one_line_and_not_a_number(settings, child, source, reason):
    child(source)
    (found,) = measure_arms(settings, ["draft"])
    assert found.peak_bytes is None
    assert reason in found.reason
    assert "\n" not in found.reason


def test_a_child_that_hangs_is_ended(settings, child):
    child("import time; time.sleep(60)")
    (found,) = measure_arms(settings, ["draft"], timeout_s=0.2)
    assert found == Memory("draft", "process_peak_rss", None, reason="the memory pass did not end within 0.2 s")


def test_a_failure_on_cuda_keeps_the_quantity_of_a_board(settings, child):
    settings.write_text(json.dumps({"device": "cuda:1"}))
    child("")
    assert measure_arms(settings, ["draft"])[0].quantity == "nvml_device_peak_minus_idle"


def test_the_real_child_reports_its_own_failure_in_one_line(settings, monkeypatch, capsys):
    def out_of_memory(settings, arm):
        raise MemoryError("no room\nfor", arm)

    def use(footprint):
        monkeypatch.setitem(sys.modules, "xpress_bench.measure.footprint", SimpleNamespace(footprint=footprint))

    use(out_of_memory)
    monkeypatch.setattr(sys, "argv", ["memory", str(settings), "refine"])
    with pytest.raises(SystemExit, match=r"^MemoryError: .*no room.*for.*refine"):
        memory.main()
    use(lambda *_: Footprint({"target": 7}, {"draft": None}, {"draft": "no CUDA"}))
    memory.main()
    found = Memory(**json.loads(capsys.readouterr().out.splitlines()[-1]))
    assert (found.arm, found.quantity, found.reason) == ("refine", "process_peak_rss", None)
    assert (found.parts_bytes, found.stage_peak_bytes) == ({"target": 7}, {"draft": None})
    assert found.unknown == {"draft": "no CUDA"}


def test_the_resident_peak_is_in_bytes_and_never_falls():
    before = peak_rss_bytes()
    block = bytearray(b"x" * (64 * 2**20))
    grown = peak_rss_bytes()
    del block
    assert 2**20 < before < 2**40
    assert grown >= before
    assert peak_rss_bytes() >= grown


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss passes on only there")
def test_the_resident_peak_is_not_that_of_the_parent():
    block = bytearray(b"x" * (128 * 2**20))
    source = "from xpress_bench.measure.memory import peak_rss_bytes; print(peak_rss_bytes())"
    child_bytes = int(subprocess.run([sys.executable, "-c", source], capture_output=True, check=True).stdout)
    assert child_bytes < len(block)


@pytest.mark.parametrize(("platform", "unit_bytes"), [("darwin", 1), ("freebsd14", 1024)])
def test_getrusage_counts_in_the_unit_of_its_system(monkeypatch, tmp_path, platform, unit_bytes):
    usage = SimpleNamespace(ru_maxrss=1000)
    fake = SimpleNamespace(RUSAGE_SELF=0, getrusage=lambda _: usage)
    monkeypatch.setitem(sys.modules, "resource", fake)
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "absent")
    monkeypatch.setattr(sys, "platform", platform)
    assert peak_rss_bytes() == 1000 * unit_bytes


class FakeBoard:
    """A board with torch on it: `allocate` is what an arm does. Torch's peaks stay until reset, as they really do."""

    def __init__(self):
        self.peak = DevicePeak()
        self.strangers = ()
        self.reserved = self.allocated = 0

    def allocate(self, board_bytes, reserved_bytes, allocated_bytes):
        self.peak = DevicePeak(8, 8 + board_bytes, "v2", 3)
        self.reserved, self.allocated = max(self.reserved, reserved_bytes), max(self.allocated, allocated_bytes)
        return Footprint({}, {}, {}, self.reserved, self.allocated)

    def reset(self, device):
        self.reserved = self.allocated = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.fixture
def board(monkeypatch):
    fake = FakeBoard()
    cuda = SimpleNamespace(
        reset_peak_memory_stats=fake.reset,
        synchronize=lambda device: None,
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(nvml, "open_board", lambda device: Board("GPU-c"))
    monkeypatch.setattr(nvml, "process_memory", lambda board: ProcessMemory(None, fake.strangers, "not listed yet"))
    monkeypatch.setattr(nvml, "PeakSampler", lambda board: fake)
    return fake


def test_c35_a_peak_is_not_carried_over_in_either_order(board):
    for sizes in ((10, 2), (2, 10)):
        found = [observe("cuda", "arm", lambda n=n: board.allocate(n * GIB + 3, n * GIB, n * GIB - 1)) for n in sizes]
        assert [one.peak_bytes for one in found] == [n * GIB + 3 for n in sizes]
        assert [one.torch_reserved_peak_bytes for one in found] == [n * GIB for n in sizes]
        assert [one.torch_allocated_peak_bytes for one in found] == [n * GIB - 1 for n in sizes]


def test_the_board_is_named_in_the_record(board):
    found = observe("cuda", "refine", lambda: board.allocate(3, 2, 1))
    assert found == Memory("refine", "nvml_device_peak_minus_idle", 3, 2, 1, "GPU-c")


def test_peaks_that_contradict_each_other_are_told(board):
    found = observe("cuda", "refine", lambda: board.allocate(1, 2, 1))
    assert found.peak_bytes == 1
    assert found.reason == "the peaks contradict each other: board 1, torch reserved 2, allocated 1 bytes"


def test_c20_torch_still_reports_where_nvml_can_not(board):
    def work():
        inside = board.allocate(3, 2, 1)
        board.peak = DevicePeak(reason="nvmlInit: Driver Not Loaded")
        return inside

    found = observe("cuda", "refine", work)
    assert (found.peak_bytes, found.torch_reserved_peak_bytes, found.torch_allocated_peak_bytes) == (None, 2, 1)
    assert found.reason == "nvmlInit: Driver Not Loaded"


def test_c20_company_on_the_board_is_told(board):
    board.strangers = (9, 77)
    found = observe("cuda", "refine", lambda: board.allocate(3, 2, 1))
    assert found.peak_bytes == 3
    assert found.reason == "may hold memory of other processes, seen on the board: pid 9, 77"
