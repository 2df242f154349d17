"""Training goes on with a drafter that is there: ours or anybody's, and what cannot be trained is refused first."""

import json
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file

from xpress_bench import cli
from xpress_bench.errors import MisfitError
from xpress_bench.train import started
from xpress_bench.train.distil import Lessons
from xpress_bench.train.export import export_dflash, export_xpress

TARGET = tiny.qwen3()
EMBEDDED = Path(cli.__file__).parent / "embedded"
NOTHING_NEW = [
    "answers.answers=6", "answers.given=60", "answers.max_new_tokens=8", "answers.max_prompt=200", "answers.long=0",
    "answers.prose=0", "answers.open=0", "refiner.minutes=0", "refiner.draw.length=64", "refiner.draw.anchors=8",
]  # fmt: skip


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `train answers` leaves for the embedded drafter."""
    folder = tmp_path_factory.mktemp("answered")
    (folder / "corpus" / "text").mkdir(parents=True)
    prose = {"id": "a", "source": "crumb", "licence": "Apache-2.0", "text": "The ferry left at noon. " * 60}
    (folder / "corpus" / "text" / "crumb.jsonl").write_text(json.dumps(prose))
    assert cli.main(["train", "answers", *words(folder, "xpress")]) == 0
    return folder / "lessons.pt"


@pytest.fixture
def work(answered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)  # nothing is trained that would pay it
    copy(answered, tmp_path)
    return tmp_path


def words(folder: Path, start: str) -> list[str]:
    target = f"target.name={EMBEDDED / 'target'}"
    return ["--work", str(folder), target, f"start={EMBEDDED / start}", *NOTHING_NEW]


def test_answers_are_kept_as_the_started_drafter_reads_them(work: Path) -> None:
    taps = json.loads((EMBEDDED / "dflash" / "config.json").read_text())["dflash_config"]["target_layer_ids"]
    assert Lessons.load(work / "lessons.pt").taps.tolist() == taps


def test_a_drafter_and_its_head_come_through_no_minutes_unchanged(work: Path) -> None:
    assert cli.main(["train", "refiner", *words(work, "xpress")]) == 0
    before, after = (
        load_file(folder / "model.safetensors") for folder in (EMBEDDED / "xpress", work / "models/xpress")
    )
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_drafter_without_a_head_gets_a_new_one(work: Path) -> None:
    assert cli.main(["train", "refiner", *words(work, "dflash"), "shape.rank=8"]) == 0
    before, after = (
        load_file(folder / "model.safetensors") for folder in (EMBEDDED / "dflash", work / "models/xpress")
    )
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
    assert after["xpress_head.w1.weight"].shape == (4096, 8)


def test_a_checkpoint_of_other_sizes_is_named(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "refiner", *words(work, "dflash"), "shape.rank=8"]) == 0
    assert cli.main(["train", "refiner", *words(work, "dflash"), "shape.rank=16"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "checkpoint.pt is of a model of other sizes" in error
    assert "use another --work" in error


def test_answers_that_another_drafter_reads_are_refused(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lessons = Lessons.load(work / "lessons.pt")
    lessons.check_fit((1, 4, 7, 10, 13), 192, Path("lessons.pt"))
    with pytest.raises(
        MisfitError, match=r"read at layers \[1, 4, 7, 10, 13\]; this drafter reads \[1, 4, 7, 10, 14\]"
    ):
        lessons.check_fit((1, 4, 7, 10, 14), 192, Path("lessons.pt"))  # as many layers, and the same width
    assert cli.main(["train", "refiner", *words(work, "xpress"), "refiner.draw.length=100000"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert f"the answers are {len(lessons.ids)} tokens in all, and a row takes 400016" in error
    assert "refiner.draw.length lower" in error


def test_the_step_that_start_takes_the_place_of_is_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "drafter", *words(tmp_path, "dflash")]) == 2
    assert "train drafter makes a drafter to start from, and start is" in capsys.readouterr().err


def test_blocks_wider_than_the_started_head_mixes_are_refused(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "refiner", *words(work, "xpress"), "refiner.draw.block_sizes=[8,24]"]) == 2
    assert "the xPress head mixes at most 16 slots, and blocks of 24 are asked for" in capsys.readouterr().err


def test_a_mask_that_the_target_has_no_row_for_is_refused(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = f"target.name={EMBEDDED / 'target'}"
    assert cli.main(["train", "drafter", "--work", str(work), target, "shape.mask_token_id=4096"]) == 2
    assert "the mask is token 4096, and" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"shape": tiny.SLIDING}, "sliding or causal layers"),
        ({"is_causal": True}, "sliding or causal layers"),
        ({"dflash2": tiny.DFLASH2}, r"convolutions \(DFlash 2\)"),
        ({"output_multiplier": 0.5}, "scaled or capped logits or embeddings"),
        ({"input_embedding_scale": 2.0}, "scaled or capped logits or embeddings"),
    ],
)
def test_what_training_does_not_compute_is_refused(tmp_path: Path, options: dict[str, Any], what: str) -> None:
    export_dflash(tiny.dflash(TARGET, **options).model, tmp_path)
    with pytest.raises(MisfitError, match=f"has {what}, which training does not compute"):
        started.find(str(tmp_path), TARGET)


def test_token_tables_are_taken_only_if_they_are_the_targets(tmp_path: Path) -> None:
    export_dflash(tiny.dflash(TARGET).model, tmp_path)
    assert started.find(str(tmp_path), TARGET) == tmp_path
    tensors = load_file(tmp_path / "model.safetensors")
    table = TARGET.model.get_input_embeddings().weight.detach().clone()
    save_file(tensors | {"embed_tokens.weight": table}, tmp_path / "model.safetensors")
    assert started.find(str(tmp_path), TARGET) == tmp_path
    save_file(tensors | {"embed_tokens.weight": table + 1}, tmp_path / "model.safetensors")
    with pytest.raises(MisfitError, match="token tables that are not the target's"):
        started.find(str(tmp_path), TARGET)


def test_another_targets_drafter_is_refused(tmp_path: Path) -> None:
    export_dflash(tiny.dflash(TARGET).model, tmp_path)
    with pytest.raises(MisfitError, match="number of target layers is 3, but target 'tiny' has 4"):
        started.find(str(tmp_path), tiny.qwen3(layers=4))


def test_the_head_is_read_where_there_is_one(tmp_path: Path) -> None:
    model, head = tiny.dflash(TARGET).model, tiny.head(tiny.VOCAB, 8)
    export_dflash(model, tmp_path / "alone")
    export_xpress(model, head, tmp_path / "both")
    assert started.head(tmp_path / "alone") is None
    found = started.head(tmp_path / "both")
    assert found is not None
    assert found.config == head.config
    assert torch.equal(found.w1.weight, head.w1.weight.bfloat16().float())
