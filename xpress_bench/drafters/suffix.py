"""Suffix decoding: continue as the text did, most often, after earlier occurrences of its longest suffixes.

After SuffixDecoding (Oliaro et al. 2024), with a search of the places where the last token occurred in place of a tree
of all suffixes. Needs no model and no training; prompt lookup is the case of one place and a fixed length.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from xpress_bench.drafters import Context, Draft
from xpress_bench.errors import UsageError
from xpress_bench.options import above_zero, checked, whole
from xpress_bench.sampling import Sampling
from xpress_bench.settings import DrafterSettings
from xpress_bench.targets import Target

BLOCK_SIZE = 8
OPTIONS = {
    "max_depth": whole(1),
    "factor": above_zero(),
    "min_probability": above_zero(most=1),
    "memory": whole(0),
}


class Text:
    """Ids, and the places that each of them was followed at."""

    def __init__(self, ids: Iterable[int] = ()) -> None:
        self.ids: list[int] = []
        self.after: dict[int, list[int]] = {}  # id -> indices of the ids that follow it
        self.grow(ids)

    def grow(self, ids: Iterable[int]) -> None:
        for token in ids:
            if self.ids:
                self.after.setdefault(self.ids[-1], []).append(len(self.ids))
            self.ids.append(token)


Place = tuple[list[int], int]  # a text's ids, and the index of the continuation in them


@dataclass
class Suffix:
    """Proposes the continuation that is expected to have most tokens accepted, judged by how often each was seen.

    A suffix of m tokens, `max_depth` at most, drafts up to `factor` * m tokens, as long as the chance that the text
    follows them all is `min_probability` or more. Counts are of this request's prompt and output.

    `memory` tokens of the outputs of earlier requests count as well, the oldest are forgotten first. Then requests are
    no longer independent: one gains from those that happened to run before it, in this process, and intervals that
    take prompts as independent are too narrow. An earlier answer to the same prompt, or to a later turn of it, is never
    used: a repeat would copy its own answer, which no request of a user can.
    """

    block_size: int
    max_depth: int = 24  # this and the next two: the defaults of the authors' implementation
    factor: float = 1.0
    min_probability: float = 0.1
    memory: int = 0
    taps: tuple[int, ...] = ()
    denoising_steps: int = 1
    _prompt: list[int] = field(default_factory=list)
    _text: Text = field(default_factory=Text)  # of this request
    _outputs: deque[tuple[list[int], Text]] = field(default_factory=deque)  # prompt and output of earlier requests

    @property
    def batchable(self) -> bool:
        """Requests that run at once have no order in which one could learn from another."""
        return self.memory == 0

    def start(self, target: Target, prompt: Tensor, features: Tensor | None) -> None:
        self._remember()
        self._prompt, self._text = prompt[0].tolist(), Text()
        allowed = [text for asked, text in self._outputs if asked[: len(self._prompt)] != self._prompt]
        self._texts = [self._text, *reversed(allowed)]

    def propose(self, context: Context, sampling: Sampling) -> Draft:
        self._text.grow(context.tokens[len(self._text.ids) :])
        found = self._best(context.tokens, min(self.block_size, context.room) - 1)
        return Draft(torch.tensor([found], dtype=torch.long, device=context.anchor.device))

    def observe(self, features: Tensor | None) -> None:
        """Nothing to keep: the context carries the tokens."""

    def _remember(self) -> None:
        """Keep the last request's output: all that was known when its last block was drafted."""
        self._outputs.append((self._prompt, Text(self._text.ids[len(self._prompt) :])))
        while self._outputs and not 0 < sum(len(text.ids) for _, text in self._outputs) <= self.memory:
            self._outputs.popleft()

    def _best(self, tokens: list[int], most: int) -> list[int]:
        # Newest first: of continuations seen equally often the one seen last is followed.
        places = [(text.ids, at) for text in self._texts for at in reversed(text.after.get(tokens[-1], []))]
        best: list[int] = []
        best_score, matched, deepest = 0.0, 1, min(self.max_depth, len(tokens))
        while places:
            before = None if matched == deepest else tokens[-1 - matched]
            longer = [(ids, at) for ids, at in places if at > matched and ids[at - 1 - matched] == before]
            if len(longer) < len(places):  # else the longer suffix says the same, and may draft more
                draft, score = self._follow(places, min(most, int(self.factor * matched)))
                if score >= best_score:  # of equal ones the longer match
                    best, best_score = draft, score
            places, matched = longer, matched + 1
        return best

    def _follow(self, places: list[Place], most: int) -> tuple[list[int], float]:
        """The most frequent continuation, and how many of its tokens the counts let expect to be accepted."""
        draft: list[int] = []
        chance, score = 1.0, 0.0
        while len(draft) < most:
            seen = [(ids, at) for ids, at in places if at < len(ids)]
            if not seen:
                break
            token, times = Counter(ids[at] for ids, at in seen).most_common(1)[0]
            chance *= times / len(seen)
            if chance < self.min_probability:
                break
            draft.append(token)
            score += chance
            places = [(ids, at + 1) for ids, at in seen if ids[at] == token]
        return draft, score


def load(settings: DrafterSettings, target: Target, block_size: int | None) -> Suffix:
    """See `Suffix` for `drafter.params`."""
    if settings.denoising_steps != 1:
        raise UsageError(f"drafter.denoising_steps is {settings.denoising_steps}: suffix copies in one step")
    return Suffix(block_size or BLOCK_SIZE, **checked(settings, OPTIONS))
