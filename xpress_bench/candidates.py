"""Several drafts per step: which there are, and what of them is verified.

An axis of its own, measured apart from refinement: a refiner corrects each candidate and never chooses among them, and
here nothing is corrected. Whoever chooses among drafts has looked at all of them, so the tokens that are left count as
certain (methods.md 1.3), and the target's law is kept by matching them against its own draws.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from xpress_bench.drafters import Context, Draft
from xpress_bench.errors import MisfitError
from xpress_bench.sampling import Sampling, log_law, pick
from xpress_bench.settings import CandidateSettings
from xpress_bench.trees import Tree

FORCED = 1e30  # noise that no logit outweighs


def widened(draft: Draft, settings: CandidateSettings, context: Context, sampling: Sampling) -> Draft:
    """`draft` [1, N] and M - 1 others made of its laws, [M, N]. No forward of the drafter: only the picking differs.

    The others are what the drafter might have drafted if its slots are independent given the block, as those of a
    one-step block drafter are; of another drafter they are guesses.
    """
    if settings.count == 1 or draft.tokens.shape[1] == 0:
        return draft
    others = _redrawn if settings.source == "noise" and sampling.temperature else _forced
    tokens, noise = others(draft, settings, context, sampling)
    rows = tokens.shape[0]
    hidden = None if draft.hidden is None else draft.hidden.expand(rows, -1, -1)
    logits = _logits(draft).expand(rows, -1, -1)
    return replace(draft, tokens=tokens, logits=logits, hidden=hidden, noise=noise, point_mass=True)


def merged(drafts: Draft, settings: CandidateSettings, context: Context, sampling: Sampling) -> Draft:
    """What is verified of drafts [M, N]: one row, a chain or a tree. A single draft stays as it is, law and all."""
    if drafts.tokens.shape[1] == 0:
        return Draft(drafts.tokens[:1], passes=drafts.passes)
    if settings.nodes is not None:
        tokens, sources, tree = _grown(drafts.tokens, _belief(drafts, context, sampling), settings.nodes)
    elif drafts.tokens.shape[0] == 1:
        return drafts
    elif settings.merge == "tree":
        tokens, sources, tree = _joined(drafts.tokens)
    else:
        tokens, sources, tree = _chosen(drafts, settings.merge, context, sampling)
    return Draft(tokens[None], passes=drafts.passes, sources=sources, tree=tree)


def followed(drafts: Draft, offered: Draft, path: Tensor | None) -> tuple[Tensor, Tensor]:
    """The chain that acceptance is read off, [1, n] before and after refinement; -1 behind the end of a tree's `path`.

    `drafts` are the candidates before refinement. Where the tree added a token of its own, both hold it.
    """
    if offered.sources is None:
        return drafts.tokens[:1, : offered.tokens.shape[1]], offered.tokens
    slots = torch.arange(offered.longest, device=offered.tokens.device)
    places = slots if path is None else path[1:] - 1
    slots, ended = slots[: len(places)], places < 0
    after, sources = (of[places.clamp_min(0)].masked_fill(ended, -1) for of in (offered.tokens[0], offered.sources))
    before = torch.where(sources < 0, after, drafts.tokens[sources.clamp_min(0), slots])
    return before[None], after[None]


def _redrawn(draft: Draft, settings: CandidateSettings, context: Context, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Tokens and noise [M, N] of drafts that each have a noise of their own; the first keeps the draft's."""
    logits = _logits(draft).expand(settings.count - 1, -1, -1)
    noise = sampling.candidates.at(context.position + 1, logits.shape[1], logits)
    tokens = torch.cat([draft.tokens, pick(logits, sampling.temperature, noise)])
    return tokens, torch.cat([_noise(draft, noise[:1]), noise])


def _forced(draft: Draft, settings: CandidateSettings, context: Context, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Tokens and noise [M, N] of drafts that each have one token set, the likeliest such first; the first has none.

    It is set by noise, which every refiner picks with: so it stays, and the laws stay what they are.
    """
    belief = _belief(draft, context, sampling)[0]
    own = belief.gather(-1, draft.tokens[0, :, None])
    # A draft that is right up to a slot and wrong there: the tokens before, then another one.
    ends = (own.cumsum(0) - own + belief).scatter(-1, draft.tokens[0, :, None], -torch.inf)
    ends = ends[:1] if settings.source != "any" else ends
    best = ends.flatten().topk(min(settings.count - 1, ends.numel())).indices
    rows = torch.arange(1, 1 + len(best), device=best.device)
    slots, others = best // ends.shape[-1], best % ends.shape[-1]
    tokens = draft.tokens.repeat(1 + len(best), 1)
    noise = _noise(draft, belief[None]).repeat(1 + len(best), 1, 1)
    tokens[rows, slots], noise[rows, slots, others] = others, FORCED
    return tokens, noise


def _noise(draft: Draft, like: Tensor) -> Tensor:
    """The draft's noise [1, N, V]; none is the same as no difference between tokens."""
    return torch.zeros_like(like) if draft.noise is None else draft.noise


def _belief(drafts: Draft, context: Context, sampling: Sampling) -> Tensor:
    """Log-probabilities [M, N, V] that the draft's laws give each token of being the target's.

    Under noise that the target will pick with too, the laws are those of what that noise leaves to be picked.
    """
    logits = _logits(drafts)
    shared = sampling.draft is sampling.target
    noise = sampling.target.at(context.position + 1, logits.shape[1], logits) if shared else None
    return log_law(logits, sampling.temperature, noise)


def _logits(draft: Draft) -> Tensor:
    if draft.logits is None:
        raise MisfitError("candidates are made of a draft's laws, and this draft has none; use candidates.count=1")
    return draft.logits


Merged = tuple[Tensor, Tensor, Tree | None]  # tokens [n], their sources [n], shape


def _chosen(drafts: Draft, merge: str, context: Context, sampling: Sampling) -> Merged:
    """The candidate, or in each slot the one, whose tokens have the highest probability in its own laws."""
    sure = _belief(drafts, context, sampling).gather(-1, drafts.tokens[..., None])[..., 0]
    sure = sure.sum(-1, keepdim=True).expand_as(sure) if merge == "best" else sure
    sources = sure.argmax(0)
    return drafts.tokens.gather(0, sources[None])[0], sources, None


def _joined(tokens: Tensor) -> Merged:
    """Prefix tree of candidates [M, N]. On a GPU this is a second host read: how many nodes it has has to be known."""
    count, slots = tokens.shape
    agree = (tokens[:, None] == tokens).cumprod(-1)  # [M, M, N]: equal up to there
    first = agree.argmax(1)  # [M, N]: the first candidate that begins alike
    new = first == torch.arange(count, device=tokens.device)[:, None]
    rows = new.flatten().cumsum(0).view(count, slots).gather(0, first)
    return tokens[new], first[new], Tree(F.pad(rows[:, :-1], (1, 0))[new], slots)


def _grown(tokens: Tensor, belief: Tensor, nodes: int) -> Merged:
    """The `nodes` likeliest paths, by the sum of log-probabilities along them (DDTree), of the laws [M, N, V].

    A path goes on by the laws of the candidate [M, N] that it has agreed with longest. A path is less likely than its
    beginning, so the best of all are among the best of each length, and with a path all its beginnings are taken.
    """
    likely, ids = belief.topk(min(nodes, belief.shape[-1]), dim=-1)
    score, agreed = likely.new_zeros(1), ids.new_zeros(1, tokens.shape[0])  # per path; agreed tokens per candidate
    levels, before = [], 0  # nodes in earlier levels
    for slot in range(tokens.shape[1]):
        law_of = agreed.argmax(-1)
        options = score[:, None] + likely[law_of, slot]
        score, best = options.flatten().topk(min(nodes, options.numel()))
        parent, token = best // options.shape[1], ids[law_of, slot].flatten()[best]
        agreed = agreed[parent] + ((agreed[parent] == slot) & (token[:, None] == tokens[:, slot]))
        source = torch.where(agreed.amax(-1) == slot + 1, agreed.argmax(-1), -1)
        levels.append((score, token, source, 1 + before - len(law_of) + parent))
        before += len(best)
    score, token, source, parent = (torch.cat(parts) for parts in zip(*levels, strict=True))
    # Stable: of equals the beginning comes first.
    kept = score.argsort(descending=True, stable=True)[:nodes].sort().values
    row_of = parent.new_zeros(1 + len(score))
    row_of[1 + kept] = torch.arange(1, 1 + len(kept), device=kept.device)
    return token[kept], source[kept], Tree(row_of[parent[kept]], tokens.shape[1])
