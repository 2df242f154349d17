"""Streams: the same ids as the loop, handed out as they come, and text that never ends inside a character."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import rig
import tiny
import torch
from transformers import AutoTokenizer

from xpress_bench.config import settings_from
from xpress_bench.decode import Limits
from xpress_bench.drafters.toy import ScriptedDrafter
from xpress_bench.errors import UsageError
from xpress_bench.parts import Parts, PlannedArm, assemble
from xpress_bench.records import Arm
from xpress_bench.streaming import Text, stream
from xpress_bench.targets.hf import EMBEDDED


@dataclass
class Bytes:
    """A tokenizer whose ids are bytes."""

    chat_template: str | None = None
    asked: list[int] = field(default_factory=list)

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        self.asked.append(len(ids))
        return bytes(ids).decode(errors="replace")


def counting_parts(target: rig.Counting) -> Parts:
    """Direct, and a drafter that is right for two slots."""
    arms = [PlannedArm(Arm("direct", None, None, None, None, None), None, ())]
    arms += [PlannedArm(Arm("draft", "toy", None, 4, 1, None), ScriptedDrafter(rig.ahead, 4), ())]
    return Parts(target, Bytes(), tuple(arms))


def test_events_of_a_speculative_arm_are_its_steps():
    target = rig.Counting()
    events = list(stream(counting_parts(target), [65], "draft", max_new_tokens=8))
    # The prompt pass gives one id; then two accepted drafts and the target's own token, twice; then what is left.
    assert [event.ids for event in events] == [(66,), (67, 68, 69), (70, 71, 72), (73,)]
    assert [event.text for event in events] == ["B", "CDE", "FGH", "I"]
    assert [event.stop_reason for event in events] == [None, None, None, "length"]
    assert sorted(event.seconds for event in events) == [event.seconds for event in events]


def test_an_event_comes_before_the_next_step_is_made():
    target = rig.Counting()
    events = stream(counting_parts(target), [65], "direct", max_new_tokens=8)
    assert next(events).ids == (66,)
    made = len(target.rows)  # the prompt pass alone
    assert next(events).ids == (67,)
    assert len(target.rows) == made + 1
    events.close()
    assert len(target.rows) == made + 1


def test_the_loop_that_reads_a_stream_is_not_in_inference_mode():
    for _ in stream(counting_parts(rig.Counting()), [65], "draft", max_new_tokens=8):
        assert not torch.is_inference_mode_enabled()


def test_a_character_in_two_tokens_is_told_when_it_is_whole():
    text = Text(Bytes())
    e_acute, euro = "é".encode(), "€".encode()
    pieces = [text.piece(ids, False) for ids in ([97, e_acute[0]], [e_acute[1]], [euro[0]], [euro[1]], [euro[2], 98])]
    assert pieces == ["", "aé", "", "", "€b"]
    assert text.piece([euro[0]], True) == "\ufffd"


def test_a_long_text_is_not_decoded_again_and_again():
    tokenizer = Bytes()
    text = Text(tokenizer)
    for _ in range(1000):
        text.piece([97], False)
    assert max(tokenizer.asked) == 2


@pytest.mark.parametrize("arm", ["direct", "draft", "refine"])
def test_the_embedded_models_stream_what_they_decode(arm: str):
    parts = assemble(settings_from({"dtype": "float64", "device": "cpu"}, []))
    tokenizer = AutoTokenizer.from_pretrained(str(EMBEDDED))
    events = list(stream(parts, "Où est née Zoë? Répondez en français.", arm, max_new_tokens=40))
    ids = [token for event in events for token in event.ids]
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Où est née Zoë? Répondez en français."}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )["input_ids"]
    limits = Limits(40, frozenset(parts.target.stop_ids))
    right = tiny.direct(parts.target, prompt, limits, tiny.sampling(), tiny.Ticks()).ids
    assert ids == right
    assert "".join(event.text for event in events) == tokenizer.decode(right, skip_special_tokens=True)
    assert len(events) < len(ids) or arm == "direct"


@pytest.mark.parametrize(
    ("prompt", "arm", "said"),
    [
        ([65], "drft", "there is no arm 'drft'; did you mean draft or direct?"),
        ([65], "x", "there is no arm 'x'; known: direct, draft"),
        ([], "draft", "the prompt has 0 tokens"),
        ([65] * 5000, "draft", "the prompt has 5000 tokens"),
    ],
)
def test_what_cannot_be_streamed_is_refused(prompt: list[int], arm: str, said: str):
    with pytest.raises(UsageError, match=said.replace("?", r"\?")):
        next(stream(counting_parts(rig.Counting(context=4096)), prompt, arm))
