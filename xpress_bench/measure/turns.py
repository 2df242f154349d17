"""Later turns of a conversation: requests of their own, whose history is what direct generation answered.

The answers are greedy and made once for a run, before anything is measured: every arm, condition, seed and launch goes
on with the same conversation. They are kept beside the journal, for the run's other processes and for a reader.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from xpress_bench.measure.journal import write_whole
from xpress_bench.measure.prompts import Prompt, render, too_long
from xpress_bench.measure.ready import Ready
from xpress_bench.measure.requests import Requests
from xpress_bench.measure.schedule import Slot
from xpress_bench.records import Condition, Skipped
from xpress_bench.settings import Settings

TURNS = "turns.json"  # beside the journal: item id -> answers to all its turns but the last that is run
Answers = dict[str, list[str]]


def with_later_turns(ready: Ready, settings: Settings, folder: Path) -> Ready:
    """`ready` with the later turns that are asked for; reads the answers of the run in `folder`, or makes them."""
    file = folder / TURNS
    held: Answers | None = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
    made: Answers = {}
    later, skipped = list[Prompt](), list[Skipped]()
    for prompt in ready.prompts:
        answers = made.setdefault(prompt.item.id, []) if held is None else held.get(prompt.item.id, [])
        found, left = _conversation(prompt, answers, ready, settings, generate=held is None)
        later += found
        skipped += left
    told = {item: answers for item, answers in made.items() if answers}
    if told:
        write_whole(file, json.dumps(told, ensure_ascii=False, indent=1))
    if not later and not skipped:
        return ready
    parts, prompts = ready.parts, [*ready.prompts, *later]
    clock = ready.requests.clock
    requests = type(ready.requests)(parts.target, parts.tokenizer, parts.arms, prompts, clock, settings.deadline_s)
    return replace(ready, prompts=prompts, skipped=[*ready.skipped, *skipped], requests=requests)


def _conversation(
    first: Prompt, answers: list[str], ready: Ready, settings: Settings, *, generate: bool
) -> tuple[list[Prompt], list[Skipped]]:
    """The turns after the first of one item; `answers` grows by what has to be generated."""
    target, prompts, history = ready.parts.target, [first], [first.item.prompt]
    for turn in range(2, ready.suite.turns_of(first.item, settings.turns) + 1):
        if generate:
            answers.append(_answer(ready.requests, prompts[-1]))
        assert first.item.turns is not None
        history += [answers[turn - 2], first.item.turns[turn - 1]]
        ids = render(history, ready.parts.tokenizer, settings.target)
        prompt = Prompt(first.item, ids, first.budget, turn)
        left = too_long(prompt, target.context)
        if left:
            return prompts[1:], [left]
        prompts.append(prompt)
    return prompts[1:], []


def _answer(requests: Requests, prompt: Prompt) -> str:
    """What direct generation says, greedily."""
    return requests.said(prompt, Slot(Condition(0.0, "greedy"), prompt.item.id, 0, 0, "direct", 0, prompt.turn))
