"""Prometheus pages, written by hand from the documentation of the engines, and what one request added to them."""

from __future__ import annotations

import pytest

from xpress_bench.served.counters import Speculation, added, counters, samples

VLLM = """\
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{{engine="0",model_name="m"}} {drafts}
vllm:spec_decode_num_drafts_total{{engine="1",model_name="m"}} 100.0
vllm:spec_decode_num_drafts_total{{engine="0",model_name="other"}} 5000.0
vllm:spec_decode_num_draft_tokens_total{{engine="0",model_name="m"}} {offered}
vllm:spec_decode_num_accepted_tokens_total{{engine="0",model_name="m"}} {accepted}
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="0"}} {first}
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="1"}} {second}
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="2"}} 0.0
vllm:spec_decode_num_accepted_tokens_created{{engine="0",model_name="m"}} 1.7e9
vllm:request_success_total{{engine="0",finished_reason="stop",model_name="m"}} {stopped}
vllm:request_success_total{{engine="0",finished_reason="length",model_name="m"}} {cut}
vllm:generation_tokens_total{{engine="0",model_name="m"}} 12.0
"""
VLLM_BEFORE = VLLM.format(drafts="10.0", offered="30.0", accepted="12.0", first="9.0", second="3.0", stopped=4, cut=1)
VLLM_AFTER = VLLM.format(drafts="14.0", offered="42.0", accepted="17.0", first="12.0", second="5.0", stopped=4, cut=2)
LLAMA = """\
# TYPE llamacpp:tokens_predicted_total counter
llamacpp:tokens_predicted_total {tokens}
llamacpp:spec_decode_num_draft_tokens_total {offered}
llamacpp:spec_decode_num_accepted_tokens_total {accepted}
llamacpp:spec_decode_num_drafts_total {drafts}
"""
POSITIONS = """\
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 2
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="1"} 1
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="2"} 0
"""
SGLANG = """\
sglang:num_requests_total{{engine_type="unified",model_name="m"}} {requests}
sglang:spec_verify_calls_total{{engine_type="unified",model_name="m"}} {calls}
sglang:spec_accept_length{{engine_type="unified",model_name="m"}} 2.5
"""


def difference(before: str, after: str, tokens: int = 10, model: str = "m") -> Speculation | str:
    earlier, later = counters(before, model), counters(after, model)
    assert earlier
    assert later
    return added(earlier, later, tokens)


def test_vllm_over_engines_and_of_its_model_only() -> None:
    assert difference(VLLM_BEFORE, VLLM_AFTER) == Speculation(4, 12, 5, (3, 2))
    assert difference(VLLM_BEFORE, VLLM_AFTER.replace(" 100.0", " 103.0")) == Speculation(7, 12, 5, (3, 2))


def test_llamacpp_whose_positions_come_with_the_first_accepted_draft() -> None:
    before = LLAMA.format(tokens=0, offered=0, accepted=0, drafts=0)
    after = LLAMA.format(tokens=16, offered=19, accepted=3, drafts=2) + POSITIONS
    assert difference(before, after, 16) == Speculation(2, 19, 3, (2, 1))


def test_sglang_counts_verify_calls_and_no_drafts() -> None:
    before, after = SGLANG.format(requests=7.0, calls=40.0), SGLANG.format(requests=8.0, calls=52.0)
    assert difference(before, after) == Speculation(12, None, None)


def test_another_request_meanwhile() -> None:
    reason = "the server's counters do not tell of this request alone"
    assert difference(VLLM_BEFORE, VLLM_AFTER.replace('"m"} 2\n', '"m"} 3\n')) == reason
    assert difference(VLLM_BEFORE, VLLM_BEFORE) == reason
    before, after = (LLAMA.format(tokens=count, offered=4, accepted=2, drafts=1) for count in (10, 26))
    assert difference(before, after, 16) == Speculation(0, 0, 0)
    assert difference(before, after, 15) == reason


def test_a_server_that_was_started_anew() -> None:
    reason = "the server's counters went back: it was started anew"
    assert difference(VLLM_AFTER, VLLM_BEFORE) == reason
    before, after = (LLAMA.format(tokens=count, offered=4, accepted=3, drafts=1) for count in (10, 26))
    assert difference(before + POSITIONS, after, 16) == reason  # it has seen no position yet


def test_a_number_that_is_none_is_not_counted() -> None:
    assert counters(SGLANG.format(requests=1, calls="NaN"), "m") is None


@pytest.mark.parametrize("page", ["", "# nothing\n", "<html>", "process_cpu_seconds_total 4.0\n"])
def test_no_counters(page: str) -> None:
    assert counters(page, "m") is None
    assert counters(VLLM_AFTER, "a third") is None


def test_samples() -> None:
    page = 'a{x="1, }\\"",y="2"} 3 1700000000000\n# b 4\nc NaN\nd four\ne{ 5\nf +Inf\n'
    (a, c, f) = samples(page)
    assert a == ("a", {"x": '1, }\\"', "y": "2"}, 3.0)
    assert (c[0], c[2] != c[2], f[0], f[2]) == ("c", True, "f", float("inf"))
