"""Counts of some rows in one thread: joint tables that every wanted marginal is summed out of.

Memory: the codes of one row group or batch and 8 bytes a joint cell (see cover.py; at most DENSE_CELLS cells a joint
table, more are counted sparsely).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from understudy.pipelines.counting.cover import Cover, cover
from understudy.pipelines.counting.loops import JointTables, add_joints, first_outside
from understudy.pipelines.counting.sparse import SparseCounts
from understudy.pipelines.table.coding.encode import EncodedBatch, code_type

Clique = tuple[int, ...]
DENSE_CELLS = 1 << 22
FLUSH_ROWS = 1 << 31
CACHED_ROWS = 1 << 17
"""Rows whose codes stay in the third-level cache while one joint table after the other is counted."""


class Tally:
    """Counts of some rows, for one thread: add batches, then read the marginals."""

    def __init__(self, sizes: Sequence[int], cliques: Sequence[Clique]) -> None:
        self.sizes = tuple(sizes)
        self.cliques = tuple(cliques)
        self._cover: Cover = cover(self.sizes, self.cliques)
        self.columns = sorted({column for group in self._cover.groups for column in group})
        self._code_type = code_type(max((self.sizes[column] for column in self.columns), default=0))
        self._room = np.empty(0, self._code_type)
        cells = [self._cells(group) for group in self._cover.groups]
        self._sparse = {g: SparseCounts() for g, each in enumerate(cells) if each > max(DENSE_CELLS, 1)}
        dense = [g for g, group in enumerate(self._cover.groups) if group and g not in self._sparse]
        self._place = {g: place for place, g in enumerate(dense)}
        self._joints = JointTables.of([self._cover.groups[g] for g in dense], self.sizes)
        self._counts = np.empty(0, np.uint32)
        self._totals: np.ndarray | None = None
        self._rows = 0
        self._unflushed = 0

    def add(self, batch: EncodedBatch) -> None:
        codes = self.room(batch.rows)
        for column in self.columns:
            given = batch.columns[column]
            if len(given) and not 0 <= int(given.min()) <= int(given.max()) < self.sizes[column]:
                raise self._outside(column)  # before the narrower type of the room could hide it
            codes[column] = given
        self._count(codes)

    def room(self, rows: int) -> np.ndarray:
        """Where to write the codes of so many rows, (columns, rows), for `add_codes`; each time the same memory."""
        needed = len(self.sizes) * rows
        if len(self._room) < needed:
            self._room = np.empty(needed, self._code_type)
        return self._room[:needed].reshape(len(self.sizes), rows)

    def add_codes(self, codes: np.ndarray) -> None:
        """Count what was written to the room; only `columns` of it need to have been."""
        wrong = first_outside(codes, np.array(self.columns, np.int64), np.array(self.sizes, np.int64))
        if wrong >= 0:
            raise self._outside(wrong)
        self._count(codes)

    def _outside(self, column: int) -> ValueError:
        return ValueError(f"codes of column {column} must lie between 0 and {self.sizes[column] - 1}")

    def _count(self, codes: np.ndarray) -> None:
        rows = codes.shape[1]
        if self._unflushed + rows >= FLUSH_ROWS:
            self._flush()
        self._rows += rows
        self._unflushed += rows
        if len(self._counts) < self._joints.cells:
            self._counts = np.zeros(self._joints.cells, np.uint32)
        for start in range(0, rows, CACHED_ROWS):
            block = range(start, min(start + CACHED_ROWS, rows))
            add_joints(codes, block, self._joints, self._counts)
            for g, counts in self._sparse.items():
                group = self._cover.groups[g]
                strides = JointTables.of([group], self.sizes).strides.tolist()
                counts.add([codes[column][block.start : block.stop] for column in group], strides)

    def marginals(self) -> list[np.ndarray]:
        """Counts of each clique, its axes in the clique's own order."""
        found = []
        for clique, home in zip(self.cliques, self._cover.home, strict=True):
            group = self._cover.groups[home]
            if not clique:
                found.append(np.array(self._rows, np.int64))
                continue
            summed_out = tuple(i for i, column in enumerate(group) if column not in clique)
            summed = self._joint(home).sum(axis=summed_out, dtype=np.int64)
            kept = [column for column in group if column in clique]
            found.append(np.ascontiguousarray(summed.transpose([kept.index(column) for column in clique])))
        return found

    def _joint(self, group: int) -> np.ndarray:
        shape = [self.sizes[column] for column in self._cover.groups[group]]
        if group in self._sparse:
            joint = np.zeros(self._cells(self._cover.groups[group]), np.int64)
            self._sparse[group].add_to(joint)
            return joint.reshape(shape)
        if not self._rows:
            return np.zeros(shape, np.int64)
        place = self._place[group]
        its = slice(self._joints.offsets[place], self._joints.offsets[place + 1])
        counts = self._counts[its] if self._totals is None else self._totals[its] + self._counts[its]
        return counts.reshape(shape)

    def _flush(self) -> None:
        """Move 32-bit counters to 64-bit totals before any could overflow."""
        if len(self._counts):
            before = np.zeros(len(self._counts), np.int64) if self._totals is None else self._totals
            self._totals = before + self._counts
            self._counts[:] = 0
        self._unflushed = 0

    def _cells(self, group: Clique) -> int:
        return math.prod(self.sizes[column] for column in group)
