"""The inner loop of counting: one joint table over one batch of codes.

Cell numbers of a block of rows are computed first, in loops the compiler vectorises (slices, not offsets, let
it), and stay in the first-level cache; then the counters are bumped, about one nanosecond each.
"""

from __future__ import annotations

import numpy as np
from numba import njit

BLOCK_ROWS = 2048


@njit(cache=True, nogil=True)
def add_joint(codes: np.ndarray, columns: np.ndarray, strides: np.ndarray, counts: np.ndarray) -> None:
    """Add each row of `codes` (columns, rows) to its cell sum(code * stride).

    `counts` is uint32; the caller empties it before 2**32 rows could meet in one cell.
    """
    rows = codes.shape[1]
    cells = np.empty(BLOCK_ROWS, np.uint32)
    for start in range(0, rows, BLOCK_ROWS):
        length = min(BLOCK_ROWS, rows - start)
        column, stride = codes[columns[0]][start : start + length], np.uint32(strides[0])
        for i in range(length):
            cells[i] = np.uint32(column[i]) * stride
        for k in range(1, len(columns)):
            column, stride = codes[columns[k]][start : start + length], np.uint32(strides[k])
            for i in range(length):
                cells[i] += np.uint32(column[i]) * stride
        for i in range(length):
            counts[cells[i]] += np.uint32(1)
