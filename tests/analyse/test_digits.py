import pytest

from xpress_bench.analyse.digits import seconds, shown, significant, size
from xpress_bench.analyse.intervals import Interval, Unknown


def about(estimate, low, high):
    return Interval(estimate, low, high, "t", 9)


@pytest.mark.parametrize(
    ("measure", "text"),
    [
        (about(1.9649, 1.8801, 2.0512), "1.96 [1.88, 2.05]"),
        (about(1.95481, 1.93802, 1.97112), "1.955 [1.938, 1.971]"),
        (about(743.2, 543.0, 943.0), "740 [540, 940]"),
        (about(1.2, -9.0, 11.0), "1 [-9, 11]"),
        (about(1 / 0.9, 1 / 0.9, 1 / 0.9), "1.11 [1.11, 1.11]"),
        (about(0.0, 0.0, 0.0), "0.00 [0.00, 0.00]"),
        (about(-0.001, -0.2, 0.2), "0.00 [-0.20, 0.20]"),
        (Unknown("n < 2", 1.2345), "1.23 (n < 2)"),
        (Unknown("no values"), "-"),
    ],
)
def test_digits_follow_the_interval(measure, text):
    assert shown(measure) == text


def test_units():
    assert seconds(about(0.7403, 0.7221, 0.7614)) == "740 ms [722, 761]"
    assert seconds(about(12.31, 11.9, 12.8)) == "12.3 s [11.9, 12.8]"
    assert seconds(Unknown("n < 2", 0.5)) == "500 ms (n < 2)"
    assert seconds(Unknown("no values")) == "-"
    assert size(432 * 2**20) == "432 MiB"
    assert size(17 * 2**30) == "17.0 GiB"


@pytest.mark.parametrize(("value", "text"), [(0.30512, "0.305"), (11.94, "11.9"), (1234.0, "1230"), (0.0, "0.00")])
def test_significant(value, text):
    assert significant(value, 3) == text


def test_an_estimate_never_reads_0_because_its_interval_is_wide():
    assert shown(Interval(1.3, 0.006, 260.0, "t", 2)) == "1 [0, 260]"
    assert shown(Interval(0.4, 0.006, 260.0, "t", 2)) == "0.4 [0.0, 260.0]"
    assert shown(Interval(1234.0, 900.0, 1500.0, "t", 2)) == "1230 [900, 1500]"  # tens, as before
