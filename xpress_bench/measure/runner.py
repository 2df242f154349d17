"""A run from start to end: load, check, warm up, measure every arm interleaved, judge differences, write it down."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from xpress_bench.errors import RunError, UsageError
from xpress_bench.measure import machine
from xpress_bench.measure.clock import clock_for
from xpress_bench.measure.journal import Journal, new_run_folder
from xpress_bench.measure.memory import measure_arms
from xpress_bench.measure.prompts import Prompt, prepare
from xpress_bench.measure.replay import replay
from xpress_bench.measure.requests import Requests
from xpress_bench.measure.schedule import Slot, schedule
from xpress_bench.parts import Parts, assemble
from xpress_bench.records import JOURNAL, Cell, Footer, Header, Memory, Skipped, read_run
from xpress_bench.settings import Settings
from xpress_bench.suites import Suite, load_suite

SETTINGS = "settings.json"  # beside the journal: what the child processes of a run read
Progress = Callable[[int, int, str], None]  # cells done, cells in all, what comes next


def run(settings: Settings, argv: Sequence[str], progress: Progress) -> Path:
    """Run everything `settings` ask for. Returns the run's folder. Raises UsageError before anything is measured."""
    suite = load_suite(settings.suite)
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    folder = new_run_folder(Path(settings.out), f"{stamp}-{suite.name}-{settings.sha256()[:4]}")
    (folder / SETTINGS).write_text(settings.to_json(), encoding="utf-8")
    started = time.monotonic()
    complete = False
    try:
        if settings.launches == 1:
            launch(settings, folder, 0, argv, progress)
        else:
            for index in range(settings.launches):
                _launch_process(folder, index, argv)
        if settings.memory:
            progress(0, 0, "peak memory, one fresh process per arm")
            _append_memory(settings, folder)
        complete = True
    finally:
        _close(folder, complete, time.monotonic() - started)
    return folder


def launch(settings: Settings, folder: Path, index: int, argv: Sequence[str], progress: Progress) -> None:
    """One process launch: every arm over the suite once per seed and repeat. Launch 0 writes the journal's header."""
    suite = load_suite(settings.suite)
    progress(0, 0, "loading models")
    parts = assemble(settings)
    prompts, skipped = prepare(
        suite,
        suite.draw(settings.limit),
        parts.tokenizer,
        settings.target,
        parts.target.context,
        settings.max_new_tokens,
    )
    if not prompts:
        raise UsageError(f"suite {suite.name}: no prompt fits the target; first reason: {skipped[0].reason}")
    requests = Requests(parts.target, parts.tokenizer, parts.arms, prompts, clock_for(settings.device))
    with Journal(folder) as journal:
        if index == 0:
            journal.write(header(settings, suite, parts, prompts, skipped, argv, folder.name))
        progress(0, 0, "warming up")
        warm_up(requests, settings)
        cells = _measure(requests, settings, index, journal, progress)
        for judged in _judge(requests, cells):
            journal.write(judged)


def warm_up(requests: Requests, settings: Settings) -> None:
    """Untimed requests, so that every stage of every arm has seen the shapes to come: shortest and longest prompt."""
    by_length = sorted(requests.prompts.values(), key=lambda prompt: len(prompt.ids))
    for condition in settings.conditions():
        for prompt in (by_length[0], by_length[-1]):
            for _ in range(settings.warmup):
                for arm in requests.arms:
                    requests.run(Slot(condition, prompt.item.id, settings.seeds[0], 0, arm, 0), launch=-1)


def _measure(requests: Requests, settings: Settings, index: int, journal: Journal, progress: Progress) -> list[Cell]:
    slots = list(
        schedule(
            list(requests.arms), settings.conditions(), list(requests.prompts), settings.seeds, settings.repeats, index
        )
    )
    cells = []
    for done, slot in enumerate(slots):
        progress(done, len(slots), f"{slot.arm} {slot.prompt}")
        cell = requests.run(slot, index)
        journal.write(cell)
        cells.append(cell)
    progress(len(slots), len(slots), "")
    return cells


def _judge(requests: Requests, cells: list[Cell]) -> list[Any]:
    """A replay for every (condition, prompt, seed, arm) whose ids differ from direct generation's."""
    own = {
        (cell.condition, cell.prompt, cell.seed): cell
        for cell in reversed(cells)
        if cell.arm == "direct" and not cell.error
    }
    judged = {}
    for cell in cells:
        direct = own.get((cell.condition, cell.prompt, cell.seed))
        key = (cell.condition, cell.prompt, cell.seed, cell.arm)
        if (
            direct is None
            or cell.error
            or cell.ids == direct.ids
            or cell.condition.verifier == "rejection"
            or key in judged
        ):
            continue
        slot = Slot(cell.condition, cell.prompt, cell.seed, 0, "direct", 0)
        judged[key] = replay(requests.target, requests.prompts[cell.prompt].ids, direct, cell, requests.sampling(slot))
    return list(judged.values())


def header(
    settings: Settings,
    suite: Suite,
    parts: Parts,
    prompts: Sequence[Prompt],
    skipped: Sequence[Skipped],
    argv: Sequence[str],
    name: str,
) -> Header:
    """Everything needed to know what was run, on what, with which code."""
    threads = torch.get_num_threads()
    return Header(
        run=name,
        created_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        argv=tuple(argv),
        settings=asdict(settings) | {"threads": threads},
        settings_sha256=settings.sha256(),
        suite={
            "name": suite.name,
            "version": suite.version,
            "sha256": suite.sha256,
            "items": len(suite.items),
            "selected": len(prompts),
            "parity_margin": suite.parity_margin,
            "scorers": suite.scorers,
        },
        target=_target(settings, parts),
        arms=tuple(planned.arm for planned in parts.arms),
        conditions=settings.conditions(),
        prompts=tuple(prompt.item.id for prompt in prompts),
        skipped=tuple(skipped),
        versions=machine.versions(),
        git=machine.git_state(),
        machine=machine.fingerprint(settings.device, threads) | {"before": machine.conditions(settings.device)},
        profile=settings.profile,
        in_process=settings.launches == 1,
    )


def _target(settings: Settings, parts: Parts) -> dict[str, Any]:
    target, model = parts.target, getattr(parts.target, "model", None)
    return {
        "name": target.name,
        "parameters": sum(weight.numel() for weight in model.parameters()) if model is not None else None,
        "dtype": settings.dtype,
        "device": settings.device,
        "context": target.context,
        "vocab_size": target.vocab_size,
        "stop_ids": list(target.stop_ids),
        "weights_sha256": _weights_hash(model),
        "tokenizer_sha256": _tokenizer_hash(parts.tokenizer),
        "attention": getattr(getattr(model, "config", None), "_attn_implementation", None),
    }


def _weights_hash(model: Any) -> str | None:
    """Hash of the loaded parameters themselves, so that it holds for files, GGUF and hub alike."""
    if model is None:
        return None
    digest = sha256()
    for name, weight in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(weight.detach().contiguous().view(torch.uint8).cpu().numpy().tobytes())
    return digest.hexdigest()


def _tokenizer_hash(tokenizer: Any) -> str:
    vocabulary = sorted(tokenizer.get_vocab().items())
    return sha256(repr((vocabulary, tokenizer.chat_template)).encode()).hexdigest()


def run_one_arm(settings_file: Path, arm: str) -> None:
    """What the memory pass's fresh process does: load one arm and run it once over the longest prompt."""
    settings = Settings.from_json(settings_file.read_text(encoding="utf-8"))
    suite = load_suite(settings.suite)
    parts = assemble(settings, only=arm)
    context = parts.target.context
    prompts, _ = prepare(
        suite, suite.draw(settings.limit), parts.tokenizer, settings.target, context, settings.max_new_tokens
    )
    requests = Requests(parts.target, parts.tokenizer, parts.arms, prompts, clock_for(settings.device))
    longest = max(prompts, key=lambda prompt: len(prompt.ids))
    cell = requests.run(Slot(settings.conditions()[0], longest.item.id, settings.seeds[0], 0, arm, 0), launch=-1)
    if cell.error:
        raise RunError(cell.error)


def _append_memory(settings: Settings, folder: Path) -> None:
    arms = [arm.name for arm in read_run(folder).header.arms]
    found: list[Memory] = measure_arms(folder / SETTINGS, arms)
    with Journal(folder) as journal:
        for memory in found:
            journal.write(memory)


def _launch_process(folder: Path, index: int, argv: Sequence[str]) -> None:
    command = [sys.executable, "-m", "xpress_bench.measure.launch", str(folder), str(index), *argv]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, encoding="utf-8", errors="replace")
    told = done.stdout.strip().rpartition("\n")[2]
    if done.returncode == UsageError.exit_code and told:
        raise UsageError(told)
    if done.returncode != 0:
        told = told or f"launch {index + 1} ended with status {done.returncode}"
        raise RunError(f"{told}; what was measured is in {folder}")


def _close(folder: Path, complete: bool, seconds: float) -> None:
    """The footer, if there is anything to close."""
    if not (folder / JOURNAL).stat().st_size:  # nothing was written: loading failed and has its own message
        _remove_empty(folder)
        return
    measured = read_run(folder)
    errors = sum(cell.error is not None for cell in measured.cells)
    with Journal(folder) as journal:
        journal.write(Footer(len(measured.cells), errors, complete, round(seconds, 3)))


def _remove_empty(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
