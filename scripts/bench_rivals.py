"""Our loops against transformers' own, on the embedded models: the same ids, interleaved, as paired ratios.

    python scripts/bench_rivals.py [PROMPTS] [REPEATS]

Prints, per pair, how many times faster ours is (geometric mean over prompts of the ratio of median times, t interval)
and on how many prompts the ids were equal.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable

import torch

from xpress_bench.analyse.digits import shown
from xpress_bench.analyse.intervals import ratio_interval
from xpress_bench.config import settings_from
from xpress_bench.decode import Limits, direct, speculative
from xpress_bench.drafters.assistant import DFlashAssistant
from xpress_bench.measure.clock import HostClock
from xpress_bench.measure.prompts import Prompt, prepare
from xpress_bench.parts import Parts, assemble
from xpress_bench.records import Condition
from xpress_bench.sampling import Sampling
from xpress_bench.suites import load_suite, spread
from xpress_bench.verifiers import VERIFIERS

Loop = Callable[[Prompt], list[int]]
CLOCK = HostClock()


def ours(parts: Parts, arm: int) -> Loop:
    """Arm `arm` of our own loop: 0 is direct generation."""

    def run(prompt: Prompt) -> list[int]:
        limits = Limits(prompt.budget, frozenset(parts.target.stop_ids))
        sampling = Sampling(Condition(0.0, "greedy"), 0, parts.target.device)
        ids, planned = torch.tensor([prompt.ids]), parts.arms[arm]
        if planned.drafter is None:
            return direct(parts.target, ids, limits, sampling, CLOCK).ids
        rule = VERIFIERS.get("greedy")
        return speculative(parts.target, planned.drafter, planned.refiners, rule, ids, limits, sampling, CLOCK).ids

    return run


def theirs(parts: Parts, **options: object) -> Loop:
    """transformers' `generate`, greedy."""

    def run(prompt: Prompt) -> list[int]:
        ids = torch.tensor([prompt.ids])
        output = parts.target.model.generate(  # type: ignore[attr-defined]
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=prompt.budget, **options
        )
        return output[0, ids.shape[1] :].tolist()  # type: ignore[no-any-return]

    return run


def compare(name: str, mine: Loop, other: Loop, prompts: list[Prompt], repeats: int) -> None:
    """Time both on every prompt in random order; the first round warms up and is dropped."""
    rng = random.Random(0)
    pairs = {"ours": mine, "theirs": other}
    ratios, equal = [], 0
    for prompt in prompts:
        seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
        ids = {}
        for repeat in range(repeats + 1):
            for side in rng.sample(list(pairs), 2):
                start = time.perf_counter()
                ids[side] = pairs[side](prompt)
                if repeat:
                    seconds[side].append(time.perf_counter() - start)
        ratios.append(statistics.median(seconds["theirs"]) / statistics.median(seconds["ours"]))
        equal += ids["ours"] == ids["theirs"]
    interval = ratio_interval([torch.tensor(ratio).log().item() for ratio in ratios])
    print(f"{name:<40} {shown(interval)}x   same ids on {equal} of {len(prompts)} prompts", flush=True)


def main() -> None:
    count, repeats = (int(word) for word in (sys.argv[1:] + ["16", "5"][len(sys.argv) - 1 :]))
    settings = settings_from({"device": "cpu"}, [])
    dflash, lookup = assemble(settings), assemble(settings_from({"device": "cpu", "drafter.name": "prompt_lookup"}, []))
    suite = load_suite("qa")
    fitting, _ = prepare(suite, dflash.tokenizer, settings.target, dflash.target.context, None)
    prompts = list(spread(fitting, count))
    drafter = dflash.arms[1].drafter
    assistant = DFlashAssistant(drafter.model)  # type: ignore[union-attr]
    compare("direct / generate", ours(dflash, 0), theirs(dflash), prompts, repeats)
    rival = theirs(dflash, assistant_model=assistant, speculation_type="dflash")
    compare("draft / generate dflash", ours(dflash, 1), rival, prompts, repeats)
    rival = theirs(lookup, prompt_lookup_num_tokens=7, max_matching_ngram_size=3)
    compare("prompt lookup / generate prompt lookup", ours(lookup, 1), rival, prompts, repeats)


if __name__ == "__main__":
    main()
