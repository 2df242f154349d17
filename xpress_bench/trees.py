"""The shape of a draft that branches: which draft token stands behind which.

Row 0 is the anchor, row 1 + i is draft token i, as in the forward that verifies them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Tree:
    """parents [n]: the row that each draft token stands behind, always an earlier one. levels: no path is longer."""

    parents: Tensor
    levels: int

    @cached_property
    def reach(self) -> Tensor:
        """[1 + n, 1 + n], true where the column's row is the row itself or stands somewhere before it on its path."""
        size = 1 + self.parents.shape[0]
        reach = torch.eye(size, device=self.parents.device)  # of floats: a product of bool has no kernel
        reach[torch.arange(1, size, device=reach.device), self.parents] = 1
        for _ in range((self.levels - 1).bit_length()):  # from one step to 2, 4, 8 ...
            reach = (reach @ reach).clamp_max(1)
        return reach.bool()

    @cached_property
    def depths(self) -> Tensor:
        """[1 + n]: steps from the anchor."""
        return self.reach.sum(-1) - 1

    def path_to(self, row: Tensor) -> Tensor:
        """Rows [1 + levels] from the anchor, first, to `row` [1]; -1 behind its end."""
        size = self.reach.shape[0]
        rows = torch.arange(size, device=self.parents.device)
        path = torch.where(self.reach[row][0], rows, size).sort().values[: 1 + self.levels]
        return path.masked_fill(path == size, -1)
