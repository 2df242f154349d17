"""The whole recipe on crumbs: every step runs, leaves what the next one needs, and what it makes runs in the tool."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from xpress_bench import cli
from xpress_bench.config import overridden
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.train import recipe
from xpress_bench.train.recipe import Recipe

CRUMBS = [
    "vocab_size=400", "tokenizer_tasks=50", "task_tokens=20000",
    "pretrain.minutes=0.002", "pretrain.context=512", "pretrain.shape.layers=4", "pretrain.shape.hidden_size=32",
    "pretrain.shape.intermediate_size=48", "pretrain.shape.heads=2", "pretrain.shape.head_dim=16",
    "pretrain.phases=[{until:0.5,rows:2,length:32,accumulate:2},{until:1.0,rows:1,length:64,accumulate:1}]",
    "answers.answers=30", "answers.max_prompt=490", "answers.max_new_tokens=16", "answers.long=0.0",
    "shape.rank=8", "shape.mlp_hidden=8",
    "drafter.minutes=0.002", "refiner.minutes=0.002", "markov.minutes=0.002", "draft_model.minutes=0.002",
    "drafter.draw.length=64", "refiner.draw.length=64", "markov.draw.length=64", "draft_model.length=64",
    "drafter.draw.anchors=8", "refiner.draw.anchors=8", "markov.draw.anchors=8",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling takes longer than these trainings."""
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    monkeypatch.setattr(torch.nn.Module, "compile", lambda module, **options: None)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work")
    texts = folder / "corpus" / "text"
    texts.mkdir(parents=True)
    text = "The ferry left the harbour at noon, and the wind was cold. Nobody on the deck said a word about it. " * 30
    documents = [{"id": f"crumb/{i}", "source": "crumb", "licence": "Apache-2.0", "text": text} for i in range(5)]
    (texts / "crumb.jsonl").write_text("\n".join(map(json.dumps, documents)))
    return folder


def test_every_step_leaves_what_the_next_one_needs(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for step in cli.TRAIN_STEPS[1:-1]:  # without the network, and one by one
        assert cli.main(["train", step, "--work", str(work), *CRUMBS]) == 0
    made = work / "models"
    names = {"target", "dflash_alone", "dflash", "xpress", "markov", "draft_model"}
    assert {folder.name for folder in made.iterdir()} == names
    backbones = [load_file(made / name / "model.safetensors") for name in ("dflash", "xpress", "markov")]
    for name, tensor in backbones[0].items():  # both heads refine the drafts of the same drafter
        assert all(torch.equal(tensor, other[name]) for other in backbones[1:])
    for name in ("target", "drafter", "refiner", "markov", "draft_model"):
        assert (work / name / "losses.jsonl").read_text().strip()
        assert (work / name / "recipe.json").exists()
    prompts = work / "prompts.jsonl"
    prompts.write_text('{"prompt": "What is 3 + 4?"}\n{"prompt": "Name the capital of Peru."}\n')
    quick = ["--suite", str(prompts), "--target", str(made / "target"), "--out", str(work / "runs")]
    rest = ["seeds=[0]", "memory=false", "max_new_tokens=12", "dtype=float64"]
    for drafter in ("xpress", "markov", "draft_model"):
        capsys.readouterr()
        assert cli.main([*quick, "--drafter", str(made / drafter), *rest]) == 0
        assert "2/2" in capsys.readouterr().out


def test_another_target_needs_no_step_that_makes_one(tmp_path: Path) -> None:
    other = overridden(Recipe(), ["target.name=some/model"])
    with pytest.raises(UsageError, match=r"makes a target of our own, and target\.name is 'some/model'"):
        recipe.run("tokenizer", tmp_path, other)


def test_a_step_without_its_forerunner_says_which(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="run `xpress-bench train tokenizer` with the same --work first"):
        recipe.run("target", tmp_path, Recipe())


def test_training_text_that_holds_a_suite_item_is_refused() -> None:
    words = [f"word{i}" for i in range(40)]
    recipe.refuse_overlap([" ".join(words[:12] + words[13:])], [" ".join(words[1:25])])  # runs of 12 at most
    with pytest.raises(MisfitError, match=r"1 runs of 13 words.*'word0 word1"):
        recipe.refuse_overlap([" ".join(words)], [" ".join(words[:13])])


def test_the_command_line_lists_the_recipes_steps() -> None:
    assert (*recipe.STEPS, "all") == cli.TRAIN_STEPS
    assert all(f"\n  {name} " in cli.TRAIN_EPILOG for name in cli.TRAIN_STEPS)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("drafter.minutes=soon", "drafter.minutes is 'soon': give a number"),
        ("drafter.minuts=3", "did you mean drafter.minutes"),
        ("drafter.draw.block_sizes=[4]", "drafter.draw.block_sizes is [4]: give a list like the default"),
        ("shape.layers=2.5", "shape.layers is 2.5: give a whole number"),
        ("pretrain.phases=[1]", "pretrain.phases.0 is 1"),
        ("target=mine", "its name is set with target.name=mine"),
    ],
)
def test_a_wrong_setting_is_one_line(word: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "drafter", word]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_settings_are_overridden_by_their_keys_and_nothing_else_changes() -> None:
    found = overridden(Recipe(), ["drafter.minutes=5", "shape.mask_token_id=7"])
    assert found.shape.mask_token_id == 7
    assert replace(found, shape=Recipe().shape, drafter=replace(found.drafter, minutes=12.0)) == Recipe()
