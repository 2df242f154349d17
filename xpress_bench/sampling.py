"""How a token is picked: argmax at temperature 0, argmax of logits plus Gumbel noise above it.

The Gumbel trick makes sampling a deterministic function of a noise tensor, so the noise can be shared. `KeyedNoise`
depends on the seed and the absolute position only: direct generation, draft, refinement and verification then all see
the same noise at the same place, and the arms of a run are paired to the token (drafter-invariant speculative decoding,
Daliri, Musco and Suresh 2024). `FreshNoise` is drawn anew each time, as rejection sampling needs it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from xpress_bench.records import Condition


def pick(logits: Tensor, temperature: float, noise: Tensor | None) -> Tensor:
    """Token ids [b, n] from logits [b, n, V] and noise of the same shape; `noise` None means argmax.

    At temperature 0 noise can only be a preference: a candidate's own, which forces a token (`candidates`).
    """
    if noise is None:
        return logits.argmax(-1)
    return (_wide(logits) / (temperature or 1.0) + noise).argmax(-1)


def law(logits: Tensor, temperature: float) -> Tensor:
    """Probabilities [b, n, V], at least float32, from which `pick` draws at a temperature above 0."""
    return (_wide(logits) / temperature).softmax(-1)


def log_law(logits: Tensor, temperature: float, noise: Tensor | None) -> Tensor:
    """Log-probabilities [b, n, V] of what `pick` takes the largest of; at temperature 0 those of temperature 1."""
    scaled = _wide(logits) / (temperature or 1.0)
    return (scaled if noise is None else scaled + noise).log_softmax(-1)


def _wide(logits: Tensor) -> Tensor:
    """At least float32: a token picked from rounder numbers would not follow its recorded law (C03)."""
    return logits if logits.dtype == torch.float64 else logits.float()


class Noise(Protocol):
    """Source of Gumbel noise for one request."""

    def at(self, position: int, count: int, like: Tensor) -> Tensor | None:
        """Noise [b or 1, count, V] for absolute positions `position`.., on the device of `like` [b, n, V]."""
        ...


class Coins(Noise, Protocol):
    """A source that also has uniform draws, for rejection sampling."""

    def coins(self, like: Tensor) -> Tensor:
        """Draws from [0, 1) in the shape of `like`."""
        ...


class NoNoise:
    """Greedy decoding."""

    def at(self, position: int, count: int, like: Tensor) -> Tensor | None:
        return None


class KeyedNoise:
    """Noise of a position is a function of (seed, position) alone; rows are remembered for the request."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._rows: dict[tuple[int, int, torch.dtype], Tensor] = {}

    def at(self, position: int, count: int, like: Tensor) -> Tensor | None:
        rows = [self._row(place, like) for place in range(position, position + count)]
        for key in [old for old in self._rows if old[0] < position - 1]:
            del self._rows[key]  # decoding only moves forward
        return torch.stack(rows)[None]

    def _row(self, position: int, like: Tensor) -> Tensor:
        key = (position, like.shape[-1], like.dtype)  # a drafter of another width must not change the target's noise
        if key not in self._rows:
            generator = torch.Generator(device=like.device).manual_seed(stable_seed(self._seed, "position", position))
            self._rows[key] = _gumbel((like.shape[-1],), like, generator)
        return self._rows[key]


class FreshNoise:
    """Every call draws new noise from one stream; two stages must not share a stream."""

    def __init__(self, seed: int, stage: str, device: torch.device) -> None:
        self.generator = torch.Generator(device=device).manual_seed(stable_seed(seed, stage))

    def at(self, position: int, count: int, like: Tensor) -> Tensor:
        return _gumbel((like.shape[0], count, like.shape[-1]), like, self.generator)

    def coins(self, like: Tensor) -> Tensor:
        return torch.rand(like.shape, generator=self.generator, device=like.device, dtype=like.dtype)


class Sampling:
    """Everything random about one request: the draft's noise, the target's noise, and the coins of rejection sampling.

    Direct generation and `coupled` verification read `target`; `rejection` draws drafts from a stream of their own,
    so that a drafter's randomness never advances the target's (C40). So do all but the first of several candidates.
    """

    def __init__(self, condition: Condition, seed: int, device: torch.device) -> None:
        self.condition = condition
        self.temperature = condition.temperature
        self.target: Noise = NoNoise() if condition.temperature == 0 else KeyedNoise(seed)
        self.draft: Noise = FreshNoise(seed, "draft", device) if condition.verifier == "rejection" else self.target
        self.verify: Coins = FreshNoise(seed, "verify", device)
        self.candidates = FreshNoise(seed, "candidates", device)


class RowNoise:
    """The noise of a batch: each row's own source, asked for the row alone, at positions behind the row's own anchor.

    So a row draws what it would draw by itself, whatever its mates.
    """

    def __init__(self, sources: Sequence[Noise], anchors: Sequence[int]) -> None:
        self._rows = list(zip(sources, anchors, strict=True))

    def at(self, position: int, count: int, like: Tensor) -> Tensor | None:
        """See `Noise.at`; `position` counts from the anchors."""
        found = []
        for row, (source, anchor) in enumerate(self._rows):
            noise = source.at(anchor + position, count, like[row : row + 1])
            if noise is None:
                return None
            found.append(noise)
        return torch.cat(found)


class RowCoins(RowNoise):
    """`RowNoise` of sources that have coins."""

    def __init__(self, sources: Sequence[Coins], anchors: Sequence[int]) -> None:
        super().__init__(sources, anchors)
        self._sources = sources

    def coins(self, like: Tensor) -> Tensor:
        """See `Coins.coins`."""
        return torch.cat([source.coins(like[row : row + 1]) for row, source in enumerate(self._sources)])


class RowSampling(Sampling):
    """The randomness of several requests of one condition, a row each. Positions count from each row's anchor.

    Nothing in a batch has several candidates, so there is no noise for them.
    """

    def __init__(self, rows: Sequence[Sampling], anchors: Sequence[int]) -> None:
        self.condition, self.temperature = rows[0].condition, rows[0].temperature
        self.target = RowNoise([row.target for row in rows], anchors)
        self.draft = RowNoise([row.draft for row in rows], anchors)
        self.verify = RowCoins([row.verify for row in rows], anchors)


def stable_seed(*parts: object) -> int:
    """A 63-bit seed that is the same on every machine and in every process."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def _gumbel(shape: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    # Made from uniform float64 draws: torch's own exponential draws come from another stream on builds with MKL, and
    # float32 ones would be 0 too often. The draws are below 1, so that only 0 has to be kept from the logarithm.
    uniform = torch.rand(shape, dtype=torch.float64, device=like.device, generator=generator)
    noise = -(-torch.log1p(-uniform)).clamp_min(torch.finfo(torch.float64).tiny).log()
    return noise if like.dtype == torch.float64 else noise.float()
