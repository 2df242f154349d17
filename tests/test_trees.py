"""The shape of a draft that branches, by hand and against walking up from every row."""

from __future__ import annotations

import pytest
import torch

from xpress_bench.trees import Tree

#        anchor
#       /      \
#      1        2
#     / \       |
#    3   4      5
#               |
#               6
PARENTS = [0, 0, 1, 1, 2, 5]
PATHS = [[0], [0, 1], [0, 2], [0, 1, 3], [0, 1, 4], [0, 2, 5], [0, 2, 5, 6]]


def test_every_row_reaches_its_own_path_and_no_other_row() -> None:
    tree = Tree(torch.tensor(PARENTS), levels=3)
    assert [torch.nonzero(row)[:, 0].tolist() for row in tree.reach] == PATHS
    assert tree.depths.tolist() == [0, 1, 1, 2, 2, 2, 3]


def test_a_path_begins_with_the_anchor_and_is_filled_up_behind_its_end() -> None:
    tree = Tree(torch.tensor(PARENTS), levels=3)
    for row, path in enumerate(PATHS):
        assert tree.path_to(torch.tensor([row])).tolist() == path + [-1] * (4 - len(path))


@pytest.mark.parametrize("levels", range(1, 18))
def test_a_chain_of_any_length_is_reached_from_its_end(levels: int) -> None:
    tree = Tree(torch.arange(levels), levels)
    assert torch.equal(tree.reach, torch.ones(levels + 1, levels + 1).tril().bool())


def test_random_trees_against_walking_up() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        parents = [int(torch.randint(0, row + 1, (1,), generator=generator)) for row in range(12)]
        tree = Tree(torch.tensor(parents), levels=12)
        for row in range(13):
            path, at = [row], row
            while at:
                at = parents[at - 1]
                path.insert(0, at)
            assert torch.nonzero(tree.reach[row])[:, 0].tolist() == path
