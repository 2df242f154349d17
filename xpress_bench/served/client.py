"""A streamed completion over HTTP: what arrived when, and every way in which it can fail told in one line."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from time import perf_counter
from typing import Any, Literal

from xpress_bench.errors import HIDDEN, redact
from xpress_bench.served.address import Address

BLOCK = 2**16  # bytes read at a time at most; what is there is read at once
MOST_LINE_BYTES = 2**20
MOST_BYTES = 2**26  # of an answer
MOST_TOLD = 300  # characters of what a server says of an error
Kind = Literal["connection", "http", "stream", "deadline", "cancelled"]


class ServerError(Exception):
    """A request that got no whole answer, as `kind: what happened`.

    connection: none, or it broke. http: a status other than 200. stream: what came is no whole completion. `status` is
    that of HTTP; `wait_s` is how long the server asks to be left alone.
    """

    def __init__(self, kind: Kind, what: str, status: int | None = None, wait_s: float | None = None) -> None:
        super().__init__(f"{kind}: {what}")
        self.kind = kind
        self.status = status
        self.wait_s = wait_s

    @property
    def again(self) -> bool:
        """Whether the same request may succeed later."""
        return self.kind == "connection" or self.status == 429 or (self.status or 0) >= 500


@dataclass(frozen=True, slots=True)
class Chunk:
    """Output that came at `at_s` of time.perf_counter(). `ids`: its token ids, None where the server tells none."""

    at_s: float
    text: str
    ids: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Client:
    """Asks one server. `key` is sent as a bearer token and never told."""

    at: Address
    key: str | None = None

    def get(self, path: str, timeout_s: float = 10.0) -> bytes:
        """The body of a page at a path of the server. Raises ServerError."""
        answer = Answer(self, "GET", self.at.root + path, None, timeout_s)
        return b"".join(answer.blocks())

    def complete(self, path: str, body: Mapping[str, Any], deadline_s: float) -> Answer:
        """The answer to a request for a streamed completion at a path of the API; it is sent when that is iterated."""
        return Answer(self, "POST", self.at.base + path, json.dumps(body).encode(), deadline_s)

    def connection(self, timeout_s: float) -> HTTPConnection:
        """A new connection, not opened yet."""
        kind = HTTPSConnection if self.at.tls else HTTPConnection
        return kind(self.at.host, self.at.port, timeout=timeout_s)

    def headers(self) -> dict[str, str]:
        """Headers of a request."""
        asked = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        return asked | ({"Authorization": f"Bearer {self.key}"} if self.key else {})

    def safe(self, text: str) -> str:
        """What a server said, on one line, cut, and without secrets."""
        hidden = text.replace(self.key, HIDDEN) if self.key else text
        return redact(" ".join(hidden.split()))[:MOST_TOLD]


class Answer:
    """One request and its answer. Iterating sends it and gives its chunks; any other thread may cancel it meanwhile.

    Once iterated: `started_s` is when it was sent, over a connection that was open by then, `ended_s` when its last
    chunk or its end came, both of time.perf_counter(). `told`: what the server said beside the output, by name (usage,
    timings, ...).
    """

    def __init__(self, client: Client, method: str, path: str, body: bytes | None, deadline_s: float) -> None:
        self._client = client
        self._request = method, path, body
        self._deadline_s = deadline_s
        self._socket: socket.socket | None = None
        self._cancelled = False
        self.started_s = self.ended_s = 0.0
        self.finish_reason: str | None = None
        self.told: dict[str, Any] = {}

    def used(self, name: str, within: str | None = None) -> int | None:
        """A number of the server's usage by its name, of a table in it where one is named; None if it tells none."""
        usage = self.told.get("usage")
        table = usage.get(within) if within and isinstance(usage, Mapping) else usage
        value = table.get(name) if isinstance(table, Mapping) else None
        return value if type(value) is int and value >= 0 else None

    def cancel(self) -> None:
        """Hang up; whoever iterates gets a ServerError."""
        self._cancelled = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def __iter__(self) -> Iterator[Chunk]:
        """Chunks with output, as they come. Raises ServerError, also when the end is missing."""
        for data in events(self.blocks()):
            if data != b"[DONE]":
                yield from self._chunk(data)
        if self.finish_reason is None:
            raise ServerError("stream", "it ended without a reason to finish")

    def blocks(self) -> Iterator[bytes]:
        """The body as it comes. Raises ServerError."""
        until_s = perf_counter() + self._deadline_s
        try:
            with closing(self._client.connection(self._deadline_s)) as connection:
                yield from self._blocks(connection, until_s)
        except ServerError:
            raise
        except (OSError, HTTPException, ValueError) as error:
            raise self._fault(error) from error

    def _blocks(self, connection: HTTPConnection, until_s: float) -> Iterator[bytes]:
        connection.connect()
        self._socket = connection.sock
        method, path, body = self._request
        self.started_s = perf_counter()
        self._wait_at_most(until_s)
        connection.request(method, path, body, self._client.headers())
        total = 0
        with closing(connection.getresponse()) as response:
            if response.status != 200:
                raise self._refused(response)
            while block := self._read(response, until_s):
                total += len(block)
                if total > MOST_BYTES:
                    raise ServerError("stream", f"more than {MOST_BYTES} bytes came")
                yield block
        self._refuse_cancelled()  # hanging up may look like the end

    def _read(self, response: HTTPResponse, until_s: float) -> bytes:
        self._wait_at_most(until_s)
        return response.read1(BLOCK)

    def _refuse_cancelled(self) -> None:
        if self._cancelled:
            raise ServerError("cancelled", "the client hung up")

    def _wait_at_most(self, until_s: float) -> None:
        self._refuse_cancelled()  # it may have come before there was a connection
        left_s = until_s - perf_counter()
        if left_s <= 0:
            raise TimeoutError
        if self._socket is not None:
            self._socket.settimeout(left_s)

    def _fault(self, error: Exception) -> ServerError:
        if self._cancelled:
            return ServerError("cancelled", "the client hung up")
        if isinstance(error, TimeoutError):
            return ServerError("deadline", f"no whole answer within {self._deadline_s:g} s")
        what = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        said = self._client.safe(f"{type(error).__name__}: {what}" if what else type(error).__name__)
        return ServerError("connection", f"{said} ({self._client.at.url})")

    def _refused(self, response: HTTPResponse) -> ServerError:
        body = response.read1(BLOCK).decode("utf-8", "replace")
        said = self._client.safe(_message(body))
        wait = response.getheader("Retry-After", "")
        wait_s = float(wait) if wait.isdecimal() else None
        return ServerError("http", f"status {response.status}: {said or response.reason}", response.status, wait_s)

    def _chunk(self, data: bytes) -> Iterator[Chunk]:
        now_s = perf_counter()
        try:
            body = json.loads(data)
            if body.get("error"):
                raise ServerError("stream", self._client.safe(_message(data.decode())))
            choice: dict[str, Any] = next(iter(body.pop("choices", None) or ()), {})
            text, ids = _output(choice)
            finished = choice.get("finish_reason")
            if not isinstance(finished, str | None):
                raise TypeError("a reason to finish that is no text")
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise ServerError("stream", f"an event that is no part of a completion, {data[:40]!r}") from error
        self.told |= {name: value for name, value in body.items() if value is not None}
        self.finish_reason = finished or self.finish_reason
        if text or ids or finished:
            self.ended_s = now_s
        if text or ids:
            yield Chunk(now_s, text, ids)


def events(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The data of each server-sent event in a body (WHATWG HTML, section 9.2). Raises ServerError for a huge line."""
    held, data = b"", list[bytes]()
    for block in blocks:
        *lines, held = (held + block).replace(b"\r\n", b"\n").split(b"\n")
        if len(held) > MOST_LINE_BYTES:
            raise ServerError("stream", f"a line of more than {MOST_LINE_BYTES} bytes")
        for line in lines:
            name, _, value = line.partition(b":")
            if name == b"data":
                data.append(value.removeprefix(b" "))
            elif not line.strip() and data:
                yield b"\n".join(data)
                data = []


def _output(choice: Mapping[str, Any]) -> tuple[str, tuple[int, ...] | None]:
    """Text, thought included, and ids of one choice, of a chat or of plain text."""
    delta = choice.get("delta") or {}
    parts = [delta.get("reasoning_content") or delta.get("reasoning"), delta.get("content"), choice.get("text")]
    ids = choice.get("token_ids")
    return "".join(part for part in parts if part), None if ids is None else tuple(map(int, ids))


def _message(body: str) -> str:
    """What an error says, in any of the forms in which servers wrap it."""
    try:
        found = json.loads(body)
        for name in ("error", "message", "detail"):
            found = found.get(name, found) if isinstance(found, dict) else found
    except (ValueError, RecursionError):
        found = body
    return found if isinstance(found, str) else json.dumps(found)
