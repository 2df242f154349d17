"""What parts and caches hold, by their sizes; peaks of stages by an allocator that is played."""

from types import SimpleNamespace

import pytest
import torch
from tiny import Arm, Ticks, dflash, plain, prompt, qwen3, sampling, xpress
from torch import nn

from xpress_bench.decode import Limits, Output, direct
from xpress_bench.measure import footprint
from xpress_bench.measure.footprint import StagePeaks, graph_bytes, held_bytes, stage_peaks
from xpress_bench.records import Condition

DOUBLE = 8  # bytes
ROW = 2 * 2 * 8 * DOUBLE  # keys and values of 2 heads of 8, of one token in one layer
MLP = 3 * 32 * 48
LAYER = 2 * 32 + 2 * 8 + 2 * 32 * 32 + 2 * 16 * 32 + MLP  # norms, norms of heads, q and o, k and v
TARGET = 3 * LAYER + 32 + 2 * 80 * 32  # three layers, the last norm, both tables
DRAFTER = 2 * LAYER + 2 * 32 + 2 * 32 * 32  # two layers, two norms, the fusion of two taps
FREQUENCIES = 64  # bytes of a rotary embedding's buffers, at most
REFINER = 2 * 80 * 8 + 2 * 8 * 32 + 3 * 8 * 8 + 8 * 8 * 8 + 3 * 8 * 16  # rank 8, 8 slots, MLP of 16


def parts(target, drafter=None, refiners=()):
    planned = SimpleNamespace(drafter=drafter, refiners=refiners)
    return SimpleNamespace(target=target, arms=(planned,))


def test_direct_holds_its_target_and_the_cache_of_all_but_the_last_id():
    target = qwen3()
    plain(target, prompt(20), 10)
    held = held_bytes(parts(target))
    assert list(held) == ["target", "caches"]
    assert 29 <= held["caches"] / (3 * ROW) <= 256  # rows in three layers; buffers may have room for more
    assert 0 <= held["target"] - TARGET * DOUBLE <= FREQUENCIES


def test_every_part_holds_its_own_and_borrowed_tables_count_once():
    target = qwen3()
    drafter, refiner = dflash(target), xpress(target, 8, 4)
    Arm(drafter, [refiner]).run(target, prompt(20), 10)
    held = held_bytes(parts(target, drafter, (refiner,)))
    assert held["refiner"] == REFINER * DOUBLE
    assert 0 <= held["drafter"] - DRAFTER * DOUBLE <= FREQUENCIES
    assert 0 <= held["target"] - TARGET * DOUBLE <= FREQUENCIES
    drafted = 2 * 256 * ROW  # buffers of 256 rows in two layers
    assert held["caches"] >= drafted + 3 * 29 * ROW


def test_tensors_are_found_in_any_part_and_shared_ones_once():
    shared = nn.Linear(4, 3, bias=False, dtype=torch.float64)
    table = torch.zeros(5, dtype=torch.float64)
    target = SimpleNamespace(device=torch.device("cpu"), net=shared, states=[{"k": (table, table[:2])}])
    target.me = target  # a loop does not hang
    drafter = SimpleNamespace(net=[shared], own=torch.zeros(2, dtype=torch.float64), name="text", hook=print)
    assert held_bytes(parts(target, drafter)) == {"target": 12 * 8, "drafter": 0, "caches": 7 * 8}


class Allocator:
    """torch.cuda's counters: a peak never falls until it is reset to what is allocated now."""

    def __init__(self):
        self.now = self.peak = self.reserved = 0

    def use(self, most, then):
        self.peak, self.reserved, self.now = max(self.peak, most), max(self.reserved, most + 1), then

    def reset_peak_memory_stats(self, device):
        self.peak = self.now

    def max_memory_allocated(self, device):
        return self.peak

    def max_memory_reserved(self, device):
        return self.reserved


@pytest.fixture
def allocator(monkeypatch):
    fake = Allocator()
    monkeypatch.setattr(footprint.torch, "cuda", fake)
    return fake


def stamped(peaks, allocator, uses):
    found = []
    for use in uses:
        allocator.use(*use)
        found.append(peaks.stamp())
    return found


def test_c35_each_stage_has_its_own_peak(allocator):
    peaks = StagePeaks("cuda")
    loading, prefill, between = (500, 100), (300, 120), (130, 120)
    rounds = [(140, 125), (150, 125), (400, 130), (135, 130), (190, 130), (160, 130), (200, 130)]
    at = stamped(peaks, allocator, [loading, prefill, between, *rounds])
    done = [SimpleNamespace(stamps=at[2:6]), SimpleNamespace(stamps=at[6:10])]
    output = Output([1], "length", at[0], at[1], done)
    assert stage_peaks(output, peaks) == {"prefill": 300, "draft": 190, "refine": 160, "verify": 400}
    assert (peaks.allocated(), peaks.reserved()) == (500, 501)  # loading is part of the whole


def test_direct_generation_has_one_stage_after_the_prompt(allocator):
    peaks = StagePeaks("cuda")
    at = stamped(peaks, allocator, [(500, 100), (300, 120), (180, 120)])
    assert stage_peaks(Output([1, 2], "length", at[0], at[1]), peaks) == {"prefill": 300, "decode": 180}
    with pytest.raises(NotImplementedError):
        peaks.seconds(at[0], at[1])


def test_graphs_are_the_private_pools(allocator):
    allocator.memory_snapshot = lambda: [
        {"segment_pool_id": (0, 0), "total_size": 1000},
        {"segment_pool_id": (0, 1), "total_size": 20},
        {"segment_pool_id": (3, 0), "total_size": 4},
    ]
    assert graph_bytes() == 24


def test_on_cuda_the_whole_pass_notes_peaks_and_on_cpu_it_says_why_not(allocator, monkeypatch, tmp_path):
    target = qwen3()
    ids = prompt(12)

    def of(name, count):
        return SimpleNamespace(ids=(1,) * count, item=SimpleNamespace(id=name), turn=1)

    class Requests:
        """One request of direct generation after models were loaded."""

        clock = Ticks()

        def decoded(self, slots):
            (slot,) = slots
            assert (slot.prompt, slot.arm) == ("longest", "direct")
            allocator.use(1000, 10)  # by loading
            return [direct(target, ids, Limits(4, frozenset()), sampling(), self.clock)]

    ready = SimpleNamespace(
        prompts=[of("short", 3), of("longest", 9)],
        requests=Requests(),
        parts=parts(target),
    )
    settings = SimpleNamespace(device="cpu", seeds=(0,), batch_size=1, conditions=lambda: [Condition(0.0, "greedy")])
    monkeypatch.setattr(footprint, "make_ready", lambda settings, only: ready)
    monkeypatch.setattr(footprint, "with_later_turns", lambda ready, settings, folder: ready)
    monkeypatch.setattr(footprint.Settings, "from_json", lambda text: settings)
    allocator.memory_snapshot = lambda: [{"segment_pool_id": (0, 1), "total_size": 20}]
    (file := tmp_path / "settings.json").write_text("{}")
    found = footprint.footprint(file, "direct")
    assert found.stage_peak_bytes == {"prefill": None, "decode": None}
    assert found.parts_bytes["graphs"] is None
    assert set(found.unknown) == {"graphs", "prefill", "decode"}
    assert found.torch_reserved_peak_bytes is None
    settings.device = "cuda:0"
    found = footprint.footprint(file, "direct")
    assert found.parts_bytes["graphs"] == 20
    assert (found.torch_allocated_peak_bytes, found.torch_reserved_peak_bytes, found.unknown) == (1000, 1001, {})
    assert found.stage_peak_bytes == {"prefill": 10, "decode": 10}  # what is left of loading
