"""A server of OpenAI's protocol on loopback that answers as a test says: no model, no waiting."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from threading import Thread
from typing import Any

Said = Callable[[Mapping[str, Any]], Iterable[bytes]]  # body of a request -> blocks of the answer, each sent at once


@dataclass
class Fake:
    """`says`: the answer to a completion. `pages`: bodies of other paths. `status`, `headers`: of completions."""

    says: Said
    pages: dict[str, str] = field(default_factory=dict)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    whole: bool = True  # False: the connection breaks where the answer should end
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def name(self) -> str:
        return f"openai:{self.url}"


def event(**body: Any) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def delta(text: str, **more: Any) -> bytes:
    return event(choices=[{"delta": {"content": text}, **more}])


def end(reason: str = "stop", **told: Any) -> bytes:
    return event(choices=[{"delta": {}, "finish_reason": reason}]) + event(choices=[], **told) + b"data: [DONE]\n\n"


def models(*names: str, owned_by: str = "test", **more: Any) -> dict[str, str]:
    """The page that lists what a server serves."""
    return {"/v1/models": json.dumps({"data": [{"id": name, "owned_by": owned_by, **more} for name in names]})}


@contextmanager
def serving(fake: Fake) -> Iterator[Fake]:
    """Serves until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Nothing."""

        def do_GET(self) -> None:
            body = fake.pages.get(self.path, "").encode()
            self.send_response(200 if self.path in fake.pages else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            fake.asked.append(body)
            fake.keys.append(self.headers["Authorization"])
            self.send_response(fake.status)
            for name, value in {"Transfer-Encoding": "chunked", **fake.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):  # the client may hang up
                for block in chain(fake.says(body), [b""] * fake.whole):
                    self.wfile.write(f"{len(block):x}\r\n".encode() + block + b"\r\n")
                    self.wfile.flush()
            self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    fake.port = server.server_address[1]
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
