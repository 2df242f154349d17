import pytest
import torch
from ngrams import drafter, refiner

from xpress_bench.decode import Limits, direct, speculative
from xpress_bench.records import Condition
from xpress_bench.sampling import Sampling
from xpress_bench.settings import DrafterSettings, RefinerSettings, TargetSettings
from xpress_bench.targets import TARGETS
from xpress_bench.verifiers import VERIFIERS


class Clock:
    def stamp(self):
        return 0


@pytest.mark.parametrize("block_size", [2, 4, 8, 16])
@pytest.mark.parametrize(("temperature", "verifier"), [(0.0, "greedy"), (1.0, "coupled")])
def test_nothing_changes_what_the_target_says(block_size, temperature, verifier):
    target = TARGETS.get("toy")(TargetSettings("toy"), "cpu", "float64")
    drafts = drafter.load(DrafterSettings("bigrams"), target, block_size)
    refines = refiner.load(RefinerSettings("trigrams"), target, drafts)
    prompt, limits = torch.tensor([list(b"to be or not to be")]), Limits(60, frozenset(target.stop_ids))
    sampling = Sampling(Condition(temperature, verifier), 0, target.device)
    right = direct(target, prompt, limits, sampling, Clock()).ids
    for refiners in ([], [refines]):
        rule = VERIFIERS.get(verifier)
        assert speculative(target, drafts, refiners, rule, prompt, limits, sampling, Clock()).ids == right
