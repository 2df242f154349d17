"""Progress lines and loss curves."""

import json
from pathlib import Path

import pytest

from xpress_bench.train import watching
from xpress_bench.train.watching import draw_curves, smoothed, watch


def test_the_curve_is_a_running_mean() -> None:
    assert smoothed([1.0, 3.0, 5.0, 7.0], over=2) == [1.0, 2.0, 4.0, 6.0]


def test_lines_say_how_far_and_how_long(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = iter([100.0, 130.0, 220.0])
    monkeypatch.setattr(watching.time, "monotonic", lambda: next(clock))
    with watch("train target", 1200.0) as show:
        show(0.0, "step 1")
        show(30.0, "step 2")  # too soon for another line
        show(120.0, "step 3")
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["train target: 0%, step 1", "train target: 10%, about 18 min left, step 3"]


def test_a_curve_is_drawn_of_every_loss(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    lines = [{"step": i, "base": 2.0 - i / 10, "free": 1.0, "norm": 0.5, "seconds": 3.0 * i} for i in range(5)]
    (tmp_path / "losses.jsonl").write_text("\n".join(map(json.dumps, lines)))
    file = draw_curves(tmp_path)
    assert file is not None
    assert "<svg" in file.read_text()


def test_a_training_without_a_step_has_no_curve(tmp_path):
    (tmp_path / "losses.jsonl").touch()
    assert draw_curves(tmp_path) is None
