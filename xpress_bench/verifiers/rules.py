"""The acceptance rules (methods.md 1.3). No model, no state but the request's noise, no host read."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from xpress_bench.drafters import Draft
from xpress_bench.sampling import Noise, Sampling, law, pick
from xpress_bench.trees import Tree
from xpress_bench.verifiers import Verdict

RESIDUAL_FLOOR = 1e-8  # below this mass p and q agree up to rounding, and p itself is drawn from


def match(draft: Draft, logits: Tensor, position: int, sampling: Sampling) -> Verdict:
    """Accept while the draft equals the token that direct generation would pick.

    Greedy at temperature 0; above it the target's own draw under the shared noise (`coupled`). Both give the ids of
    direct generation whatever the draft depends on. Logits [b, 1 + N, V]; row i of a chain predicts position + 1 + i.
    """
    return _matched(draft, logits, position, sampling.temperature, sampling.target)


def rejection(draft: Draft, logits: Tensor, position: int, sampling: Sampling) -> Verdict:
    """Speculative sampling (Leviathan et al. 2023, Chen et al. 2023): the target's law, draft by draft.

    Accept d_i with probability min(1, p_i(d_i) / q_i(d_i)); at the first refusal draw from max(p - q, 0), after a full
    acceptance from the last p. A point-mass draft is matched against a fresh draw of the target, which is the same rule
    for a one-hot q.
    """
    noise = sampling.verify
    if draft.point_mass or draft.logits is None:
        return _matched(draft, logits, position, sampling.temperature, noise)
    p, q = law(logits, sampling.temperature), law(draft.logits, sampling.temperature)
    q = _over(q, p.shape[-1])
    count = draft.tokens.shape[1]
    chosen = draft.tokens[..., None]
    p_chosen, q_chosen = _gather(p[:, :count], chosen), _gather(q, chosen)
    # A draft that its own law calls impossible was not drawn from that law: refuse it.
    accepted = _leading((noise.coins(p_chosen) * q_chosen < p_chosen) & (q_chosen > 0))
    row = accepted[:, None, None].expand(-1, 1, p.shape[-1])
    p_next = p.gather(1, row)
    q = torch.cat([q, torch.zeros_like(p[:, :1])], dim=1)  # after full acceptance nothing is taken off
    q_next = q.gather(1, row)
    residual = (p_next - q_next).clamp_min(0)
    residual = torch.where(residual.sum(-1, keepdim=True) > RESIDUAL_FLOOR, residual, p_next)
    fresh = noise.at(position + 1, 1, p_next)
    return Verdict(accepted, pick(residual.log(), 1.0, fresh)[:, 0])


def _matched(draft: Draft, logits: Tensor, position: int, temperature: float, source: Noise) -> Verdict:
    noise = source.at(position + 1, 1 + draft.longest, logits)
    if draft.tree is not None:
        return _walked(draft.tokens[0], draft.tree, logits, temperature, noise)
    own = pick(logits, temperature, noise)
    accepted = _leading(draft.tokens == own[:, :-1])
    return Verdict(accepted, own.gather(1, accepted[:, None])[:, 0])


def _walked(tokens: Tensor, tree: Tree, logits: Tensor, temperature: float, noise: Tensor | None) -> Verdict:
    """From the anchor on to the child that is the target's own token, until there is none. tokens [n].

    One draw of noise serves all rows of a level: they are rivals for the same position, and the walk meets one of them.
    """
    own = pick(logits, temperature, None if noise is None else noise[:, tree.depths])[0]
    right = F.pad(tokens == own[tree.parents], (1, 0), value=True)
    reached = (right | ~tree.reach).all(-1)
    # Of shape [1]: an index without dimensions would be read on the host.
    deepest = (reached * (1 + tree.depths)).argmax(0, keepdim=True)
    furthest = (tree.reach[:, deepest][:, 0] * (1 + tree.depths)).argmax(0, keepdim=True)
    return Verdict(tree.depths[deepest], own[deepest], tree.path_to(furthest))


def _leading(agrees: Tensor) -> Tensor:
    """Length [b] of the leading run of True in [b, N]."""
    return agrees.int().cumprod(-1).sum(-1)


def _gather(probabilities: Tensor, chosen: Tensor) -> Tensor:
    """Probability [b, N] of ids [b, N, 1]; an id outside the vocabulary has none (C27)."""
    vocab_size = probabilities.shape[-1]
    inside = (chosen >= 0) & (chosen < vocab_size)
    return (probabilities.gather(-1, chosen.clamp(0, vocab_size - 1)) * inside)[..., 0]


def _over(q: Tensor, vocab_size: int) -> Tensor:
    """q over the target's vocabulary: cut or padded with zeros."""
    if q.shape[-1] >= vocab_size:
        return q[..., :vocab_size]
    return F.pad(q, (0, vocab_size - q.shape[-1]))
