"""What answers tell of their speculation, in the forms of the engines' documentation, and the steps that follow."""

from __future__ import annotations

import pytest

from xpress_bench.records import Counts
from xpress_bench.served.counters import Speculation
from xpress_bench.served.engines import engine_of, told

VLLM = {"num_spec_steps": 43, "num_draft_tokens": 129, "num_accepted_draft_tokens": 10}
SGLANG = {"spec_verify_ct": 3, "spec_num_proposed_drafts": 21, "spec_num_correct_drafts": 8, "spec_accept_length": 3.7}


def test_vllm() -> None:
    # 39 steps accepted none of three drafts, 1 one, none two, 3 all three: 1 + 9 = 10 accepted.
    said = {"metrics": {"speculative_decoding": {**VLLM, "acceptance_histogram": [39, 1, 0, 3]}}}
    assert told(said) == Speculation(43, 129, 10, (4, 3, 3))
    assert told({"metrics": {"speculative_decoding": VLLM}}) == Speculation(43, 129, 10)


def test_sglang() -> None:
    said = {"sglext": {"spec_tokens_details": {**SGLANG, "spec_correct_drafts_histogram": [1, 0, 0, 0, 2]}}}
    assert told(said) == Speculation(3, 21, 8, (2, 2, 2, 2))


def test_llamacpp_leaves_out_what_is_zero() -> None:
    assert told({"timings": {"predicted_n": 16, "draft_n": 19, "draft_n_accepted": 7}}) == Speculation(None, 19, 7)
    assert told({"timings": {"predicted_n": 16}}) == Speculation(None, 0, 0)


@pytest.mark.parametrize("said", [{}, {"metrics": None}, {"metrics": [1]}, {"timings": "fast"}, {"usage": {}}])
def test_nothing_is_told(said: dict[str, object]) -> None:
    assert told(said) is None


def test_kinds_of_servers() -> None:
    assert engine_of({"owned_by": "vllm"}).name == "vllm"
    assert engine_of({"owned_by": "llamacpp", "status": {"value": "loaded"}}).name == "llama.cpp"
    assert engine_of({"owned_by": "me", "status": {"value": "loaded"}}).name == "transformers serve"
    assert engine_of({}).name == "of another kind"


def test_steps_of_an_engine_that_drafts_at_every_step() -> None:
    # The prompt gives the first of 12 tokens; 4 steps accept 7 drafts and add 4 tokens of the target's own.
    tally = Counts(12, "ids", drafts=4, offered=12, accepted=7, reached=(3, 2, 2)).tally
    assert (tally.steps, tally.offered, tally.accepted, tally.committed) == (4, 12, 7, 11)
    assert tally.rounds == (((3, 1, 2, None), 1), ((3, 3, 4, None), 2))


def test_steps_without_a_draft_are_steps() -> None:
    # llama.cpp's own example: 16 tokens, 2 drafts of which 7 tokens were accepted; it says 9 decodes, the prompt's one.
    assert Counts(16, "usage", drafts=2, offered=19, accepted=7).tally.steps == 8
    assert Counts(16, "usage", offered=19, accepted=7).tally.steps == 8
    assert Counts(16, "usage", drafts=0, offered=0, accepted=0).tally.steps == 15


def test_accepted_drafts_behind_a_stop_id_take_no_step_away() -> None:
    # One step accepts 5 drafts and a stop id cuts the output after 2 of them: 1 + 2 tokens.
    tally = Counts(3, "usage", drafts=1, offered=5, accepted=5).tally
    assert (tally.steps, tally.accepted, tally.committed) == (1, 5, 2)


def test_verify_calls_alone_tell_what_was_accepted() -> None:
    tally = Counts(13, "usage", drafts=4).tally
    assert (tally.steps, tally.accepted, tally.committed, tally.offered) == (4, 8, 12, 0)


def test_nothing_known() -> None:
    assert Counts(13, "usage", reason="no page").tally.steps == 0
    assert Counts(0, "usage", drafts=0, offered=0, accepted=0).tally.committed == 0
