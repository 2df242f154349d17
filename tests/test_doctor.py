"""`xpress-bench doctor`: what it prints and how it ends."""

from __future__ import annotations

import pytest

from xpress_bench.doctor import doctor
from xpress_bench.errors import UsageError
from xpress_bench.measure import health
from xpress_bench.measure.health import Finding, Trial

WARNING = Finding("warning", "the governor is powersave\x1b[31m", "clocks follow the load", "change it")
NOTE = Finding("note", "turbo is on", "clocks depend on heat", "leave it")


@pytest.mark.parametrize(("found", "status"), [([], 0), ([NOTE], 0), ([WARNING, NOTE], 1)])
def test_findings_are_printed_and_warnings_are_the_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], found: list[Finding], status: int
) -> None:
    monkeypatch.setattr(health, "trial", lambda device: Trial((0.5, 0.5, 1.0), None, None))
    monkeypatch.setattr(health, "findings", lambda device, threads, tried: found)
    assert doctor(["--device", "cpu"]) == status
    printed = capsys.readouterr().out
    assert printed.startswith("xpress-bench doctor: cpu, ")
    assert "the same work 3 times in 2.0 s" in printed
    for one in found:
        assert f"why: {one.why}" in printed
        assert f"do: {one.todo}" in printed
    assert "\x1b" not in printed


def test_a_wrong_word_is_told_in_one_line() -> None:
    with pytest.raises(UsageError, match="unrecognized arguments: now"):
        doctor(["now"])
    with pytest.raises(UsageError, match="choose auto, cpu, cuda"):
        doctor(["--device", "tpu"])
