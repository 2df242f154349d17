"""Compiled steps give what the same model gives without them."""

import pytest
import tiny
import torch

from xpress_bench.drafters.toy import ScriptedDrafter
from xpress_bench.errors import MisfitError
from xpress_bench.graphs import ROUND, graph
from xpress_bench.targets.compiled import CompiledTarget

NEW = 24
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch's own compiler


@pytest.fixture(scope="module", params=["eager", pytest.param("inductor", marks=pytest.mark.slow)])
def pair(request):
    """A target and the same one compiled, in float64; the backend `eager` captures graphs and makes no kernels."""
    plain = tiny.qwen3(layers=2)
    compiled = CompiledTarget(plain.model, "compiled")
    compiled._step = graph(compiled._forward_fixed, tiny.CPU, request.param)
    compiled.reserve(64, 4)
    return plain, compiled


def test_a_step_is_the_step_of_the_plain_target_whatever_its_rows(pair):
    plain, compiled = pair
    ids = tiny.prompt(7)
    with torch.inference_mode():
        for target in pair:
            target.prefill(ids, (0, 1))
        for count, keep in ((4, 2), (1, 1), (3, 3), (2, 0), (4, 4)):
            block = tiny.prompt(count, seed=count)
            ours, theirs = (target.verify(block, (0, 1)) for target in (compiled, plain))
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)  # norms and rotations are float32 inside
            features = [target.commit(keep) for target in (compiled, plain)]
            torch.testing.assert_close(*features, rtol=1e-5, atol=1e-5)
            assert compiled.cached == plain.cached


def test_greedy_ids_are_those_of_the_plain_target(pair):
    plain, compiled = pair
    for seed in range(3):
        ids = tiny.prompt(5 + seed, seed=seed)
        chain = tiny.plain(plain, ids, NEW).ids
        assert tiny.plain(compiled, ids, NEW).ids == chain == tiny.generated(plain, ids, NEW)
        right_for_two = ScriptedDrafter(lambda tokens, n=ids.shape[1], c=chain: [*c[len(tokens) - n :][:2], 0], 4)
        assert tiny.Arm(right_for_two).run(compiled, ids, NEW).ids == chain


def test_nothing_is_compiled_after_the_first_request(pair):
    _, compiled = pair
    tiny.plain(compiled, tiny.prompt(5), 4)
    before = set(compiled._compiled)
    with torch._dynamo.config.patch(error_on_recompile=True):
        tiny.plain(compiled, tiny.prompt(30), NEW)
    assert compiled._compiled == before


def test_buffers_are_made_for_the_longest_request():
    target = CompiledTarget(tiny.qwen3(layers=1).model, "compiled")
    target.reserve(ROUND, 8)
    assert target._fixed.get_max_length() == 2 * ROUND
    target.reserve(10, 8)  # a shorter one changes nothing
    assert target._fixed.get_max_length() == 2 * ROUND


def test_a_sliding_window_is_refused_by_name():
    sliding = tiny.qwen3(use_sliding_window=True, sliding_window=8, max_window_layers=0)
    with pytest.raises(MisfitError, match=r"'windows': --compile is for full attention, .* StaticSlidingWindowLayer"):
        CompiledTarget(sliding.model, "windows").reserve(64, 4)


def test_two_models_of_one_class_have_graphs_of_their_own():
    """Deeper, shallower and merely other: each gives the logits of its own plain target."""
    for seed, layers in ((0, 1), (1, 3), (2, 1)):
        plain = tiny.qwen3(seed=seed, layers=layers)
        compiled = CompiledTarget(plain.model, "compiled")
        compiled._step = graph(compiled._forward_fixed, tiny.CPU, "eager")
        compiled.reserve(64, 4)
        with torch.inference_mode():
            for target in (plain, compiled):
                target.prefill(tiny.prompt(7), ())
            block = tiny.prompt(4, seed=3)
            torch.testing.assert_close(compiled.verify(block, ()), plain.verify(block, ()), rtol=1e-9, atol=1e-9)
