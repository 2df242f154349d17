"""How often the decode loop waits for the device: once a round, and once for the prompt."""

import pytest
import tiny
import torch

READS = ("tolist", "item", "cpu", "numpy", "__bool__", "__int__", "__float__", "__index__", "__iter__")


@pytest.fixture
def reads(monkeypatch):
    """Names of the host reads made so far. What looks at `device.type` first is spared on a GPU and not seen here."""
    seen = []

    def counting(name, own):
        def counted(tensor, *words, **options):
            seen.append(name)
            return own(tensor, *words, **options)

        return counted

    for name in READS:
        monkeypatch.setattr(torch.Tensor, name, counting(name, getattr(torch.Tensor, name)))
    return seen


@pytest.mark.parametrize("passes", [None, 3], ids=["draft", "refine"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_one_read_a_round(reads, passes, temperature):
    target = tiny.qwen3()
    arm = tiny.Arm(tiny.dflash(target), [] if passes is None else [tiny.xpress(target, 8, passes)])
    how = tiny.sampling(temperature, "coupled" if temperature else "greedy")
    reads.clear()
    output = arm.run(target, tiny.prompt(9), 40, how=how)
    assert len(output.rounds) > 5
    rest = [name for name in reads if name != "tolist"]
    assert reads.count("tolist") == 1 + len(output.rounds)  # the prompt's ids, which came from the host
    assert rest == ["__int__"]  # the prompt's token


def test_direct_reads_each_token(reads):
    target = tiny.qwen3()
    reads.clear()
    output = tiny.plain(target, tiny.prompt(9), 20)
    assert reads == ["__int__"] * len(output.ids)
