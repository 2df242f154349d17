"""Which server an arm names, what it says of itself, and by what its speculation is known."""

from __future__ import annotations

import json
import socket

import pytest
from fake_server import Fake, delta, end, models, serving

from xpress_bench.errors import UsageError
from xpress_bench.served.counters import Speculation
from xpress_bench.served.servers import Server, reach
from xpress_bench.settings import TargetSettings

PAGE = "llamacpp:tokens_predicted_total {}\nllamacpp:spec_decode_num_drafts_total {}\n"
PAGE += "llamacpp:spec_decode_num_draft_tokens_total {}\nllamacpp:spec_decode_num_accepted_tokens_total {}\n"
TIMINGS = {"predicted_n": 9, "draft_n": 8, "draft_n_accepted": 5}


def found(fake: Fake, name: str = "", **settings: str | None) -> Server:
    return reach(fake.name + name, TargetSettings("", **settings))  # type: ignore[arg-type]


def test_the_only_model_is_taken() -> None:
    with serving(Fake(lambda _: [], models("a"))) as fake:
        assert found(fake).model == "a"


def test_which_of_several_models() -> None:
    with serving(Fake(lambda _: [], models("small", "large"))) as fake:
        assert found(fake, model="large").model == "large"
        assert found(fake, "#small", model="large").model == "small"
        with pytest.raises(UsageError, match="serves small, large: say which with --model NAME"):
            found(fake)
        with pytest.raises(UsageError, match="does not serve 'larg'; did you mean large"):
            found(fake, model="larg")


def test_no_server() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = Fake(lambda _: [], port=free.getsockname()[1])
    with pytest.raises(
        UsageError, match=f"no server answers at {nobody.url} .*: start one there, as `vllm serve MODEL"
    ):
        found(nobody)


def test_something_else_is_there() -> None:
    with (
        serving(Fake(lambda _: [], {"/v1/models": "<html>"})) as fake,
        pytest.raises(UsageError, match="no server answ"),
    ):
        found(fake)


def test_a_key_by_the_name_of_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Fake(lambda _: [end()], models("a"))) as fake:
        with pytest.raises(UsageError, match=r"target.api_key_env is NO_SUCH_KEY: no environment variable"):
            found(fake, api_key_env="NO_SUCH_KEY")
        monkeypatch.setenv("SOME_API_KEY", "hunter2hunter2")
        server = found(fake, api_key_env="SOME_API_KEY")
        list(server.ask("x", {}, 20.0))
        assert "hunter2" not in json.dumps(server.says)
    assert fake.keys == ["Bearer hunter2hunter2"]


def test_what_llamacpp_says_of_itself() -> None:
    props = {"build_info": "b42", "total_slots": 1, "secret": 1, "chat_template": "{{x}}"}
    pages = models("m", owned_by="llamacpp", meta={"n_ctx": 4096}) | {"/props": json.dumps(props)}
    with serving(Fake(lambda _: [], pages)) as fake:
        says = found(fake).says
        again = found(fake).says
        pages["/props"] = json.dumps(props | {"total_slots": 2})
        other = found(fake).says
    assert (says["engine"], says["version"], says["context"], says["model"]) == ("llama.cpp", "b42", 4096, "m")
    assert says["settings"].keys() == {"build_info", "total_slots", "chat_template"}
    assert says == again
    assert says["settings_sha256"] != other["settings_sha256"]


def test_what_is_asked_of_each_kind() -> None:
    for owner, field in (
        ("vllm", "return_token_ids"),
        ("sglang", "return_spec_tokens_details"),
        ("llamacpp", "cache_prompt"),
    ):
        with serving(Fake(lambda _: [end()], models("m", owned_by=owner))) as fake:
            list(found(fake).ask([{"role": "user", "content": "x"}], {"max_tokens": 5, "temperature": 0.0}, 20.0))
        (body,) = fake.asked
        assert field in body
        assert body["messages"] == [{"role": "user", "content": "x"}]
        assert (body["max_tokens"], body["temperature"], body["top_p"], body["stream"]) == (5, 0.0, 1.0, True)
    with serving(Fake(lambda _: [end()], models("m"))) as fake:
        list(found(fake).ask("plain", {}, 20.0))
    assert fake.asked[0].keys() == {"model", "prompt", "top_p", "stream", "stream_options"}


def speculation(page: str | None, after: str | None, **told: object) -> tuple[Speculation, str] | str:
    """Of one answer of 9 tokens, over which the page of counters becomes `after`."""
    with serving(Fake(lambda _: [delta("x"), end(**told)], models("m", owned_by="llamacpp"))) as fake:
        if page is not None:
            fake.pages["/metrics"] = page
        server = found(fake)
        before = server.counters()
        answer = server.ask("x", {}, 20.0)
        list(answer)
        if after is not None:
            fake.pages["/metrics"] = after
        return server.speculation(answer, before, 9)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counters are not waited for."""
    monkeypatch.setattr("xpress_bench.served.servers.COUNTED_WITHIN_S", 0.0)


@pytest.mark.usefixtures("impatient")
def test_by_what_speculation_is_known() -> None:
    before, after = PAGE.format(100, 10, 40, 20), PAGE.format(109, 12, 48, 25)
    assert speculation(None, None, timings=TIMINGS) == (Speculation(None, 8, 5), "request")
    assert speculation(before, after, timings=TIMINGS) == (Speculation(2, 8, 5), "both")
    assert speculation(before, after) == (Speculation(2, 8, 5), "counters")
    interfered = PAGE.format(130, 15, 60, 30)
    assert speculation(before, interfered, timings=TIMINGS) == (Speculation(None, 8, 5), "request")
    assert speculation(before, PAGE.format(109, 12, 49, 25), timings=TIMINGS) == (Speculation(None, 8, 5), "request")
    assert speculation(before, interfered) == "the server's counters do not tell of this request alone"
    assert str(speculation(None, None)).startswith("the server tells nothing of its speculation")
    whole = {"metrics": {"speculative_decoding": {"num_spec_steps": 3, "num_draft_tokens": 9}}}
    assert speculation(before, interfered, **whole) == (Speculation(3, 9, None), "request")
