"""A clock must see what the device does, not how fast the host can queue it."""

from itertools import pairwise

import pytest

from xpress_bench.measure import clock
from xpress_bench.measure.clock import HostClock, clock_for


class QueueingDevice:
    """`launch` returns at once, `synchronize` waits; its time is fake, in milliseconds."""

    def __init__(self):
        self.host_ms = self.idle_at_ms = 0

    def launch(self, work_ms):
        self.idle_at_ms = max(self.idle_at_ms, self.host_ms) + work_ms

    def synchronize(self):
        self.host_ms = max(self.host_ms, self.idle_at_ms)

    def perf_counter(self):
        return self.host_ms / 1e3


@pytest.fixture
def device(monkeypatch):
    fake = QueueingDevice()
    monkeypatch.setattr(clock, "perf_counter", fake.perf_counter)
    return fake


def test_c10_stamps_hold_the_work_between_them_and_not_the_work_before(device):
    timer = HostClock(device.synchronize)
    device.launch(200)
    start = timer.stamp()
    device.launch(50)
    end = timer.stamp()
    timer.synchronize()
    assert timer.seconds(start, end) == pytest.approx(0.050)


def test_c10_stages_are_timed_apart(device):
    timer = HostClock(device.synchronize)
    stamps = [timer.stamp()]
    for stage_ms in (3, 2, 12):
        device.launch(stage_ms)
        stamps.append(timer.stamp())
    assert [timer.seconds(*pair) for pair in pairwise(stamps)] == pytest.approx([0.003, 0.002, 0.012])


def test_c10_latency_is_host_time_between_two_synchronised_points(device):
    timer = HostClock(device.synchronize)
    device.launch(200)
    timer.synchronize()
    started = timer.now()
    device.launch(50)
    timer.synchronize()
    assert timer.now() - started == pytest.approx(0.050)


def test_the_cpu_has_nothing_to_wait_for(device):
    timer = HostClock()
    start = timer.stamp()
    device.host_ms += 7
    timer.synchronize()
    assert timer.seconds(start, timer.stamp()) == pytest.approx(0.007)


def test_each_device_has_its_clock():
    assert isinstance(clock_for("cpu"), HostClock)
    assert isinstance(clock_for("mps"), HostClock)
    assert isinstance(clock_for("cuda:1"), clock.CudaClock)


@pytest.mark.gpu
def test_c10_events_agree_with_the_host_clock_on_a_chain_of_matmuls():
    import torch

    timer, matrix = clock_for("cuda"), torch.randn(4096, 4096, device="cuda") / 64
    for _ in range(2):  # the first time loads kernels
        timer.synchronize()
        start, started = timer.stamp(), timer.now()
        for _ in range(20):
            matrix = matrix @ matrix / 64
        end = timer.stamp()
        timer.synchronize()
        elapsed_s = timer.now() - started
    assert timer.seconds(start, end) == pytest.approx(elapsed_s, rel=0.10)
