"""`xpress-bench train`: the recipe that made the embedded target, drafter and refiner, step by step and resumable.

    corpus     licence-clean prose from public packages
    tokenizer  byte-level BPE over prose and tasks
    streams    token arrays of both
    target     a small Qwen3 from scratch
    answers    what the target says to train-split prompts, and what it saw while saying it
    drafter    DFlash drafter and xPress head together, against the frozen target

Each step reads what the ones before it left in the work folder. Training steps resume from their checkpoints.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, Qwen3Config

from xpress_bench.checkpoints.dflash import BlockConfig
from xpress_bench.checkpoints.xpress import HeadConfig
from xpress_bench.drafters.block_diffusion import BlockDiffusionModel
from xpress_bench.errors import UsageError
from xpress_bench.refiners.xpress import XPressHead
from xpress_bench.suites import folder as suites_folder
from xpress_bench.train import corpus
from xpress_bench.train.data import Stream, prose_stream, task_stream
from xpress_bench.train.distil import AnswerRecipe, Lessons, answer_all, prompts, teach
from xpress_bench.train.drafter import DrafterRecipe, train_drafter
from xpress_bench.train.export import export_dflash, export_target, export_xpress
from xpress_bench.train.target import TargetRecipe, train_target
from xpress_bench.train.tasks import sample
from xpress_bench.train.tokenizer import load_tokenizer, train_tokenizer

VOCAB_SIZE = 4096
TASK_TOKENS = 20_000_000
KEPT_FOR_SUITES = ("sqlite", "factbook")  # documents that suite items are made of are no training text
TOKENIZER_TASKS = 40_000
TAPS = (1, 7, 13)
DRAFT_LAYERS = 2
RANK, MLP_HIDDEN, LARGEST_BLOCK, BLOCK_SIZE, PASSES = 64, 128, 16, 8, 4


def main(words: list[str]) -> int:
    """Run the named step, or `all` of them in order."""
    parser = argparse.ArgumentParser(
        prog="xpress-bench train", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("step", choices=[*STEPS, "all"])
    parser.add_argument("--work", type=Path, default=Path("train"), help="folder for everything made on the way")
    parser.add_argument("--target-minutes", type=float, default=TargetRecipe().minutes)
    parser.add_argument("--drafter-minutes", type=float, default=DrafterRecipe().minutes)
    parser.add_argument("--answers", type=int, default=AnswerRecipe().answers)
    options = parser.parse_args(words)
    for name in STEPS if options.step == "all" else [options.step]:
        print(f"train {name}: {STEPS[name][1]}", file=sys.stderr, flush=True)
        STEPS[name][0](options.work, options)
    return 0


def make_corpus(work: Path, options: Any) -> None:
    manifest = json.loads((suites_folder() / "MANIFEST.json").read_text(encoding="utf-8"))
    exclude = {name for suite in manifest.values() for name in suite.get("held_out_countries", ())}
    corpus.build(work / "corpus", frozenset(exclude))


def make_tokenizer(work: Path, options: Any) -> None:
    rng = random.Random(5)
    examples = (sample(rng, "train") for _ in range(TOKENIZER_TASKS))
    texts = [text[:6000] for text in _prose(work)] + [f"{one.prompt}\n{one.answer}" for one in examples]
    train_tokenizer(texts, VOCAB_SIZE).save_pretrained(work / "tokenizer")


def make_streams(work: Path, options: Any) -> None:
    tokenizer = load_tokenizer(_made(work / "tokenizer", "tokenizer"))
    prose_stream(tokenizer, _prose(work)).save(work / "prose.npz")
    task_stream(tokenizer, TASK_TOKENS, seed=1).save(work / "tasks.npz")


def make_target(work: Path, options: Any) -> None:
    tokenizer = load_tokenizer(_made(work / "tokenizer", "tokenizer"))
    streams = {name: Stream.load(_made(work / f"{name}.npz", "streams")) for name in ("tasks", "prose")}
    recipe = replace(TargetRecipe(), minutes=options.target_minutes)
    model = train_target(tokenizer, streams, recipe, work / "target")
    _note(work / "target", asdict(recipe))
    export_target(model, tokenizer, work / "embedded" / "target")


def make_answers(work: Path, options: Any) -> None:
    tokenizer, model = _target(work)
    recipe = replace(AnswerRecipe(), answers=options.answers)
    wanted = prompts(tokenizer, Stream.load(_made(work / "prose.npz", "streams")), recipe)
    answers = []
    for batch in answer_all(model, tokenizer, wanted, recipe):
        answers += batch
        print(f"train answers: {len(answers)}/{len(wanted)}", file=sys.stderr, flush=True)
    teach(model, [answer for answer in answers if answer.answer], TAPS).save(work / "lessons.pt")


def make_drafter(work: Path, options: Any) -> None:
    _, model = _target(work)
    drafter, head = new_drafter(model.config)
    recipe = replace(DrafterRecipe(), minutes=options.drafter_minutes)
    table = model.get_input_embeddings().weight.detach()
    train_drafter(drafter, head, table, Lessons.load(_made(work / "lessons.pt", "answers")), recipe, work / "drafter")
    _note(work / "drafter", asdict(recipe))
    export_dflash(drafter, work / "embedded" / "dflash")
    export_xpress(drafter, head, work / "embedded" / "xpress")


def new_drafter(target: Any) -> tuple[BlockDiffusionModel, XPressHead]:
    """A fresh drafter and head for the embedded target's config; the head starts small, as released ones did."""
    shape = {name: getattr(target, name) for name in (
        "vocab_size", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim",
        "max_position_embeddings", "rope_parameters",
    )}  # fmt: skip
    config = BlockConfig(
        qwen3=Qwen3Config(num_hidden_layers=DRAFT_LAYERS, tie_word_embeddings=False, **shape),
        block_size=BLOCK_SIZE,
        mask_token_id=3,
        target_layer_ids=TAPS,
        num_target_layers=target.num_hidden_layers,
    )
    head = XPressHead(HeadConfig(target.hidden_size, target.vocab_size, RANK, MLP_HIDDEN, LARGEST_BLOCK, PASSES))
    drafter = BlockDiffusionModel(config)
    for weight in [*head.parameters(), *drafter.parameters()]:
        if weight.ndim == 2:
            torch.nn.init.normal_(weight, std=0.02)
    return drafter, head


def _target(work: Path) -> tuple[Any, Any]:
    folder = _made(work / "embedded" / "target", "target")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, use_safetensors=True).eval()
    return load_tokenizer(folder), model


def _prose(work: Path) -> list[str]:
    folder = _made(work / "corpus", "corpus")
    return [document["text"] for document in corpus.read(folder) if document["source"] not in KEPT_FOR_SUITES]


def _made(path: Path, step: str) -> Path:
    if not path.exists():
        raise UsageError(f"{path} is not there yet: run `xpress-bench train {step}` with the same --work first")
    return path


def _note(folder: Path, recipe: dict[str, Any]) -> None:
    (folder / "recipe.json").write_text(json.dumps(recipe, indent=1), encoding="utf-8")


STEPS: dict[str, tuple[Callable[[Path, Any], None], str]] = {
    "corpus": (make_corpus, "fetch licence-clean prose"),
    "tokenizer": (make_tokenizer, "byte-level BPE"),
    "streams": (make_streams, "token arrays"),
    "target": (make_target, "language model from scratch"),
    "answers": (make_answers, "the target's own answers"),
    "drafter": (make_drafter, "drafter and refiner together"),
}
