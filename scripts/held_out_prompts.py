"""Prompts of the embedded target's own tasks that training never saw, as a suite file on stdout.

python scripts/held_out_prompts.py 12 > held_out.jsonl        # 12 prompts of each kind
xpress-bench --suite held_out.jsonl
"""

from __future__ import annotations

import json
import random
import sys

from xpress_bench.train.tasks import TASKS

LONGEST = 1200  # characters of a prompt: long profiles are the qa suite's business


def main() -> None:
    count = int(sys.argv[1])
    for name, task in TASKS.items():
        if name == "arithmetic_number_only":  # answers too short for any drafter
            continue
        rng, made = random.Random(f"held-out/{name}"), 0
        while made < count:
            example = task(rng, "held_out")
            if len(example.prompt) <= LONGEST:
                made += 1
                item = {"id": f"{name}-{made:02d}", "category": name, "prompt": example.prompt}
                if example.reference:
                    answer_type = "text" if name == "translate" else "exact"
                    item |= {"references": [example.reference], "answer_type": answer_type}
                print(json.dumps(item, ensure_ascii=False))


if __name__ == "__main__":
    main()
