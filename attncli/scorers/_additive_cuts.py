"""How the work of additive attention is cut up, so that it stays within a workspace whatever the sizes.

Blocks of some queries and some keys are projected, and the hidden units of their pairs made, used and forgotten tile by
tile; backward makes them again. A tile is as large as it may be while two of them stay in the cache that all cores
share: below that the cost of calling torch counts, above it that of main memory. With 32 MiB of that cache and two
cores, tiles of 1/4, 1/2, 1, 2, 4, 8 and 16 MiB take 0.53, 0.42, 0.32, 0.26, 0.26, 0.41 and 0.62 ns per pair and hidden
unit, where the textbook's code takes 4.
"""

import math
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attncli.scorers._additive_pairs import Factors

WORKSPACE_BYTES = 16 * 2**20  # beside inputs, scores and gradients
CACHE_SHARE = 16  # a tile takes this part of the cache that all cores share
USUAL_CACHE = 32 * 2**20  # where the system does not tell


class Plan(NamedTuple):
    """How the work is shared out: bytes of workspace, and whether `torch.compile` fuses the work on each pair."""

    workspace: int
    fused: bool


Place = tuple[slice, slice, slice]  # some batch elements, queries and keys


class Side:
    """Queries or keys with their matrix: rows of them, projected when they are needed."""

    def __init__(self, rows: Tensor, matrix: Tensor, dtype: torch.dtype) -> None:
        """Rows (..., r, f) whose leading axes may be repeated ones, and a matrix (h, f)."""
        self._rows, self.matrix = rows, matrix.to(dtype)
        leading = rows.shape[:-2]
        elements = torch.arange(leading.numel(), device=rows.device)
        self._index = torch.unravel_index(elements, leading) if len(leading) > 1 else None

    def place(self, elements: slice, some: slice) -> tuple[Any, ...]:
        """Where some rows of some batch elements stand in a tensor of this shape; flattening it might copy it."""
        return (elements, some) if self._index is None else (*(axis[elements] for axis in self._index), some)

    def rows(self, elements: slice, some: slice) -> Tensor:
        """(b, r, f)."""
        return self._rows[self.place(elements, some)].to(self.matrix.dtype)

    def projected(self, elements: slice, some: slice) -> Tensor:
        """(b, r, h), finite where the rows are: what lies beyond the largest number is 1 under tanh all the same."""
        huge = torch.finfo(self.matrix.dtype).max
        return (self.rows(elements, some) @ self.matrix.mT).clamp_(-huge, huge)


def blocks(queries: Tensor, keys: Tensor, w_v: Tensor, plan: Plan) -> Iterator[Place]:
    """Blocks of batch elements, queries and keys whose projections and scores take a small share of the workspace."""
    b, n, m, h = queries.shape[:-2].numel(), queries.shape[-2], keys.shape[-2], w_v.shape[0]
    entries = plan.workspace // w_v.element_size() // (1 if plan.fused else 2)  # with no tiles there is room for twice
    widest = max(h, queries.shape[-1], keys.shape[-1])
    projected, scored = entries // (16 * widest), entries // 8  # rows and pairs of a block
    edge = max(min(projected, math.isqrt(scored)), 1)
    together = max(min(projected // max(n, m, 1), scored // max(n * m, 1)), 1)
    for elements in _slices(b, together):
        for rows in _slices(n, edge):
            for columns in _slices(m, edge):
                yield elements, rows, columns


def tiles(block: Tensor, factors: Factors, plan: Plan) -> Iterator[tuple[slice, slice]]:
    """Batch elements and queries of a block (b, n, m) whose hidden units make up one tile."""
    b, n = block.shape[:2]
    of_keys = factors.of_keys[0][0]  # m h
    room = max(tile_bytes(plan.workspace) // of_keys.nbytes, 1)
    for elements in _slices(b, room // n or 1):
        for rows in _slices(n, min(room, n)):
            yield elements, rows


def tile_bytes(workspace: int) -> int:
    """Bytes of one tile of hidden units: a share of the cache, and of the workspace, which several must fit into."""
    try:
        cache = os.sysconf("SC_LEVEL3_CACHE_SIZE")
    except (ValueError, AttributeError):  # not every system has the question
        cache = 0
    return min((cache if cache > 0 else USUAL_CACHE) // CACHE_SHARE, workspace // 8)


def _slices(size: int, step: int) -> Iterator[slice]:
    return (slice(start, min(start + step, size)) for start in range(0, size, step))
