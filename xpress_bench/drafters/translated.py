"""A draft model with a tokenizer of its own: it continues the text, and its continuation is put into the target's ids.

After the universal assisted generation of transformers. The two vocabularies share no law, so the draft is greedy and a
point mass at every temperature.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from xpress_bench.drafters import Context, Draft
from xpress_bench.errors import MisfitError
from xpress_bench.records import Condition
from xpress_bench.sampling import Sampling
from xpress_bench.targets import Target

if TYPE_CHECKING:
    from xpress_bench.drafters.draft_model import DraftModel

BEHIND = 16  # ids before a join that are looked at again: what stands further back changes nothing at it
BROKEN = "\ufffd"  # what decoders make of a character of which some bytes are missing


class Written:
    """A text that grows, in the ids of one tokenizer: those of the whole text, found from its end alone."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.text = ""
        self.ids: list[int] = tokenizer("")["input_ids"]  # what the tokenizer puts before any text
        self._before = len(self.ids)
        self._starts = [0] * self._before  # where in the text each id starts

    def grow(self, text: str) -> int:
        """Add `text` at the end. Returns how many ids, from the first on, are what they were."""
        self.text += text
        old, keep = self.ids, len(self.ids) - BEHIND
        while keep > 0 and self._starts[keep] == self._starts[keep - 1]:  # several ids of one character stay together
            keep -= 1
        if not (keep > BEHIND and self._join(keep)):
            keep = self._before
            self._put(keep, *self._encoded(0))
        again = zip(old[keep:], self.ids[keep:], strict=False)
        return keep + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], again))

    def _join(self, keep: int) -> bool:
        """Replace the ids from `keep` on; False if none begins there any more.

        How the first ids of a piece of text come out may depend on its being cut off there: they lie before the join.
        """
        ids, starts = self._encoded(self._starts[keep - BEHIND])
        if self._starts[keep] not in starts:
            return False
        join = starts.index(self._starts[keep])
        self._put(keep, ids[join:], starts[join:])
        return True

    def _put(self, keep: int, ids: list[int], starts: list[int]) -> None:
        self.ids, self._starts = [*self.ids[:keep], *ids], [*self._starts[:keep], *starts]

    def _encoded(self, start: int) -> tuple[list[int], list[int]]:
        """Ids of the text from `start` on, and where in the text each starts."""
        found = self.tokenizer(self.text[start:], add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        return found["input_ids"], [start + first for first, _ in found["offset_mapping"]]


class Translated:
    """`model` drafts as many of its own ids as a block has slots. `tokenizer` is the draft model's.

    The ids of the target's that the continuation makes are those of the text with it, where the text before comes out
    the same; else, where the two would melt into one id, those of the continuation alone.
    """

    taps: tuple[int, ...] = ()
    denoising_steps = 1

    def __init__(self, model: DraftModel, tokenizer: Any) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise MisfitError(f"drafter {model.folder}: drafter.params.translate needs its tokenizer.json")
        self.model = model
        self.block_size = model.block_size
        self.folder = model.folder
        self._own = tokenizer
        self._greedy = Sampling(Condition(0.0, "greedy"), 0, model.model.device)

    def translate_from(self, tokenizer: Any) -> None:
        """See `Translates`."""
        if not hasattr(tokenizer, "is_fast"):
            raise MisfitError("drafter.params.translate needs a target with a tokenizer of transformers'")
        self._target = tokenizer

    def start(self, target: Target, prompt: Tensor, features: Tensor | None) -> None:
        self.model.start(target, prompt, features)
        self._written = Written(self._own)
        self._read = 0  # tokens whose text is written

    def propose(self, context: Context, sampling: Sampling) -> Draft:
        count = min(self.block_size, context.room) - 1
        text = added_text(self._target, context.tokens, self._read)
        found: list[int] = []
        if count > 0 and text and not text.endswith(BROKEN):  # else the rest of a character is still to come
            self._read = len(context.tokens)
            self.model.rewind(self._written.grow(text))
            found = self._in_target(self._continuation(count))[:count]
        return Draft(torch.tensor([found], dtype=torch.long, device=context.anchor.device))

    def observe(self, features: Tensor | None) -> None:
        """Nothing to keep: the context carries the tokens."""

    def _continuation(self, count: int) -> str:
        """The text of the next `count` ids of the draft model's own."""
        own = self._written.ids
        last = torch.tensor([own[-2:]], device=self.model.model.device)
        context = Context(own, last[:, -1], last[:, 0], len(own) - 1, count + 1)
        ids: list[int] = self.model.propose(context, self._greedy).tokens[0].tolist()
        return added_text(self._own, [*own, *ids], len(own)).rstrip(BROKEN)

    def _in_target(self, continuation: str) -> list[int]:
        near = self._written.text[-BEHIND:]
        before, joined, alone = (self._encoded(text) for text in (near, near + continuation, continuation))
        return joined[len(before) :] if joined[: len(before)] == before else alone

    def _encoded(self, text: str) -> list[int]:
        found: list[int] = self._target(text, add_special_tokens=False, verbose=False)["input_ids"]
        return found


def added_text(tokenizer: Any, ids: list[int], start: int) -> str:
    """What ids[start:] add to the text of those before, by which a decoder may decide on a space between."""
    near = max(0, start - BEHIND)
    before, whole = (
        tokenizer.decode(part, clean_up_tokenization_spaces=False) for part in (ids[near:start], ids[near:])
    )
    return whole[len(before) :]  # type: ignore[no-any-return]
