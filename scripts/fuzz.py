#!/usr/bin/env python3
"""Mutated inputs against everything here that reads what strangers wrote: suites, journals, overrides, checkpoints.

    scripts/fuzz.py [--inputs N] [--seed S] [--minutes M]

An input is parsed, or refused by an XpressError of one printable line. Nothing else may happen, no input may take 5 s
of computing or allocate 2 GiB. Input K is made from S + K alone, so `--seed S+K --inputs 1` repeats it. Prints how many
inputs each parser took and refused, and every violation; exit status 1 if there is any.
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing
import os
import random
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

LIMIT_S = 5.0  # of computing: others may keep this machine busy
HANG_S = 60.0  # whatever it is waiting for
ARGUMENT_BYTES = 128 << 10  # no system hands over a longer one
LIMIT_BYTES = 2 << 30  # of address space, beyond what the imports take
STARTING_S = 120.0  # a new worker imports torch
MUTATIONS = (1, 1, 1, 2, 3)  # of one input: most have one, which gets past the first check

Outcome = tuple[str, str]  # parsed, refused or the kind of violation; what was said


# Examples that are parsed as they stand

SUITES = [
    b'{"id": "a", "prompt": "1 + 1?", "category": "sums", "references": ["2"], "answer_type": "exact"}\n'
    b'{"id": "b", "prompt": "Hello", "turns": ["Hello", "And?"], "lang": "de"}\n\n{"prompt": "c"}\n',
    b'{"question_id": 1, "category": "writing", "turns": ["Write.", "Again."]}\n',
    b'{"question": "How many?", "answer": "Two. #### 2"}\n{"question": "And now?", "answer": "#### 1,000"}\n',
    b'[{"question_id": "x", "category": "c", "sub_category": "s", "messages": [{"role": "user", "content": "Hi"}]}]',
    gzip.compress(b'{"prompt": "packed"}\n{"prompt": "again"}\n', mtime=0),
]
SUITE_SETTINGS = [
    b"output_budget: {sums: 7, all: 9}\nscorers: {sums: exact}\nparity_margin: 0.02\n"
    b"smoke:\n  - a\nturns: 2\nreport: {by: category}\n"
]
NAMES = [b"short", b"qa, long", b"hf:owner/name?config=main&split=test&prompt=q"]
OVERRIDES = [
    b"limit=3\nseeds=[0,1]\nverifiers=[coupled,rejection]\ntemperatures=[0,0.7]",
    b"drafter.path='ckpt/epoch=9.ckpt'\ndrafter.params.max_ngram=3\nrefiner.passes=4\nprofile=paper",
    b'target.name="a b"\nblock_size=8\ndtype=bfloat16\nmemory=false\nthreads=2\nout=runs',
]
RECIPES = [
    b"drafter.minutes=5\ndrafter.rates.muon_lr=0.01\nshape.layers=3\ntarget.name='own'",
    b"answers.answers=500\nvocab_size=4096\nrefiner.minutes=0.5\ndevice=cpu",
]
CONFIG = {  # of a drafter with both heads
    "architectures": ["Qwen3XPressModel"], "model_type": "qwen3", "vocab_size": 8, "hidden_size": 8,
    "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4,
    "hidden_act": "silu", "rms_norm_eps": 1e-06, "rope_theta": 100.0, "max_position_embeddings": 64,
    "layer_types": ["full_attention"], "block_size": 4, "num_target_layers": 2, "sample_from_anchor": False,
    "dflash_config": {"mask_token_id": 7, "target_layer_ids": [0, 1]}, "markov_rank": 2, "xpress_rank": 2,
    "xpress_mlp_hidden": 4, "xpress_block_size": 4, "xpress_num_passes": 2,
}  # fmt: skip


def journals() -> list[bytes]:
    """A small whole journal."""
    from xpress_bench import records
    from xpress_bench.journals import to_line

    greedy = records.Condition(0.0, "greedy")
    arms = records.Arm("direct", None, None, None, None, None), records.Arm("draft", "dflash", None, 8, 1, None)
    settings = {"suite": "qa", "seeds": [0], "repeats": 1, "launches": 1, "threads": 1}
    settings |= {part: {"name": "toy"} for part in ("target", "drafter", "refiner")}
    target = {"name": "toy", "dtype": "float64", "device": "cpu"}
    suite = {"name": "qa", "sha256": "0", "items": 1, "selected": 1}
    header = records.Header(
        "r", "2026-01-31T12:00:00Z", ("--suite", "qa"), settings, "0", suite, target, arms, (greedy,), ("p",),
        (records.Skipped("s", "too long", 9),), {"torch": None}, {}, {}, "quick", True,
    )  # fmt: skip
    steps = records.Steps((2, 1), (1, 1), (2, 1), ((4, 5), (6,)), (), (0.1, 0.2), (0.0, 0.0), (0.3, 0.4), (1, 1))
    cells = [
        records.Cell(0, "p", 0, "direct", 0, 0, greedy, 3, "h", (4, 5, 6), "x", "length", 1.5, 0.5, 0.5),
        records.Cell(0, "p", 0, "draft", 0, 1, greedy, 3, "h", (4, 5, 6), "x", "length", 1.0, 0.5, 0.5, 0.1, steps),
        records.Cell(0, "q", 0, "draft", 0, 0, greedy, 3, "h", error="out of memory"),
    ]
    others = [
        records.Memory("draft", "process_peak_rss", 7),
        records.Replay("p", 0, "draft", greedy, 1, 5, 4, 0.5, 0.1, "real"),
        records.Footer(3, 1, True, 3.5),
    ]
    return ["".join(to_line(one) + "\n" for one in (header, *cells, *others)).encode()]


def weights() -> list[bytes]:
    """A safetensors file of two small tensors."""
    import numpy as np
    from safetensors.numpy import save

    return [save({"markov_head.w1": np.ones((2, 3), np.float32), "xpress_head.w": np.zeros(4, np.float16)})]


# Parsers. Each gets the mutated bytes and a folder of its own.


def suite(raw: bytes, folder: Path) -> None:
    from xpress_bench.suites import load_suite

    file = folder / ("own.json" if raw.startswith(b"[") else "own.jsonl")
    file.write_bytes(raw)
    load_suite(str(file))


def suite_settings(raw: bytes, folder: Path) -> None:
    from xpress_bench.suites import load_suite

    (folder / "own.jsonl").write_bytes(SUITES[0])
    (folder / "own.suite.yaml").write_bytes(raw)
    load_suite(str(folder / "own.jsonl"))


def name(raw: bytes, folder: Path) -> None:
    from xpress_bench.parts import resolve_drafter
    from xpress_bench.settings import DrafterSettings, TargetSettings
    from xpress_bench.suites import hub, load_suite

    text = words(raw)[0]
    if text.startswith(hub.PREFIX):
        hub.parsed(text)
    elif "/" in text:
        resolve_drafter(DrafterSettings(text), TargetSettings("embedded"))
    else:
        load_suite(text)


def journal(raw: bytes, folder: Path) -> None:
    from xpress_bench.journals import read_run
    from xpress_bench.records import JOURNAL

    (folder / JOURNAL).write_bytes(raw)
    read_run(folder)


def overrides(raw: bytes, folder: Path) -> None:
    from xpress_bench.config import settings_from

    settings_from({}, words(raw))


def recipe(raw: bytes, folder: Path) -> None:
    from xpress_bench.config import overridden
    from xpress_bench.train.recipe import Recipe

    overridden(Recipe(), words(raw))


def checkpoint_config(raw: bytes, folder: Path) -> None:
    import torch

    from xpress_bench.checkpoints import dflash, markov, xpress
    from xpress_bench.drafters.block_diffusion import BlockDiffusionModel
    from xpress_bench.parts import resolve_drafter
    from xpress_bench.settings import DrafterSettings, TargetSettings

    (folder / "config.json").write_bytes(raw)
    resolve_drafter(DrafterSettings(str(folder)), TargetSettings("embedded"))
    with torch.device("meta"):  # the network without its weights
        BlockDiffusionModel(dflash.read_config(folder))
    markov.read_config(folder)
    xpress.read_config(folder)


def checkpoint_weights(raw: bytes, folder: Path) -> None:
    import torch

    from xpress_bench.checkpoints.files import load_into, tensor_names

    (folder / "model.safetensors").write_bytes(raw)
    tensor_names(folder)
    head = torch.nn.Module()
    head.register_parameter("w1", torch.nn.Parameter(torch.empty(2, 3)))
    load_into(head, folder, "markov_head.", ignore=("xpress_head.",))


def words(raw: bytes) -> list[str]:
    """Arguments of a command: one a line, decoded as the interpreter decodes its own."""
    return [os.fsdecode(line[:ARGUMENT_BYTES]) for line in raw.split(b"\n")]


Parser = tuple[Callable[[bytes, Path], None], Callable[[], list[bytes]]]  # what reads, examples that it takes
PARSERS: dict[str, Parser] = {
    "suite": (suite, lambda: SUITES),
    "suite settings": (suite_settings, lambda: SUITE_SETTINGS),
    "name": (name, lambda: NAMES),
    "journal": (journal, cache(journals)),
    "overrides": (overrides, lambda: OVERRIDES),
    "recipe": (recipe, lambda: RECIPES),
    "checkpoint config": (checkpoint_config, lambda: [json.dumps(CONFIG, indent=1).encode()]),
    "checkpoint weights": (checkpoint_weights, cache(weights)),
}


# Mutations

VALUES = [
    b"0", b"-1", b"1e999", b"-1e-999", b"9" * 30, b"9" * 5000, b"0.5", b"NaN", b"-Infinity", b".nan", b"true", b"null",
    b"{}", b"[]", b'""', b'"x"', b"[[1]]", b'{"a": {"b": 1}}', b'[1, [2, null], "x"]', b'"\\ud800"', b"12:30:45",
    b"2001-99-99",
]  # fmt: skip
BOMB = [b"a: &a [x,x,x,x,x]", *(b"%c: &%c [%s]" % (i, i, b",".join([b"*%c" % (i - 1)] * 9)) for i in b"bcdefghi")]
INSERTS = [
    *VALUES, b"\x00", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xff", b"\x1b[31m", "\u2028".encode(), "\U0001f600".encode(),
    b"\r\n", b"\n\n", b",", b"=", b"'", b'"', b"\\", b"%", b"&", b"/", b"../", b"~", b"+", b"++", b"${oc.env:HOME}",
    b"${a}", b"${", b"choice(1,2)", b"glob(*)", b"!!python/object/apply:os.getcwd []", b"!!binary x", b"<<: *a",
    b"? [a]: b", b"[" * 100_000, b'{"a":' * 20_000, b"a" * 100_000, b"\n- " * 2000, b"\n".join([b"", *BOMB, b""]),
]  # fmt: skip
VALUE = re.compile(rb'"(?:[^"\\]|\\.)*"|\'[^\']*\'|[\w.+-]+|\[[^\[\]]*\]|\{[^{}]*\}')


def flipped(raw: bytes, rng: random.Random) -> bytes:
    changed = bytearray(raw)
    for _ in range(rng.randint(1, 8)):
        changed[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(raw: bytes, rng: random.Random) -> bytes:
    return raw[: rng.randrange(len(raw))]


def without(raw: bytes, rng: random.Random) -> bytes:
    start, end = sorted(rng.randrange(len(raw) + 1) for _ in range(2))
    return raw[:start] + raw[end:]


def lines_changed(raw: bytes, rng: random.Random) -> bytes:
    lines = raw.split(b"\n")
    at = rng.randrange(len(lines))
    return b"\n".join(lines[:at] + rng.choice([[], lines[at : at + 1] * 2, [b""], lines[::-1]]) + lines[at + 1 :])


def inserted(raw: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(raw) + 1)
    return raw[:at] + rng.choice(INSERTS) + raw[at:]


def retyped(raw: bytes, rng: random.Random) -> bytes:
    found = list(VALUE.finditer(raw))
    if not found:
        return rng.choice(VALUES)
    one = rng.choice(found)
    return raw[: one.start()] + rng.choice([*VALUES, rng.choice(found)[0]]) + raw[one.end() :]


def long_line(raw: bytes, rng: random.Random) -> bytes:
    return raw[:1_000_000] + b"a" * 5_000_000 if rng.random() < 0.1 else (raw * 20)[:1_000_000]


KINDS = (flipped, cut, without, lines_changed, inserted, inserted, retyped, retyped, retyped, long_line)


def input_of(seed: int) -> tuple[str, bytes]:
    """The parser and the bytes of one input."""
    rng = random.Random(seed)
    parser = list(PARSERS)[seed % len(PARSERS)]
    raw = rng.choice(PARSERS[parser][1]())
    for _ in range(rng.choice(MUTATIONS)):
        raw = rng.choice(KINDS)(raw, rng) if raw else rng.choice(INSERTS)
    return parser, raw


# One input, and many


def outcome(parser: str, raw: bytes, folder: Path) -> Outcome:
    """What became of one input. Any other kind than parsed and refused is a violation."""
    from xpress_bench.errors import XpressError

    own = folder / parser
    own.mkdir(exist_ok=True)
    try:
        PARSERS[parser][0](raw, own)
    except XpressError as error:
        said = str(error)
        return ("refused" if said.isprintable() else "not printable"), said
    except Exception as error:  # every other kind is what is looked for
        return type(error).__name__, str(error)
    return "parsed", ""


def work(seed: int, folder: Path) -> Outcome:
    """What became of the input, which is to take less than the limit."""
    parser, raw = input_of(seed)
    start_s = time.process_time()
    found = outcome(parser, raw, folder)
    taken_s = time.process_time() - start_s
    return found if taken_s < LIMIT_S else ("slow", f"{taken_s:.1f} s")


def limited() -> None:
    """A worker's start: no network, all imports done, and then no more memory than the limit."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    import xpress_bench.config
    import xpress_bench.parts
    import xpress_bench.train.recipe  # noqa: F401

    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + LIMIT_BYTES,) * 2)


class Worker:
    """One process that is replaced when an input hangs or kills it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._pool: ProcessPoolExecutor | None = None

    def run(self, seed: int) -> Outcome:
        pool = self._started()
        try:
            return pool.submit(work, seed, self.folder).result(HANG_S)
        except TimeoutError:
            self.stop()
            return "hang", f"more than {HANG_S:g} s"
        except BrokenProcessPool:
            self.stop()
            return "crash", "the process died"

    def stop(self) -> None:
        if self._pool:
            for process in self._pool._processes.values():
                process.kill()
            self._pool.shutdown()
        self._pool = None

    def _started(self) -> ProcessPoolExecutor:
        if not self._pool:
            self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), limited)
            self._pool.submit(os.getpid).result(STARTING_S)
        return self._pool


def outcomes(seed: int, inputs: int, minutes: float | None) -> Iterator[tuple[int, Outcome]]:
    """What became of each input, in order of their seeds, until all are done or the time is over."""
    end = time.monotonic() + minutes * 60 if minutes else float("inf")
    with TemporaryDirectory() as folder:
        worker = Worker(Path(folder))
        try:
            for one in range(seed, seed + inputs):
                if time.monotonic() > end:
                    return
                yield one, worker.run(one)
        finally:
            worker.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, help="stop after so many, whatever is left")
    options = parser.parse_args()
    tally: Counter[tuple[str, str]] = Counter()
    violations = []
    for seed, (kind, said) in outcomes(options.seed, options.inputs, options.minutes):
        name = list(PARSERS)[seed % len(PARSERS)]
        tally[name, kind] += 1
        if kind not in ("parsed", "refused"):
            violations.append(f"--seed {seed}  {name}: {kind}: {said[:200]!a}")
    for (name, kind), count in sorted(tally.items()):
        print(f"{name:<20} {kind:<20} {count}")
    print(*violations, f"{tally.total()} inputs, {len(violations)} violations", sep="\n")
    return 1 if violations or not tally else 0


if __name__ == "__main__":
    sys.exit(main())
