import rig
import tiny
import torch

from xpress_bench.analyse.controls import controlled
from xpress_bench.drafters.toy import ScriptedDrafter
from xpress_bench.measure.controls import PAIRS, controls
from xpress_bench.measure.requests import Requests
from xpress_bench.records import Control


def quiet(*_):
    pass


def test_a_target_of_its_own_kind_is_only_run_without_stamps():
    """A clock that ticks once a look: the fewer looks, the less time a request seems to take."""
    requests = rig.requests([rig.prompt()])
    generate, *unstamped = controls(requests, rig.settings(controls=1), quiet)
    assert generate == Control("generate", "p", "direct", reason="the target is no transformers model")
    assert len(unstamped) == PAIRS
    for one in unstamped:
        assert (one.against, one.arm, one.same_ids, one.tokens) == ("unstamped", "refine", True, 8)
        assert one.control_s == 1  # from the first `now` to the second, with no stamp between
        assert one.latency_s > 1


def test_transformers_own_loop_gives_the_same_ids_as_direct():
    target = tiny.qwen3()
    prompts = [rig.prompt(name, length=length) for name, length in (("p", 5), ("q", 9))]
    made = rig.parts(target=target, drafter=ScriptedDrafter(rig.ahead, 4))
    requests = Requests(target, made.tokenizer, made.arms, prompts, rig.Ticks(), 60.0)
    found = list(controls(requests, rig.settings(controls=2), quiet))
    assert [one.against for one in found] == 2 * ([*PAIRS * ["generate"], *PAIRS * ["unstamped"]])
    assert all(one.same_ids and one.tokens == one.control_tokens == 8 for one in found)
    assert [one.same for one in controlled(found)] == [2, 2]


def test_ids_that_differ_are_seen():
    target = tiny.qwen3()
    made = rig.parts(target=target)
    requests = Requests(target, made.tokenizer, made.arms, [rig.prompt()], rig.Ticks(), 60.0)
    with torch.no_grad():
        whole = target.model.lm_head.weight.clone()
    own = target.model.generate

    def other(*words, **options):
        with torch.no_grad():
            target.model.lm_head.weight.copy_(whole.roll(1, 0))
        output = own(*words, **options)
        with torch.no_grad():
            target.model.lm_head.weight.copy_(whole)
        return output

    target.model.generate = other
    found = [one for one in controls(requests, rig.settings(controls=1), quiet) if one.against == "generate"]
    assert {one.same_ids for one in found} == {False}


def test_a_control_that_fails_says_why_and_ends_nothing():
    target = tiny.qwen3()
    target.model.generate = lambda *_, **__: 1 / 0
    made = rig.parts(target=target)
    requests = Requests(target, made.tokenizer, made.arms, [rig.prompt()], rig.Ticks(), 60.0)
    generate, *unstamped = controls(requests, rig.settings(controls=1), quiet)
    assert generate.reason == "exception: ZeroDivisionError: division by zero"
    assert len(unstamped) == PAIRS


def test_above_temperature_0_only_stamping_is_checked_and_none_asked_for_is_none():
    requests = rig.requests([rig.prompt()])
    settings = rig.settings(controls=1, temperatures=(1.0,))
    assert next(controls(requests, settings, quiet)).reason == "the target is no transformers model"
    assert list(controls(requests, rig.settings(), quiet)) == []
