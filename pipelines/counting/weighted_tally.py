"""Exact sums of ticks (weights.py) over the cells of joint tables, by one thread.

Theorem. Whole numbers that depend on the multiset of the bounded rows alone. m is the number of an entity's rows that
  bounding *kept*: this needs all rows of a range of entities at once, as `merge` gives them, and refuses more than k.
Relation, sensitivity, noise unit. Both; at most W ticks an entity; ticks, and nothing is drawn here.
Reference. docs/proofs/weights.md, steps 1 to 3.

Cliques may name two columns beyond those of the domain: `level_column` and `rows_column`.
Memory: as a `Tally` takes, with 8 bytes a cell throughout.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numba import njit

from understudy.pipelines.counting.cover import cover
from understudy.pipelines.counting.loops import JointTables
from understudy.pipelines.counting.pushdown import marginals_of
from understudy.pipelines.counting.sparse import SparseCounts
from understudy.pipelines.counting.tally import DENSE_CELLS, Clique
from understudy.pipelines.counting.weights import EntityWeights
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.bounding import Candidates, merge
from understudy.pipelines.sources.hashing import Hashes
from understudy.pipelines.table.domain import TableDomain


def level_column(domain: TableDomain) -> int:
    """The number, in a clique, of the level of an entity's number of rows."""
    return len(domain.countable)


def rows_column(domain: TableDomain) -> int:
    """The number, in a clique, of an entity's number of rows, less one."""
    return len(domain.countable) + 1


def read_columns(cliques: Sequence[Clique], domain: TableDomain) -> list[int]:
    """Those of the cliques' columns that are read off a row by itself."""
    return sorted({column for clique in cliques for column in clique if column < level_column(domain)})


class TickTally:
    """Ticks of some rows over columns of the given sizes, for one thread: add rows, then read the marginals."""

    def __init__(self, sizes: Sequence[int], cliques: Sequence[Clique]) -> None:
        self._sizes, self._cliques = tuple(sizes), tuple(cliques)
        self._cover = cover(self._sizes, self._cliques)
        cells = [math.prod(self._sizes[column] for column in group) for group in self._cover.groups]
        self._sparse = {g: SparseCounts() for g, each in enumerate(cells) if each > DENSE_CELLS}
        self._dense = [g for g in range(len(cells)) if g not in self._sparse]
        self._joints = JointTables.of([self._cover.groups[g] for g in self._dense], self._sizes)
        self._totals = np.zeros(self._joints.cells, np.int64)

    def add(self, codes: np.ndarray, ticks: np.ndarray) -> None:
        """Count rows, given the codes of each column that a clique has, in its row, and how many ticks each row has."""
        for column in {column for group in self._cover.groups for column in group}:
            if codes.shape[1] and not 0 <= codes[column].min() <= codes[column].max() < self._sizes[column]:
                raise ValueError(f"codes of column {column} must lie between 0 and {self._sizes[column] - 1}")
        joints = self._joints
        _add_ticks(codes, ticks, joints.bounds, joints.columns, joints.strides, joints.offsets, self._totals)
        for g, counts in self._sparse.items():
            group = self._cover.groups[g]
            counts.add(
                [codes[column] for column in group], JointTables.of([group], self._sizes).strides.tolist(), ticks
            )

    def marginals(self) -> list[np.ndarray]:
        """Ticks of each clique, its axes in the clique's own order."""
        found = marginals_of([self._joint(g) for g in range(len(self._cover.groups))], self._cover, self._cliques)
        shapes = [[self._sizes[column] for column in clique] for clique in self._cliques]
        return [table.reshape(shape) for table, shape in zip(found, shapes, strict=True)]

    def _joint(self, group: int) -> np.ndarray:
        shape = [self._sizes[column] for column in self._cover.groups[group]]
        if group in self._sparse:
            joint = np.zeros(math.prod(shape), np.int64)
            self._sparse[group].add_to(joint)
            return joint.reshape(shape)
        place = self._dense.index(group)
        return self._totals[self._joints.offsets[place] : self._joints.offsets[place + 1]].reshape(shape)


class WeightedTally:
    """Ticks of some rows, for one thread: add what is kept of ranges of entities, then read the marginals."""

    def __init__(self, domain: TableDomain, cliques: Sequence[Clique], weights: EntityWeights) -> None:
        self._domain, self._weights = domain, weights
        self._sizes = (*domain.countable_sizes, len(weights.levels), weights.max_rows)
        self._read = read_columns(cliques, domain)
        self._tally = TickTally(self._sizes, cliques)

    def add_bounded(self, found: Sequence[Candidates], unit: Unit) -> None:
        """Count what is kept of a range of entities, given all that was found of it by a `CodeView` of the columns."""
        kept = merge(found, unit)
        rows = rows_of_entity(kept.entity)
        if len(rows) and rows.max() > self._weights.max_rows:
            raise ValueError("an entity has more rows than its cap")  # what the sensitivity rests on
        codes = np.empty((len(self._sizes), len(kept)), np.int64)
        codes[self._read] = kept.kept.T
        codes[level_column(self._domain)] = self._weights.level_of(rows)
        codes[rows_column(self._domain)] = rows - 1
        self._tally.add(codes, self._weights.ticks_of(rows))

    def marginals(self) -> list[np.ndarray]:
        """Ticks of each clique, its axes in the clique's own order."""
        return self._tally.marginals()


def rows_of_entity(entity: Hashes) -> np.ndarray:
    """For each row: how many rows its entity has. Rows of an entity lie together."""
    if not len(entity):
        return np.empty(0, np.int64)
    another = (entity.high[1:] != entity.high[:-1]) | (entity.low[1:] != entity.low[:-1])
    edges = np.concatenate([[0], np.flatnonzero(another) + 1, [len(entity)]])
    lengths = np.diff(edges)
    return np.repeat(lengths, lengths)


@njit(cache=True, nogil=True)
def _add_ticks(
    codes: np.ndarray,
    ticks: np.ndarray,
    bounds: np.ndarray,
    columns: np.ndarray,
    strides: np.ndarray,
    offsets: np.ndarray,
    totals: np.ndarray,
) -> None:
    for t in range(len(bounds) - 1):
        first = offsets[t]
        for i in range(codes.shape[1]):
            cell = first
            for k in range(bounds[t], bounds[t + 1]):
                cell += codes[columns[k], i] * strides[k]
            totals[cell] += ticks[i]
