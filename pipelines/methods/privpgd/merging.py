"""Wide columns are generated in merged codes: as many as the rows can tell apart, and single codes drawn at the end.

A table of two columns of 1,000 codes has more cells than rows; no descent on its counts means anything, and each sweep
over its fibres costs a thousand steps. So a column of more than `MOST_CODES` codes is fitted over merged ones: an
ordered one over intervals of about equal mass; one without order over its codes that are frequent enough to be seen
through the noise of a pair, and all others as one. Within merged codes single ones are drawn as the column alone has
them, which is the distribution of greatest entropy given both. What is merged is chosen from released numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.pipelines.methods.privpgd.problem import GridColumn
from understudy.pipelines.methods.privpgd.start import draw

FloatArray = npt.NDArray[np.float64]
Int32Array = npt.NDArray[np.int32]
IntArray = npt.NDArray[np.intp]

MOST_CODES = 128
FEWEST_INTERVALS, MOST_INTERVALS, ROWS_A_CELL = 32, 96, 16
"""Of an ordered column: so many that two such columns have about so many rows a cell."""

MOST_FREQUENT = 1_000
SEEN = 1.0
"""A code is seen in pairs if as many of its rows as this, times the noise of a cell, are expected."""


@dataclass(frozen=True, eq=False)
class Merged:
    """`of` is the merged code of every code, `masses` are the single codes' probabilities."""

    of: IntArray
    masses: FloatArray

    @property
    def size(self) -> int:
        return int(self.of.max()) + 1

    @property
    def members(self) -> FloatArray:
        """How many codes each merged one has."""
        return np.bincount(self.of).astype(np.float64)

    @property
    def probabilities(self) -> FloatArray:
        return np.asarray(np.bincount(self.of, self.masses), dtype=np.float64)

    def summed(self, table: FloatArray, axis: int) -> FloatArray:
        """The table with its single codes along the axis added up."""
        order = np.argsort(self.of, kind="stable")
        firsts = np.searchsorted(self.of[order], np.arange(self.size))
        if not np.array_equal(order, np.arange(len(order))):
            table = np.take(table, order, axis=axis)
        return np.asarray(np.add.reduceat(table, firsts, axis=axis))

    def column(self, column: GridColumn) -> GridColumn:
        return GridColumn(self.size, column.ordered, tuple(int(self.of[code]) for code in column.unordered_codes))

    def single_codes(self, merged: Int32Array, rng: np.random.Generator) -> Int32Array:
        """A code for every row, of those that its merged one stands for."""
        codes = np.empty_like(merged)
        by_code = np.argsort(merged, kind="stable")
        bounds = np.searchsorted(merged[by_code], np.arange(self.size + 1))
        for place in range(self.size):
            rows = by_code[bounds[place] : bounds[place + 1]]
            if len(rows):
                members = np.flatnonzero(self.of == place)
                codes[rows] = members[draw(self.masses[members], len(rows), rng)]
        return codes


def merge(
    masses: FloatArray, column: GridColumn, total: float, cell_std: float, cuts: Sequence[int] = ()
) -> Merged | None:
    """How a column of these probabilities is merged, or None, by the number of rows and the noise of a pair's cell.

    No merged code of an ordered column reaches over one of the `cuts`: what was measured between them stays apart.
    """
    if column.size <= MOST_CODES:
        return None
    if column.ordered:
        on_axis = column.size - len(column.unordered_codes)
        if any(code < on_axis for code in column.unordered_codes):
            return None
        inside = masses[:on_axis]
        middle = (np.cumsum(inside) - inside / 2) / max(float(inside.sum()), 1e-300)
        intervals = int(min(max(math.sqrt(total / ROWS_A_CELL), FEWEST_INTERVALS), MOST_INTERVALS))
        places = np.minimum((middle * intervals).astype(np.intp), intervals - 1)
        places += np.searchsorted(np.array(cuts, dtype=np.intp), np.arange(on_axis), side="right")
        off_axis = intervals + len(cuts) + np.arange(column.size - on_axis)
        return Merged(_numbered(np.concatenate([places, off_axis])), masses)
    frequent = np.argsort(-masses, kind="stable")[:MOST_FREQUENT]
    frequent = np.sort(frequent[masses[frequent] * total >= SEEN * cell_std])
    if len(frequent) >= column.size - 1:
        return None
    of = np.full(column.size, len(frequent), dtype=np.intp)
    of[frequent] = np.arange(len(frequent))
    return Merged(of, masses)


def _numbered(places: IntArray) -> IntArray:
    """0, 1, 2 ... in the order of the places."""
    return np.asarray(np.unique(places, return_inverse=True)[1], dtype=np.intp)
