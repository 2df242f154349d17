"""What a step costs behind a long prompt: the embedded models' sizes, prompts of 1k to 8k random tokens.

    python scripts/bench_long.py [--threads 1] [--rounds 24]
    python scripts/bench_long.py --generate [--threads 1]

Beside the steps stands attention alone, as the model does it, over keys and values of that many tokens in as many
layers. If nothing of the prompt is processed again, a step grows by what attention grows by, and by no more. With
`--generate` the same is asked of 8k tokens of output, for direct generation and for refinement.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace

import torch
from transformers import AutoModelForCausalLM
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from xpress_bench.config import settings_from
from xpress_bench.decode import Limits, direct_steps, speculative_steps
from xpress_bench.drafters.block_diffusion import BlockDiffusion
from xpress_bench.measure.clock import HostClock
from xpress_bench.parts import Parts, PlannedArm, assemble
from xpress_bench.records import Condition
from xpress_bench.sampling import Sampling
from xpress_bench.targets.hf import EMBEDDED, HfTarget
from xpress_bench.verifiers import VERIFIERS

LENGTHS = (1024, 2048, 4096, 8192)


def long_target() -> HfTarget:
    """The embedded target with room for 8k tokens; beyond its training it says nothing of use, in the same time."""
    model = AutoModelForCausalLM.from_pretrained(str(EMBEDDED), dtype=torch.float32, max_position_embeddings=16384)
    return HfTarget(model.eval(), "embedded")


def attention_alone(model: HfTarget, length: int, rows: int) -> Callable[[], object]:
    """Attention of every layer of the target over `length` tokens for `rows` queries."""
    config = model.config
    queries = torch.randn(1, config.num_attention_heads, rows, config.head_dim)
    shape = (2, 1, config.num_key_value_heads, length, config.head_dim)
    held = [torch.randn(shape) for _ in range(config.num_hidden_layers)]
    seen, layer = torch.ones(1, 1, rows, length, dtype=torch.bool), model.model.model.layers[0].self_attn

    def run() -> None:
        for keys, values in held:
            sdpa_attention_forward(layer, queries, keys, values, seen)

    return run


def median_ms(run: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:]) * 1e3


def generated_ms(target: HfTarget, planned: PlannedArm, tokens: int) -> tuple[list[int], list[float]]:
    """Tokens so far and the ms of the step that brought them, for every step of one long output."""
    prompt, limits = torch.tensor([[1, 2, 3]]), Limits(tokens, frozenset())
    sampling, clock = Sampling(Condition(0.0, "greedy"), 0, target.device), HostClock()
    if planned.drafter is None:
        outputs = direct_steps(target, prompt, limits, sampling, clock)
    else:
        verifier = VERIFIERS.get("greedy")
        outputs = speculative_steps(
            target, planned.drafter, planned.refiners, verifier, prompt, limits, sampling, clock
        )
    places, stamps = [], []
    for output in outputs:
        places.append(len(output.ids))
        stamps.append(time.perf_counter())
    return places[1:], [1e3 * (after - before) for before, after in pairwise(stamps)]


def generation(parts: Parts) -> None:
    """Median step of each arm around each length, and what attention alone takes of it."""
    target, width = long_target(), 256
    print("tokens so far   arm      one step, ms   attention alone, ms")
    for planned in (parts.arms[0], parts.arms[-1]):
        places, steps_ms = generated_ms(target, planned, LENGTHS[-1])
        rows = planned.drafter.block_size if planned.drafter else 1
        for length in LENGTHS:
            near = [ms for place, ms in zip(places, steps_ms, strict=True) if length - width < place <= length]
            with torch.inference_mode():
                alone = median_ms(attention_alone(target, length, rows), 24)
            print(
                f"{length:>13}   {planned.arm.name:<7}  {statistics.median(near):>12.2f}   {alone:>19.2f}", flush=True
            )


def prompts(parts: Parts, rounds: int) -> None:
    """A step behind a prompt of each length."""
    drafter = parts.arms[1].drafter
    assert isinstance(drafter, BlockDiffusion)
    target, size = long_target(), drafter.block_size
    print("prompt tokens   one row, ms   block, ms   draft, ms   attention alone of a block, ms")
    for length in LENGTHS:
        with torch.inference_mode():
            prompt = torch.randint(0, target.vocab_size, (1, length))
            _, features = target.prefill(prompt, drafter.taps)
            drafter.start(target, prompt, features)
            seen = SimpleNamespace(features=target.verify(prompt[:, :size], drafter.taps))
            seen.features = target.commit(3)

            def step(rows: int) -> None:
                target.verify(prompt[:, :rows], drafter.taps)  # noqa: B023
                target.commit(0)

            def draft() -> None:
                before = drafter._cache.length
                drafter.observe(seen.features)  # noqa: B023
                drafter.predict(prompt[0, :1], prompt[:, 1:size])  # noqa: B023
                drafter._cache.length = before  # the same rows again, at the same length

            one, block = (median_ms(lambda rows=rows: step(rows), rounds) for rows in (1, size))  # type: ignore[misc]
            drafted = median_ms(draft, rounds)
            alone = median_ms(attention_alone(target, length, size), rounds)
        print(f"{length:>13}   {one:>11.2f}   {block:>9.2f}   {drafted:>9.2f}   {alone:>30.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--generate", action="store_true", help="8k tokens of output instead of a prompt")
    options = parser.parse_args()
    parts = assemble(settings_from({"device": "cpu"}, [f"threads={options.threads}"]))
    if options.generate:
        generation(parts)
    else:
        prompts(parts, options.rounds)


if __name__ == "__main__":
    main()
