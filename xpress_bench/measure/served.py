"""Served arms: what stands for target and tokenizer where servers answer, and requests that ask them.

A prompt's ids are known to its server only. Here they are the bytes of its messages, so that prompts are rendered,
ordered, hashed and gone on with as ever.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from xpress_bench.errors import MisfitError, RunError, UsageError
from xpress_bench.measure.prompts import Prompt
from xpress_bench.measure.requests import Requests
from xpress_bench.measure.schedule import Slot
from xpress_bench.parts import NONE, Parts, PlannedArm
from xpress_bench.records import Arm, Cell, Counts, Memory
from xpress_bench.sampling import stable_seed
from xpress_bench.served.client import Answer, ServerError
from xpress_bench.served.counters import Counters
from xpress_bench.served.servers import Server, reach
from xpress_bench.settings import ONE_DRAFT, SERVED, DrafterSettings, RefinerSettings, Settings, TargetSettings, flat

DIRECT = "direct"
GIVE_UP = 5  # requests in a row that find no server
STOPS = {"stop": "stop", "length": "length"}  # by `finish_reason`; the first is a stop id or word, nobody says which
_UNASKED = {
    "target": asdict(TargetSettings("")),
    "drafter": asdict(DrafterSettings(NONE)),
    "refiner": asdict(RefinerSettings(NONE)),
    "candidates": asdict(ONE_DRAFT),
    **{
        "block_size": None,
        "batch_size": 1,
        "dtype": "float32",
        "weights": "trained",
        "compile": False,
        "threads": None,
    },
}
_OURS = {f"target.{name}" for name in ("name", "model", "api_key_env", "thinking", "chat_template")}
_OURS |= {"drafter.name", "refiner.name"}
# Settings that a client cannot make, with the values that ask for nothing.
THEIRS = {key: value for key, value in flat(_UNASKED).items() if key not in _OURS}


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers of a run by arm. It stands where a target stands, and knows as much of one as a client can.

    `chat`: prompts are messages, not plain text. `thinking`: as messages are to be answered.
    """

    of: Mapping[str, Server]
    chat: bool
    thinking: bool

    stop_ids = ()
    vocab_size = None
    context = sys.maxsize  # a prompt that is too long is refused by its server
    device = torch.device("cpu")

    @property
    def name(self) -> str:
        return next(iter(self.of.values())).model

    @property
    def says(self) -> dict[str, Any]:
        """For the header: what the servers say of themselves, in place of what is known of a model in this process."""
        servers = {arm: dict(server.says) for arm, server in self.of.items()}
        contexts = {says["context"] for says in servers.values()}
        context = contexts.pop() if len(contexts) == 1 else None
        return {"dtype": "as served", "device": "client", "context": context, "servers": servers}

    def ask(self, arm: str, prompt: Prompt, temperature: float, seed: int, tokens: int, deadline_s: float) -> Answer:
        """An arm's answer to a prompt, of so many tokens at most; it is sent when that is iterated."""
        server, sent = self.of[arm], bytes(prompt.ids).decode()
        limits: dict[str, Any] = {"max_tokens": tokens, "temperature": temperature, "seed": seed % 2**31}
        if self.chat and server.engine.thinking:
            limits["chat_template_kwargs"] = {"enable_thinking": self.thinking}
        return server.ask(json.loads(sent) if self.chat else sent, limits, deadline_s)


class Messages:
    """Stands where a tokenizer stands: ids are bytes."""

    chat_template = "that of the server"

    def apply_chat_template(self, messages: list[dict[str, str]], **_: Any) -> dict[str, list[int]]:
        return {"input_ids": list(json.dumps(messages, ensure_ascii=False).encode())}

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": list(text.encode())}

    def get_vocab(self) -> dict[str, int]:
        return {}


def reach_servers(settings: Settings) -> Parts:
    """The servers that `settings` name as parts of a run. UsageError for one that does not answer, or cannot do it."""
    refuse_theirs(settings)
    target, drafter, refiner = settings.target.name, settings.drafter.name, settings.refiner.name
    arms = {DIRECT: Arm(DIRECT, None, None, None, None, None)}
    if drafter != NONE:
        arms["draft"] = Arm("draft", drafter, None, None, None, None)
    if refiner != NONE:
        arms["refine"] = Arm("refine", None, refiner, None, None, None)
    named = [name for name in (target, drafter, refiner) if name != NONE]
    servers = {arm: reach(name, settings.target) for arm, name in zip(arms, named, strict=True)}
    for server in servers.values():
        if settings.target.thinking and not server.engine.thinking:
            raise UsageError(f"target.thinking: {server.name} cannot be asked for it; start the server with it instead")
    stands: Any = Servers(servers, settings.target.chat_template, settings.target.thinking)
    return Parts(stands, Messages(), tuple(PlannedArm(arm, None, ()) for arm in arms.values()))


def refuse_theirs(settings: Settings) -> None:
    """UsageError for what only a server's command line can set, and for what a server does by a rule of its own."""
    for part, name in (("drafter", settings.drafter.name), ("refiner", settings.refiner.name)):
        if name != NONE and not name.startswith(SERVED):
            raise UsageError(
                f"{part} {name!r} beside a served target: a server does its own drafting; "
                f"give another server, --{part} {SERVED}URL, or --{part} none"
            )
    for key, value in flat(asdict(settings)).items():
        if value != THEIRS.get(key, value) or ".params." in key:
            raise UsageError(f"{key} is {value!r}, and the target is served: that is set where the server is started")
    if any(condition.verifier == "coupled" for condition in settings.conditions()):
        raise UsageError("a served target above temperature 0 has a rule of its own: say --verifier rejection")


def unmeasured(arm: str) -> Memory:
    """What is known of the memory of a served arm."""
    return Memory(arm, "process_peak_rss", None, reason="it is of the server's own process, which may be anywhere")


class ServedRequests(Requests):
    """Runs slots on servers. Requests go one at a time, each over a connection of its own that is open before."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._read: dict[tuple[str, int], int] = {}  # prompt tokens by prompt, as the first server that answered said
        self._silent = 0  # requests in a row that found no server

    def _reserve(self) -> None:
        """Nothing is held here."""

    def run_together(self, slots: Sequence[Slot], launch: int) -> list[Cell]:
        """Measure a slot, or several one after the other. RunError where the servers are gone."""
        return [self._run(slot, launch) for slot in slots]

    def said(self, prompt: Prompt, slot: Slot) -> str:
        try:
            text, _, _ = _taken(self._asked(slot, prompt))
        except ServerError as fault:
            raise RunError(f"{slot.prompt}: its first turns are not answered ({fault})") from fault
        return text

    def _run(self, slot: Slot, launch: int) -> Cell:
        server, prompt = self._server(slot), self.prompts[slot.key]
        if self._silent >= GIVE_UP:
            url = server.client.at.url
            raise RunError(f"{self._silent} requests in a row found no server, the next is for {url}: start it again")
        try:
            measured = self._answered(slot, prompt)
            self._silent = 0
        except ServerError as fault:
            self._silent = self._silent + 1 if fault.kind == "connection" else 0
            measured = {"error": str(fault)}
        return replace(self._cell(slot, prompt, launch, **measured), prompt_tokens=self._read.get(slot.key))

    def _server(self, slot: Slot) -> Server:
        stands: Any = self.target
        found: Server = stands.of[slot.arm]
        return found

    def _asked(self, slot: Slot, prompt: Prompt) -> Answer:
        seed = stable_seed(slot.seed, f"{slot.prompt}, turn {slot.turn}")
        stands: Any = self.target
        answer: Answer = stands.ask(slot.arm, prompt, slot.condition.temperature, seed, prompt.budget, self.deadline_s)
        return answer

    def _answered(self, slot: Slot, prompt: Prompt) -> dict[str, Any]:
        server = self._server(slot)
        before = server.counters()
        answer = self._asked(slot, prompt)
        text, ids, first_s = _taken(answer)
        tokens = _tokens(ids, answer.used("completion_tokens"))
        self._refuse_other_prompt(slot, answer.used("prompt_tokens"))
        return {
            "ids": ids or (),
            "text": text,
            "stop_reason": STOPS.get(answer.finish_reason or "", "short"),
            "latency_s": answer.ended_s - answer.started_s,
            "ttft_s": first_s - answer.started_s,
            "counts": replace(
                _speculation(server, slot.arm, answer, before, tokens),
                by="usage" if ids is None else "ids",
                cached=answer.used("cached_tokens", within="prompt_tokens_details"),
            ),
        }

    def _refuse_other_prompt(self, slot: Slot, read: int | None) -> None:
        """MisfitError if two servers make different tokens of the same messages, as their numbers tell."""
        if read is not None and (known := self._read.setdefault(slot.key, read)) != read:
            raise MisfitError(
                f"{self._server(slot).name} reads {read} tokens in prompt {slot.prompt}, another arm {known}: "
                "give all servers the same model and chat template"
            )


def _taken(answer: Answer) -> tuple[str, tuple[int, ...] | None, float]:
    """Text, ids where the server gives them, and when the first output came."""
    chunks = list(answer)
    told = [chunk.ids for chunk in chunks if chunk.ids is not None]
    ids = tuple(token for some in told for token in some)
    first_s = chunks[0].at_s if chunks else answer.ended_s  # an output may be its stop id alone
    return "".join(chunk.text for chunk in chunks), ids if told else None, first_s


def _tokens(ids: tuple[int, ...] | None, usage: int | None) -> int:
    if ids is None and usage is None:
        raise ServerError("stream", "the server tells neither token ids nor their number")
    if ids is not None and usage not in (None, len(ids)):
        raise ServerError("stream", f"{len(ids)} ids came, and the server counts {usage}")
    return len(ids) if ids is not None else usage or 0


def _speculation(server: Server, arm: str, answer: Answer, before: Counters | None, tokens: int) -> Counts:
    """What the server did; MisfitError if direct generation is not what it says."""
    known = server.speculation(answer, before, tokens)
    if isinstance(known, str):
        return Counts(tokens, "usage", reason=None if arm == DIRECT else known)
    found, source = known
    if arm == DIRECT:
        if found.offered or found.drafts:
            raise MisfitError(f"arm {DIRECT}: {server.name} drafts; start it without speculation, or name another")
        return Counts(tokens, "usage")
    if None not in (found.offered, found.accepted) and (found.accepted or 0) > (found.offered or 0):
        return Counts(tokens, "usage", reason="the server counts more draft tokens accepted than drafted")
    return Counts(tokens, "usage", found.drafts, found.offered, found.accepted, found.reached, source=source)
