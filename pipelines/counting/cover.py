"""Which joint tables to count so that every wanted marginal is a sum over one of them.

Adding to one cell of a joint table of four columns counts that row in six two-way marginals at once. A joint
table is worth it as long as its counters stay in the processor's second-level cache. What is counted jointly
is exact, so the marginals summed out of it are too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

JOINT_CELLS = 1 << 16
"""Most cells of a joint table made of several cliques: 256 KB of 32-bit counters, and cell numbers of 16 bits."""

COVER_EFFORT = 20_000_000
"""Above this many cliques times columns, joining takes longer than it saves; each is counted alone."""


@dataclass(frozen=True)
class Cover:
    """`groups` are column sets, each in ascending order; clique i is summed out of `groups[home[i]]`."""

    groups: tuple[tuple[int, ...], ...]
    home: tuple[int, ...]


@lru_cache(maxsize=16)
def cover(sizes: tuple[int, ...], cliques: tuple[tuple[int, ...], ...], joint_cells: int = JOINT_CELLS) -> Cover:
    """Greedy: start from the clique with most cells, add the column that completes most others if it fits.

    Of equals, the one whose columns have fewest uncovered cliques left: that keeps few columns with a single one over.
    """
    for clique in cliques:
        if len(set(clique)) != len(clique) or not all(0 <= column < len(sizes) for column in clique):
            raise ValueError(f"clique {clique} must name distinct columns between 0 and {len(sizes) - 1}")
    if len(cliques) * len(sizes) > COVER_EFFORT:
        return Cover(tuple(tuple(sorted(clique)) for clique in cliques), tuple(range(len(cliques))))
    member = np.zeros((len(cliques), len(sizes)), np.bool_)
    for i, clique in enumerate(cliques):
        member[i, list(clique)] = True
    width = member.sum(axis=1)
    cells = [math.prod(sizes[column] for column in clique) for clique in cliques]
    by_size = {size: i for i, size in enumerate(sorted(set(zip(width.tolist(), cells, strict=True)), reverse=True))}
    rank = np.array([by_size[size] for size in zip(width.tolist(), cells, strict=True)])
    home = np.full(len(cliques), -1)
    groups: list[tuple[int, ...]] = []
    while (home < 0).any():
        uncovered = np.flatnonzero(home < 0)
        left = member[uncovered].sum(axis=0)
        largest = uncovered[rank[uncovered] == rank[uncovered].min()]
        start = int(largest[(member[largest] @ left).argmin()])
        chosen = _grown(
            set(cliques[start]), cells[start], sizes, member[uncovered], width[uncovered], left, joint_cells
        )
        inside = (home < 0) & (member[:, sorted(chosen)].sum(axis=1) == width)
        home[inside] = len(groups)
        groups.append(tuple(sorted(chosen)))
    return Cover(tuple(groups), tuple(int(group) for group in home))


def _grown(
    group: set[int],
    cells: int,
    sizes: Sequence[int],
    member: np.ndarray,
    width: np.ndarray,
    left: np.ndarray,
    joint_cells: int,
) -> set[int]:
    """The group with columns added, each the one that completes most uncovered cliques (or the smallest)."""
    while True:
        missing = width - member[:, sorted(group)].sum(axis=1)
        gains = member[missing == 1].sum(axis=0)
        gains[sorted(group)] = 0
        fitting = [column for column in np.flatnonzero(gains).tolist() if cells * sizes[column] <= joint_cells]
        if not fitting:
            return group
        best = max(fitting, key=lambda column: (gains[column], -sizes[column], -left[column], -column))
        group = group | {best}
        cells *= sizes[best]
