"""The engine that is another process, against a small HTTP server that streams, refuses, and is killed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import rig

from xpress_bench.errors import RunError
from xpress_bench.load.running import begin, go_on
from xpress_bench.load_records import Load, Plan, Policy, Stage, read_load
from xpress_bench.settings import DrafterSettings, Settings, TargetSettings

TOKENS = 5


class Handler(BaseHTTPRequestHandler):
    """Answers with five words; `how` says what is wrong with it."""

    protocol_version = "HTTP/1.1"
    how: ClassVar[str] = "well"
    busy: ClassVar[int] = 0  # requests that are still refused

    def do_GET(self) -> None:
        body = json.dumps({"data": [{"id": "m", "owned_by": "tests"}]}).encode()
        self.send_response(200 if self.path == "/v1/models" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if Handler.how == "busy" and Handler.busy > 0:
            Handler.busy -= 1
            self.send_response(429)
            self.send_header("Retry-After", "0")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        said = asked["messages"][-1]["content"]
        for at in range(TOKENS):
            if Handler.how == "dead" and at == 2:
                return  # as a process that is killed: the stream ends half-way
            time.sleep(0.002)
            self._say({"choices": [{"delta": {"content": f"{said}{at} "}}]})
        self._say({"choices": [{"delta": {}, "finish_reason": "stop"}]})
        self._say({"choices": [], "usage": {"completion_tokens": TOKENS, "prompt_tokens": 3}})
        self.wfile.write(b"data: [DONE]\n\n")

    def _say(self, body: dict[str, Any]) -> None:
        self.wfile.write(f"data: {json.dumps(body)}\n\n".encode())
        self.wfile.flush()

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


class Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Clients that hang up are none."""


@pytest.fixture
def url() -> Iterator[str]:
    Handler.how, Handler.busy = "well", 0
    with Quiet(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"openai:http://127.0.0.1:{server.server_port}"
        server.shutdown()


def quiet(done: int, total: int, what: str) -> None:
    """Shows nothing."""


def settings(folder: Path, url: str, **changes: Any) -> Settings:
    suite = rig.suite(folder, "ab", "cd", "ef")
    served = {"target": TargetSettings(url), "drafter": DrafterSettings(url), "threads": None, "warmup": 1}
    return rig.settings(**{"suite": str(suite), "out": str(folder / "runs"), **served} | changes)


def plan(**changes: Any) -> Plan:
    return Plan((Stage("4 clients", clients=4, requests=12),), 1, Policy(10.0, backoff_s=0.01, probe_s=0.05, **changes))


def ran(folder: Path, url: str, of: Plan) -> Load:
    made = begin(settings(folder, url), of)
    go_on(made, [], quiet)
    return read_load(made)


def test_a_server_is_loaded_as_an_engine_in_this_process_is(tmp_path: Path, url: str) -> None:
    load = ran(tmp_path, url, plan())
    for arm in ("direct", "draft"):
        requests = load.requests["4 clients", arm, 0]
        assert [one.status for one in requests] == ["ok"] * 12
        assert {(one.tokens, len(one.gaps_s), one.delivered) for one in requests} == {(TOKENS, TOKENS - 1, ())}
        assert len({(one.prompt, one.output) for one in requests}) == 3
        assert all((one.output or "").startswith("text:") for one in requests)
        assert all(
            one.started_s <= (one.first_s or 0.0) <= one.ended_s for one in requests if one.started_s is not None
        )
        assert load.marks["4 clients", arm, 0].memory == ()  # it is not this process's


def test_a_busy_server_is_asked_again(tmp_path: Path, url: str) -> None:
    of = begin(settings(tmp_path, url), plan(retries=3, failures=100))
    Handler.how, Handler.busy = "busy", 6  # four attempts of the first warm-up, two of those that count
    go_on(of, [], quiet)
    load = read_load(of)
    requests = [one for unit in load.requests.values() for one in unit]
    assert {one.status for one in requests} == {"ok"}
    assert sum(one.attempts - 1 for one in requests) == 2


def test_a_server_that_dies_leaves_failed_rows_an_open_circuit_and_a_run_to_go_on_with(
    tmp_path: Path, url: str
) -> None:
    made = begin(settings(tmp_path, url), plan(retries=1, failures=3))

    def kill(done: int, total: int, what: str) -> None:
        Handler.how = "dead" if what.startswith("4 clients") and len(read_load(made).marks) else "well"

    with pytest.raises(RunError, match=r"does not answer any more \(.*go on with xpress-bench load --resume"):
        go_on(made, [], kill)
    load = read_load(made)
    ended = [mark for mark in load.marks.values() if mark.event == "ended"]
    (broken,) = [mark for mark in load.marks.values() if mark.event == "stopped"]
    assert len(ended) == 1
    assert (broken.opened, broken.asked) == (1, len(load.requests[broken.unit]))
    statuses = [one.status for one in load.requests[broken.unit]]
    assert set(statuses) == {"failed", "shed"}
    assert all(one.reason for one in load.requests[broken.unit])
    Handler.how = "well"
    go_on(made, [], quiet)
    after = read_load(made)
    assert after.complete
    assert all(after.requests[mark.unit] == load.requests[mark.unit] for mark in ended)


def test_a_deadline_hangs_up(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = begin(settings(tmp_path, url), Plan((Stage("s", clients=1, requests=1),), 1, Policy(0.001)))
    go_on(made, [], quiet)
    requests = [one for unit in read_load(made).requests.values() for one in unit]
    assert {one.status for one in requests} == {"deadline"}
