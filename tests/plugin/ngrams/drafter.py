from dataclasses import dataclass
from itertools import pairwise

from xpress_bench.drafters import Draft


@dataclass
class Bigrams:
    """After each token it proposes what came after that token last."""

    block_size: int
    taps: tuple[int, ...] = ()  # target layers that it reads: none
    denoising_steps: int = 1

    def start(self, target, prompt, features):
        """A new request: forget the last one."""

    def propose(self, context, sampling):
        follows, row = dict(pairwise(context.tokens)), [context.tokens[-1]]
        while row[-1] in follows and len(row) < min(self.block_size, context.room):
            row.append(follows[row[-1]])
        return Draft(context.anchor.new_tensor([row[1:]]))  # slot 0 is the anchor's own

    def observe(self, features):
        """The features of what was just committed."""


def load(settings, target, block_size):
    return Bigrams(block_size or 8)
