import pytest
import tiny
import torch
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from xpress_bench.targets.cache import LEAST, BufferedLayer, growing_cache


def rows(count, seed, batch=1):
    return torch.randn(2, batch, 2, count, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("batch", [1, 3])
def test_it_holds_what_the_layer_it_stands_for_holds(batch):
    ours, theirs = BufferedLayer(), DynamicLayer()
    for seed, (count, dropped) in enumerate([(200, 0), (8, 5), (8, 8), (100, 1), (1, 0), (700, 3), (8, 0)]):
        keys, values = rows(count, seed, batch)
        for mine, other in zip(ours.update(keys, values), theirs.update(keys, values), strict=True):
            assert torch.equal(mine, other)
        for layer in (ours, theirs):
            layer.crop(-dropped)
        assert ours.get_seq_length() == theirs.get_seq_length()
        assert ours.get_mask_sizes(8) == theirs.get_mask_sizes(8)


def test_a_step_writes_its_rows_and_moves_no_others():
    layer = BufferedLayer()
    layer.update(*rows(100, 0))
    places = {layer.update(*rows(8, seed))[0].data_ptr() for seed in range(10) if layer.crop(-4) is None}
    assert len(places) == 1
    layer.update(*rows(3 * LEAST, 1))
    assert layer.keys.data_ptr() not in places


def test_only_layers_of_full_attention_are_replaced():
    sliding = tiny.qwen3(use_sliding_window=True, sliding_window=8, max_window_layers=1)
    kinds = [type(layer) for layer in growing_cache(sliding.model.config).layers]
    assert kinds == [BufferedLayer, DynamicSlidingWindowLayer, DynamicSlidingWindowLayer]
