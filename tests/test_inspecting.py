"""`inspect`: what a checkpoint is and whether it fits, from configs and headers alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from xpress_bench.checkpoints import files
from xpress_bench.drafters.block_diffusion import EMBEDDED
from xpress_bench.errors import UsageError
from xpress_bench.inspecting import inspect

FOLDER = EMBEDDED.parent
TARGET = FOLDER / "target"
Capture = pytest.CaptureFixture[str]


def said(capsys: Capture, *words: str) -> tuple[int, list[tuple[str, str]]]:
    """The exit code and the labelled lines under the name of the folder."""
    status = inspect(list(words))
    _, *lines = capsys.readouterr().out.splitlines()
    return status, [(line[2:14].rstrip(), line[14:]) for line in lines]


def changed(folder: Path, where: Path, **keys: Any) -> Path:
    """A copy of a folder with other keys in its config."""
    shutil.copytree(folder, where)
    config = json.loads((folder / "config.json").read_text())
    (where / "config.json").write_text(json.dumps(config | keys))
    return where


def test_an_embedded_checkpoint_in_full(capsys: Capture) -> None:
    status, lines = said(capsys, str(FOLDER / "xpress"), "--target", "embedded")
    assert status == 0
    assert lines == [
        ("checkpoint", "Qwen3XPressModel, format uiuc"),
        ("method", "dflash with xpress"),
        ("layout", "fill_in: slot k predicts position s + k, the anchor is slot 0; 7 drafts in a block of 8"),
        ("network", "2 layers, hidden size 192"),
        ("taps", "outputs of target layers 1, 4, 7, 10, 13, counted from 0"),
        ("vocabulary", "4096 ids, mask id 3"),
        ("needs", "a target of 16 layers, hidden size 192, 4096 ids"),
        ("head", "xpress: rank 128, mlp_hidden 512, block_size 16, passes 4"),
        # Drafter: fc 5 * 192 * 192; 2 layers of q and o 192 * 192, k and v 64 * 192, MLP 3 * 192 * 512, norms 2 * 192
        # and 2 * 64; 2 norms of 192. Head: w1 and w2 4096 * 128, down_h and down_g 128 * 192, in_proj 128 * 384,
        # mixer 128 * 16 * 16, MLP 3 * 128 * 512.
        ("weights", f"{972_160 + 128 * (2 * 4096 + 2 * 192 + 384 + 256 + 3 * 512):,} parameters, BF16, 4.5 MiB"),
        ("fits", "target embedded"),
    ]


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("dflash", "dflash"),
        ("markov", "dflash with markov"),
        ("draft_model", "draft_model: a whole model, as drafter or as target"),
    ],
)
def test_the_other_embedded_checkpoints_fit_the_embedded_target(capsys: Capture, name: str, method: str) -> None:
    status, lines = said(capsys, str(FOLDER / name), "--target", "embedded")
    assert status == 0
    assert dict(lines)["method"] == method
    assert lines[-1] == ("fits", "target embedded")


def test_the_shift_layout_and_a_reduced_vocabulary_are_told(capsys: Capture, tmp_path: Path) -> None:
    nested = json.loads((FOLDER / "dflash" / "config.json").read_text())
    del nested["num_target_layers"]
    own = {
        "speculators_model_type": "dflash",
        "transformer_layer_config": nested,
        "draft_vocab_size": 1000,
        "block_size": 7,
        "aux_hidden_state_layer_ids": [2, 8],
        "mask_token_id": 5,
        "sample_from_anchor": True,
    }
    shutil.copytree(FOLDER / "dflash", tmp_path / "theirs")
    (tmp_path / "theirs" / "config.json").write_text(json.dumps(own))
    status, lines = said(capsys, str(tmp_path / "theirs"))
    told = dict(lines)
    assert status == 0
    assert told["checkpoint"] == "dflash, format speculators"
    assert told["layout"] == "shift: slot k predicts position s + k + 1; 7 drafts in a block of 7"
    assert told["taps"] == "outputs of target layers 1, 7, counted from 0"
    assert told["vocabulary"] == "4096 ids, 1000 of them drafted, mask id 5"
    assert "at least 8 layers" in told["needs"]


class Headers:
    """Of a file of tensors, what needs no tensor."""

    def __init__(self, file: Path, framework: str) -> None:
        self.opened = safe_open(file, framework=framework)
        self.keys, self.get_slice = self.opened.keys, self.opened.get_slice

    def __enter__(self) -> Headers:
        return self

    def __exit__(self, *_: object) -> None:
        """The file is closed with its reader."""


def test_no_weights_are_read(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the target there is a config and nothing else."""
    shutil.copy(TARGET / "config.json", tmp_path)
    monkeypatch.setattr(files, "safe_open", Headers)
    with pytest.raises(AttributeError, match="get_tensor"):
        files.read_tensors(EMBEDDED, lambda name: True)
    status, lines = said(capsys, str(FOLDER / "xpress"), "--target", str(tmp_path))
    assert status == 0
    assert lines[-1] == ("fits", f"target {tmp_path}")


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"hidden_size": 256, "head_dim": 64}, "hidden size is 192, but"),
        ({"vocab_size": 5000}, "vocabulary is 4096, but"),
        ({"num_hidden_layers": 12, "layer_types": None}, "number of target layers is 16, but"),
    ],
)
def test_a_target_that_does_not_fit_is_1_and_a_line_for_each_part(
    capsys: Capture, tmp_path: Path, keys: dict[str, Any], why: str
) -> None:
    other = changed(TARGET, tmp_path / "other", **keys)
    status, lines = said(capsys, str(FOLDER / "xpress"), "--target", str(other))
    problems = [text for label, text in lines if label == "no fit"]
    assert status == 1
    assert why in problems[0]
    assert len(problems) == (1 if "num_hidden_layers" in keys else 2)  # the head has sizes of its own
    assert "fits" not in dict(lines)


@pytest.mark.parametrize(
    ("nested", "why"),
    [({"target_layer_ids": [1, 16]}, "taps layer 16"), ({"mask_token_id": 4096}, "mask token id 4096 is outside")],
)
def test_taps_and_the_mask_id_must_be_the_targets(
    capsys: Capture, tmp_path: Path, nested: dict[str, Any], why: str
) -> None:
    own = json.loads((EMBEDDED / "config.json").read_text())["dflash_config"]
    folder = changed(EMBEDDED, tmp_path / "drafter", dflash_config=own | nested)
    status, lines = said(capsys, str(folder), "--target", "embedded")
    assert status == 1
    assert why in dict(lines)["no fit"]


def test_a_whole_model_fits_if_its_tokenizer_is_the_targets(capsys: Capture, tmp_path: Path) -> None:
    folder = changed(FOLDER / "draft_model", tmp_path / "other")
    text = (folder / "tokenizer.json").read_text(encoding="utf-8")
    body = json.loads(text)
    vocabulary = body["model"]["vocab"]
    one, other = sorted(vocabulary, key=vocabulary.__getitem__)[300:302]
    vocabulary[one], vocabulary[other] = vocabulary[other], vocabulary[one]
    (folder / "tokenizer.json").write_text(json.dumps(body), encoding="utf-8")
    status, lines = said(capsys, str(folder), "--target", "embedded")
    assert status == 1
    assert "different tokenizers" in dict(lines)["no fit"]


def no_config(where: Path) -> Path:
    where.mkdir()
    return where


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (lambda where: [str(where / "gone")], "no such folder"),
        (lambda where: [str(no_config(where / "empty"))], "config.json: not found"),
        (
            lambda where: [str(changed(EMBEDDED, where / "a", architectures=["LlamaModel"]))],
            "no drafter this version reads",
        ),
        (lambda where: [str(EMBEDDED), "--target", "toy"], "target 'toy' has no config"),
        (lambda where: [str(EMBEDDED), "--target", "nosuch"], "target 'nosuch' is no folder"),
        (lambda where: [str(EMBEDDED), "--target", str(no_config(where / "t"))], "its config does not load"),
    ],
)
def test_bad_input_is_a_usage_error(tmp_path: Path, words: Callable[[Path], list[str]], why: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        inspect(words(tmp_path))
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
