"""What arrives of a streamed completion, and every way in which a server can fail to send one."""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Iterator
from threading import Event, Thread

import pytest
from fake_server import Fake, Said, delta, end, event, serving

from xpress_bench.errors import UsageError
from xpress_bench.served.address import address
from xpress_bench.served.client import MOST_LINE_BYTES, Answer, Client, ServerError, events

WHOLE = (delta("Hel"), delta("lo"), end(usage={"completion_tokens": 3}))


def asked(fake: Fake, deadline_s: float = 20.0, key: str | None = None) -> Answer:
    return Client(address(fake.name), key).complete("/chat/completions", {"stream": True}, deadline_s)


def fault(fake: Fake, deadline_s: float = 20.0, key: str | None = None) -> ServerError:
    with serving(fake), pytest.raises(ServerError) as raised:
        list(asked(fake, deadline_s, key))
    return raised.value


def test_text_times_and_what_is_told() -> None:
    with serving(Fake(lambda _: WHOLE)) as fake:
        answer = asked(fake)
        chunks = list(answer)
    assert [chunk.text for chunk in chunks] == ["Hel", "lo"]
    assert [chunk.ids for chunk in chunks] == [None, None]
    assert answer.finish_reason == "stop"
    assert answer.told == {"usage": {"completion_tokens": 3}}
    assert answer.started_s < chunks[0].at_s <= chunks[1].at_s <= answer.ended_s


def test_a_chunk_is_there_before_the_next_is_sent() -> None:
    seen = Event()

    def says(_: object) -> Iterator[bytes]:
        yield delta("first")
        assert seen.wait(20)  # were the client to wait for more, nothing would ever come
        yield end()

    with serving(Fake(says)) as fake:
        chunks = iter(asked(fake))
        assert next(chunks).text == "first"
        seen.set()
        assert list(chunks) == []


def test_ids_thoughts_and_plain_text_are_output() -> None:
    said = [
        event(choices=[{"delta": {"reasoning_content": "hm "}, "token_ids": [7]}]),
        event(choices=[{"text": "yes", "token_ids": [8, 9]}]),
        end(),
    ]
    with serving(Fake(lambda _: said)) as fake:
        chunks = list(asked(fake))
    assert [(chunk.text, chunk.ids) for chunk in chunks] == [("hm ", (7,)), ("yes", (8, 9))]


def test_events_however_they_are_cut() -> None:
    body = b": a comment\ndata: one\r\n\r\ndata: two\ndata: lines\n\nevent: x\n\ndata:three\n\ndata: cut"
    whole = [b"one", b"two\nlines", b"three"]
    assert list(events([body])) == whole
    assert list(events([body[at : at + 1] for at in range(len(body))])) == whole


@pytest.mark.parametrize(
    ("status", "headers", "again", "wait_s"),
    [(429, {"Retry-After": "7"}, True, 7.0), (503, {}, True, None), (400, {}, False, None)],
)
def test_a_status(status: int, headers: dict[str, str], again: bool, wait_s: float | None) -> None:
    refused = fault(Fake(lambda _: [b'{"error": {"message": "too\\nbusy"}}'], status=status, headers=headers))
    assert str(refused) == f"http: status {status}: too busy"
    assert (refused.status, refused.again, refused.wait_s) == (status, again, wait_s)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ([delta("half")], "stream"),  # no reason to finish
        ([], "stream"),
        ([b"data: {not json\n\n"], "stream"),
        ([b"data: [1, 2]\n\n"], "stream"),
        ([b'data: {"choices": [3]}\n\n'], "stream"),
        ([event(choices=[{"delta": {"content": 5}}])], "stream"),
        ([event(choices=[{"finish_reason": ["stop"]}])], "stream"),
        ([b"data: " + b"[" * 200_000 + b"\n\n"], "stream"),
        ([event(error={"message": "out of memory"})], "stream"),
        ([b"data: " + b"x" * 2**18] * (2 + MOST_LINE_BYTES // 2**18), "stream"),
    ],
)
def test_a_stream_that_is_none(said: list[bytes], kind: str) -> None:
    assert fault(Fake(lambda _: said)).kind == kind


def test_an_error_in_the_stream_is_told() -> None:
    assert str(fault(Fake(lambda _: [event(error={"message": "out of memory"})]))) == "stream: out of memory"


def test_a_connection_that_breaks() -> None:
    broken = fault(Fake(lambda _: [delta("half")], whole=False))
    assert (broken.kind, broken.again) == ("connection", True)


def test_nobody_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = Fake(lambda _: WHOLE, port=free.getsockname()[1])
    with pytest.raises(ServerError, match=r"^connection: ConnectionRefusedError: Connection refused") as raised:
        list(asked(nobody))
    assert raised.value.kind == "connection"


def test_a_stream_without_end_meets_its_deadline() -> None:
    late = fault(Fake(lambda _: itertools.repeat(delta("on and "))), deadline_s=0.3)
    assert str(late) == "deadline: no whole answer within 0.3 s"


def test_silence_meets_its_deadline() -> None:
    hold = Event()
    said: Said = lambda _: iter(lambda: delta("late") if hold.wait(20) else b"", b"")  # noqa: E731
    late = fault(Fake(said), deadline_s=0.2)
    hold.set()
    assert late.kind == "deadline"


def test_cancelled_from_another_thread() -> None:
    hold, got = Event(), Event()

    def says(_: object) -> Iterator[bytes]:
        yield delta("one")
        hold.wait(20)

    with serving(Fake(says)) as fake:
        answer = asked(fake)
        faults: list[ServerError] = []

        def read() -> None:
            try:
                for _ in answer:
                    got.set()
            except ServerError as error:
                faults.append(error)

        reader = Thread(target=read)
        reader.start()
        assert got.wait(20)
        answer.cancel()
        reader.join(20)
        hold.set()
    assert [one.kind for one in faults] == ["cancelled"]


def test_cancelled_before_it_is_sent() -> None:
    with serving(Fake(lambda _: WHOLE)) as fake:
        answer = asked(fake)
        answer.cancel()
        with pytest.raises(ServerError, match=r"^cancelled"):
            list(answer)
    assert fake.asked == []


def test_the_key_is_sent_and_never_told() -> None:
    fake = Fake(lambda _: [json.dumps({"detail": "no such key: hunter2hunter2"}).encode()], status=401)
    refused = fault(fake, key="hunter2hunter2")
    assert fake.keys == ["Bearer hunter2hunter2"]
    assert str(refused) == "http: status 401: no such key: [hidden]"


@pytest.mark.parametrize("usage", [None, 3, [1], {"completion_tokens": "3"}, {"completion_tokens": -3}, {"more": 3}])
def test_a_usage_that_is_none_tells_nothing(usage: object) -> None:
    with serving(Fake(lambda _: [end(usage=usage)])) as fake:
        answer = asked(fake)
        assert list(answer) == []
    assert answer.used("completion_tokens") is None
    assert answer.used("cached_tokens", within="more") is None


@pytest.mark.parametrize(
    ("name", "url", "base", "model"),
    [
        ("openai:http://h:8000", "http://h:8000", "/v1", None),
        ("openai:http://h:8000/v1/", "http://h:8000", "/v1", None),
        ("openai:https://h/api/v1#big", "https://h:443/api", "/api/v1", "big"),
        ("openai:http://[::1]:80", "http://[::1]:80", "/v1", None),
    ],
)
def test_addresses(name: str, url: str, base: str, model: str | None) -> None:
    found = address(name)
    assert (found.url, found.base, found.model) == (url, base, model)


@pytest.mark.parametrize(
    "name", ["openai:", "openai:h:80", "openai:ftp://h", "openai:http://h:99999", "openai:http://u:p@h"]
)
def test_no_addresses(name: str) -> None:
    with pytest.raises(UsageError, match="is no server: write openai:http://HOST:PORT"):
        address(name)
