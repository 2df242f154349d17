"""Acceptance in a tree: cases by hand, and the loop over children that defines it."""

from __future__ import annotations

import pytest
import tiny
import torch
from torch import Tensor

from xpress_bench.drafters import Draft
from xpress_bench.sampling import pick
from xpress_bench.trees import Tree
from xpress_bench.verifiers.rules import match, rejection

PARENTS = [0, 0, 1, 1, 2, 5]  # rows 1 and 2 behind the anchor, 3 and 4 behind 1, 5 behind 2, 6 behind 5
TOKENS = [7, 8, 7, 9, 3, 4]  # of rows 1 to 6


def branching(tokens: list[int], parents: list[int], levels: int) -> Draft:
    return Draft(torch.tensor([tokens]), tree=Tree(torch.tensor(parents), levels))


def peaks(own: list[int]) -> Tensor:
    return torch.nn.functional.one_hot(torch.tensor([own]), 10).double()


@pytest.mark.parametrize(
    ("own", "accepted", "token", "path"),
    [
        ([7, 9, 0, 0, 2, 0, 0], 2, 2, [0, 1, 4, -1]),  # 7, then 9; a leaf
        ([7, 5, 0, 0, 0, 0, 0], 1, 5, [0, 1, 3, -1]),  # 7, then no child; on along the first of equals
        ([8, 0, 3, 0, 0, 4, 6], 3, 6, [0, 2, 5, 6]),
        ([8, 7, 1, 0, 0, 0, 0], 1, 1, [0, 2, 5, 6]),  # 7 is right behind row 1 only
        ([1, 7, 3, 0, 0, 4, 0], 0, 1, [0, 2, 5, 6]),  # nothing; the longest path stands for the offer
    ],
)
def test_the_walk_takes_the_child_that_is_the_targets_own_token(
    own: list[int], accepted: int, token: int, path: list[int]
) -> None:
    verdict = match(branching(TOKENS, PARENTS, 3), peaks(own), 5, tiny.sampling())
    assert (verdict.accepted.tolist(), verdict.next_token.tolist()) == ([accepted], [token])
    assert verdict.path is not None
    assert verdict.path.tolist() == path


def walked(draft: Draft, own: list[int]) -> tuple[int, int]:
    assert draft.tree is not None
    row = depth = 0
    while True:
        behind = [i + 1 for i, parent in enumerate(draft.tree.parents.tolist()) if parent == row]
        found = [child for child in behind if int(draft.tokens[0, child - 1]) == own[row]]
        if not found:
            return depth, own[row]
        row, depth = found[0], depth + 1


@pytest.mark.parametrize("rule", ["greedy", "coupled", "rejection"])
def test_random_trees_against_the_walk_by_definition(rule: str) -> None:
    """Rows of a level share the noise of their position."""
    generator = torch.Generator().manual_seed(1)
    lengths = []
    for seed in range(600):
        parents = [int(torch.randint(0, row + 1, (1,), generator=generator)) for row in range(9)]
        tokens = torch.randint(0, 3, (9,), generator=generator).tolist()
        if len(set(zip(parents, tokens, strict=True))) < 9:
            continue  # brothers differ
        tree = Tree(torch.tensor(parents), 9)
        draft = Draft(torch.tensor([tokens]), tree=tree)
        logits = torch.randn(1, 10, 3, generator=generator, dtype=torch.float64)
        temperature = 0.0 if rule == "greedy" else 0.8
        alone, how = (tiny.sampling(temperature, rule, seed) for _ in range(2))
        source = alone.verify if rule == "rejection" else alone.target
        noise = source.at(6, 10, logits)
        own = [
            int(pick(logits[:, row : row + 1], temperature, None if noise is None else noise[:, depth : depth + 1]))
            for row, depth in enumerate(tree.depths.tolist())
        ]
        verdict = (rejection if rule == "rejection" else match)(draft, logits, 5, how)
        assert (int(verdict.accepted), int(verdict.next_token)) == walked(draft, own)
        lengths.append(int(verdict.accepted))
    assert len(lengths) > 30
    assert max(lengths) > 1
