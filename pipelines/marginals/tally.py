"""Counts of some rows in one thread: joint tables that every wanted marginal is summed out of.

Memory: the codes of one row group or batch and 8 bytes a joint cell (see cover.py; at most DENSE_CELLS cells a joint
table, more are counted sparsely).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from understudy.pipelines.encoding import EncodedBatch, code_type
from understudy.pipelines.marginals.cover import Cover, cover
from understudy.pipelines.marginals.kernel import add_joint
from understudy.pipelines.marginals.sparse import SparseCounts

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
        self._cells = [math.prod(self.sizes[column] for column in group) for group in self._cover.groups]
        self._columns = [np.array(group) for group in self._cover.groups]
        self._strides = [self._strides_of(group) for group in self._cover.groups]
        self.columns = sorted({column for group in self._cover.groups for column in group})
        self._code_type = code_type(max((self.sizes[column] for column in self.columns), default=0))
        self._room = np.empty(0, self._code_type)
        self._narrow: dict[int, np.ndarray] = {}
        self._sparse = {g: SparseCounts() for g, cells in enumerate(self._cells) if cells > max(DENSE_CELLS, 1)}
        self._totals: dict[int, np.ndarray] = {}
        self._rows = 0
        self._unflushed = 0

    def add(self, batch: EncodedBatch) -> None:
        codes = self.room(batch.rows)
        for column in self.columns:
            self._check(column, batch.columns[column])
            codes[column] = batch.columns[column]
        self._count(codes)

    def room(self, rows: int) -> np.ndarray:
        """Where to write the codes of so many rows, (columns, rows), for `add_codes`; each time the same memory."""
        needed = len(self.sizes) * rows
        if len(self._room) < needed:
            self._room = np.empty(needed, self._code_type)
        return self._room[:needed].reshape(len(self.sizes), rows)

    def add_codes(self, codes: np.ndarray) -> None:
        """Count what was written to the room; only `columns` of it need to have been."""
        for column in self.columns:
            self._check(column, codes[column])
        self._count(codes)

    def _check(self, column: int, codes: np.ndarray) -> None:
        if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < self.sizes[column]:
            raise ValueError(f"codes of column {column} must lie between 0 and {self.sizes[column] - 1}")

    def _count(self, codes: np.ndarray) -> None:
        rows = codes.shape[1]
        if self._unflushed + rows >= FLUSH_ROWS:
            self._flush()
        self._rows += rows
        self._unflushed += rows
        for start in range(0, rows, CACHED_ROWS):
            block = range(start, min(start + CACHED_ROWS, rows))
            for g, group in enumerate(self._cover.groups):
                if g in self._sparse:
                    columns = [codes[column][block.start : block.stop] for column in group]
                    self._sparse[g].add(columns, self._strides[g].tolist())
                elif group:
                    if g not in self._narrow:
                        self._narrow[g] = np.zeros(self._cells[g], np.uint32)
                    add_joint(codes, block, self._columns[g], self._strides[g], self._narrow[g])

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
        if group in self._sparse:
            joint = np.zeros(self._cells[group], np.int64)
            self._sparse[group].add_to(joint)
        elif group in self._totals:
            joint = self._totals[group] + self._narrow[group]
        else:
            joint = self._narrow.get(group, np.zeros(self._cells[group], np.uint32))
        return joint.reshape([self.sizes[column] for column in self._cover.groups[group]])

    def _flush(self) -> None:
        """Move 32-bit counters to 64-bit totals before any could overflow."""
        for g, narrow in self._narrow.items():
            self._totals[g] = self._totals.get(g, 0) + narrow.astype(np.int64)
            narrow[:] = 0
        self._unflushed = 0

    def _strides_of(self, group: Clique) -> np.ndarray:
        sizes = [self.sizes[column] for column in group]
        return np.array([math.prod(sizes[i + 1 :]) for i in range(len(sizes))], np.int64)
