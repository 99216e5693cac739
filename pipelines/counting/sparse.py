"""Counting cliques with more cells than memory should hold for every thread: by sorted cell numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MERGE_CELLS = 1 << 21


class SparseCounts:
    """Counts of the cells that occurred. Memory follows the distinct cells seen, not the cells there are."""

    def __init__(self) -> None:
        self._cells = np.empty(0, np.int64)
        self._counts = np.empty(0, np.int64)
        self._pending: list[tuple[np.ndarray, np.ndarray]] = []
        self._waiting = 0

    def add(self, columns: Sequence[np.ndarray], strides: Sequence[int], ticks: np.ndarray | None = None) -> None:
        """Count these rows, each as one or as so many ticks."""
        cells = np.zeros(len(columns[0]), np.int64)
        for codes, stride in zip(columns, strides, strict=True):
            cells += codes.astype(np.int64) * stride
        if ticks is None:
            distinct, counts = np.unique(cells, return_counts=True)
        else:
            distinct, where = np.unique(cells, return_inverse=True)
            counts = np.zeros(len(distinct), np.int64)
            np.add.at(counts, where, ticks)
        self._pending.append((distinct, counts))
        self._waiting += len(distinct)
        if self._waiting > max(MERGE_CELLS, len(self._cells)):
            self._merge()

    def add_to(self, totals: np.ndarray) -> None:
        """Add everything counted to a flat dense table."""
        self._merge()
        totals[self._cells] += self._counts

    def _merge(self) -> None:
        cells = np.concatenate([self._cells, *(pair[0] for pair in self._pending)])
        counts = np.concatenate([self._counts, *(pair[1] for pair in self._pending)])
        self._cells, where = np.unique(cells, return_inverse=True)
        self._counts = np.zeros(len(self._cells), np.int64)
        np.add.at(self._counts, where, counts)
        self._pending, self._waiting = [], 0
