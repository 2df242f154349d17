"""Fit the temperatures of a confidence head to what the target accepts, and print them as an override to run with.

python scripts/fit_confidence.py --suite qa --drafter FOLDER limit=64 refiner.params.threshold=0
xpress-bench --suite other --drafter FOLDER refiner.params.threshold=0.3 'refiner.params.temperatures=[1.2,...]'

Measure on other prompts than those that were fitted to.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from xpress_bench.errors import UsageError, XpressError
from xpress_bench.flags import settings_of
from xpress_bench.measure.ready import Ready, make_ready
from xpress_bench.measure.schedule import Slot
from xpress_bench.records import Condition
from xpress_bench.refiners.calibration import Recorder, fit
from xpress_bench.refiners.confidence import Confidence


def recorded(ready: Ready, condition: Condition, seed: int) -> Recorder:
    """What became of the drafts of one request per prompt, and what the head had said of them."""
    (planned,) = ready.parts.arms
    head = next((one for one in planned.refiners if isinstance(one, Confidence)), None)
    if head is None or head.threshold:
        raise UsageError(
            "needs a checkpoint with a confidence head, and refiner.params.threshold=0, which ends no draft"
        )
    recorder = Recorder(head)
    ready.requests.arms["refine"] = replace(planned, refiners=(*planned.refiners, recorder))
    for prompt in ready.prompts:
        if prompt.turn == 1:
            ready.requests.said(prompt, Slot(condition, prompt.item.id, seed, 0, "refine", 0))
    return recorder


def main(words: list[str]) -> int:
    try:
        settings = settings_of(words, "fit_confidence")
        found = recorded(make_ready(settings, only="refine"), settings.conditions()[0], settings.seeds[0])
    except XpressError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    temperatures = ",".join(f"{one:.3g}" for one in fit(found.judged))
    print(f"refiner.params.temperatures=[{temperatures}]")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
