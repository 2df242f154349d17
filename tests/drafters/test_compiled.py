"""The compiled drafter and refiners propose what the plain ones do; here graphs are captured and make no kernels."""

from functools import partial

import pytest
import tiny
import torch

from xpress_bench.compiling import compiled_drafter, compiled_refiner, compiled_target, is_compiled, reserve
from xpress_bench.drafters.compiled import CompiledBlockDiffusion
from xpress_bench.drafters.toy import ScriptedDrafter
from xpress_bench.errors import MisfitError
from xpress_bench.graphs import graph
from xpress_bench.settings import Settings
from xpress_bench.targets.toy import ToyTarget

NEW = 24


@pytest.fixture(autouse=True)
def captured(monkeypatch):
    """Each graph costs the compiler of kernels seconds; what is under test is that there are graphs, and what of."""

    for module in ("compiling", "targets.compiled", "drafters.compiled"):
        monkeypatch.setattr(f"xpress_bench.{module}.graph", partial(graph, backend="eager"))


def prepared(target, drafter, refiners=()):
    """The same parts compiled, ready for requests of 64 tokens."""
    made = compiled_target(target)
    arm = tiny.Arm(compiled_drafter(drafter), [compiled_refiner(one) for one in refiners])
    for part in (made, arm.drafter):
        reserve(part, 64, drafter.block_size)
    return made, arm


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("passes", [None, 3])
def test_drafts_and_ids_are_those_of_the_plain_parts(passes, temperature):
    target = tiny.qwen3()
    how = tiny.sampling(temperature, "coupled" if temperature else "greedy")
    plain = tiny.Arm(tiny.dflash(target), [] if passes is None else [tiny.xpress(target, 8, passes)])
    made, arm = prepared(target, tiny.dflash(target), [] if passes is None else [tiny.xpress(target, 8, passes)])
    for seed, length in enumerate((9, 5)):  # the second starts with what the first left in the buffers
        ids = tiny.prompt(length, seed=seed)
        ours, theirs = arm.run(made, ids, NEW, how=how), plain.run(target, ids, NEW, how=how)
        assert ours.ids == theirs.ids == tiny.plain(target, ids, NEW, how=how).ids
        assert [one.draft for one in ours.rounds] == [one.draft for one in theirs.rounds]
        assert [one.refined for one in ours.rounds] == [one.refined for one in theirs.rounds]


def test_a_request_after_the_first_makes_no_graph():
    target = tiny.qwen3()
    made, arm = prepared(target, tiny.dflash(target), [tiny.xpress(target, 8, 3)])
    arm.run(made, tiny.prompt(9), NEW)
    with torch._dynamo.config.patch(error_on_recompile=True):
        arm.run(made, tiny.prompt(20, seed=1), NEW + 5)


def test_parts_without_a_compiled_form_stay_as_they_are():
    drafter = ScriptedDrafter(lambda tokens: [0], 4)
    assert compiled_drafter(drafter) is drafter
    assert not is_compiled(drafter)
    assert is_compiled(compiled_target(tiny.qwen3()))


def test_what_cannot_be_compiled_is_refused():
    with pytest.raises(MisfitError, match="'toy' is no transformers model"):
        compiled_target(ToyTarget(8))


def test_layers_that_look_back_a_window_are_refused():
    target = tiny.qwen3()
    drafter = tiny.dflash(target)
    drafter.model.sights[0] = drafter.model.sights[0].__class__(causal=True, window=None, from_anchor=False)
    with pytest.raises(MisfitError, match="do not see everything"):
        CompiledBlockDiffusion.of(drafter)


def test_trees_are_refused_with_their_remedy(capsys):
    from xpress_bench.cli import main

    assert main(["--suite", "qa", "--compile", "candidates.count=4"]) == 2
    assert "candidates.merge=best" in capsys.readouterr().err
    assert Settings.__dataclass_fields__["compile"].default is False
