"""The recipe that made the embedded models, step by step and resumable; the later steps serve any other target too.

Each step reads what the ones before it left in the work folder. Training steps stop by the clock and go on from their
checkpoints. Made models lie under `models/` in the work folder, in the public formats of their kinds.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from xpress_bench.checkpoints import dflash
from xpress_bench.drafters.block_diffusion import BlockDiffusionModel
from xpress_bench.errors import MisfitError, UsageError
from xpress_bench.settings import TargetSettings
from xpress_bench.suites import folder as suites_folder
from xpress_bench.targets import hf
from xpress_bench.train import corpus, limits, started
from xpress_bench.train.data import Stream, prose_stream, task_stream
from xpress_bench.train.distil import AnswerRecipe, Lessons, answer_all, asked, given, prompts, teach
from xpress_bench.train.draft_model import DraftModelRecipe, train_draft_model
from xpress_bench.train.drafter import (
    DrafterRecipe,
    Losses,
    drafter_losses,
    markov_losses,
    train_blocks,
    xpress_losses,
)
from xpress_bench.train.export import export_dflash, export_draft_model, export_markov, export_target, export_xpress
from xpress_bench.train.fresh import Shape, Tables, mask_id, new_drafter, new_markov, new_xpress, taps_of
from xpress_bench.train.progressive import Rates
from xpress_bench.train.target import TargetRecipe, train_target
from xpress_bench.train.tasks import sample
from xpress_bench.train.tokenizer import load_tokenizer, train_tokenizer
from xpress_bench.train.watching import draw_curves, watch

OWN = "own"  # the target that this recipe trains itself
ALONE = "dflash_alone"  # the drafter before it is trained on together with a head
LATER = Rates(muon_lr=0.01, adam_lr=2e-3, weight_decay=0.05, decay_from=0.2)  # for a drafter that is trained already
KEPT_FOR_SUITES = ("sqlite", "factbook")  # documents that suite items are made of are no training text


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that can be set, by its key: `drafter.minutes=5`. `target.name` is own, a hub id or a folder.

    `start`, a hub id or folder: a drafter trained already, which `refiner` takes instead of one from `train drafter`,
    with its xPress head if it has one; the answers are kept as it reads them. The command line resolves `device=auto`
    and refuses a device that is not here before a step begins.
    """

    target: TargetSettings = field(default_factory=lambda: TargetSettings(OWN))
    start: str | None = None
    device: str = "auto"
    vocab_size: int = 4096
    tokenizer_tasks: int = 40_000
    task_tokens: int = 30_000_000
    pretrain: TargetRecipe = field(default_factory=TargetRecipe)
    answers: AnswerRecipe = field(default_factory=AnswerRecipe)
    shape: Shape = field(default_factory=Shape)
    drafter: DrafterRecipe = field(default_factory=lambda: DrafterRecipe(minutes=12))
    refiner: DrafterRecipe = field(default_factory=lambda: DrafterRecipe(minutes=60, rates=LATER))
    markov: DrafterRecipe = field(default_factory=lambda: DrafterRecipe(minutes=4))
    draft_model: DraftModelRecipe = field(default_factory=DraftModelRecipe)


def run(step: str, work: Path, recipe: Recipe) -> None:
    """Run the named step, or `all` of them in order, without those that make what is there already."""
    limits.check(recipe)
    needless = {}
    if recipe.target.name != OWN:
        needless = dict.fromkeys(MAKE_TARGET, f"makes a target of our own, and target.name is {recipe.target.name!r}")
    if recipe.start is not None:
        needless["drafter"] = f"makes a drafter to start from, and start is {recipe.start!r}"
    if step in needless:
        raise UsageError(f"train {step} {needless[step]}")
    for name in [name for name in STEPS if name not in needless] if step == "all" else [step]:
        print(f"train {name}: {STEPS[name][1]}", file=sys.stderr, flush=True)
        STEPS[name][0](work, recipe)


def make_data(work: Path, recipe: Recipe) -> None:
    manifest = json.loads((suites_folder() / "MANIFEST.json").read_text(encoding="utf-8"))
    exclude = {name for suite in manifest.values() for name in suite.get("held_out_countries", ())}
    corpus.build(work / "corpus", frozenset(exclude))
    refuse_overlap(_prose(work), [text for item in _suite_items() for text in (item["prompt"], *item["references"])])


def refuse_overlap(texts: list[str], evaluated: list[str]) -> None:
    """MisfitError if a run of 13 words of an evaluation item stands in the training text."""
    shared = corpus.shared_ngrams(texts, evaluated)
    if shared:
        example = " ".join(min(shared))
        raise MisfitError(
            f"{len(shared)} runs of 13 words stand in the training text and in a suite item, e.g. {example!r}: "
            "leave their documents out of the corpus"
        )


def make_tokenizer(work: Path, recipe: Recipe) -> None:
    rng = random.Random(5)
    examples = (sample(rng, "train") for _ in range(recipe.tokenizer_tasks))
    texts = [text[:6000] for text in _prose(work)] + [f"{one.prompt}\n{one.answer}" for one in examples]
    train_tokenizer(texts, recipe.vocab_size).save_pretrained(work / "tokenizer")


def make_target(work: Path, recipe: Recipe) -> None:
    tokenizer = load_tokenizer(_made(work / "tokenizer", "tokenizer"))
    streams = {
        "tasks": _kept(work / "tasks.npz", lambda: task_stream(tokenizer, recipe.task_tokens, seed=1)),
        "prose": _kept(work / "prose.npz", lambda: prose_stream(tokenizer, _prose(work))),
    }
    model = train_target(tokenizer, streams, recipe.pretrain, work / "target", torch.device(recipe.device))
    export_target(model, tokenizer, work / "models" / "target")
    _close(work / "target", recipe.pretrain)


def make_answers(work: Path, recipe: Recipe) -> None:
    target, tokenizer = _target(work, recipe)
    taps = taps_of(target.layers)
    if recipe.start is not None:
        taps = dflash.read_config(started.find(recipe.start, target)).target_layer_ids
    _check_context(recipe.answers, target)
    excluded = frozenset(asked(item["prompt"]) for item in _suite_items())
    prose = _prose(work)
    wanted = prompts(tokenizer, prose, recipe.answers, excluded)
    answers = given(tokenizer, prose, recipe.answers)
    done = 0
    with watch("train answers", len(wanted)) as show:
        for batch in answer_all(target.model, tokenizer, wanted, recipe.answers):
            answers += batch
            done += len(batch)
            show(done, f"{done} of {len(wanted)}")
    teach(target.model, [answer for answer in answers if answer.answer], taps).save(work / "lessons.pt")


def _check_context(answers: AnswerRecipe, target: Any) -> None:
    """UsageError if the longest prompt and its answer are more than the target was made for."""
    room = target.context - answers.max_new_tokens
    if answers.max_prompt > room:
        raise UsageError(
            f"answers.max_prompt={answers.max_prompt} and answers.max_new_tokens={answers.max_new_tokens} are more "
            f"than the context of {target.name}, {target.context} tokens: set answers.max_prompt={max(room, 1)} or less"
        )


def make_drafter(work: Path, recipe: Recipe) -> None:
    target, tokenizer = _target(work, recipe)
    mask = mask_id(tokenizer, recipe.shape)
    if mask >= target.vocab_size:
        raise UsageError(
            f"the mask is token {mask}, and {target.name} has {target.vocab_size}: set shape.mask_token_id to the id "
            "of a token that text never uses"
        )
    drafter = new_drafter(target.model.config, recipe.shape, mask)
    _train(work, recipe, "drafter", _tables(target), drafter, None, drafter_losses)
    export_dflash(drafter, work / "models" / ALONE)


def make_refiner(work: Path, recipe: Recipe) -> None:
    """Head and drafter together, from a drafter trained already. `dflash` is the drafter that the head belongs to."""
    target, _ = _target(work, recipe)
    tables = _tables(target)
    folder = _made(work / "models" / ALONE, "drafter") if recipe.start is None else started.find(recipe.start, target)
    drafter = started.drafter(folder)
    trained = started.head(folder)
    head = trained or new_xpress(drafter, recipe.shape, tables)
    widest = max(drafter.config.block_size, *recipe.refiner.draw.block_sizes)
    if widest > head.config.block_size:
        raise UsageError(
            f"the xPress head mixes at most {head.config.block_size} slots, and blocks of {widest} are asked for: "
            f"set {'refiner.draw.block_sizes lower' if trained else f'shape.largest_block={widest}'}"
        )
    _train(work, recipe, "refiner", tables, drafter, head, xpress_losses(head, recipe.refiner))
    export_dflash(drafter, work / "models" / "dflash")
    export_xpress(drafter, head, work / "models" / "xpress")


def make_markov(work: Path, recipe: Recipe) -> None:
    """A Markov head beside the drafter that xPress was trained with: both refine the same drafts."""
    tables = _tables(_target(work, recipe)[0])
    drafter = started.drafter(_made(work / "models" / "dflash", "refiner")).requires_grad_(False)
    head = new_markov(drafter, recipe.shape, tables)
    _train(work, recipe, "markov", tables, drafter, head, markov_losses(head))
    export_markov(drafter, head, work / "models" / "markov")


def make_draft_model(work: Path, recipe: Recipe) -> None:
    target, tokenizer = _target(work, recipe)
    file = _made(work / "lessons.pt", "answers")
    lessons = Lessons.load(file)
    lessons.check_fit(None, target.hidden_size, file)
    lessons.check_length(recipe.draft_model.length + 1, "draft_model")
    draft = train_draft_model(target.model, _tables(target), lessons, recipe.draft_model, work / "draft_model")
    export_draft_model(draft, tokenizer, work / "models" / "draft_model")
    _close(work / "draft_model", recipe.draft_model)


def _train(
    work: Path,
    recipe: Recipe,
    name: str,
    tables: Tables,
    drafter: BlockDiffusionModel,
    head: nn.Module | None,
    losses: Losses,
) -> None:
    settings: DrafterRecipe = getattr(recipe, name)
    file = _made(work / "lessons.pt", "answers")
    lessons = Lessons.load(file)
    lessons.check_fit(drafter.config.target_layer_ids, drafter.config.qwen3.hidden_size, file)
    lessons.check_length(settings.draw.tokens, f"{name}.draw")
    train_blocks(drafter, head, losses, tables, lessons, settings, work / name)
    _close(work / name, settings)


def _target(work: Path, recipe: Recipe) -> tuple[Any, Any]:
    """The frozen target in float32, on its device, and its tokenizer."""
    from xpress_bench.parts import load_tokenizer as any_tokenizer

    settings = recipe.target
    if settings.name == OWN:
        folder = _made(work / "models" / "target", "target")
        settings = TargetSettings(str(folder))
    return hf.load(settings, recipe.device, "float32"), any_tokenizer(settings)


def _tables(target: Any) -> Tables:
    model = target.model
    return Tables(model.get_input_embeddings().weight.detach(), model.get_output_embeddings().weight.detach())


def _prose(work: Path) -> list[str]:
    folder = _made(work / "corpus", "data")
    return [document["text"] for document in corpus.read(folder) if document["source"] not in KEPT_FOR_SUITES]


def _suite_items() -> list[dict[str, Any]]:
    texts = [file.read_text(encoding="utf-8") for file in sorted(suites_folder().glob("*.jsonl"))]
    return [json.loads(line) for text in texts for line in text.split("\n") if line]


def _kept(file: Path, make: Callable[[], Stream]) -> Stream:
    if not file.exists():
        make().save(file)
    return Stream.load(file)


def _made(path: Path, step: str) -> Path:
    if not path.exists():
        raise UsageError(f"{path} is not there yet: run `xpress-bench train {step}` with the same --work first")
    return path


def _close(folder: Path, recipe: Any) -> None:
    """What a training leaves behind: its settings and its curve."""
    (folder / "recipe.json").write_text(json.dumps(asdict(recipe), indent=1), encoding="utf-8")
    draw_curves(folder)


MAKE_TARGET = ("tokenizer", "target")
# In the order of `all`; the command line's help repeats the names, so that it needs no torch.
STEPS: dict[str, tuple[Callable[[Path, Recipe], None], str]] = {
    "data": (make_data, "fetch licence-clean prose"),
    "tokenizer": (make_tokenizer, "byte-level BPE over prose and tasks"),
    "target": (make_target, "a small Qwen3 from scratch, on tasks and prose"),
    "answers": (make_answers, "what the target says to train-split prompts, and what it saw while saying it"),
    "drafter": (make_drafter, "DFlash drafter against the frozen target"),
    "refiner": (make_refiner, "xPress head together with that drafter"),
    "markov": (make_markov, "Markov head beside the same drafter, for comparison"),
    "draft_model": (make_draft_model, "small autoregressive draft model"),
}
