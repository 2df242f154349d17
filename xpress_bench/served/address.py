"""Where a served engine is: `openai:URL`, or `openai:URL#MODEL` for another model than the run's."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from xpress_bench.errors import UsageError
from xpress_bench.settings import SERVED

PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Address:
    """`base`: the path of the API, as /v1; `root`: what stands before it, where /metrics is. `model` as given."""

    tls: bool
    host: str
    port: int
    root: str
    base: str
    model: str | None

    @property
    def url(self) -> str:
        """The server as people write it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{self.root}"


def address(name: str) -> Address:
    """The address that a target, drafter or refiner of the form `openai:URL` names. UsageError for any other."""
    try:
        parts = urlsplit(name.removeprefix(SERVED))
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError:
        scheme, host, port = "", None, None
    if scheme not in PORTS or not host or parts.query or parts.username is not None:
        raise UsageError(f"{name!r} is no server: write {SERVED}http://HOST:PORT, or {SERVED}http://HOST:PORT#MODEL")
    path = parts.path.rstrip("/")
    root = path.removesuffix("/v1")
    base = path if path.endswith("/v1") else f"{path}/v1"
    return Address(scheme == "https", host, port or PORTS[scheme], root, base, parts.fragment or None)
