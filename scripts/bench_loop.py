"""How our decode loop stands: against other loops over the same weights, and against the cost of its own stages.

    python scripts/bench_loop.py [--suite short] [--prompts 16] [--repeats 5] [--threads 1] [--compile]

Every figure is a ratio of times taken in turn, in random order, with a 95 % interval over prompts. The rivals are
transformers' greedy `generate`, its `speculation_type="dflash"` over the same drafter, its prompt lookup, and flashspec
with the same draft model where it is installed.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from xpress_bench.analyse.cost import Cost, cost
from xpress_bench.analyse.digits import shown
from xpress_bench.analyse.intervals import mean_interval, ratio_interval
from xpress_bench.config import settings_from
from xpress_bench.drafters.assistant import DFlashAssistant
from xpress_bench.measure.clock import HostClock
from xpress_bench.measure.controls import Unstamped, generate
from xpress_bench.measure.prompts import Prompt, prepare
from xpress_bench.measure.requests import Requests
from xpress_bench.measure.schedule import Slot
from xpress_bench.parts import Parts, assemble
from xpress_bench.records import Cell
from xpress_bench.settings import Settings
from xpress_bench.suites import load_suite, spread

Way = Callable[[Prompt], tuple[int, ...]]


@dataclass
class Bench:
    """One drafter of the embedded models, ready to run."""

    settings: Settings
    prompts: list[Prompt]
    parts: Parts
    cells: dict[str, list[Cell]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        clock, own = HostClock(), (self.parts.target, self.parts.tokenizer, self.parts.arms, self.prompts)
        self.stamped = Requests(*own, clock, 600.0)
        self.bare = Requests(*own, Unstamped(clock), 600.0)

    def cell(self, requests: Requests, arm: str, prompt: Prompt) -> Cell:
        found = requests.run(Slot(self.settings.conditions()[0], prompt.item.id, 0, 0, arm, 0, prompt.turn), launch=0)
        if found.error:
            raise SystemExit(f"{arm} fails on {prompt.item.id}: {found.error}")
        return found

    def ours(self, arm: str) -> Way:
        return lambda prompt: self.cell(self.bare, arm, prompt).ids

    def theirs(self, **options: Any) -> Way:
        return lambda prompt: generate(self.stamped, prompt, options)


def compare(name: str, mine: Way, other: Way, prompts: list[Prompt], repeats: int) -> None:
    """How many times faster ours is, by the medians of each prompt; the first round warms up and is dropped."""
    rng, pairs, ratios, equal = random.Random(0), {"ours": mine, "theirs": other}, [], 0
    for prompt in prompts:
        seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
        ids = {}
        for _ in range(repeats + 1):
            for side in rng.sample(list(pairs), 2):
                start = time.perf_counter()
                ids[side] = pairs[side](prompt)
                seconds[side].append(time.perf_counter() - start)
        middle = {side: statistics.median(times[1:]) for side, times in seconds.items()}
        ratios.append(math.log(middle["theirs"] / middle["ours"]))
        equal += ids["ours"] == ids["theirs"]
    print(f"{name:<46} {shown(ratio_interval(ratios))}x   same ids on {equal} of {len(prompts)} prompts", flush=True)


def own_costs(bench: Bench, repeats: int) -> None:
    """Time outside the stages, the price of stamping, and how much of the stages' promise is kept."""
    arms = list(bench.parts.arms)
    priced = defaultdict(list)
    rng = random.Random(1)
    for prompt in bench.prompts:
        seconds: dict[tuple[str, bool], list[float]] = defaultdict(list)
        for _ in range(repeats + 1):
            ways = [(planned.arm.name, stamped) for planned in arms for stamped in (True, False)]
            for arm, stamped in rng.sample(ways, len(ways)):
                found = bench.cell(bench.stamped if stamped else bench.bare, arm, prompt)
                seconds[arm, stamped].append(found.latency_s or math.nan)
                if stamped:
                    bench.cells[arm].append(found)
        for planned in arms:
            name = planned.arm.name
            with_, without = (statistics.median(seconds[name, stamped][1:]) for stamped in (True, False))
            priced[name].append(math.log(with_ / without))
    for name, cells in bench.cells.items():
        stamping = f"stamping {shown(ratio_interval(priced[name]))}x"
        if name == "direct":
            print(f"{name}: {stamping}")
            continue
        outside = mean_interval([(cell.rest_s or 0.0) / (cell.latency_s or math.nan) for cell in cells])
        model = cost(bench.cells["direct"], cells)
        kept = f", efficiency {shown(model.efficiency)}" if isinstance(model, Cost) else ""
        print(f"{name}: outside the stages {shown(outside, 100)} % of a request, {stamping}{kept}", flush=True)


def flashspec(bench: Bench, repeats: int) -> None:
    """flashspec with our draft model over our target; both loops draft seven tokens a step."""
    try:
        from flashspec import FlashSpecConfig, SamplingConfig, SpeculativeEngine
        from flashspec.engine.hf_drafter import HuggingFaceDrafter
        from flashspec.engine.verifier import TargetModel
    except ImportError as error:
        print(f"draft model / flashspec: not measured, {error}")
        return
    target, drafter = bench.parts.target, bench.parts.arms[1].drafter
    sampling = SamplingConfig(gamma=7, temperature=0.0)
    config = FlashSpecConfig(sampling=sampling, drafter_strategy="bandit", bandit={"n_arms": 1}, device="cpu")
    cpu = torch.device("cpu")
    draft = HuggingFaceDrafter("draft", cpu, torch.float32, 0.0, model=drafter.model.model)  # type: ignore[union-attr]
    verifier = TargetModel("target", cpu, torch.float32, model=target.model)  # type: ignore[attr-defined]
    engine = SpeculativeEngine(config, [draft], verifier)

    def run(prompt: Prompt) -> tuple[int, ...]:
        found = engine.generate(torch.tensor([prompt.ids]), prompt.budget, sorted(target.stop_ids))
        return tuple(token for token in found.output_ids[0].tolist() if token >= 0)

    compare("draft model / flashspec", bench.ours("draft"), run, bench.prompts, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="short")
    for name, value in (("prompts", 16), ("repeats", 5), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--compile", action="store_true", help="our steps compiled; the rivals as they are")
    options = parser.parse_args()
    suite = load_suite(options.suite)

    def bench(drafter: str) -> Bench:
        flags = {"device": "cpu", "drafter.name": drafter, "compile": str(options.compile).lower()}
        settings = settings_from(flags, [f"threads={options.threads}", f"suite={options.suite}"])
        parts = assemble(settings)
        fitting, _ = prepare(suite, parts.tokenizer, settings.target, parts.target.context, None)
        return Bench(settings, list(spread(fitting, options.prompts)), parts)

    print(f"suite {options.suite}, {options.prompts} prompts, {options.repeats} repeats, {options.threads} threads")
    dflash, repeats = bench("dflash"), options.repeats
    compare("direct / generate", dflash.ours("direct"), dflash.theirs(), dflash.prompts, repeats)
    assistant = DFlashAssistant(assemble(settings_from({"device": "cpu"}, [])).arms[1].drafter.model)  # type: ignore[union-attr]
    rival = dflash.theirs(assistant_model=assistant, speculation_type="dflash")
    compare("draft / generate, speculation_type=dflash", dflash.ours("draft"), rival, dflash.prompts, repeats)
    own_costs(dflash, repeats)
    lookup = bench("prompt_lookup")
    rival = lookup.theirs(prompt_lookup_num_tokens=7, max_matching_ngram_size=3)
    compare("prompt lookup / generate, prompt lookup", lookup.ours("draft"), rival, lookup.prompts, repeats)
    flashspec(bench("draft_model"), repeats)


if __name__ == "__main__":
    main()
