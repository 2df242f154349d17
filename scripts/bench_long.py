"""What a step costs behind a long prompt: the embedded models' sizes, prompts of 1k to 8k random tokens.

    python scripts/bench_long.py [--threads 1] [--rounds 24]

Beside the steps stands attention alone, as the model does it, over keys and values of that many tokens in as many
layers. If nothing of the prompt is processed again, a step grows by what attention grows by, and by no more.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from types import SimpleNamespace

import torch
from transformers import AutoModelForCausalLM
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from xpress_bench.config import settings_from
from xpress_bench.drafters.block_diffusion import BlockDiffusion
from xpress_bench.parts import assemble
from xpress_bench.targets.hf import EMBEDDED, HfTarget

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=24)
    options = parser.parse_args()
    drafter = assemble(settings_from({"device": "cpu"}, [f"threads={options.threads}"])).arms[1].drafter
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

            one, block = (median_ms(lambda rows=rows: step(rows), options.rounds) for rows in (1, size))  # type: ignore[misc]
            drafted = median_ms(draft, options.rounds)
            alone = median_ms(attention_alone(target, length, size), options.rounds)
        print(f"{length:>13}   {one:>11.2f}   {block:>9.2f}   {drafted:>9.2f}   {alone:>30.2f}", flush=True)


if __name__ == "__main__":
    main()
