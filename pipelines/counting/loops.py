"""The inner loops of counting: joint tables over one batch of codes.

Cell numbers of a block of rows are computed first, in loops the compiler vectorises (slices, not offsets, let
it), and stay in the first-level cache; then the counters are bumped. Bumping is bound by the loads and stores of
one core, so cell numbers are loaded eight bytes at a time, four narrow or two wide ones: about half a nanosecond
a counter while the table fits the second-level cache. Counters are 32 bits wide: measured, bumping 8 or 16 bits
takes twice as long, which smaller tables do not win back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit

BLOCK_ROWS = 2048
NARROW_CELLS = 1 << 16


def add_joints(codes: np.ndarray, rows: range, joints: JointTables, counts: np.ndarray) -> None:
    """Add each of these rows of `codes` (columns, rows) to its cell of every joint table.

    `counts` is uint32; the caller empties it before 2**32 rows could meet in one cell.
    """
    _add_all(codes, rows.start, rows.stop, joints.bounds, joints.columns, joints.strides, joints.offsets, counts)


@dataclass(frozen=True, eq=False)
class JointTables:
    """Joint tables laid out one after the other: table t has columns[bounds[t]:bounds[t + 1]], the last one fastest."""

    bounds: np.ndarray
    columns: np.ndarray
    strides: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, groups: Sequence[Sequence[int]], sizes: Sequence[int]) -> JointTables:
        shapes = [[sizes[column] for column in group] for group in groups]
        strides = [math.prod(shape[i + 1 :]) for shape in shapes for i in range(len(shape))]
        bounds = np.cumsum([0, *(len(group) for group in groups)])
        columns = np.array([column for group in groups for column in group], np.int64)
        offsets = np.cumsum([0, *(math.prod(shape) for shape in shapes)])
        return cls(bounds, columns, np.array(strides, np.int64), offsets)

    @property
    def cells(self) -> int:
        return int(self.offsets[-1])


@njit(cache=True, nogil=True)
def _add_all(
    codes: np.ndarray,
    first: int,
    last: int,
    bounds: np.ndarray,
    columns: np.ndarray,
    strides: np.ndarray,
    offsets: np.ndarray,
    counts: np.ndarray,
) -> None:
    """One call for all tables: a thread that comes back for the interpreter's lock after each would wait for it."""
    narrow, wide = np.empty(BLOCK_ROWS, np.uint16), np.empty(BLOCK_ROWS, np.uint32)
    for t in range(len(bounds) - 1):
        its_columns, its_strides = columns[bounds[t] : bounds[t + 1]], strides[bounds[t] : bounds[t + 1]]
        its_counts = counts[offsets[t] : offsets[t + 1]]
        if len(its_counts) <= NARROW_CELLS:
            _add_narrow(codes, first, last, its_columns, its_strides.astype(np.uint16), narrow, its_counts)
        else:
            _add_wide(codes, first, last, its_columns, its_strides.astype(np.uint32), wide, its_counts)


@njit(cache=True, nogil=True)
def _number(
    codes: np.ndarray, columns: np.ndarray, strides: np.ndarray, start: int, length: int, cells: np.ndarray
) -> None:
    """Write the cell number of each row of a block; it fits the type of `cells`, as every stride does."""
    column, stride = codes[columns[0]][start : start + length], strides[0]
    for i in range(length):
        cells[i] = column[i] * stride
    for k in range(1, len(columns)):
        column, stride = codes[columns[k]][start : start + length], strides[k]
        for i in range(length):
            cells[i] += column[i] * stride


@njit(cache=True, nogil=True)
def _add_narrow(
    codes: np.ndarray,
    first: int,
    last: int,
    columns: np.ndarray,
    strides: np.ndarray,
    cells: np.ndarray,
    counts: np.ndarray,
) -> None:
    words, low, one = cells.view(np.uint64), np.uint64(0xFFFF), np.uint32(1)
    for start in range(first, last, BLOCK_ROWS):
        length = min(BLOCK_ROWS, last - start)
        _number(codes, columns, strides, start, length, cells)
        for i in range(length // 4):
            word = words[i]
            counts[word & low] += one
            counts[(word >> np.uint64(16)) & low] += one
            counts[(word >> np.uint64(32)) & low] += one
            counts[word >> np.uint64(48)] += one
        for i in range(length // 4 * 4, length):
            counts[cells[i]] += one


@njit(cache=True, nogil=True)
def _add_wide(
    codes: np.ndarray,
    first: int,
    last: int,
    columns: np.ndarray,
    strides: np.ndarray,
    cells: np.ndarray,
    counts: np.ndarray,
) -> None:
    words, low, one = cells.view(np.uint64), np.uint64(0xFFFFFFFF), np.uint32(1)
    for start in range(first, last, BLOCK_ROWS):
        length = min(BLOCK_ROWS, last - start)
        _number(codes, columns, strides, start, length, cells)
        for i in range(length // 2):
            word = words[i]
            counts[word & low] += one
            counts[word >> np.uint64(32)] += one
        for i in range(length // 2 * 2, length):
            counts[cells[i]] += one


@njit(cache=True, nogil=True)
def first_outside(codes: np.ndarray, columns: np.ndarray, sizes: np.ndarray) -> int:
    """The first of these columns with a code that is negative or not below its size, or -1."""
    if codes.shape[1] == 0:
        return -1
    for column in columns:
        row = codes[column]
        low = high = row[0]
        for i in range(len(row)):
            low, high = min(low, row[i]), max(high, row[i])
        if low < 0 or high >= sizes[column]:
            return int(column)
    return -1
