"""The server of an arm: which model it serves, what it is, and a request to it measured."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from time import perf_counter, sleep
from typing import Any

from xpress_bench.errors import UsageError, nearest
from xpress_bench.served.address import address
from xpress_bench.served.client import Answer, Client, ServerError
from xpress_bench.served.counters import Counters, Speculation, added, counted, counters
from xpress_bench.served.engines import Engine, engine_of, told
from xpress_bench.settings import TargetSettings
from xpress_bench.tally import Source

COUNTED_WITHIN_S = 2.0  # after an answer: engines count it a little later
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Server:
    """A server that answered. `says`: what it tells of itself and its settings, for the journal."""

    client: Client
    model: str
    engine: Engine
    says: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Model and address."""
        return f"{self.model} at {self.client.at.url}"

    def ask(self, prompt: str | list[dict[str, str]], limits: Mapping[str, Any], deadline_s: float) -> Answer:
        """The answer to messages, or to plain text that is to be gone on with; it is sent when that is iterated.

        limits: max_tokens, temperature and seed; what else is needed for the whole law of the target is added.
        """
        chat = not isinstance(prompt, str)
        body: dict[str, Any] = {"model": self.model, "messages" if chat else "prompt": prompt, "top_p": 1.0}
        body |= {"stream": True, "stream_options": {"include_usage": True}, **self.engine.asks, **limits}
        return self.client.complete("/chat/completions" if chat else "/completions", body, deadline_s)

    def counters(self) -> Counters | None:
        """What its Prometheus page says now; None if there is none, or none that counts speculation."""
        try:
            return counters(self.client.get("/metrics").decode("utf-8", "replace"), self.model)
        except ServerError:
            return None

    def speculation(self, answer: Answer, before: Counters | None, tokens: int) -> tuple[Speculation, Source] | str:
        """What it did for an answer of so many tokens, and by what that is known; or the reason why it is not.

        What comes with an answer is of that request for sure. Counters are believed if no other request moved them;
        where both are there they must agree, and then counters add what the answer left out.
        """
        own = told(answer.told)
        if own and own.drafts is not None:
            return own, "request"
        more = self._added(before, tokens)
        if isinstance(more, str):
            return (own, "request") if own else more
        if own is None:
            return more, "counters"
        agree = (more.offered, more.accepted) == (own.offered, own.accepted)
        return (more, "both") if agree else (own, "request")

    def _added(self, before: Counters | None, tokens: int) -> Speculation | str:
        if before is None:
            return "the server tells nothing of its speculation, neither with an answer nor on a page of counters"
        until_s = perf_counter() + COUNTED_WITHIN_S
        while (after := self.counters()) and perf_counter() < until_s and not counted(before, after, tokens):
            sleep(POLL_S)
        return added(before, after, tokens) if after else "the server's page of counters is gone"


def reach(name: str, settings: TargetSettings) -> Server:
    """The server that an arm names. UsageError if there is none, or if it does not serve the model asked for."""
    at = address(name)
    client = Client(at, _key(settings.api_key_env))
    try:
        models = _models(client)
    except ServerError as fault:
        todo = f"start one there, as `vllm serve MODEL --port {at.port}`"
        if fault.kind != "connection":
            todo = "is it one of OpenAI's protocol, and has it its key, with target.api_key_env?"
        raise UsageError(f"no server answers at {at.url} ({fault}): {todo}") from fault
    model = _chosen(at.url, at.model or settings.model, list(models))
    entry = models.get(model, {})
    engine = engine_of(entry)
    return Server(client, model, engine, _says(client, engine, entry) | {"url": at.url, "model": model})


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    if not os.environ.get(variable):
        raise UsageError(f"target.api_key_env is {variable}: no environment variable of that name holds a key")
    return os.environ[variable]


def _models(client: Client) -> dict[str, dict[str, Any]]:
    body = client.get(f"{client.at.base.removeprefix(client.at.root)}/models")
    try:
        return {str(one["id"]): one for one in json.loads(body)["data"]}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ServerError("stream", "its list of models is none") from error


def _chosen(url: str, asked: str | None, served: list[str]) -> str:
    if asked is None:
        if len(served) != 1:
            raise UsageError(f"{url} serves {', '.join(served[:8]) or 'no model'}: say which with --model NAME")
        return served[0]
    if served and asked not in served:
        raise UsageError(f"{url} does not serve {asked!r}; {nearest(asked, served, f'it serves {served[0]}')}")
    return asked


def _says(client: Client, engine: Engine, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Engine, context, and the settings it reports, with a hash of these."""
    page = _page(client, engine.about) if engine.about else {}
    kept = {name: page[name] for name in engine.keeps if name in page}
    defaults = page.get("default_generation_settings")
    meta = entry.get("meta")
    context = entry.get("max_model_len") or (meta.get("n_ctx") if isinstance(meta, dict) else None)
    if "chat_template" in kept:
        kept["chat_template"] = sha256(str(kept["chat_template"]).encode()).hexdigest()
    if isinstance(defaults, dict):
        kept["n_ctx"] = defaults.get("n_ctx")
    digest = sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest() if kept else None
    version = kept.get("version") or kept.get("build_info")
    return {"engine": engine.name, "version": version, "context": context, "settings": kept, "settings_sha256": digest}


def _page(client: Client, path: str) -> dict[str, Any]:
    try:
        found = json.loads(client.get(path))
    except (ServerError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
